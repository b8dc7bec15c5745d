"""torch.compile(..., backend="attacca"), exported programs and the report, on CPU tensors."""
import html
import io
import json
import os
import pickle
import subprocess
import sys
import tempfile
import textwrap
import unittest
import warnings
from unittest import mock

# Inductor's check for vector instructions compiles for half a minute; its scalar code does here.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")
FOLDER = tempfile.TemporaryDirectory()
os.environ["TORCHINDUCTOR_CACHE_DIR"] = FOLDER.name

import torch
import torch.nn.functional as F
from torch import nn

import attacca
import attacca.torch
from attacca.torch import _backend, _report
from attacca.torch._graph.sizes import dim_text
from attacca.torch._ops import region

ALWAYS = {"policy": "always"}


class Mlp(nn.Module):
    """Llama's, with its residual."""

    def __init__(self, width=32, inner=64, dtype=torch.float32):
        super().__init__()
        self.gate, self.up = (nn.Linear(width, inner, bias=False, dtype=dtype) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False, dtype=dtype)

    def forward(self, x):
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


class Bert(nn.Module):
    """Attention and feed-forward of BERT."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, x):
        b, s, width = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, s, width)
        x = self.norms[0](x + self.out(attended))
        return self.norms[1](x + self.narrow(F.gelu(self.wide(x))))


def _size(name):
    """A size whose symbol has a name."""
    import sympy
    from torch.fx.experimental.symbolic_shapes import ShapeEnv
    environment = ShapeEnv()
    return environment.create_symintnode(sympy.Symbol(name, integer=True, positive=True), hint=5)


def fusing_alone(module, inputs):
    """A backend with Attacca's pass, but without Inductor's compiling."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._inductor.decomposition import select_decomp_table

    def compiler(graph, _):
        attacca.torch.Pass(attacca.torch.Options("always"))(graph.graph)
        graph.recompile()
        return graph
    return aot_autograd(fw_compiler=compiler, decompositions=select_decomp_table())(module, inputs)


class Encoder(nn.Module):
    """Speech: convolutions, and transformer layers over their transposed results."""

    def __init__(self, channels=8, width=16, heads=2, frames=10):
        super().__init__()
        self.heads = heads
        self.convolution = nn.Conv1d(channels, width, 3, stride=2, padding=1)
        self.positions = nn.Parameter(torch.randn(frames, width))
        self.layers = nn.ModuleList(nn.ModuleDict({
            "norm": nn.LayerNorm(width), "qkv": nn.Linear(width, 3 * width),
            "out": nn.Linear(width, width),
            "norm2": nn.LayerNorm(width), "wide": nn.Linear(width, 2 * width),
            "narrow": nn.Linear(2 * width, width)}) for _ in range(1))

    def forward(self, x):
        h = F.gelu(self.convolution(x)).permute(0, 2, 1) + self.positions
        b, s, width = h.shape
        for layer in self.layers:
            q, k, v = (t.view(b, s, self.heads, -1).transpose(1, 2)
                       for t in layer["qkv"](layer["norm"](h)).chunk(3, -1))
            h = h + layer["out"](
                F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, s, width))
            h = h + layer["narrow"](F.gelu(layer["wide"](layer["norm2"](h))))
        return h


class Compiled(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch._dynamo.reset()
        attacca.torch.reset()

    def fused(self):
        return [fused for graph in attacca.torch.report().graphs for fused in graph.fused]

    def test_one_graph_serves_every_m(self):
        model = Mlp(dtype=torch.bfloat16).eval()
        compiled = torch.compile(model, backend="attacca", options=ALWAYS, dynamic=True)
        with torch.no_grad(), torch._dynamo.config.patch(error_on_recompile=True):
            for shape in [(2, 5, 32), (3, 7, 32), (2, 9, 32)]:
                x = torch.randn(shape, dtype=torch.bfloat16)
                exact = Mlp().double()
                exact.load_state_dict(model.state_dict())
                want = exact(x.double())
                error = (compiled(x).double() - want).abs().max()
                self.assertLessEqual(error, 1.5 * (model(x).double() - want).abs().max() + 1e-3)
        self.assertEqual(len(attacca.torch.report().graphs), 1)
        self.assertEqual([each.calls for each in self.fused()], [3, 3])
        self.assertIn("gated gemm", self.fused()[0].epilogue)
        self.assertIn("full(arg3_1) + acc", self.fused()[1].epilogue)
        text = attacca.torch.report().details()
        self.assertIn("kept: the policy is always; ran 3 times", text)

    def test_the_second_size_makes_sizes_symbolic(self):
        compiled = torch.compile(Mlp().eval(), backend="attacca", options=ALWAYS)
        with torch.no_grad():
            for rows in (4, 5, 6, 7):
                compiled(torch.randn(rows, 32))
        self.assertEqual(len(attacca.torch.report().graphs), 2)

    def test_attention_and_normalisation_stay_with_inductor(self):
        model = Bert().eval()
        x = torch.randn(2, 6, 32)
        with torch.no_grad():
            got = torch.compile(model, backend="attacca", options=ALWAYS)(x)
            torch.testing.assert_close(got, model(x), rtol=1e-4, atol=1e-4)
        text = "\n".join(each.epilogue for each in self.fused())
        self.assertIn("gelu(acc + row(", text)
        self.assertEqual(len(self.fused()), 4)

    def test_generated_code_calls_regions_without_the_dispatcher(self):
        compiled = torch.compile(Mlp().eval(), backend="attacca", options=ALWAYS, dynamic=True)
        with torch.no_grad():
            _, (code,) = torch._inductor.utils.run_and_get_code(compiled, torch.randn(4, 32))
        self.assertEqual(code.count("extern_kernels.attacca_region("), 2)
        self.assertNotIn("torch.ops.attacca.region", code)

    def test_generated_code_calls_regions_of_two_results_so_too(self):
        weight, x, residual = torch.randn(24, 16), torch.randn(5, 16), torch.randn(5, 24)

        def function(x, residual):
            y = x @ weight.t() + residual
            return torch.relu(y), y.square()
        compiled = torch.compile(function, backend="attacca", options=ALWAYS)
        with torch.no_grad():
            got, (code,) = torch._inductor.utils.run_and_get_code(compiled, x, residual)
        self.assertEqual(code.count("extern_kernels.attacca_region_of_several_results("), 1)
        self.assertNotIn("= torch.ops.attacca.region", code)
        torch.testing.assert_close(got, function(x, residual))

    def test_regions_read_at_any_address_and_stride(self):
        weight = torch.randn(24, 16)

        def function(x):
            return torch.relu(x[1:, 1:17] @ weight.t()) + 1
        compiled = torch.compile(function, backend="attacca", options=ALWAYS, dynamic=True)
        with torch.no_grad():
            for rows in (4, 5, 4):
                x = torch.randn(rows, 20)
                torch.testing.assert_close(compiled(x), function(x), rtol=1e-4, atol=1e-4)
                odd = torch.randn(rows * 20 + 1)[1:].view(rows, 20)
                torch.testing.assert_close(compiled(odd), function(odd), rtol=1e-4, atol=1e-4)
        self.assertEqual([each.calls for each in self.fused()], [6])

    def test_operands_that_are_parts_of_wider_tensors(self):
        def part(*shape, at=0):
            return torch.randn(*shape[:-1], shape[-1] + 8)[..., at:at + shape[-1]]

        def linear(x, w, r):
            return F.silu(F.linear(x, w)) * r

        def product(x, w, r):
            return torch.relu(x @ w) + r
        for name, function, make in [
                ("columns of b", linear,
                 lambda m: (part(m, 16, at=4), part(24, 16), part(m, 24, at=3))),
                ("rows of b", product, lambda m: (part(m, 16), part(16, 24, at=8), part(m, 24))),
                ("three axes", linear, lambda m: (part(2, m, 16), part(24, 16), part(2, m, 24))),
                ("transposed", product, lambda m: (part(16, m).t(), part(16, 24), part(24, m).t())),
                ("batches", product, lambda m: (part(2, m, 16), part(2, 16, 24), part(2, m, 24))),
                ("every other row", product,
                 lambda m: (torch.randn(2 * m, 16)[::2], torch.randn(32, 24)[::2],
                                                        torch.randn(3 * m, 24)[::3]))]:
            with self.subTest(name), torch.no_grad():
                torch._dynamo.reset()
                attacca.torch.reset()
                compiled = torch.compile(function, backend=fusing_alone)
                for rows in (5, 7):  # static, then dynamic
                    inputs = make(rows)
                    torch.testing.assert_close(compiled(*inputs), function(*inputs), rtol=1e-4,
                                               atol=1e-4)
                self.assertEqual([len(graph.fused) for graph in attacca.torch.report().graphs],
                                 [1, 1])

    def test_views_that_are_returned_share_memory(self):
        def function(x, w):
            y = torch.relu(x @ w)
            first, second = torch.tanh(x @ w).chunk(2, 1)
            return (y.mT, y, y[1:], y.view(-1), y[None].expand(3, -1, -1), *y.chunk(2, 1), first,
                    second + 1)
        x, w = torch.randn(5, 16), torch.randn(16, 8)
        with torch.no_grad():
            got = torch.compile(function, backend="attacca", options=ALWAYS)(x, w)
            want = function(x, w)
            for results in (got, want):
                results[1].fill_(7)
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4, check_stride=True)
        self.assertEqual(len(self.fused()), 1)

    def test_what_is_read_by_strides(self):
        def products(x, w, r):
            y = torch.relu(x @ w)
            return ((r.mT * y).as_strided((20,), (1,)) * 2, y.mT.as_strided((9,), (2,), 1) * 2,
                    torch.as_strided_scatter(r.mT + torch.tanh(x @ w), torch.ones(5), (5,), (3,)))
        x, w, r = torch.randn(5, 16), torch.randn(16, 8), torch.randn(8, 5)
        with torch.no_grad():
            for backend in ({"backend": "attacca", "options": ALWAYS}, {"backend": fusing_alone}):
                torch._dynamo.reset()
                torch.testing.assert_close(torch.compile(products, **backend)(x, w, r),
                                           products(x, w, r), rtol=1e-4, atol=1e-4)

    def test_sizes_named_like_dtypes(self):
        def function(x, w, r):
            return torch.relu(x @ w) + r
        # torch numbers the symbols of sizes by their source: here one is s64.
        inputs = torch.randn(5, 6), torch.randn(6, 7), torch.randn(5, 7)
        compiled = torch.compile(function, backend=fusing_alone, dynamic=True)
        with torch.no_grad():
            torch.testing.assert_close(compiled(*inputs), function(*inputs), rtol=1e-4, atol=1e-4)
        self.assertEqual([len(graph.fused) for graph in attacca.torch.report().graphs], [1])
        self.assertEqual([dim_text(_size(name)) for name in ("s8", "s32", "s64", "s77")],
                         ["s8_size", "s32_size", "s64_size", "s77"])

    def test_sizes_that_are_no_sums_of_products(self):
        kernel, weight, bias = torch.randn(16, 4, 3), torch.randn(12, 16), torch.randn(12)
        wide = torch.randn(16, 12)

        def convolved(x):
            y = F.conv1d(x, kernel, stride=2).transpose(1, 2)
            return F.gelu(F.linear(y, weight, bias))

        def halved(x):
            return torch.relu(x[:, :x.shape[1] // 2] @ wide)

        def joined(x, y):
            return torch.relu(torch.cat([x, y], 1) @ wide) * 2

        def attended(q, k, new):
            return torch.softmax(q @ torch.cat([k, new], 1).mT * 0.5, -1)

        def merged(x, y, r):  # the view's extents are no multiples of the sum's for the text
            return (torch.relu(torch.cat([x, y], 0) @ wide) + r).view(2, -1, 12)

        def shapes(*each):
            return [torch.randn(shape) for shape in each]
        for function, *calls in (
                (convolved, *(shapes((2, 4, n)) for n in (20, 21, 33))),
                (halved, *(shapes((2, n, 16)) for n in (5, 6, 9))),
                (joined, *(shapes((2, m, 16), (2, n, 16)) for m, n in ((5, 3), (4, 6), (3, 9)))),
                (attended, *(shapes((2, m, 16), (2, n, 16), (2, m, 16))
                             for m, n in ((5, 3), (4, 6), (3, 9)))),
                (merged, *(shapes((m, 16), (n, 16), (m + n, 12)) for m, n in ((5, 9), (4, 6))))):
            with self.subTest(function.__name__), torch.no_grad():
                torch._dynamo.reset()
                attacca.torch.reset()
                compiled = torch.compile(function, backend=fusing_alone, dynamic=True)
                for arguments in calls:
                    torch.testing.assert_close(compiled(*arguments), function(*arguments),
                                               rtol=1e-4, atol=1e-4)
                graphs = attacca.torch.report().graphs
                self.assertEqual([len(graph.fused) for graph in graphs], [1] * len(graphs))

    def test_a_size_that_torch_knows_to_be_equal_to_another(self):
        bias, weight = torch.randn(4, 1, 64), torch.randn(16, 16)

        def attended(x):
            q = (x @ weight).relu().view(1, -1, 4, 4).transpose(1, 2)
            return (q @ q.mT + bias[:, :, max(0, 64 - q.shape[2]):]).relu()
        compiled = torch.compile(attended, backend=fusing_alone)
        with torch.no_grad():
            for rows in (5, 9):
                x = torch.randn(rows, 16)
                torch._dynamo.mark_dynamic(x, 0)
                torch.testing.assert_close(compiled(x), attended(x), rtol=1e-4, atol=1e-4)
        graphs = attacca.torch.report().graphs
        self.assertEqual([len(graph.fused) for graph in graphs], [1])
        self.assertRegex([left.reason for left in graphs[0].left if left.op == "aten.add"][0],
                         r"^its operand \w+: size .*Max.* is not a sum of products$")

    def test_parts_of_a_product_of_equal_sizes(self):
        def attended(x):  # "-1" is the product of both sizes, which are one symbol
            batch, _, height, width = x.shape
            q, k = x.flatten(2).transpose(1, 2).split([16, 16], -1)
            return torch.relu(q @ k.transpose(1, 2)).reshape(batch, height, width, -1)

        compiled = torch.compile(attended, backend=fusing_alone, dynamic=True)
        size = torch.export.Dim("size", min=2, max=64)
        x = torch.randn(3, 32, 6, 6)
        module = nn.Module()
        module.forward = attended
        program = attacca.compile(torch.export.export(module, (x,),
                                                      dynamic_shapes=({2: size, 3: size},)))
        with torch.no_grad():
            for side in (6, 6, 5):
                x = torch.randn(3, 32, side, side)
                for function in (compiled, program):
                    torch.testing.assert_close(function(x), attended(x), rtol=1e-4, atol=1e-4)
        self.assertEqual(program.regions, 1)

    def test_training_passes_through_untouched(self):
        model = Mlp()
        x = torch.randn(4, 32)
        torch.compile(model, backend="attacca", options=ALWAYS)(x).sum().backward()
        got = {name: p.grad.clone() for name, p in model.named_parameters()}
        model.zero_grad()
        model(x).sum().backward()
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(got[name], parameter.grad)
        self.assertEqual(self.fused(), [])
        self.assertIn("a training graph, untouched", attacca.torch.report().details())

    def test_the_default_policy_leaves_the_cpu_alone(self):
        model = Mlp().eval()
        x = torch.randn(4, 32)
        with torch.no_grad():
            torch.testing.assert_close(torch.compile(model, backend="attacca")(x), model(x))
        self.assertEqual(self.fused(), [])
        self.assertIn("on cpu only the policy \"always\" fuses", attacca.torch.report().details())

    def test_what_inductor_cached_is_reported_as_it_was_decided(self):
        model = Mlp().eval()
        reports = []
        for _ in range(2):
            torch._dynamo.reset()
            attacca.torch.reset()
            with torch.no_grad():
                torch.compile(model, backend="attacca", options=ALWAYS)(torch.randn(11, 32))
            reports.append(attacca.torch.report().graphs)
        self.assertEqual([graph.note for graph in reports[1]], ["from Inductor's cache"])
        self.assertEqual(reports[0][0].fused, reports[1][0].fused)
        self.assertEqual(reports[0][0].left, reports[1][0].left)

    def test_enable_and_disable(self):
        model = Mlp().eval()
        attacca.torch.enable(policy="always")
        try:
            with torch.no_grad():
                x = torch.randn(4, 32)
                torch.testing.assert_close(torch.compile(model)(x), model(x))
            self.assertEqual(len(self.fused()), 2)
        finally:
            attacca.torch.disable()
        self.assertIsNone(torch._inductor.config.post_grad_custom_pre_pass)

    def test_plans_in_compiled_functions_stay_calls(self):
        x, w = torch.randn(4, 8), torch.randn(6, 8)
        plan = attacca.compile("graph g(x: f32[M, 6]) { return exp(x) }")
        fused = attacca.fuse(lambda x: torch.relu(x))

        def function(x):
            return fused(plan(attacca.matmul(x, w.T, "relu(acc)")) + 1) * 2
        torch.testing.assert_close(torch.compile(function, backend="eager")(x), function(x))

    def test_a_mode_of_inductor_and_a_policy(self):
        seen = []

        def rewrite(graph, options, begun):
            config = torch._inductor.config
            seen.append((config.max_autotune, config.triton.cudagraphs, options.policy))
            return 0
        model = Mlp(width=16, inner=24).eval()
        with mock.patch.object(_backend, "rewrite", rewrite), torch.no_grad():
            for rows, options, keywords in [
                    (3, {"policy": "always", "inductor_mode": "max-autotune-no-cudagraphs"}, {}),
                    (5, {"policy": "always"}, {}), (7, None, {"mode": "reduce-overhead"})]:
                torch._dynamo.reset()
                torch.compile(model, backend="attacca", options=options,
                              **keywords)(torch.randn(rows, 16))
        self.assertEqual(seen, [(True, False, "always"), (False, False, "always"),
                                (False, True, "measured")])
        with self.assertRaisesRegex(Exception, "unknown inductor_mode fast"):
            torch.compile(model, backend="attacca",
                          options={"inductor_mode": "fast"})(torch.randn(2, 16))

    def test_options_that_are_not_known_out_of_range_or_without_effect(self):
        x = torch.randn(2, 32)
        for options, pattern in [({"policy": "never"}, "one of measured, always"),
                                 ({"mode": "exact"}, "unknown mode"),
                                 ({"tuning": "fast"}, "unknown tuning"),
                                 ({"polcy": "always"}, "unknown option polcy.*did you mean policy"),
                                 ({"max_autotun": True}, "did you mean max_autotune"),
                                 ({"epilogue-fusion": "no"}, "epilogue_fusion is 'no'.*bool"),
                                 ({"triton.cudagraphs": 1}, "triton.cudagraphs is 1.*bool"),
                                 ({1: 2}, "options is 1"),
                                 ({"tuning_seconds": -1}, "tuning_seconds is -1"),
                                 ({"tuning_seconds": float("nan")}, "tuning_seconds is nan"),
                                 ({"tuning_seconds": True}, "tuning_seconds is True"),
                                 ({"tuning_seconds": "1"}, "tuning_seconds is '1'"),
                                 ({"tuning": "known", "tuning_seconds": 5},
                                  "tuning_seconds=5 has no effect with"),
                                 ({"policy": "always", "compare": True},
                                  "compare=True has no effect with"),
                                 ({"policy": "always", "tuning": "measure"},
                                  "tuning='measure' has no effect"),
                                 ({"post_grad_custom_pre_pass": None},
                                  "where Attacca's own pass goes")]:
            with self.subTest(pattern), torch.no_grad(), self.assertRaisesRegex(Exception, pattern):
                torch.compile(F.relu, backend="attacca", options=options)(x)
        with torch.no_grad():  # a dash, as Inductor reads it
            torch.compile(F.relu, backend="attacca", options={"epilogue-fusion": False})(x)
        for options, pattern in [({"polcy": "always"},
                                  "did you mean policy\\? .*options are policy"),
                                 ({"tuning": "known", "tuning_seconds": 5}, "has no effect"),
                                 ({"tuning_seconds": float("inf")}, "tuning_seconds is inf")]:
            with self.subTest(pattern), self.assertRaisesRegex(attacca.Error, pattern):
                attacca.torch.enable(**options)
        with torch._inductor.config.patch(post_grad_custom_pre_pass=lambda graph: None), \
                self.assertRaisesRegex(attacca.Error, "where Attacca's own pass goes"):
            attacca.torch.enable()
        self.assertIsNone(torch._inductor.config.post_grad_custom_pre_pass)

    def test_the_path_through_generated_cpp(self):
        model = nn.Sequential(nn.Linear(32, 48), nn.GELU()).eval()
        two = torch.randn(48, 32)

        def function(x):
            return model(x), F.relu(x @ two.T) * 2

        x = torch.randn(4, 32)
        with torch.no_grad():
            got = torch.compile(function, backend="attacca",
                                options={"cpp_wrapper": True, **ALWAYS})(x)
            torch.testing.assert_close(got, function(x), rtol=1e-4, atol=1e-4)
        self.assertEqual(sum(each.calls for each in self.fused()), len(self.fused()))
        self.assertGreaterEqual(len(self.fused()), 1)

    def test_batch_one_with_a_permuted_residual(self):
        weights = torch.randn(2, 16, 16) / 4

        def function(x):  # [B, C, T], as a convolution leaves it
            h = x.transpose(1, 2)
            for w in weights:
                h = h + F.linear(F.layer_norm(h, (16,)), w)
            return F.layer_norm(h, (16,))

        for shape in [(1, 16, 5), (1, 16, 1)]:
            with self.subTest(shape), torch.no_grad():
                torch._dynamo.reset()
                x = torch.randn(shape)
                compiled = torch.compile(function, backend="attacca", options=ALWAYS, dynamic=False)
                torch.testing.assert_close(compiled(x), function(x), rtol=1e-4, atol=1e-4)
        self.assertEqual([len(graph.fused) for graph in attacca.torch.report().graphs], [2, 2])

    def test_an_encoder_after_convolutions_at_every_batch(self):
        model = Encoder().eval()
        compiled = torch.compile(model, backend="attacca", options=ALWAYS)
        with torch.no_grad():
            for batch in (2, 3, 1):  # static, dynamic, and static again
                x = torch.randn(batch, 8, 20)
                torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
        self.assertGreaterEqual(min(each.calls for each in self.fused()), 1)


class Warned(unittest.TestCase):
    """Graphs that are left alone for a reason that the caller can remove."""

    def setUp(self):
        torch.manual_seed(0)
        _report._warned.clear()
        self.model, self.x = Mlp(width=16, inner=24).eval(), torch.randn(7, 16)

    def compile(self, options=None):
        torch._dynamo.reset()
        attacca.torch.reset()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.compile(self.model, backend="attacca", options=options)(self.x)
        return [str(each.message) for each in caught
                if each.category is attacca.torch.NotFusedWarning]

    def test_gradients_and_the_cpu_once_each(self):
        for again in (False, True):  # the second time from Inductor's cache
            with self.subTest(again=again):
                messages = self.compile(ALWAYS)
                self.assertEqual(len(messages), 1)
                self.assertIn("torch.no_grad()", messages[0])
                self.assertEqual(self.compile(ALWAYS), [])
                with torch.no_grad():
                    messages = self.compile()
                    self.assertEqual(len(messages), 1)
                    self.assertIn('{"policy": "always"}', messages[0])
                    self.assertEqual(self.compile(), [])
                    self.assertIn("on cpu only the policy \"always\" fuses",
                                  attacca.torch.report().details())
                _report._warned.clear()

    def test_nothing_where_it_fuses(self):
        with torch.no_grad():
            self.assertEqual(self.compile(ALWAYS), [])


class OtherProcesses(unittest.TestCase):
    """Inductor's cache in a new process."""

    def reports(self, program):
        """What the program prints, with an empty cache and with a full one."""
        with tempfile.TemporaryDirectory() as folder:
            return [subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)],
                                   check=True,
                                   stdout=subprocess.PIPE, text=True,
                                   env=os.environ | {"TORCHINDUCTOR_CACHE_DIR": folder}).stdout
                    for _ in range(2)]

    def test_without_torch(self):
        program = ("import sys; sys.modules['torch'] = None\ntry: import attacca.torch\n"
                   "except ImportError as error: print(isinstance(error, "
                   "sys.modules['attacca'].Error), error)")
        printed = subprocess.run([sys.executable, "-c", program], check=True,
                                 stdout=subprocess.PIPE, text=True)
        self.assertEqual(printed.stdout,
                         "True PyTorch is not installed, at attacca.torch: pip install torch\n")

    def test_report_says_what_is_fused(self):
        first, second = self.reports("""
            import torch, attacca.torch
            torch.manual_seed(0)
            model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.SiLU())
            attacca.torch.enable(policy="always")
            with torch.no_grad():
                plain = torch.compile(model)
                plain(torch.ones(2, 8))
                print(attacca.torch.report().details())
                attacca.torch.disable()
                attacca.torch.reset()
                torch._dynamo.reset()
                torch.compile(model, backend="attacca")(torch.ones(3, 8))
                print("----", attacca.torch.report().details(), "----")
            """)
        self.assertIn("silu", first)
        self.assertEqual(second.count("from Inductor's cache"), 2)
        self.assertIn("left", first)
        self.assertEqual(first.replace("graph 1", "graph 1: from Inductor's cache"), second)


    def test_torch_logs(self):
        program = """
            import torch, attacca.torch
            with torch.no_grad():
                torch.compile(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.SiLU()),
                              backend="attacca", options={"policy": "always"})(torch.ones(2, 8))
            """
        logged = {logs: subprocess.run(
            [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)], check=True, text=True,
            stderr=subprocess.PIPE, env=os.environ | {
                "TORCH_LOGS": logs, "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}).stderr
                  for logs in ("+attacca", "attacca", "-attacca")}
        for logs, graphs, regions in (("+attacca", 1, 1), ("attacca", 1, 0), ("-attacca", 0, 0)):
            self.assertEqual(logged[logs].count("1 of 1 regions fused"), graphs, logged[logs])
            self.assertEqual(logged[logs].count("the policy is always"), regions, logged[logs])


class Exported(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        attacca.torch.reset()

    def export(self, model, *args, **dynamic):
        with torch.no_grad():
            return torch.export.export(model, args, dynamic_shapes=dynamic or None)

    def test_a_program_with_a_dynamic_batch(self):
        model = Mlp().eval()
        batch = torch.export.Dim("batch", min=2, max=1024)
        program = attacca.compile(self.export(model, torch.randn(4, 32), x={0: batch}))
        self.assertEqual(program.regions, 2)
        for rows in (4, 2, 9):
            x = torch.randn(rows, 32)
            torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)

    def test_a_program_is_not_pickled(self):
        program = attacca.compile(self.export(Mlp().eval(), torch.randn(4, 32)))
        with self.assertRaisesRegex(attacca.Error, "torch.export.save"):
            pickle.dumps(program)

    def test_a_program_that_torch_cannot_decompose(self):
        exported = self.export(Mlp().eval(), torch.randn(4, 32))
        with mock.patch.object(type(exported), "run_decompositions",
                               side_effect=ValueError("Cannot view\n a tensor")), \
                self.assertRaisesRegex(attacca.Error, "cannot decompose the program: Cannot view a "
                                                      "tensor, at exported"):
            attacca.compile(exported)

    def test_vmap(self):
        """Each element of the batch is a call: of one region with a result, and with several."""
        model = Mlp().eval()
        x = torch.randn(3, 4, 32)
        program = attacca.compile(self.export(model, x[0]))
        self.assertGreater(program.regions, 0)
        with torch.no_grad():
            torch.testing.assert_close(torch.vmap(program)(x), torch.vmap(model)(x), rtol=1e-4,
                                       atol=1e-4)
            torch.testing.assert_close(torch.vmap(program, 1)(x.transpose(0, 1)), model(x),
                                       rtol=1e-4, atol=1e-4)
            self.assertEqual(torch.vmap(program)(x[:0]).shape, model(x[:0]).shape)

    def test_a_wrong_input_is_named_as_the_model_names_it(self):
        class Scaled(nn.Module):
            def forward(self, data, parts, scale):
                return torch.relu(data @ parts["w"]) * scale

        good = {"data": torch.randn(4, 8), "parts": {"w": torch.randn(8, 8)},
                "scale": torch.randn(8)}
        exported = torch.export.export(Scaled(), (good["data"], good["parts"]),
                                       {"scale": good["scale"]}, dynamic_shapes={
                                           "data": {0: torch.export.Dim("rows")},
                                           "parts": {"w": None}, "scale": None})
        program = attacca.compile(exported)

        def called(data, parts, scale):
            return program(data, parts, scale=scale)
        torch.testing.assert_close(called(**good), Scaled()(**good))
        for change, message in (
                ({"data": torch.randn(5, 9)}, r"data is f32\[5, 9\], f32\[s\d+, 8\] is wanted"),
                ({"data": torch.randn(8)}, r"data is f32\[8\]"),
                ({"data": good["data"].cfloat()}, r"data is torch.complex64\[4, 8\]"),
                ({"data": good["data"].numpy()}, "data is a ndarray"),
                ({"parts": {"w": good["parts"]["w"].double()}}, r"parts_w is f64\[8, 8\]"),
                ({"scale": torch.randn(3)}, r"scale is f32\[3\]"),
                ({"scale": "a"}, "scale is 'a'")):
            with self.subTest(change=change), self.assertRaisesRegex(attacca.Error, message):
                called(**{**good, **change})

    def test_a_wrong_input_of_a_model_with_a_number(self):
        class Scaled(nn.Module):
            def forward(self, by, x, w):
                return torch.relu(x @ w) * by
        x, w = torch.randn(4, 8), torch.randn(8, 8)
        program = attacca.compile(self.export(Scaled(), 3, x, w))
        torch.testing.assert_close(program(3, x, w), Scaled()(3, x, w))
        for given, message in (((3, x[:, :7], w), r"x is f32\[4, 7\], f32\[4, 8\] is wanted"),
                               ((4, x, w), "by is 4, 3 is wanted"),
                               ((torch.ones(4), x, w), "by is a Tensor, 3 is wanted"),
                               ((3, x[:1], w), r"x is f32\[1, 8\]")):
            with self.subTest(message), self.assertRaisesRegex(attacca.Error, message):
                program(*given)

    def test_every_call_is_checked_not_the_first_alone(self):
        model = nn.Sequential(nn.Linear(32, 48), nn.GELU()).eval()
        program = attacca.compile(self.export(model, torch.randn(4, 32)))
        x = torch.randn(4, 32)
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)
        for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.bool):
            with self.subTest(dtype), self.assertRaisesRegex(attacca.Error,
                                                             r"f32\[4, 32\] is wanted"):
                program(x.to(dtype))
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)

    def test_views_behind_ops_that_keep_strides(self):
        class Flat(nn.Module):
            def forward(self, x, w, r):
                return torch.atan(r.mT * torch.relu(x @ w)).mT.view(-1)
        given = torch.randn(5, 16), torch.randn(16, 8), torch.randn(8, 5)
        program = attacca.compile(self.export(Flat(), *given))
        self.assertEqual(program.regions, 1)
        torch.testing.assert_close(program(*given), Flat()(*given), rtol=1e-4, atol=1e-5)

    def test_arguments_without_effect(self):
        exported = self.export(nn.Linear(8, 8).eval(), torch.randn(2, 8))
        for arguments, pattern in [({"device": "cuda"}, "device has no effect"),
                                   ({"threads": 2}, "threads has"),
                                   ({"constants": {"w": torch.ones(1)}}, "constants has no effect"),
                                   ({"tuning_seconds": -1}, "tuning_seconds is -1")]:
            with self.subTest(pattern), self.assertRaisesRegex(attacca.Error, pattern):
                attacca.compile(exported, **arguments)

    def test_what_calls_the_op_can_be_exported_and_saved(self):
        fused = attacca.compile(self.export(Mlp().eval(), torch.randn(4, 32)))
        again = self.export(fused.module, torch.randn(4, 32))
        targets = [str(node.target) for node in again.graph.nodes if node.op == "call_function"]
        self.assertEqual(targets.count("attacca.region.import_attacca_torch"), 2)
        file = io.BytesIO()
        torch.export.save(again, file)
        file.seek(0)
        x = torch.randn(4, 32)
        with torch.no_grad():
            torch.testing.assert_close(torch.export.load(file).module()(x), fused(x))

    def test_the_op_checks_its_fake(self):
        graph = ("graph g(x: f32[M, 32], w: f32[64, 32]) "
                 "{ return relu(x @ transpose(w)), x @ transpose(w) }")
        torch.library.opcheck(torch.ops.attacca.region.import_attacca_torch,
                              ([torch.randn(4, 32), torch.randn(64, 32)], graph, "fp32", "known",
                               0.0),
                              test_utils=("test_schema", "test_faketensor"))

    def test_other_strides_than_declared_are_copied(self):
        graph = 'graph g(x: f32[M, 32], w: f32[32, 64; 1, 32]) { return relu(x @ w) }'
        x, w = torch.randn(32, 4).T, torch.randn(32, 64)
        got, = torch.ops.attacca.region([x, w], graph, "fp32", "known", 0.0)
        torch.testing.assert_close(got, torch.relu(x @ w), rtol=1e-4, atol=1e-4)


class Reports(unittest.TestCase):
    def test_nothing_yet(self):
        attacca.torch.reset()
        self.assertEqual(str(attacca.torch.report()), "nothing was compiled")
        self.assertEqual(attacca.torch.report().details(), "nothing was compiled")
        self.assertEqual(attacca.torch.report().saved_seconds, 0)

    def test_time_saved(self):
        fused = attacca.torch.Fused(("mm",), ("y",), "acc", "it took less", 1e-4, 3e-4, 4e-4, 10)
        report = attacca.torch.Report((attacca.torch.GraphReport(
            "graph 1", (fused,), (), attacca.torch.Measuring(), ""),))
        self.assertAlmostEqual(report.saved_seconds, 2e-3)
        self.assertIn("kept: it took less; ran 10 times; saved 2.000 ms", report.details())
        self.assertIn("1x 100.0 us instead of 300.0 us, ran 10 times: acc", str(report))
        page = report.html()
        self.assertTrue(page.startswith("<!DOCTYPE html>") and page.endswith("</html>\n"))
        self.assertIn("saved 2.000 ms in 10 calls", page)

    def test_the_page_of_a_report(self):
        attacca.torch.reset()
        linear = torch.nn.Linear(8, 16).eval()
        with torch.no_grad():
            torch.compile(lambda x: torch.relu(linear(x)).sort()[0] @ linear.weight,
                          backend="attacca", dynamic=False,
                          options={"policy": "always"})(torch.randn(4, 8))
        report = attacca.torch.report()
        told = json.loads(report.json())
        fused, left = report.graphs[0].fused, report.graphs[0].left
        self.assertEqual([(each["verdict"], each["reasons"]) for each in told["regions"]],
                         [("fused", [each.reason]) for each in fused]
                         + [("left", [each.reason]) for each in left])
        page = report.html()
        for each in (*fused, *left):
            self.assertIn(html.escape(each.reason), page)
        self.assertIn(html.escape(fused[0].epilogue), page)
        self.assertEqual(page.count("<section"), len(fused) + len(left))

    def test_the_summary_names_what_takes_longest(self):
        def left(name, seconds, operations):
            return attacca.torch.Left(name, "aten.mm", f"reason of {name}", seconds, 0, operations)
        names = ["a", "b", "c", "d", "e", "f", "g"]
        # Without a time, as long as others of so many operations: 4 us, 1 us.
        sizes = [(1e-6, 100), (2e-6, 200), (3e-6, 300), (0, 400), (5e-6, 500), (0, 100),
                 (6e-6, 600)]
        report = attacca.torch.Report((attacca.torch.GraphReport(
            "graph 1", (), tuple(left(name, *size) for name, size in zip(names, sizes)),
            attacca.torch.Measuring(), ""),))
        listed = [line.split()[-1] for line in str(report).splitlines() if "reason of" in line]
        self.assertEqual(listed, ["g", "e", "d", "c", "b"])


class Package(unittest.TestCase):
    def test_torch_compile_finds_the_backend_without_an_import_of_attacca_torch(self):
        code = ("import torch, torch._dynamo as d;"
                "print('attacca' in d.list_backends(), d.lookup_backend('attacca').__module__)")
        printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                                 check=True)
        self.assertEqual(printed.stdout.split()[:2], ["True", "attacca.torch._backend"])


class Strides(unittest.TestCase):
    def test_the_torch_backend(self):
        """torch.compile's regions take slices without a copy, also where the region's text has
        other strides."""
        x, w, r = torch.randn(9, 64), torch.randn(48, 80), torch.randn(9, 96)
        arguments = (x[:, 8:40], w[:, 16:48], r[:, 48:])

        def block(a, b, c):
            return F.silu(a @ b.T) + c
        attacca.torch.reset()
        compiled = torch.compile(block, backend="attacca", options=ALWAYS)
        with torch.no_grad():
            torch.testing.assert_close(compiled(*arguments), block(*arguments), rtol=1e-4,
                                       atol=1e-4)
        self.assertEqual(sum(fused.calls for graph in attacca.torch.report().graphs
                             for fused in graph.fused), 1)
        text = ("graph g(a: f32[M, 32], b: f32[48, 32], c: f32[M, 48]) "
                "{ return silu(a @ transpose(b)) + c }")
        seen = []
        loaded = region.loaded(text, "fp32", "known", 0.0, torch.device("cpu"))
        ready = loaded.engine.ready
        loaded.engine.ready = lambda framework, views, into: seen.extend(views) or ready(
            framework, views, into)
        got, = region.region(list(arguments), text, "fp32", "known", 0.0)
        torch.testing.assert_close(got, block(*arguments), rtol=1e-4, atol=1e-4)
        self.assertEqual([view.address for view in seen],
                         [tensor.data_ptr() for tensor in arguments])


if __name__ == "__main__":
    unittest.main()
