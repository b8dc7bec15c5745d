"""Plans on a GPU where there is none: a stand-in for the driver that computes nothing, and one for
cupy that allocates in host memory. What is seen is what reaches the driver's side: devices,
streams, workspaces, tuning.

Needs ATTACCA_LIBCUDA (the stand-in), ATTACCA_TUNE_WORKER, ATTACCA_CACHE_DIR and
ATTACCA_TEMPLATE_DIR with at least the representative few templates.
"""
import contextlib
import copy
import fcntl
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import types
import unittest
from unittest import mock

import numpy as np

os.environ.update(ATTACCA_LIBCUBLASLT="/nowhere/x")
FOLDER = tempfile.TemporaryDirectory()
os.environ["ATTACCA_CACHE_DIR"] = FOLDER.name

import attacca

LOG = []


class Device:
    def __init__(self, index):
        self.id = index

    def __enter__(self):
        LOG.append(("device", self.id))

    def __exit__(self, *_):
        pass


class Array:
    """As much of cupy.ndarray as the package uses."""

    def __init__(self, host, device=0):
        self.host, self.device = host, Device(device)
        self.shape, self.strides, self.dtype = host.shape, host.strides, host.dtype
        self.itemsize, self.data = host.itemsize, types.SimpleNamespace(ptr=host.ctypes.data)


def alloc(size):
    memory = np.empty(size + 256, np.uint8)
    LOG.append(("workspace", size))
    return types.SimpleNamespace(ptr=(memory.ctypes.data + 255) // 256 * 256, memory=memory)


def current_stream():
    LOG.append(("stream", 0))
    return types.SimpleNamespace(ptr=0)


sys.modules["cupy"] = types.SimpleNamespace(
    ndarray=Array, float16=np.float16, float32=np.float32,
    empty=lambda shape, name: Array(np.zeros(shape, name)),
    cuda=types.SimpleNamespace(Device=Device, alloc=alloc, get_current_stream=current_stream))


def array(*shape, dtype=np.float16, device=0):
    return Array(np.zeros(shape, dtype), device)


class StandIn(unittest.TestCase):
    # Rows of 120 bytes: what takes them needs no tensor map, which the stand-in cannot encode.
    def test_results_are_allocated_and_launched_where_the_inputs_are(self):
        LOG.clear()
        got = attacca.matmul(array(16, 60), Array(np.zeros((60, 60), np.float16).T),
                             "silu(acc + row(bias))", bias=array(60))
        self.assertIsInstance(got, Array)
        self.assertEqual(got.shape, (16, 60))
        self.assertIn(("stream", 0), LOG)
        self.assertIn(("device", 0), LOG)

    def test_workspaces_are_the_frameworks(self):
        plan = attacca.compile("graph g(x: f16[M, 60], w: f16[60, 60], v: f16[60, 60]) {\n"
                               "  return silu(x @ transpose(w)) @ transpose(v)\n}", device="cuda")
        LOG.clear()
        plan(array(16, 60), array(60, 60), array(60, 60))
        sizes = [size for what, size in LOG if what == "workspace"]
        self.assertEqual(len(sizes), 1)
        self.assertGreaterEqual(sizes[0], 16 * 60 * 2)

    def test_instances_know_alignments(self):
        plan = attacca.compile("graph g(x: f16[M, 60], w: f16[60, 60]) { return x @ transpose(w) }",
                               device="cuda")
        whole = np.zeros(16 * 60 + 8, np.float16)
        for offset in (0, 1, 0, 1):
            plan(Array(whole[offset:offset + 16 * 60].reshape(16, 60)), array(60, 60))
        self.assertEqual(len(plan._engine._instances), 2)

    def test_alignments_below_an_element(self):
        """Promised as 1 they are the elements' own; memory that is not so aligned is refused."""
        for graph in ("graph g(x: f32[M, 60]) { return relu(x) + 1 }",
                      "graph g(x: f32[M, 60]) { return transpose(x) }"):
            plan = attacca.compile(graph, device="cuda")
            plan._core.prepare([("M", 16)], [1, 2])
            memory = np.zeros(16 * 60 * 4 + 2, np.int8)[2:]
            with self.assertRaisesRegex(attacca.Error, "not aligned to its elements' 4 bytes"):
                plan(Array(memory.view(np.float32).reshape(16, 60)))

    def test_a_remembered_launch(self):
        """On the current stream, with a workspace from the framework; host arrays stand for GPU
        arrays."""
        from attacca import _core
        plan = attacca.compile("graph g(x: f16[M, 60], w: f16[60, 60], v: f16[60, 60]) {\n"
                               "  return silu(x @ transpose(w)) @ transpose(v)\n}", device="cuda")
        instance = plan._core.prepare([("M", 16)], [16] * 4)
        streams, sizes = [], []

        def stream(index):
            streams.append(index)
            return 0

        def workspace(shape, dtype):
            sizes.append(shape[0])
            memory = np.empty(shape[0] + 256, dtype)
            return memory[-memory.ctypes.data % 256:]
        half, calls = np.dtype("float16"), _core.CallCache()
        _core.know_numpy(np.ndarray)
        given = [np.zeros((n, 60), half) for n in (16, 60, 60)]
        calls.add(given, None, instance, [0, 1, 2], [(np.empty, ((16, 60),), half, None)],
                  (stream, 3, (workspace, ((instance.workspace_bytes,),), np.uint8, None)))
        for _ in range(2):
            self.assertEqual(calls.run(given, None).shape, (16, 60))
        self.assertEqual(streams, [3, 3])
        self.assertEqual(sizes, [instance.workspace_bytes] * 2)
        self.assertGreater(sizes[0], 0)

    def test_rows_with_padding(self):
        def padded(rows, columns, by=4):
            return Array(np.zeros((rows, columns + by), np.float16)[:, :columns])
        out = padded(16, 60)
        got = attacca.matmul(padded(16, 60), padded(60, 60), "silu(acc) * full(r)",
                             r=padded(16, 60), out=out)
        self.assertIs(got, out)
        plan = attacca.compile("graph g(x: f16[M, 60], w: f16[60, 60]) { y = relu(x @ w)\n"
                               "return y, z = tanh(y @ w), s = sum(x, axes=[1], keepdims=true) }",
                               device="cuda")
        x, w = padded(16, 60), padded(60, 60)
        plan(x, w, out=[array(16, 60), padded(16, 60), array(16, 1)])
        for outs, why in [([padded(16, 60), array(16, 60), array(16, 1)],
                           "output y is not row-major.*reads it again"),
                          ([array(16, 60), array(16, 60), padded(16, 1)],
                           "output s is not row-major.*one after")]:
            with self.assertRaisesRegex(attacca.Error, why):
                plan(x, w, out=outs)
        wide = np.zeros((16, 120), np.float16)
        attacca.matmul(Array(wide[:, :60]), w, out=Array(wide[:, 60:]))
        with self.assertRaisesRegex(attacca.Error, "overlaps input a"):
            attacca.matmul(Array(wide[:, :60]), w, out=Array(wide[:, 59:119]))

    def test_a_plan_without_inputs(self):
        """No input says whose stream and memory to use: ``out`` does."""
        plan = attacca.compile("graph g() { return y = broadcast(constant(2, f32), [4]) + 1 }",
                               device="cuda")
        LOG.clear()
        out = array(4, dtype=np.float32)
        self.assertIs(plan(out=out), out)
        self.assertIn(("stream", 0), LOG)
        with self.assertRaisesRegex(attacca.Error, "no input there, at out: give out="):
            plan()

    def test_a_bundle(self):
        plan = attacca.compile("graph g(x: f16[M, 60], w: f16[60, 60]) {\n"
                               "  return silu(x @ transpose(w))\n}", device="cuda")
        first, second = (pathlib.Path(FOLDER.name) / name for name in ("first", "second"))
        with self.assertRaisesRegex(attacca.Error, "prepared for no sizes"):
            plan.save(first, kernels=True)
        self.assertFalse(first.exists())
        plan(array(16, 60), array(60, 60))
        plan.save(first, kernels=True)
        loaded = attacca.load(first)
        loaded.save(second, kernels=True)
        self.assertEqual(first.read_bytes(), second.read_bytes())
        self.assertEqual([each.source for each in loaded.prepare(M=16).decisions], ["bundle"])
        self.assertIsInstance(loaded(array(16, 60), array(60, 60)), Array)
        with self.assertRaisesRegex(attacca.Error, "kernels"):
            plan.save(first, kernels=1)
        with self.assertRaisesRegex(attacca.Error, "a plan of the CPU has no kernels to keep"):
            attacca.load(first, device="cpu").save(second, kernels=True)

    def test_a_cache_that_cannot_be_used_is_a_warning(self):
        """Once a process, whatever Python's filters say of repeated warnings."""
        script = ("import sys, warnings, attacca\n"
                  "warnings.simplefilter('always')\n"
                  "plan = attacca.compile('graph g(x: f16[M, 60], w: f16[60, 60]) '\n"
                  "                       '{ return silu(x @ transpose(w)) }', device='cuda')\n"
                  "for m in (5, 16): plan.prepare(M=m)\n")
        ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                             env={**os.environ, "ATTACCA_CACHE_DIR": "/dev/null/cache"})
        self.assertEqual(ran.returncode, 0, ran.stderr)
        seen = [line for line in ran.stderr.splitlines() if "RuntimeWarning" in line]
        self.assertEqual(len([line for line in seen if "kernels are compiled again" in line]), 1,
                         ran.stderr)
        self.assertTrue(all("ATTACCA_CACHE_DIR" in line for line in seen), ran.stderr)

    def test_devices_do_not_mix(self):
        with self.assertRaisesRegex(attacca.Error, "a is on cuda:0 and b on cuda:1"):
            attacca.matmul(array(16, 60), array(60, 60, device=1))
        plan = attacca.compile("graph g(x: f16[M]) { return exp(x) }", device="cuda")
        with self.assertRaisesRegex(attacca.Error,
                                    "x is on cpu, the plan on cuda:0.*device=\"cpu\""):
            plan(np.zeros(4, np.float16))
        with self.assertRaisesRegex(attacca.Error, "f64|float64"):
            attacca.matmul(array(16, 60, dtype=np.float64), array(60, 60, dtype=np.float64))

    def test_timing_waits_for_its_turn_on_the_device(self):
        plan = attacca.compile("graph g(x: f16[M, 60], w: f16[60, 60]) { return exp(x @ w) }",
                               device="cuda", tuning="measure", tuning_seconds=5)
        plan.prepare(M=7)
        lock, = pathlib.Path(FOLDER.name).glob("timing-*.lock")
        done = threading.Event()

        def measure():
            self.assertEqual(plan.prepare(M=900).decisions[0].source, "measured")
            done.set()
        with open(lock) as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            thread = threading.Thread(target=measure)
            thread.start()
            self.assertFalse(done.wait(1.5))
        thread.join()
        self.assertTrue(done.is_set())

    def test_tune_with_progress(self):
        stream = io.StringIO()
        found = attacca.tune(
            "graph g(x: f16[M, 60], w: f16[60, 60]) { return silu(x @ transpose(w)) }",
                             M=[5, 16], progress=stream)
        self.assertEqual([each.sizes for each in found], [{"M": 5}, {"M": 16}])
        for each in found:
            self.assertEqual(each.decisions[0].source, "measured")
            self.assertGreater(each.decisions[0].seconds, 0)
        self.assertEqual(stream.getvalue().count("\n"), 4)
        again = attacca.compile(
            "graph g(x: f16[M, 60], w: f16[60, 60]) { return silu(x @ transpose(w)) }",
                                device="cuda").prepare(M=16)
        self.assertEqual(again.decisions[0].source, "database")
        with self.assertRaisesRegex(attacca.Error, "size M has no value"):
            attacca.tune("graph g(x: f16[M]) { return exp(x) }", progress=False)

    def test_a_thorough_tuning_measures_again_what_a_quick_one_decided(self):
        graph = "graph g(x: f16[M, 60], w: f16[60, 60]) { return selu(x @ transpose(w)) }"

        def source(tuning, seconds):
            plan = attacca.compile(graph, device="cuda", tuning=tuning, tuning_seconds=seconds)
            return plan.prepare(M=16).decisions[0].source
        path = pathlib.Path(FOLDER.name) / "quick.plan"
        quick = attacca.compile(graph, device="cuda", tuning="measure", tuning_seconds=5)
        self.assertEqual(quick.prepare(M=16).decisions[0].source, "measured")
        quick.save(path)
        self.assertEqual(source("measure", 4), "database")
        self.assertEqual(source("known", 60), "database")
        self.assertEqual(source("measure", 60), "measured")
        self.assertEqual(source("measure", 60), "database")
        # Measured again beside what a quick tuning times, the thorough choice stays one.
        self.assertEqual(source("always", 5), "measured")
        self.assertEqual(source("measure", 60), "database")
        self.assertEqual(attacca.load(path).prepare(M=16).decisions[0].source, "plan")

    def test_a_quick_tuning_times_the_thorough_choice_beside_its_own(self):
        graph = "graph g(x: f16[M, 512], w: f16[1024, 512]) { return elu(x @ transpose(w)) }"

        def choices(seconds):
            plan = attacca.compile(graph, device="cuda", tuning="always", tuning_seconds=seconds)
            return [str(plan.prepare(M=rows).decisions[0].candidate) for rows in (3, 30, 300)]
        self.assertNotEqual(choices(5), thorough := choices(60), "this test would see nothing")
        self.assertEqual(choices(5), thorough)

    def test_choices_move_between_processes(self):
        attacca.tune("graph g(x: f16[M, 60], w: f16[60, 60]) { return mish(x @ transpose(w)) }",
                     M=5, progress=False)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "gpu.choices"
            count = attacca.export_choices(path)
            self.assertEqual(path.read_text().count("\n"), count + 1)
            self.assertEqual(attacca.import_choices(path, device="cuda:0"), count)
            again = pathlib.Path(folder) / "again.choices"
            attacca.export_choices(again)
            self.assertEqual(again.read_bytes(), path.read_bytes())
            path.write_text(path.read_text().replace("driver 1", "driver 9"))
            with self.assertRaisesRegex(attacca.Error, "measured with driver 9"):
                attacca.import_choices(path)
            with self.assertRaisesRegex(attacca.Error, "choices are of a GPU"):
                attacca.export_choices(path, device="cpu")


class TorchGraphs(unittest.TestCase):
    """What torch.compile's backend decides and launches, on tensors that only claim to be on a
    GPU."""

    def test_the_policy_measured(self):
        import torch
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.fx.experimental.proxy_tensor import make_fx

        import attacca.torch
        from attacca.torch._rewrite import Options, rewrite
        with FakeTensorMode():
            x, w = (torch.empty(n, 60, device="cuda", dtype=torch.bfloat16) for n in (24, 60))
            module = make_fx(lambda x, w: torch.relu(x @ w.t()), tracing_mode="fake")(x, w)
        attacca.torch.reset()
        # No tensor can be made here, so that nothing can be compared.
        with mock.patch.object(torch.random, "fork_rng",
                               lambda devices: contextlib.nullcontext()), \
                mock.patch.object(torch.cuda, "get_device_name", lambda device: "none"), \
                mock.patch.object(torch.cuda, "empty_cache"):
            self.assertEqual(rewrite(copy.deepcopy(module).graph, Options(measuring_seconds=5)), 0)
        graph = attacca.torch.report().graphs[0]
        self.assertIn("not compared with Inductor", graph.left[-1].reason)
        self.assertEqual((graph.measuring.regions, graph.measuring.tuned), (1, 1))
        kept = rewrite(module.graph, Options(compare=False))
        graph = attacca.torch.report().graphs[1]
        if kept:  # the stand-in's times are equal, up to noise
            self.assertRegex(graph.fused[0].reason, r"it took \d|not measured")
        else:
            self.assertRegex(graph.left[-1].reason, "unfused")

    def test_products_of_one_input_become_one_call(self):
        """The plan's own decision: the cost model expects three small launches to take longer."""
        import torch
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.fx.experimental.proxy_tensor import make_fx

        import attacca.torch
        from attacca.torch._rewrite import Options, rewrite

        def layer(x, q, k, v):
            q, k, v = (torch.nn.functional.linear(x, w) for w in (q, k, v))
            return q.view(16, -1, 60).cumsum(0), k.cumsum(0), v.view(16, -1, 60)
        for batch_invariant in (False, True):
            with FakeTensorMode():
                given = [torch.empty(n, 2040, device="cuda", dtype=torch.bfloat16)
                         for n in (16, 2040, 1020, 1020)]
                module = make_fx(layer, tracing_mode="fake")(*given)
            attacca.torch.reset()
            options = Options(policy="always", batch_invariant=batch_invariant)
            self.assertEqual(rewrite(module.graph, options), 3)
            fused = attacca.torch.report().graphs[0].fused
            self.assertEqual([each.together for each in fused],
                             [1, 1, 1] if batch_invariant else [3])
        self.assertNotIn("in one launch", fused[0].reason)
        plan = attacca.compile("graph g(x: bf16[M, 2040], q: bf16[2040, 2040], k: bf16[1020, 2040])"
                               " {\n  return x @ transpose(q), x @ transpose(k)\n}", device="cuda")
        self.assertEqual([each.together for each in plan.prepare(M=16).decisions], [2, 2])

    def test_a_users_kernel_and_its_tail(self):
        import attacca.torch
        from attacca.torch import _rewrite
        from attacca.torch._graph import kernels
        from kernels_test import Graph

        ptx = pathlib.Path(__file__).resolve().parents[1] / "kernels/triton/add.ptx"

        def compiled(kernel, call, options):
            metadata = types.SimpleNamespace(name="add_kernel", num_warps=1, shared=0)
            return str(ptx), types.SimpleNamespace(metadata=metadata), ["u64"] * (len(call.passed)
                                                                                  + 2)
        attacca.torch.reset()
        made = Graph(grid=[(6, 1, 1)], device="cuda")
        with mock.patch.object(kernels, "_compiled", compiled):
            self.assertEqual(_rewrite.rewrite(made.graph,
                                              _rewrite.Options(policy="always", tuning="known")), 1)
        calls = [str(node.target) for node in made.graph.nodes if node.op == "call_function"]
        self.assertEqual(calls,
                         ["attacca.region.import_attacca_torch", "<built-in function getitem>"])
        fused, = attacca.torch.report().graphs[-1].fused
        self.assertIn("relu(acc + row(bias))", fused.epilogue)
        self.assertIn("user kernel over [24, 64]", fused.epilogue)

    def test_a_users_kernel_that_reads_a_transposed_view(self):
        """The region takes the view with its strides; no copy is made."""
        import torch

        import attacca.torch
        from attacca.torch import _rewrite
        from attacca.torch._graph import kernels
        from kernels_test import Graph

        ptx = pathlib.Path(__file__).resolve().parents[1] / "kernels/triton/add.ptx"

        def compiled(kernel, call, options):
            metadata = types.SimpleNamespace(name="add_kernel", num_warps=1, shared=0)
            return str(ptx), types.SimpleNamespace(metadata=metadata), ["u64"] * (len(call.passed)
                                                                                  + 2)
        attacca.torch.reset()
        made = Graph(grid=[(6, 1, 1)], device="cuda", arguments=lambda graph: {
            "x": graph.call(torch.ops.aten.t.default, graph.x)})
        with mock.patch.object(kernels, "_compiled", compiled):
            self.assertEqual(_rewrite.rewrite(made.graph,
                                              _rewrite.Options(policy="always", tuning="known")), 1)
        calls = [str(node.target) for node in made.graph.nodes if node.op == "call_function"]
        self.assertEqual(calls, ["aten.t.default", "attacca.region.import_attacca_torch",
                                 "<built-in function getitem>"])
        region = next(node for node in made.graph.nodes if "region" in str(node.target))
        self.assertIn("bf16[64, 24; 1, 64]", region.args[1])
        made.graph.lint()

    def test_a_cast_of_bytes_joins_the_product_that_reads_it(self):
        """Regions are cut as the device's, which widens bytes itself, not as the CPU's."""
        import torch
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.fx.experimental.proxy_tensor import make_fx

        import attacca.torch
        from attacca.torch._rewrite import Options, rewrite

        def after(x, w, s):
            return torch.relu((x @ w.to(x.dtype).t()) * s)

        def before(x, w, s):
            return torch.nn.functional.linear(x, w.to(x.dtype) * s[:, None])
        def with_zero_points(x, w, s):
            zeros = torch.full((48, 1), 3, device=w.device, dtype=torch.int8)
            weights = (w.to(x.dtype) - zeros.to(x.dtype)) * s.view(48, 1)
            return torch.relu(x @ weights.view(48, 64).permute(1, 0))  # as torchao writes it
        for function in (after, before, with_zero_points):
            with self.subTest(function.__name__), FakeTensorMode():
                x, w, s = (torch.empty(*shape, device="cuda", dtype=dtype) for shape, dtype in [
                    ((24, 64), torch.bfloat16), ((48, 64), torch.int8), ((48,), torch.bfloat16)])
                module = make_fx(function, tracing_mode="fake")(x, w, s)
                attacca.torch.reset()
                self.assertEqual(rewrite(module.graph, Options(policy="always", tuning="known")), 1)
                fused, = attacca.torch.report().graphs[0].fused
                self.assertIn("@ w_1^T:s8", fused.epilogue)
                self.assertIn("_to_copy", fused.nodes)

    def test_a_launch(self):
        import torch

        from attacca.torch._ops.region import Loaded

        class Cuda:
            """A host tensor that claims to be on a GPU."""

            def __init__(self, host):
                self.host, self.device = host, torch.device("cuda", 0)
                self.shape, self.dtype, self.layout = host.shape, host.dtype, host.layout
                self.requires_grad = False

            def __getattr__(self, name):
                return getattr(self.host, name)

        made, streams = [], []
        empty = torch.empty

        def allocate(*args, device=None, **keywords):
            made.append((args, device))
            memory = empty((args[0] + 256,),
                           **keywords) if isinstance(args[0], int) else empty(*args, **keywords)
            offset = -memory.data_ptr() % 256 if isinstance(args[0], int) else 0
            return memory[offset:]

        def stream(index):
            streams.append(index)
            return 0
        torch.empty, torch._C._cuda_getCurrentRawStream = allocate, stream
        try:
            loaded = Loaded("graph g(x: bf16[M, 60], w: bf16[60, 60], v: bf16[60, 60]) {\n"
                            "  return silu(x @ transpose(w)) @ transpose(v)\n}", "fp32", "known",
                            0.0, "cuda:0")
            tensors = [Cuda(torch.zeros(n, 60, dtype=torch.bfloat16)) for n in (24, 60, 60)]
            for _ in range(2):
                out, = loaded(tensors)
                self.assertEqual(out.shape, (24, 60))
        finally:
            torch.empty = empty
        self.assertEqual(streams, [0, 0])
        self.assertEqual({str(device) for _, device in made}, {"cuda:0"})
        self.assertEqual(len(made), 4)  # an output and a workspace each time


if __name__ == "__main__":
    unittest.main()
