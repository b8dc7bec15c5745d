"""bench/gpu's way through the C library, with a stand-in for the driver that computes nothing.

Usage: bench_c_abi_test.py LIBATTACCA ATTACCA FAKE_CUDA [unittest arguments]. ATTACCA_TEMPLATE_DIR
holds at least the representative few templates.
"""
import ctypes
import os
import sys
import tempfile
import types
import unittest

LIBRARY, PROGRAM, FAKE_CUDA = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench/gpu"))

import attacca_side
import cases

# Rows of 120 bytes: what takes them needs no tensor map, which the stand-in cannot encode.
CASE = cases.Case("bias_silu_mul", 16, 60, 60)


class Memory:
    """As much of a tensor as the adapter uses, in host memory, aligned to 256 bytes."""

    def __init__(self, size, device=None, dtype=None):
        self.bytes = ctypes.create_string_buffer(size + 256)

    def data_ptr(self):
        return (ctypes.addressof(self.bytes) + 255) // 256 * 256


class Buffers:
    count = 2

    def __init__(self):
        self.out = [Memory(2 * CASE.m * CASE.n) for _ in range(self.count)]
        self.sets = [[Memory(1 << 14) for _ in range(4)] for _ in range(self.count)]

    def operands(self, i):
        return self.sets[i]


class ThroughTheLibrary(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.environ.update(ATTACCA_LIBCUDA=FAKE_CUDA, ATTACCA_LIBCUBLASLT="/nowhere/x",
                          ATTACCA_CACHE_DIR=folder.name, ATTACCA_TUNE_WORKER=PROGRAM)
        stream = types.SimpleNamespace(cuda_stream=0)
        sys.modules["torch"] = types.SimpleNamespace(
            empty=Memory, uint8=None, cuda=types.SimpleNamespace(current_stream=lambda: stream))
        self.addCleanup(sys.modules.pop, "torch")
        self.side = attacca_side.ThroughCAbi(LIBRARY, PROGRAM)

    def test_tunes_and_launches(self):
        found = self.side.measured(CASE)
        # Rows of 120 bytes: nothing else can compute them.
        self.assertRegex(found["selected"], r"^(unfused\b|mma_xx_)")
        buffers = Buffers()
        launch = self.side.contenders(CASE, buffers)["attacca_us"]
        self.assertIs(launch(1), buffers.out[1])
        self.assertAlmostEqual(self.side.completed({"attacca_us": 7.0})["attacca_fused_us"], 7.0)

    def test_a_workspace_that_is_needed_has_an_address(self):
        library = self.side.library
        plan = library.plan_of_text("graph g(x: f32[M, 60], w: f32[60, 60]) {\n"
                                    "  h = relu(x @ transpose(w))\n"
                                    "  return relu(h @ transpose(w))\n}\n", "unfused", 0)
        instance = library.instance(plan, {"M": 16})
        size = library.workspace_bytes(instance)
        self.assertGreater(size, 0)
        memory = [Memory(1 << 16) for _ in range(4)]
        x, w, out, workspace = (each.data_ptr() for each in memory)
        for address, given, message in ((0, size, "the workspace has no address"),
                                        (workspace, size - 1, f"where {size} are needed")):
            with self.assertRaisesRegex(RuntimeError, message):
                library.runner(instance, [x, w], [out], address, given)(None)
        library.runner(instance, [x, w], [out], workspace, size)(None)

    def test_a_failure_has_its_reason(self):
        with self.assertRaisesRegex(RuntimeError, "acc2"):
            self.side.library.plan("acc2 + 1", "known", 1)


if __name__ == "__main__":
    unittest.main()
