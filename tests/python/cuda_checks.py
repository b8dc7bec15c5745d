"""torch.compile(backend="attacca"), exported programs and plans on a GPU. Needs one, and kernel
templates.

    PYTHONPATH=build/python python tests/python/cuda_checks.py

--device cpu tries the script itself, at tiny widths, without what only a GPU has; --blocks
llama_mlp,bert takes these blocks alone; --torch-library is the path of libattacca_torch.so if it is
not in build/; --invariant-cases 100 compares so many numbers of rows (10,000).
"""
import copy
import gc
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

FOLDER = tempfile.TemporaryDirectory()
os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(FOLDER.name, "inductor")
os.environ.setdefault("ATTACCA_CACHE_DIR", os.path.join(FOLDER.name, "attacca"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/gpu"))

import torch
import torch.fx.experimental.proxy_tensor
import torch.nn.functional as F
from torch import nn

import attacca
import attacca.torch
import block_models
from attacca.torch import _timing
from attacca.torch._graph import static
from attacca.torch._ops import lowering


def option(name, default):
    """Its value, which is taken from the command line: the rest is unittest's."""
    if name not in sys.argv:
        return default
    at = sys.argv.index(name)
    value = sys.argv[at + 1]
    del sys.argv[at:at + 2]
    return value


DEVICE = option("--device", "cuda")
BLOCKS = option("--blocks", ",".join(block_models.NAMES)).split(",")
TORCH_LIBRARY = option("--torch-library", str(pathlib.Path(__file__).parents[2] /
                                              "build/src/torch_ops/libattacca_torch.so"))
INVARIANT_CASES = int(option("--invariant-cases", "10000" if DEVICE == "cuda" else "200"))
GPU = DEVICE == "cuda"
NAMES = {torch.float8_e4m3fn: "f8e4m3", torch.float8_e5m2: "f8e5m2"}
ALWAYS = {"policy": "always", "tuning": "known"}
WIDTH, INNER = (1024, 2816) if GPU else (64, 96)


class Mlp(nn.Module):
    """Llama's, with its residual and a bias."""

    def __init__(self):
        super().__init__()
        self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, WIDTH)

    def forward(self, x):
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


def mlp():
    torch.manual_seed(0)
    return Mlp().to(DEVICE, torch.bfloat16).eval()


def rows(count):
    return torch.randn(count, WIDTH, device=DEVICE, dtype=torch.bfloat16)


def error(got, want):
    return ((got.double() - want).square().mean().sqrt() / want.square().mean().sqrt()).item()


class Check(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        attacca.torch.reset()
        torch.manual_seed(0)

    def assert_as_exact(self, got, model, *inputs):
        """No further from f64 than eager, up to another order of sums."""
        want = copy.deepcopy(model).double()(*(x.double() for x in inputs))
        eager = error(model(*inputs), want)
        self.assertEqual(got.dtype, inputs[0].dtype)
        self.assertLessEqual(error(got, want), 1.05 * eager + 1e-6)

    def fused(self):
        return [fused for graph in attacca.torch.report().graphs for fused in graph.fused]


class Blocks(Check):
    def test_at_real_widths(self):
        for name in BLOCKS:
            for tokens in (96, 1):
                with self.subTest(name, tokens=tokens), torch.no_grad():
                    self.setUp()
                    block, widths, source = block_models.make(name, not GPU, DEVICE, torch.bfloat16)
                    inputs = block_models.inputs(name, widths, tokens, DEVICE, torch.bfloat16)
                    got = torch.compile(block, backend="attacca", options=ALWAYS,
                                        dynamic=False)(*inputs)
                    self.assert_as_exact(got, block, *inputs)
                    print(f"{name} ({source}), {tokens} tokens: {len(self.fused())} regions",
                          flush=True)
                    self.assertGreater(len(self.fused()), 0)


class Projections(nn.Module):
    """A query, a key and a value."""

    def __init__(self, bias):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, n, bias=bias)
                                    for n in (WIDTH, WIDTH // 4, WIDTH // 4))

    def forward(self, x):
        x = torch.tanh(x)
        return torch.cat([layer(x).view(-1, layer.out_features // 16, 16).softmax(-1)
                          for layer in self.layers], 1)


class Together(Check):
    def check(self, bias, counts, **how):
        self.setUp()
        model = Projections(bias).to(DEVICE, torch.bfloat16).eval()
        compiled = torch.compile(model, backend="attacca", **how)
        with torch.no_grad():
            for count in counts:
                x = rows(count)
                self.assert_as_exact(compiled(x), model, x)
        return self.fused()

    def test_by_the_policy_always(self):
        for bias in (False, True):
            for counts, dynamic in (([1], False), ([16], False), ([100, 7, 33], True)):
                with self.subTest(bias=bias, counts=counts):
                    fused = self.check(bias, counts, options=ALWAYS, dynamic=dynamic)
                    if GPU:
                        self.assertEqual([each.together for each in fused], [3], fused)
                        self.assertEqual(fused[0].calls, len(counts))

    def test_by_measuring(self):
        for bias in (False, True):
            for count in (1, 16, 128):
                self.check(bias, [count], options={"measuring_seconds": 60}, dynamic=False)
                print(attacca.torch.report().details(), flush=True)
                self.check(bias, [count], options={"measuring_seconds": 60}, dynamic=False)
                if GPU:
                    measuring = attacca.torch.report().graphs[-1].measuring
                    self.assertEqual(measuring.known, measuring.regions)


class Graphs(Check):
    def test_a_batch_of_any_size_compiles_once(self):
        model = mlp()
        for options in (ALWAYS, {"tuning": "known"}):
            torch._dynamo.reset()
            compiled = torch.compile(model, backend="attacca", options=options, dynamic=True)
            with torch.no_grad(), torch._dynamo.config.patch(error_on_recompile=True):
                for count in (48, 512, 2, 1000, 17):
                    x = rows(count)
                    self.assert_as_exact(compiled(x), model, x)
        self.assertEqual(len(attacca.torch.report().graphs), 2)

    def test_reduce_overhead(self):
        model = mlp()
        compiled = torch.compile(model, backend="attacca", dynamic=False,
                                 options={**ALWAYS, "triton.cudagraphs": True})
        with torch.no_grad():
            for _ in range(4):
                torch.compiler.cudagraph_mark_step_begin()
                x = rows(64)
                self.assert_as_exact(compiled(x).clone(), model, x)
        self.assertEqual(len(self.fused()), 2)
        if GPU:
            self.assertLess(self.fused()[0].calls, 4)  # the last ones were replayed

    @unittest.skipUnless(GPU, "only a GPU has CUDA graphs")
    def test_captured_by_hand(self):
        model, x = mlp(), rows(64)
        compiled = torch.compile(model, backend="attacca", options=ALWAYS, dynamic=False)
        stream = torch.cuda.Stream()
        with torch.no_grad(), torch.cuda.stream(stream):
            for _ in range(3):
                compiled(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph):
            y = compiled(x)
        for _ in range(3):
            x.copy_(rows(64))
            graph.replay()
            with torch.no_grad():
                self.assert_as_exact(y, model, x)

    @unittest.skipUnless(GPU, "only a GPU has CUDA graphs")
    def test_a_failed_capture_leaves_random_numbers(self):
        for launch in (torch.cuda.synchronize, lambda: torch.zeros(3, device="cuda").tolist()):
            with self.assertRaises(RuntimeError):
                _timing.captured(launch)
            torch.cuda.synchronize()
            self.assertTrue(torch.rand(8, device="cuda").isfinite().all())
            graph = _timing.captured(lambda: torch.rand(8, device="cuda"))
            graph.replay()

    @unittest.skipUnless(GPU, "only a GPU has CUDA graphs")
    def test_plans_destroyed_while_capturing(self):
        text = 'graph g(x: bf16[M, 256], w: bf16[256, 256]) { return relu(x @ w) }'
        x, w = rows(64)[:, :256].contiguous(), rows(256)[:, :256].contiguous()
        held = [attacca.compile(text, device="cuda")]
        held[0](x, w)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            held.clear()
            gc.collect()
            torch.relu(x)
        graph.replay()
        torch.cuda.synchronize()

    @unittest.skipUnless(GPU, "only a GPU has CUDA graphs")
    def test_a_first_call_while_capturing(self):
        plan = attacca.compile("graph g(x: bf16[M, 256], w: bf16[256, 256], b: bf16[256]) "
                               "{ return relu(x @ w + b * 1.25) * 0.5 }",
                               device="cuda", tuning="model")
        x, w = rows(64)[:, :256].contiguous(), rows(256)[:, :256].contiguous()
        b = rows(1)[0, :256].contiguous()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            y = plan(x, w, b)
        graph.replay()
        expected = torch.relu(x.double() @ w.double() + b.double() * 1.25) * 0.5
        torch.testing.assert_close(y.double(), expected, rtol=0.02,
                                   atol=0.02 * expected.abs().max().item())

    @unittest.skipUnless(GPU, "the CPU keeps no kernels")
    def test_tails_whose_operands_change_places(self):
        """They have the same ops and operands, in one cache of kernels."""
        tails = {"p - r": lambda p, r: p - r, "r - p": lambda p, r: r - p,
                 "silu(p) * r": lambda p, r: F.silu(p) * r,
                 "silu(r) * p": lambda p, r: F.silu(r) * p}
        for size in (64, 8192):
            x, w, r = (torch.randn(size, 8192, device=DEVICE, dtype=torch.bfloat16) / 90,
                       torch.randn(8192, 8192, device=DEVICE, dtype=torch.bfloat16),
                       torch.randn(size, 8192, device=DEVICE, dtype=torch.bfloat16))
            product = x.float() @ w.float()
            for tail, function in tails.items():
                text = tail.replace("p", "(x @ w)")
                plan = attacca.compile(f"graph g(x: bf16[M, 8192], w: bf16[8192, 8192], "
                                       f"r: bf16[M, 8192]) {{ return {text} }}", device="cuda")
                torch.testing.assert_close(plan(x, w, r).float(), function(product, r.float()),
                                           rtol=0.02, atol=0.05)

    def test_exported(self):
        model = mlp()
        exported = torch.export.export(model, (rows(8),),
                                       dynamic_shapes=({0: torch.export.Dim("M", min=2)},))
        program = attacca.compile(exported)
        self.assertEqual(program.regions, 2)
        with torch.no_grad():
            for count in (8, 300, 3):
                x = rows(count)
                self.assert_as_exact(program(x), model, x)

    @unittest.skipUnless(GPU, "only a GPU has streams")
    def test_on_the_current_stream(self):
        model = mlp()
        compiled = torch.compile(model, backend="attacca", options=ALWAYS, dynamic=False)
        with torch.no_grad():
            compiled(rows(64))
            side = torch.cuda.Stream()
            x = torch.zeros(64, WIDTH, device=DEVICE, dtype=torch.bfloat16)
            torch.cuda.synchronize()
            with torch.cuda.stream(side):
                torch.cuda._sleep(50_000_000)
                x.copy_(rows(64))
                y = compiled(x)
            side.synchronize()
            self.assert_as_exact(y, model, x)

    def test_at_any_address(self):
        model = mlp()
        compiled = torch.compile(model, backend="attacca", options=ALWAYS, dynamic=False)
        with torch.no_grad():
            for offset in (0, 1, 4, 0):
                x = torch.randn(64 * WIDTH + offset, device=DEVICE,
                                dtype=torch.bfloat16)[offset:].view(64, WIDTH)
                self.assert_as_exact(compiled(x), model, x)

    def test_training_is_left_alone(self):
        model, x = mlp(), rows(32)
        torch.compile(model, backend="attacca",
                      options=ALWAYS)(x).float().square().mean().backward()
        got = [parameter.grad.clone() for parameter in model.parameters()]
        model.zero_grad()
        model(x).float().square().mean().backward()
        for gradient, parameter in zip(got, model.parameters()):
            self.assertLess(error(gradient, parameter.grad.double()), 0.03)
        self.assertEqual(self.fused(), [])


class Packages(Check):
    """AOTInductor packages in a process without the Python package."""

    RUN = textwrap.dedent("""
        import faulthandler, sys, torch
        faulthandler.enable()
        torch.ops.load_library(sys.argv[1])
        model = torch._inductor.aoti_load_package("model.pt2")
        inputs, results = torch.load("inputs.pt"), []
        print("loaded", file=sys.stderr, flush=True)
        side = torch.cuda.Stream() if inputs[0].is_cuda else None
        for x in inputs:
            results.append(model(x))
            if side is None: continue
            torch.cuda.synchronize()
            print("ran", len(x), "rows", file=sys.stderr, flush=True)
            late = torch.zeros_like(x)
            torch.cuda.synchronize()
            with torch.cuda.stream(side):  # the model reads what is copied after a wait
                torch.cuda._sleep(50_000_000)
                late.copy_(x)
                again = model(late)
            side.synchronize()
            torch.testing.assert_close(again, results[-1])
        torch.save(results, "results.pt")
        assert not any(name.startswith("attacca") for name in sys.modules)
        print("ends", file=sys.stderr, flush=True)
        """)

    def test_the_packages_results(self):
        model, inputs = mlp(), [rows(count) for count in (8, 300, 3, 8)]
        exported = torch.export.export(model, (inputs[0],),
                                       dynamic_shapes=({0: torch.export.Dim("M", min=2)},))
        attacca.torch.enable(policy="always", tuning="known")
        self.addCleanup(attacca.torch.disable)
        with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
            torch._inductor.aoti_compile_and_package(exported, package_path=f"{folder}/model.pt2")
            self.assertEqual(len(self.fused()), 2)
            torch.save(inputs, f"{folder}/inputs.pt")
            ran = subprocess.run([sys.executable, "-c", self.RUN, TORCH_LIBRARY], cwd=folder,
                                 env={**os.environ, "PYTHONPATH": ""}, text=True,
                                 stderr=subprocess.PIPE)
            self.assertEqual(ran.returncode, 0, "docs/deploy.md says which C++ compiler packages "
                             f"need: {ran.stderr[-2000:]}")
            for x, got in zip(inputs, torch.load(f"{folder}/results.pt")):
                self.assert_as_exact(got, model, x)


@unittest.skipUnless(GPU, "the policy leaves the CPU alone")
class Compared(Check):
    def test_against_inductor_once(self):
        model, x = mlp(), rows(64)
        compiles, real = [], static.compiled

        def compiled(static):
            compiles.append(static)
            return real(static)
        static.compiled = compiled
        reports = []
        try:
            for cache in ("first", "second"):
                torch._dynamo.reset()
                attacca.torch.reset()
                os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(FOLDER.name, cache)
                with torch.no_grad():
                    y = torch.compile(model, backend="attacca", options={"tuning_seconds": 3.0},
                                      dynamic=False)(x)
                    self.assert_as_exact(y, model, x)
                reports.append(attacca.torch.report())
                compiles.append(None)
        finally:
            static.compiled = real
        print(reports[0])
        for first, second in zip(*(report.graphs for report in reports), strict=True):
            self.assertEqual((first.fused, first.left), (second.fused, second.left))
            self.assertEqual(second.measuring.known, second.measuring.regions)
        self.assertIsNone(compiles[-1])
        self.assertIsNone(compiles[-2])  # no comparison was compiled again


@unittest.skipUnless(GPU, "Triton wants one")
class UserKernels(Check):
    """Triton kernels of the user's, followed by elementwise ops."""

    def setUp(self):
        super().setUp()
        import triton

        import triton_kernels as kernels
        self.triton, self.kernels = triton, kernels

    def add(self, x, y):
        out = torch.empty_like(x)
        count = x.numel()
        self.kernels.add_kernel[(self.triton.cdiv(count, 1024),)](x, y, out, count, BLOCK=1024,
                                                                  num_warps=4)
        return out

    def matmul(self, a, b):
        (m, k), n = a.shape, b.shape[1]
        out = torch.empty(m, n, dtype=a.dtype, device=a.device)
        grid = (self.triton.cdiv(m, 128), self.triton.cdiv(n, 128))
        self.kernels.matmul_kernel[grid](a, b, out, m, n, k, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64,
                                         num_warps=8)
        return out

    def check(self, function, *inputs, options=ALWAYS, dynamic=False, fused=1):
        with torch.no_grad():
            got = torch.compile(function, backend="attacca", options=options,
                                dynamic=dynamic)(*inputs)
            torch.testing.assert_close(got, function(*inputs), rtol=2e-2, atol=2e-2)
        report = attacca.torch.report()
        self.assertEqual(len(self.fused()), fused, report.details())
        return report

    def random(self, *shape):
        return torch.randn(*shape, device=DEVICE, dtype=torch.bfloat16)

    def test_an_elementwise_kernel(self):
        x, y, bias = self.random(200, 1024), self.random(200, 1024), self.random(1024)
        report = self.check(lambda x, y, b: torch.relu(self.add(x, y) + b) * y, x, y, bias)
        print(report)

    def test_a_product(self):
        a, b, bias, res = self.random(300, 512), self.random(512, 384), self.random(
            384), self.random(300, 384)
        self.check(lambda a, b, c, r: F.silu(self.matmul(a, b) * 0.05 + c) * r, a, b, bias, res)

    def tuned(self, a, b):
        (m, k), n = a.shape, b.shape[1]
        out = torch.empty(m, n, dtype=a.dtype, device=a.device)

        def grid(meta):
            return self.triton.cdiv(m, meta["BLOCK_M"]), self.triton.cdiv(n, meta["BLOCK_N"])
        self.kernels.tuned_matmul_kernel[grid](a, b, out, m, n, k, *a.stride(), *b.stride())
        return out

    def test_tuned_by_triton_on_transposed_and_strided_views(self):
        a, b, bias = self.random(300, 1024)[:, 256:768], self.random(384, 512), self.random(384)
        for options in (ALWAYS, {"tuning": "known"}):
            self.setUp()
            with torch.no_grad():
                def function(a, b, c):
                    return F.silu(self.tuned(a, b.t()) * 0.05 + c)
                got = torch.compile(function, backend="attacca", options=options,
                                    dynamic=False)(a, b, bias)
                torch.testing.assert_close(got, function(a, b, bias), rtol=2e-2, atol=2e-2)
            print(attacca.torch.report().details())
            if options is ALWAYS:
                self.assertEqual(len(self.fused()), 1)

    def test_of_sizes_that_change(self):
        def function(x, y, b):
            return torch.relu(self.add(x, y) + b)
        compiled = torch.compile(function, backend="attacca", options=ALWAYS, dynamic=True)
        bias = self.random(256)
        with torch.no_grad(), torch._dynamo.config.patch(error_on_recompile=True):
            for count in (24, 1000, 3):
                x, y = self.random(count, 256), self.random(count, 256)
                torch.testing.assert_close(compiled(x, y, bias), function(x, y, bias), rtol=2e-2,
                                           atol=2e-2)
        self.assertEqual(len(self.fused()), 1, attacca.torch.report().details())

    def test_what_may_not_be_joined(self):
        def zeroed(x, y):
            out = torch.zeros_like(x)
            self.kernels.add_kernel[(self.triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(),
                                                                          BLOCK=1024)
            return torch.relu(out)

        def kept(x, y):
            out = self.add(x, y)
            return out, torch.relu(out)
        x, y = self.random(64, 1024), self.random(64, 1024)
        for function, pattern in [(zeroed, "not uninitialised"),
                                  (kept, "result of the graph|read")]:
            self.setUp()
            with torch.no_grad():
                got = torch.compile(function, backend="attacca", options=ALWAYS, dynamic=False)(x,
                                                                                                y)
                torch.testing.assert_close(got, function(x, y))
            self.assertRegex(attacca.torch.report().details(), pattern)
            self.assertEqual(self.fused(), [])

    def test_compared_with_inductor(self):
        a, b, bias, res = self.random(2048, 512), self.random(512, 2048), self.random(
            2048), self.random(2048, 2048)

        def function(a, b, c, r):
            return F.silu(self.matmul(a, b) * 0.05 + c) * r
        with torch.no_grad():
            got = torch.compile(function, backend="attacca", options={"tuning": "known"},
                                dynamic=False)(a, b, bias, res)
            torch.testing.assert_close(got, function(a, b, bias, res), rtol=2e-2, atol=2e-2)
        print(attacca.torch.report())
        self.assertNotIn("not compared", attacca.torch.report().details())


class Quantized(Check):
    """Products whose operands are converted or scaled by ops of their own."""

    def check(self, function, *inputs):
        with torch.no_grad():
            got = torch.compile(function, backend="attacca", options=ALWAYS, dynamic=False)(*inputs)
            torch.testing.assert_close(got, function(*inputs), rtol=2e-2, atol=2e-2)
        self.assertEqual(len(self.fused()), 1, attacca.torch.report().details())
        print(attacca.torch.report().details())

    def test_bytes_that_are_cast(self):
        for dtype in (torch.float16, torch.bfloat16):
            self.setUp()
            x = torch.randn(16, 512, device=DEVICE, dtype=dtype) * 0.1
            w = torch.randint(-128, 128, (1024, 512), device=DEVICE, dtype=torch.int8)
            s = torch.rand(1024, device=DEVICE, dtype=dtype) * 0.01
            self.check(lambda x, w, s: F.silu((x @ w.to(x.dtype).t()) * s), x, w, s)

    @unittest.skipUnless(GPU, "PyTorch has them on a GPU alone")
    def test_scales_of_blocks(self):
        x = torch.randn(64, 512, device=DEVICE).to(torch.float8_e4m3fn)
        w = torch.randn(1024, 512, device=DEVICE).to(torch.float8_e4m3fn)
        u = torch.rand(4, 64, device=DEVICE).t() * 0.1
        v = torch.rand(8, 4, device=DEVICE) * 0.1
        self.check(lambda x, w, u, v: torch.relu(torch._scaled_mm(
            x, w.t(), u, v.t(), out_dtype=torch.bfloat16)), x, w, u, v)

    @unittest.skipUnless(GPU, "PyTorch has them on a GPU alone")
    def test_scales_of_rows_and_of_columns_of_groups(self):
        x = torch.randn(300, 512, device=DEVICE).to(torch.float8_e4m3fn)
        w = torch.randn(5, 1024, 512, device=DEVICE).to(torch.float8_e4m3fn)
        u, v = torch.rand(300, device=DEVICE) * 0.1, torch.rand(5, 1024, device=DEVICE) * 0.1
        ends = torch.tensor([70, 70, 71, 200, 300], dtype=torch.int32, device=DEVICE)
        for fast in (True, False):
            self.setUp()
            self.check(lambda x, w, u, v, ends, fast=fast: torch.relu(torch._scaled_grouped_mm(
                x, w.transpose(1, 2), u, v, ends, out_dtype=torch.bfloat16, use_fast_accum=fast)),
                x, w, u, v, ends)
        self.setUp()
        rows = F.ScalingType.RowWise
        self.check(lambda x, w, u, v, ends: torch.relu(F.scaled_grouped_mm(
            x, w.transpose(1, 2), u, rows, v, rows, offs=ends)), x, w, u, v, ends)


class BatchInvariant(Check):
    """A row has the same bits in every batch: INVARIANT_CASES numbers of rows in all."""

    LAYOUTS = {"nk": lambda w: w.t(), "kn": lambda w: w.t().contiguous()}
    EPILOGUES = ["acc", "silu(acc + row(bias))", "gelu(acc * row(bias))"]
    DTYPES = [torch.bfloat16, torch.bfloat16, torch.float16, torch.int8, torch.float8_e4m3fn]

    @staticmethod
    def tensor(generator, rows, columns, dtype):
        if dtype == torch.int8:
            return torch.randint(-128, 128, (rows, columns), dtype=dtype, device=DEVICE,
                                 generator=generator)
        return torch.randn(rows, columns, device=DEVICE, generator=generator).to(dtype)

    def product(self, pick, generator, most):
        """A call for some of the rows of a random product."""
        dtype, epilogue = pick.choice(self.DTYPES if GPU else self.DTYPES[:3]), pick.choice(
            self.EPILOGUES)
        n = pick.choice([16, 64, 200, 1024, 4096] if GPU else [16, 64, 200])
        k = pick.choice([64, 136, 512, 1000, 4096, 14336] if GPU else [64, 136, 512])
        layout = "nk" if dtype.itemsize == 1 else pick.choice(list(self.LAYOUTS))
        a = self.tensor(generator, most, k, dtype)
        b = self.LAYOUTS[layout](self.tensor(generator, n, k, dtype))
        given = {"bias": torch.randn(n, device=DEVICE, generator=generator)} \
            if "bias" in epilogue else {}
        out = torch.int32 if dtype == torch.int8 and epilogue == "acc" else torch.float32

        def call(first, end):
            return attacca.matmul(a[first:end], b, epilogue, out_dtype=out, batch_invariant=True,
                                  **given)
        return call, f"{dtype}, {layout}, {n} x {k}, {epilogue}"

    def test_random_products(self):
        most = 8192 if GPU else 300
        for number in range(-(-INVARIANT_CASES // 50)):
            pick = random.Random(number)
            generator = torch.Generator(DEVICE).manual_seed(number)
            call, what = self.product(pick, generator, most)
            whole = call(0, most)
            with self.subTest(what):
                for case in range(50):
                    count = pick.choice([1, 2, pick.randrange(1, 65), pick.randrange(1, most)])
                    first = 0 if case % 2 == 0 else pick.randrange(0, most - count + 1)
                    part = call(first, first + count)
                    self.assertTrue(torch.equal(part, whole[first:first + count]),
                                    f"{count} rows from {first} of {what}")
        print(f"{INVARIANT_CASES} numbers of rows", flush=True)

    def test_a_model(self):
        model = mlp()
        compiled = torch.compile(model, backend="attacca", options={"batch_invariant": True},
                                 dynamic=True)
        with torch.no_grad():
            x = rows(2048 if GPU else 100)
            whole = compiled(x)
            self.assert_as_exact(whole, model, x)
            for count in (1, 2, 3, 17, 64, 100):
                self.assertTrue(torch.equal(compiled(x[:count]), whole[:count]), count)

    def test_usual_products_differ(self):
        """Otherwise the tests above show nothing."""
        if not GPU:
            self.skipTest("batch_invariant_test.py shows it on the CPU")
        a = torch.randn(4096, 4096, device=DEVICE, dtype=torch.bfloat16)
        b = torch.randn(4096, 4096, device=DEVICE, dtype=torch.bfloat16)
        whole = attacca.matmul(a, b, out_dtype=torch.float32)
        self.assertTrue(any(not torch.equal(attacca.matmul(a[:m], b, out_dtype=torch.float32),
                                            whole[:m]) for m in (1, 2, 16, 64, 256, 1024)))


class Plans(Check):
    def test_bad_input_is_an_error(self):
        plan = attacca.compile(
            "graph g(x: bf16[M, 64], w: bf16[32, 64]) { return silu(x @ transpose(w)) }",
                               device=DEVICE)
        x, w = (torch.randn(n, 64, device=DEVICE, dtype=torch.bfloat16) for n in (5, 32))
        for bad, pattern in [(x.float(), "f32"), (x.t(), "shape"), (x[:, ::2], "shape"),
                             (x.detach().requires_grad_(), "requires a gradient")]:
            with self.assertRaisesRegex(attacca.Error, pattern):
                plan(bad, w)
        if GPU:
            with self.assertRaisesRegex(attacca.Error, "x is on cpu"):
                plan(x.cpu(), w)
        with self.assertRaisesRegex(attacca.Error, "missing"):
            plan(x)
        want = F.silu(x.double() @ w.double().t())
        self.assertLess(error(plan(x, w), want), 0.01)

    def test_rows_with_padding(self):
        """Slices of wider tensors as each operand, in both layouts of b, and results in slices."""
        def padded(rows, columns, by):
            wide = torch.full((rows, columns + by), float("nan"), device=DEVICE,
                              dtype=torch.bfloat16)
            wide[:, :columns] = torch.randn(rows, columns, device=DEVICE)
            return wide[:, :columns]
        for m, n, k, by in ((17, 96, 64, 8), (128, 256, 128, 64), (33, 40, 72, 1),
                            (300, 512, 264, 3)):
            for transposed in (False, True):
                a, res = padded(m, k, by), padded(m, n, by)
                b = padded(n, k, by).t() if transposed else padded(k, n, by)
                row = torch.randn(n, device=DEVICE)
                wide = torch.full((m, n + by), float("nan"), device=DEVICE, dtype=torch.bfloat16)
                want = F.silu(a.double() @ b.double() + row.double()) * res.double()
                call = {"epilogue": "silu(acc + row(v)) * full(r)", "v": row, "r": res}
                self.assertLess(error(attacca.matmul(a, b, **call), want), 0.01)
                attacca.matmul(a, b, **call, out=wide[:, :n])
                self.assertLess(error(wide[:, :n], want), 0.01)
                self.assertTrue(wide[:, n:].isnan().all(), "padding was written")

    def test_leading_axes_that_lie_apart(self):
        whole = torch.randn(3, 9, 128, device=DEVICE, dtype=torch.bfloat16)
        a, b = whole[:, :7], torch.randn(128, 64, device=DEVICE, dtype=torch.bfloat16)
        want = F.gelu(a.double() @ b.double())
        self.assertLess(error(attacca.matmul(a, b, "gelu(acc)"), want), 0.01)
        wide = torch.full((3, 9, 64), float("nan"), device=DEVICE, dtype=torch.bfloat16)
        attacca.matmul(a, b, "gelu(acc)", out=wide[:, :7])
        self.assertLess(error(wide[:, :7], want), 0.01)
        self.assertTrue(wide[:, 7:].isnan().all(), "padding was written")

    def test_packed_weights_at_any_address(self):
        for bits, scales in ((4, "bf16"), (8, "f32"), (4, "f16")):
            packed = attacca.pack(torch.randn(40, 128), bits=bits, group=64, scale_dtype=scales)
            graph = f"graph g(p: u8[{len(packed.data)}]) {{ return {packed.text('p', 'bf16')} }}"
            wanted = attacca.compile(graph, device="cpu")(packed.data)
            plan = attacca.compile(graph, device=DEVICE)
            for begin in (0, 1, 2):
                memory = torch.zeros(len(packed.data) + begin, dtype=torch.uint8, device=DEVICE)
                memory[begin:] = packed.data
                out = torch.full((40 * 128 + begin,), float("nan"), device=DEVICE,
                                 dtype=torch.bfloat16)
                plan(memory[begin:], out=out[begin:].view(40, 128))
                self.assertTrue(out[begin:].view(40, 128).cpu().equal(wanted), (bits, begin))

    def test_fused_functions_in_one_graph(self):
        fused = attacca.fuse(lambda x, w: F.silu(x @ w.t()) + 1)
        x, w = (torch.randn(n, 64, device=DEVICE, dtype=torch.bfloat16) for n in (24, 32))
        with torch.no_grad():
            got = torch.compile(lambda x, w: fused(x, w) * 2, fullgraph=True)(x, w)
        self.assertLess(error(got, (F.silu(x.double() @ w.double().t()) + 1) * 2), 0.02)

    def test_products_of_8_bit_floats_take_f32_scales(self):
        for first, second in ((torch.float8_e4m3fn, torch.float8_e4m3fn),
                              (torch.float8_e4m3fn, torch.float8_e5m2)):
            for mode in ("fp32", "eager"):
                a, w = torch.randn(64, 256, device=DEVICE).to(first), torch.randn(
                    96, 256, device=DEVICE).to(second)
                sa, sb = torch.rand(64, 1, device=DEVICE) + 0.5, torch.rand(96, device=DEVICE) + 0.5
                want = (a.double() @ w.double().t()) * sa.double() * sb.double()
                graph = (
                    f"graph g(a: {NAMES[first]}[64, 256], w: {NAMES[second]}[96, 256], sa: f32[64, "
                    "1], sb: f32[96]) "
                         "{ return cast(matmul(a, transpose(w)) * sa * sb, bf16) }")
                plan = attacca.compile(graph, device=DEVICE, mode=mode)
                self.assertLess(error(plan(a, w, sa, sb), want), 0.01)
                if first is second:
                    got = attacca.matmul(a, w.t(), "acc * col(sa) * row(sb)", sa=sa, sb=sb,
                                         mode=mode)
                    self.assertLess(error(got, want), 0.01)

    def test_traced_and_transformed(self):
        """attacca.matmul as an op: under torch.compile, make_fx, vmap and a captured graph."""
        x, w = (torch.randn(n, 64, device=DEVICE, dtype=torch.bfloat16) for n in (24, 32))
        bias = torch.randn(32, device=DEVICE)
        def function(x, w, bias):
            return attacca.matmul(x, w.t(), "gelu(acc + row(b1))", b1=bias) * 2
        want = F.gelu(x.double() @ w.double().t() + bias.double()) * 2
        with torch.no_grad():
            self.assertLess(error(torch.compile(function, fullgraph=True)(x, w, bias), want), 0.02)
            traced = torch.fx.experimental.proxy_tensor.make_fx(function)(x, w, bias)
            self.assertLess(error(traced(x, w, bias), want), 0.02)
            batch = torch.stack([x, x + 1])
            got = torch.vmap(lambda each: function(each, w, bias))(batch)
            self.assertLess(error(got[0], want), 0.02)

    @unittest.skipUnless(GPU, "of launches")
    def test_the_hosts_time(self):
        """Of a call as generated code makes it, beside torch.mm(out=), and of the custom op."""
        text = "graph g(x: bf16[16, 256], w: bf16[256, 256]) { return silu(x @ transpose(w)) }"
        x, w = (torch.randn(n, 256, device=DEVICE, dtype=torch.bfloat16) for n in (16, 256))
        out, constant = torch.empty_like(x), lowering._constant(text, "fp32", "known", 0.0)
        calls = {"as generated": lambda: lowering._run(x, w, constant, out=out),
                 "the custom op": lambda: torch.ops.attacca.region([x, w], text, "fp32", "known",
                                                                   0.0),
                 "torch.mm": lambda: torch.mm(x, w, out=out)}
        took = {}
        with torch.no_grad():
            for name, call in calls.items():
                best = 1.0
                for _ in range(20):
                    call()
                    torch.cuda.synchronize()
                    begin = time.perf_counter()
                    for _ in range(100):
                        call()
                    best = min(best, (time.perf_counter() - begin) / 100)
                took[name] = best
        print({name: f"{seconds * 1e6:.1f} us" for name, seconds in took.items()}, flush=True)
        self.assertLess(took["as generated"], 1.3 * took["torch.mm"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
