"""torch.compile(..., backend="attacca"), exported programs and the report, on CPU tensors."""
import io
import os
import tempfile
import unittest

# Inductor's check for vector instructions compiles for half a minute; its scalar code does here.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")
FOLDER = tempfile.TemporaryDirectory()
os.environ["TORCHINDUCTOR_CACHE_DIR"] = FOLDER.name

import torch
import torch.nn.functional as F
from torch import nn

import attacca
import attacca.torch

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
        text = str(attacca.torch.report())
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
        self.assertIn("a training graph, untouched", str(attacca.torch.report()))

    def test_the_default_policy_leaves_the_cpu_alone(self):
        model = Mlp().eval()
        x = torch.randn(4, 32)
        with torch.no_grad():
            torch.testing.assert_close(torch.compile(model, backend="attacca")(x), model(x))
        self.assertEqual(self.fused(), [])
        self.assertIn("on cpu only the policy always fuses", str(attacca.torch.report()))

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

    def test_options_that_are_not_known(self):
        for options, pattern in [({"policy": "never"}, "one of measured, always"),
                                 ({"mode": "exact"}, "unknown mode"), ({"tuning": "fast"}, "unknown tuning")]:
            with self.subTest(pattern), self.assertRaisesRegex(Exception, pattern):
                torch.compile(Mlp(), backend="attacca", options=options)(torch.randn(2, 32))
        with self.assertRaisesRegex(attacca.Error, "the options are policy"):
            attacca.torch.enable(polcy="always")


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

    def test_what_calls_the_op_can_be_exported_and_saved(self):
        fused = attacca.compile(self.export(Mlp().eval(), torch.randn(4, 32)))
        again = self.export(fused.module, torch.randn(4, 32))
        targets = [str(node.target) for node in again.graph.nodes if node.op == "call_function"]
        self.assertEqual(targets.count("attacca.region.default"), 2)
        file = io.BytesIO()
        torch.export.save(again, file)
        file.seek(0)
        x = torch.randn(4, 32)
        with torch.no_grad():
            torch.testing.assert_close(torch.export.load(file).module()(x), fused(x))

    def test_the_op_checks_its_fake(self):
        graph = 'graph g(x: f32[M, 32], w: f32[64, 32]) { return relu(x @ transpose(w)), x @ transpose(w) }'
        torch.library.opcheck(torch.ops.attacca.region.default,
                              ([torch.randn(4, 32), torch.randn(64, 32)], graph, "fp32", "known", 0.0),
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
        self.assertEqual(attacca.torch.report().saved_seconds, 0)

    def test_time_saved(self):
        fused = attacca.torch.Fused(("mm",), ("y",), "acc", "it took less", 1e-4, 3e-4, 10)
        report = attacca.torch.Report((attacca.torch.GraphReport("graph 1", (fused,), (), ""),))
        self.assertAlmostEqual(report.saved_seconds, 2e-3)
        self.assertIn("kept: it took less; ran 10 times; saved 2.000 ms", str(report))


if __name__ == "__main__":
    unittest.main()
