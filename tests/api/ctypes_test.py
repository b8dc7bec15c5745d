"""The C interface from Python by ctypes, as benchmark scripts use it.

Usage: ctypes_test.py LIBATTACCA [unittest arguments]. Needs numpy.
"""
import ctypes
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

LIBRARY = sys.argv.pop(1)
P = ctypes.POINTER
Handle = ctypes.c_void_p


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("device", ctypes.c_char_p), ("mode", ctypes.c_char_p),
                ("tuning", ctypes.c_char_p), ("tuning_seconds", ctypes.c_double),
                ("threads", ctypes.c_int32), ("unfused_graph", ctypes.c_int32)]


class Size(ctypes.Structure):
    _fields_ = [("symbol", ctypes.c_char_p), ("value", ctypes.c_int64)]


class TensorInfo(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_char_p), ("type", ctypes.c_char_p),
                ("rank", ctypes.c_size_t), ("shape", P(ctypes.c_char_p))]


lib = ctypes.CDLL(LIBRARY)
for name, result, arguments in [
        ("version", ctypes.c_char_p, []),
        ("status_what", ctypes.c_char_p, [Handle]),
        ("status_fix", ctypes.c_char_p, [Handle]),
        ("status_free", None, [Handle]),
        ("bytes_data", Handle, [Handle]),
        ("bytes_size", ctypes.c_size_t, [Handle]),
        ("bytes_free", None, [Handle]),
        ("matmul_plan", Handle, [ctypes.c_char_p] * 4 + [P(Options), P(Handle)]),
        ("plan_input_count", ctypes.c_size_t, [Handle]),
        ("plan_input", Handle, [Handle, ctypes.c_size_t, P(TensorInfo)]),
        ("plan_symbol_count", ctypes.c_size_t, [Handle]),
        ("plan_symbol", ctypes.c_char_p, [Handle, ctypes.c_size_t]),
        ("plan_explain_json", Handle, [Handle, P(Handle)]),
        ("plan_save", Handle, [Handle, ctypes.c_char_p]),
        ("plan_load", Handle, [ctypes.c_char_p, ctypes.c_char_p, P(Handle)]),
        ("plan_prepare", Handle,
         [Handle, P(Size), ctypes.c_size_t, Handle, ctypes.c_size_t, P(Handle)]),
        ("plan_free", None, [Handle]),
        ("instance_workspace", ctypes.c_size_t, [Handle]),
        ("instance_output_shape", P(ctypes.c_int64), [Handle, ctypes.c_size_t, P(ctypes.c_size_t)]),
        ("instance_run", Handle, [Handle, P(Handle), ctypes.c_size_t, P(Handle), ctypes.c_size_t,
                                  Handle, ctypes.c_size_t, Handle]),
        ("instance_decision_count", ctypes.c_size_t, [Handle]),
        ("instance_free", None, [Handle])]:
    function = getattr(lib, "attacca_" + name)
    function.restype, function.argtypes = result, arguments


class Failure(Exception):
    pass


def check(status):
    if status is None:
        return
    text = f"{lib.attacca_status_what(status).decode()}: {lib.attacca_status_fix(status).decode()}"
    lib.attacca_status_free(status)
    raise Failure(text)


def take(data):
    text = ctypes.string_at(lib.attacca_bytes_data(data), lib.attacca_bytes_size(data))
    lib.attacca_bytes_free(data)
    return text


def matmul(dtype, layout, epilogue, out):
    plan, options = Handle(), Options(size=ctypes.sizeof(Options))
    check(lib.attacca_matmul_plan(dtype, layout, epilogue, out, options, plan))
    return plan


def prepare(plan, **sizes):
    instance = Handle()
    array = (Size * len(sizes))(*[Size(k.encode(), v) for k, v in sizes.items()])
    check(lib.attacca_plan_prepare(plan, array, len(sizes), None, 0, instance))
    return instance


def addresses(*arrays):
    return (Handle * len(arrays))(*[array.ctypes.data for array in arrays])


class Matmul(unittest.TestCase):
    def setUp(self):
        random = np.random.default_rng(0)
        self.a = random.standard_normal((17, 24), np.float32)
        self.b = random.standard_normal((40, 24), np.float32)
        self.bias = random.standard_normal(40, np.float32)
        self.res = random.standard_normal((17, 40), np.float32)
        x = self.a.astype(np.float64) @ self.b.T.astype(np.float64) + self.bias
        self.want = x / (1 + np.exp(-x)) * self.res

    def run_plan(self, plan):
        instance = prepare(plan, M=17, N=40, K=24)
        self.assertEqual(lib.attacca_instance_workspace(instance), 0)
        rank = ctypes.c_size_t()
        shape = lib.attacca_instance_output_shape(instance, 0, rank)
        self.assertEqual(shape[:rank.value], [17, 40])
        d = np.full((17, 40), np.nan, np.float32)
        inputs = addresses(self.a, self.b, self.bias, self.res)
        check(lib.attacca_instance_run(instance, inputs, 4, addresses(d), 1, None, 0, None))
        self.assertEqual(lib.attacca_instance_decision_count(instance), 0)
        lib.attacca_instance_free(instance)
        np.testing.assert_allclose(d, self.want, rtol=1e-4, atol=1e-4)

    def test_epilogue(self):
        plan = matmul(b"f32", b"nk", b"silu(acc + row(bias)) * full(res)", b"f32")
        infos = []
        for i in range(lib.attacca_plan_input_count(plan)):
            info = TensorInfo()
            check(lib.attacca_plan_input(plan, i, info))
            infos.append((info.name, info.type))
        self.assertEqual(infos, [(b"a", b"f32[M, K]"), (b"b", b"f32[N, K]"),
                                 (b"bias", b"f32[N]"), (b"res", b"f32[M, N]")])
        symbols = [lib.attacca_plan_symbol(plan, i)
                   for i in range(lib.attacca_plan_symbol_count(plan))]
        self.assertEqual(symbols, [b"M", b"K", b"N"])
        self.run_plan(plan)
        text = Handle()
        check(lib.attacca_plan_explain_json(plan, text))
        self.assertEqual(len(json.loads(take(text))["regions"]), 1)
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder) / "p.plan").encode()
            check(lib.attacca_plan_save(plan, path))
            lib.attacca_plan_free(plan)
            loaded = Handle()
            check(lib.attacca_plan_load(path, None, loaded))
        self.run_plan(loaded)
        lib.attacca_plan_free(loaded)

    def test_failures_are_texts(self):
        with self.assertRaisesRegex(Failure, "did you mean gelu?"):
            matmul(b"bf16", b"nk", b"geluu(acc)", b"bf16")
        plan = matmul(b"bf16", b"kn", b"acc", b"bf16")
        with self.assertRaisesRegex(Failure, "size K has no value"):
            prepare(plan, M=1, N=1)
        lib.attacca_plan_free(plan)


class Library(unittest.TestCase):
    def test_version(self):
        self.assertRegex(lib.attacca_version().decode(), r"^\d+\.\d+\.\d+$")

    def test_shows_the_functions_of_the_header_alone(self):
        header = (pathlib.Path(__file__).resolve().parents[2]
                  / "include/attacca/attacca.h").read_text()
        listing = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True,
                                 text=True, check=True).stdout
        symbols = {line.split()[-1].split("@")[0] for line in listing.splitlines()}
        self.assertTrue(symbols)
        for symbol in symbols:
            self.assertIn(symbol + "(", header)


if __name__ == "__main__":
    unittest.main()
