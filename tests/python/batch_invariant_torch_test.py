"""torch.compile(backend="attacca", options={"batch_invariant": True}) and exported programs on the
CPU: a row has the same bits in every batch."""
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

INVARIANT = {"batch_invariant": True}
ROWS = (1, 2, 3, 5, 7, 8, 16, 17, 23, 24, 25, 33, 64)


class Mlp(nn.Module):
    """Llama's, with its residual; the first product has no epilogue of its own."""

    def __init__(self, width=72, inner=100, out=72):
        super().__init__()
        self.first = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, out)

    def forward(self, x):
        x = self.first(x)
        return self.down(F.silu(self.gate(x)) * self.up(x))


def made(*sizes, dtype=torch.float32):
    torch.manual_seed(0)
    return Mlp(*sizes).to(dtype).eval()


class Compiled(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        attacca.torch.reset()

    def check_rows(self, model, width, dtype, **how):
        compiled = torch.compile(model, backend="attacca", options=INVARIANT, **how)
        x = torch.randn(64, width).to(dtype)
        with torch.no_grad():
            whole = compiled(x)
            torch.testing.assert_close(whole, model(x), rtol=2e-2, atol=2e-2)
            for count in ROWS:
                for first in {0, 64 - count}:
                    part = compiled(x[first:first + count])
                    self.assertTrue(torch.equal(part, whole[first:first + count]),
                                    f"{count} rows from {first}")

    def test_dynamic(self):
        for dtype in (torch.float32, torch.bfloat16):
            self.setUp()
            self.check_rows(made(dtype=dtype), 72, dtype, dynamic=True)

    def test_each_size_by_itself(self):
        """Inductor makes sums of products of one row by few columns, before any pass."""
        with torch._dynamo.config.patch(recompile_limit=64):
            self.check_rows(made(16, 16, 1), 16, torch.float32, dynamic=False)
            self.setUp()
            self.check_rows(made(16, 16, 8), 16, torch.float32, dynamic=False)

    def test_every_product_is_claimed(self):
        model = made()
        with torch.no_grad():
            torch.compile(model, backend="attacca", options=INVARIANT)(torch.randn(5, 72))
        graph, = attacca.torch.report().graphs
        self.assertEqual([left for left in graph.left if "not batch-inv" in left.reason], [])
        self.assertEqual(sum("mm" in name for fused in graph.fused for name in fused.nodes), 4)
        self.assertEqual({fused.reason for fused in graph.fused}, {"batch_invariant"})

    def test_the_report_names_products_that_are_left(self):
        def function(x, w):
            return torch.ops.aten.mm(x.to(torch.int64), w.to(torch.int64))
        with torch.no_grad():
            torch.compile(function, backend="attacca", options=INVARIANT)(
                torch.ones(5, 3, dtype=torch.int32), torch.ones(3, 4, dtype=torch.int32))
        left = [op for graph in attacca.torch.report().graphs for op in graph.left]
        self.assertTrue(any("not batch-invariant" in op.reason for op in left), left)

    def test_exported(self):
        model = made()
        x = torch.randn(64, 72)
        exported = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("M")},))
        program = attacca.compile(exported, batch_invariant=True)
        whole = program(x)
        for count in ROWS:
            self.assertTrue(torch.equal(program(x[:count]), whole[:count]), count)

    def test_matmul_while_traced(self):
        def product(x, w):
            return attacca.matmul(x, w, "relu(acc)", batch_invariant=True)
        x, w = torch.randn(64, 333), torch.randn(333, 3)
        whole = product(x, w)
        compiled = torch.compile(product, backend="eager", fullgraph=True, dynamic=True)
        for count in ROWS:
            self.assertTrue(torch.equal(compiled(x[:count], w), whole[:count]), count)


class Options(unittest.TestCase):
    def test_what_does_not_go_together(self):
        for other in ({"policy": "measured"}, {"overlap": True}, {"tuning_seconds": 3.0}):
            with self.assertRaises(attacca.Error):
                attacca.torch.Options.of({**INVARIANT, **other})
        with self.assertRaisesRegex(attacca.Error, "batch_invariant is 'yes'"):
            attacca.torch.Options.of({"batch_invariant": "yes"})

    def test_it_is_another_key(self):
        options = attacca.torch.Options
        self.assertNotEqual(attacca.torch.Pass(options.of(INVARIANT)).uuid(),
                            attacca.torch.Pass(options.of({"policy": "always"})).uuid())


if __name__ == "__main__":
    unittest.main()
