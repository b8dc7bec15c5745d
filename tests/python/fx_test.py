"""FX graphs: every row of the table of ops, levels, and what is refused."""
import json
import math
import re
import statistics
import unittest
from unittest import mock

import torch
import torch.nn.functional as F
from torch._inductor.decomposition import select_decomp_table
from torch.fx.experimental.proxy_tensor import make_fx

import attacca
import attacca.torch
import scaled_groups
from attacca.torch._graph import regions
from attacca.torch._graph.importer import Importer
from attacca.torch._graph.regions import find
from attacca.torch._graph.sizes import dim_text
from attacca.torch._graph.table import FX, row_of
from attacca.torch._rewrite import Options, judge_decisions, rewrite

torch.manual_seed(0)
scaled_groups.register()
aten, prims, decomposed = torch.ops.aten, torch.ops.prims, torch.ops.quantized_decomposed
X, W, C = torch.randn(6, 16), torch.randn(16, 8), torch.randn(6, 8)
B, COLUMN, SCALE = torch.randn(8), torch.randn(6, 1), torch.tensor(0.5)
X3, W3 = torch.randn(2, 6, 16), torch.randn(2, 16, 8)
Q, QS = torch.randint(-9, 9, (8, 16), dtype=torch.int8), torch.rand(8)
QZ = torch.randint(-9, 9, (8,))
ROWS = torch.tensor([5, 0, 2, 2, 3, 2])
ALWAYS = Options(policy="always")


def after(op):
    """The op after a product."""
    return lambda x, w: op(x @ w), (X, W)


def positive(op):
    return lambda x, w: op((x @ w) * (x @ w) + 1), (X, W)


def compared(op):
    return lambda x, w, c: torch.where(op(x @ w, c), x @ w, c), (X, W, C)


def by_bools(op):
    return lambda x, w, c: torch.where(op(x @ w > 0, c > 0), 1.0, c), (X, W, C)


def quantized(rows=1, columns=1):
    a, b = X.to(torch.float8_e4m3fn), W.t().contiguous().to(torch.float8_e4m3fn).t()
    return a, b, torch.rand(rows, 1) if rows > 1 else torch.tensor(0.5), torch.tensor(0.25)


def scaled_groups_of(rows=6, groups=3):
    """Integers and powers of two: products are exact."""
    return (torch.randint(-9, 9, (rows, 16)).to(torch.float8_e4m3fn),
            torch.randint(-3, 3, (groups, 8, 16)).to(torch.float8_e4m3fn).mT,
            2.0 ** torch.randint(-3, 3, (rows,)), 2.0 ** torch.randint(-3, 3, (groups, 8)),
            torch.tensor([2, 2, rows], dtype=torch.int32))


# One case or several for each row of the table: a function around the op, its arguments.
CASES = {
    "aten.reciprocal": positive(aten.reciprocal.default), "aten.square": after(aten.square.default),
    "aten.sqrt": positive(aten.sqrt.default), "aten.rsqrt": positive(aten.rsqrt.default),
    "aten.exp": after(aten.exp.default), "aten.expm1": after(aten.expm1.default),
    "aten.log": positive(aten.log.default), "aten.log1p": positive(aten.log1p.default),
    "aten.sin": after(aten.sin.default), "aten.cos": after(aten.cos.default),
    "aten.erf": after(aten.erf.default), "aten.erfc": after(aten.erfc.default),
    "aten.tanh": after(aten.tanh.default), "aten.floor": after(aten.floor.default),
    "aten.ceil": after(aten.ceil.default), "aten.round": after(aten.round.default),
    "aten.sigmoid": after(aten.sigmoid.default), "aten.silu": after(aten.silu.default),
    "aten.mish": after(aten.mish.default), "aten.hardswish": after(aten.hardswish.default),
    "aten.hardsigmoid": after(aten.hardsigmoid.default), "aten.relu6": after(aten.relu6.default),
    "aten.div": (lambda x, w, c: aten.div.Tensor(x @ w, c), (X, W, C)),
    "aten.true_divide": (lambda x, w, c: aten.true_divide.Tensor(x @ w, c), (X, W, C)),
    "aten.pow": positive(lambda y: aten.pow.Tensor_Scalar(y, 1.5)),
    "aten.leaky_relu": after(lambda y: aten.leaky_relu.default(y, 0.2)),
    "aten.hardtanh": after(lambda y: aten.hardtanh.default(y, -2.0, 3.0)),
    "prims.fma": (lambda x, w, c: prims.fma(x @ w, c, c), (X, W, C)),
    "aten.neg": after(aten.neg.default), "aten.abs": after(aten.abs.default),
    "aten.sign": after(aten.sign.default), "aten.relu": after(aten.relu.default),
    "aten.mul": (lambda x, w, c: aten.mul.Tensor(x @ w, c), (X, W, C)),
    "aten.maximum": (lambda x, w, c: aten.maximum.default(x @ w, c), (X, W, C)),
    "aten.minimum": (lambda x, w, c: aten.minimum.default(x @ w, c), (X, W, C)),
    "aten.clamp_min": after(lambda y: aten.clamp_min.default(y, -0.5)),
    "aten.clamp_max": after(lambda y: aten.clamp_max.default(y, 0.5)),
    "aten.lt": compared(aten.lt.Tensor), "aten.le": compared(aten.le.Tensor),
    "aten.gt": compared(aten.gt.Tensor), "aten.ge": compared(aten.ge.Tensor),
    "aten.eq": compared(aten.eq.Tensor), "aten.ne": compared(aten.ne.Tensor),
    "aten.logical_not": (lambda x, w: torch.where(aten.logical_not.default(x @ w > 0), 1.0, x @ w),
                         (X, W)),
    "aten.bitwise_not": (lambda x, w: torch.where(aten.bitwise_not.default(x @ w > 0), 1.0, x @ w),
                         (X, W)),
    "aten.logical_and": by_bools(aten.logical_and.default),
    "aten.logical_or": by_bools(aten.logical_or.default),
    "aten.logical_xor": by_bools(aten.logical_xor.default),
    "aten.bitwise_and": by_bools(aten.bitwise_and.Tensor),
    "aten.bitwise_or": by_bools(aten.bitwise_or.Tensor),
    "aten.bitwise_xor": by_bools(aten.bitwise_xor.Tensor),
    "aten.clone": after(lambda y: aten.clone.default(y.relu(),
                                                     memory_format=torch.contiguous_format)),
    "aten.alias": after(lambda y: aten.alias.default(y.relu())),
    "aten.detach": after(lambda y: aten.detach.default(y.relu())),
    "aten.contiguous": after(lambda y: y.relu().contiguous()),
    "aten.lift_fresh_copy": after(lambda y: aten.lift_fresh_copy.default(y.relu())),
    "aten.add": (lambda x, w, b: aten.add.Tensor(x @ w, b, alpha=2), (X, W, B)),
    "aten.sub": (lambda x, w, b: aten.sub.Tensor(x @ w, b, alpha=3), (X, W, B)),
    "aten.rsub": after(lambda y: aten.rsub.Scalar(y, 1.0, 2)),
    "aten.addcmul": (lambda x, w, c: aten.addcmul.default(x @ w, c, c, value=0.5), (X, W, C)),
    "aten.clamp": after(lambda y: aten.clamp.default(y, -1, 2)),
    "aten.gelu": after(lambda y: aten.gelu.default(y, approximate="tanh") + aten.gelu.default(y)),
    "aten.elu": after(lambda y: aten.elu.default(y, 0.5)),
    "aten.softplus": after(lambda y: aten.softplus.default(y, 2.0)),
    "aten.where": (lambda x, w, c: aten.where.self(c > 0, x @ w, c), (X, W, C)),
    "aten.full": after(lambda y: y * aten.full.default([8], 2.0)),
    "aten.scalar_tensor": after(lambda y: torch.where(y > 0, y, aten.scalar_tensor.default(3.0))),
    "aten.full_like": after(lambda y: y * aten.full_like.default(y, 2.0)),
    "prims.convert_element_type": after(
        lambda y: prims.convert_element_type.default(y, torch.bfloat16)),
    "aten._to_copy": after(lambda y: aten._to_copy.default(y, dtype=torch.float16)),
    "aten.to": after(lambda y: y.to(torch.float16)),
    "aten.view": after(lambda y: aten.view.default(y, [2, 3, 8]).relu()),
    "aten.reshape": after(lambda y: aten.reshape.default(y, [2, 3, 8]).relu()),
    "aten._unsafe_view": after(lambda y: aten._unsafe_view.default(y, [2, 3, 8]).relu()),
    "aten.unsqueeze": after(lambda y: aten.unsqueeze.default(y, 0).relu()),
    "aten.squeeze": after(lambda y: aten.squeeze.dim(aten.unsqueeze.default(y, 0), 0).relu()),
    "aten.flatten": (lambda x, w: aten.flatten.using_ints(torch.bmm(x, w), 0, 1).relu(), (X3, W3)),
    "aten.unflatten": after(lambda y: aten.unflatten.int(y, 0, [2, 3]).relu()),
    "aten.permute": (lambda x, w: (x @ aten.permute.default(w, [1, 0])).relu(),
                     (X, W.t().contiguous())),
    "aten.t": (lambda x, w: (x @ aten.t.default(w)).relu(), (X, W.t().contiguous())),
    "aten.transpose": (lambda x, w: (x @ aten.transpose.int(w, -2, -1)).relu(),
                       (X3[0], W.t().contiguous())),
    "aten.expand": (lambda x, w, b: x @ w + aten.expand.default(b, [6, 8]), (X, W, B)),
    "aten.slice": after(lambda y: y[:, ::2].relu() * y[:, 1::2]),
    "aten.select": (lambda x, w, c: x @ w + aten.select.int(c, 0, 1), (X, W, C)),
    "aten.cat": (lambda x, w, b: x @ w + aten.cat.default([b[:4], b[4:]]), (X, W, B)),
    "aten.split": after(lambda y: torch.mul(*aten.split.Tensor(y, 4, -1))),
    "aten.split_with_sizes": after(lambda y: torch.mul(*aten.split_with_sizes.default(y, [4, 4],
                                                                                      1))),
    "aten.chunk": after(lambda y: torch.mul(*aten.chunk.default(y, 2, -1))),
    "aten.unbind": (lambda x, w, c: x @ w + aten.unbind.int(c)[2], (X, W, C)),
    "aten.mm": after(lambda y: y + 1),
    "aten.bmm": (lambda x, w: torch.bmm(x, w).relu(), (X3, W3)),
    "aten.matmul": (lambda x, w: torch.matmul(x, w).relu(), (X, W)),
    "aten.addmm": (lambda x, w, b: aten.addmm.default(b, x, w, beta=0.5, alpha=2).relu(),
                   (X, W, B)),
    "aten.baddbmm": (lambda x, w, c: aten.baddbmm.default(c, x, w).relu(),
                     (X3, W3, torch.randn(2, 6, 8))),
    "aten.linear": (lambda x, w, b: F.linear(x, w, b).relu(), (X, W.t().contiguous(), B)),
    "aten._int_mm": (lambda a, b: aten._int_mm.default(a, b).to(torch.float32) * 0.5,
                     (torch.randint(-9, 9, (32, 16), dtype=torch.int8),
                      torch.randint(-9, 9, (16, 8), dtype=torch.int8))),
    "aten._scaled_mm": (lambda a, b, s,
                        t: aten._scaled_mm.default(a, b, s, t, out_dtype=torch.float32).relu(),
                        quantized()),
    "aten._grouped_mm": (
        lambda x, w, ends: aten._grouped_mm.default(x, w.transpose(1, 2), ends).relu(),
        (torch.randint(-9, 9, (6, 16)).bfloat16(), torch.randint(-3, 3, (3, 8, 16)).bfloat16(),
         torch.tensor([2, 2, 6], dtype=torch.int32))),
    "aten._scaled_grouped_mm": (
        lambda x, w, s, t, ends: aten._scaled_grouped_mm.default(x, w, s, t, ends).relu(),
        scaled_groups_of()),
    "aten._scaled_grouped_mm_v2": (
        lambda x, w, s, t, ends: aten._scaled_grouped_mm_v2.default(
            x, w, [s], [1], [], [t], [1], [0], ends).relu(),
        scaled_groups_of()),
    "aten.index": (lambda x, w, i: (aten.index.Tensor(x, [i - 6]) @ w).relu(), (X, W, ROWS)),
    "attacca.rows_of_groups": (
        lambda x, w, c, ends, i: (x @ w + torch.ops.attacca.rows_of_groups.import_attacca_torch(
            c, ends, i)).relu(),
        (X, W, C[:3], torch.tensor([2, 2, 6], dtype=torch.int32),
         torch.tensor([0, 0, 2, 2, 2, 2]))),
    "aten.index_select": (lambda x, w, i: (aten.index_select.default(x, 0, i) @ w).relu(),
                          (X, W, ROWS)),
    "aten.index_add": (lambda x, w, c, i: aten.index_add.default(c, 0, i, x @ w), (X, W, C, ROWS)),
    "aten.index_put": (lambda x, w, c, i: aten.index_put.default(c, [i], x @ w, True),
                       (X, W, C, ROWS)),
    "attacca.mxfp4": (
        lambda x, c, s: (x @ attacca.torch.mxfp4(c, s).float().t()).relu(),
        (torch.randn(6, 32), torch.randint(0, 256, (8, 1, 16), dtype=torch.uint8),
         torch.randint(120, 130, (8, 1), dtype=torch.uint8))),
    "aten._weight_int8pack_mm": (
        lambda x, q, s: aten._weight_int8pack_mm.default(x, q, s).relu(), (X, Q, QS)),
    "attacca.quantized_linear": (
        lambda x, q, b: torch.ops.attacca.quantized_linear.import_attacca_torch(
            x, [q], b, "cast(w0, xdtype)", 8).relu(), (X, Q, B)),
    "quantized_decomposed.dequantize_per_tensor": (
        lambda x, q: (x @ decomposed.dequantize_per_tensor(q, 0.25, 3, -128, 127, torch.int8).t()
                      ).relu(), (X, Q)),
    "quantized_decomposed.dequantize_per_channel": (
        lambda x, q, s, z: (x @ decomposed.dequantize_per_channel(
            q, s, z, 0, -128, 127, torch.int8).t()).relu(), (X, Q, QS, QZ)),
    "quantized_decomposed.dequantize_per_channel_group": (
        lambda x, q, s, z: (x @ decomposed.dequantize_per_channel_group(
            q, s, z, -8, 7, torch.int8, 8, torch.float32).t()).relu(),
        (X, Q, torch.rand(8, 2), torch.randint(-8, 8, (8, 2), dtype=torch.int32))),
    "quantized_decomposed.quantize_per_tensor": after(
        lambda y: decomposed.quantize_per_tensor(y * 3, 0.3, 2, -100, 127, torch.int8)),
}
# Rows that tracing decomposes before they are seen.
DECOMPOSED = {"aten.true_divide", "aten.hardsigmoid", "aten.relu6", "aten.contiguous", "aten.to",
              "aten.flatten", "aten.unflatten", "aten.matmul", "aten.linear", "aten.chunk",
              "aten.reshape",
              "aten.square", "aten.detach", "prims.fma", "aten.lift_fresh_copy"}


def traced(function, *args, mode="fake"):
    return make_fx(function, tracing_mode=mode)(*args)


def ops_of(graph):
    return {Importer.op(node) for node in graph.nodes if node.op == "call_function"}


class Table(unittest.TestCase):
    def test_every_case_has_a_row(self):
        self.assertEqual([op for op in CASES if row_of(op) is None], [])
        self.assertEqual(set(FX) - set(CASES), set())  # functions_test.py has the others

    def test_every_row(self):
        seen = set()
        for op, (function, args) in CASES.items():
            with self.subTest(op):
                try:
                    module = traced(function, *args)
                except (AttributeError, NotImplementedError) as error:
                    self.assertIn(op, DECOMPOSED, error)
                    continue
                seen |= ops_of(module.graph)
                want = module(*args)
                if op in ("aten.alias", "aten.detach", "aten.lift_fresh_copy", "aten.cat",
                          "aten.select"):
                    self.assertGreaterEqual(rewrite(module.graph, ALWAYS), 1)
                else:
                    self.assertEqual(rewrite(module.graph, ALWAYS), 1)
                module.recompile()
                torch.testing.assert_close(module(*args), want, rtol=1e-4, atol=1e-4)
        self.assertEqual(set(CASES) - seen - DECOMPOSED, set())


    def test_rows_by_other_indices(self):
        """What is not one index of the first axis, whose rows are added in order, is refused."""
        for reason, function in {
                "it gathers rows by other indices": lambda c, i: c[:, i],
                "it gathers rows by other indices ": lambda c, i: c[i, i],
                "it gathers rows by other indices  ": lambda c, i: c[c[:, 0] > 0],
                "it gathers along another axis": lambda c, i: c.index_select(1, i),
                "it adds along another axis": lambda c, i: c.index_add(0, i, c, alpha=2),
                "it adds along another axis ": lambda c, i: c.index_add(1, i, c[:, :6]),
                "it writes rows in an order": lambda c, i: c.index_put((i,), c),
                "rows that are broadcast": lambda c, i: c.index_put((i,), c[0], accumulate=True),
        }.items():
            with self.subTest(reason):
                importer, reasons = Importer(), []
                for node in traced(function, C, ROWS, mode="symbolic").graph.nodes:
                    try:
                        importer.statement(node)
                    except regions.Refused as refused:
                        reasons.append(str(refused))
                self.assertTrue(any(each.startswith(reason.strip()) for each in reasons), reasons)

    def test_a_gpu_reads_rows_by_an_index_and_adds_none(self):
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode():
            table = torch.empty(6, 8, device="cuda")
            rows = torch.empty(6, dtype=torch.int64, device="cuda")
        graph = torch.fx.Graph()
        inputs = [graph.placeholder("table"), graph.placeholder("rows")]
        for node, value in zip(inputs, (table, rows)):
            node.meta["val"] = value
        gathered = graph.call_function(aten.index.Tensor, (inputs[0], [inputs[1]]))
        gathered.meta["val"] = table
        self.assertEqual(Importer().statement(gathered), '"index_tensor" = gather("table", "rows")')
        added = graph.call_function(aten.index_add.default, (inputs[0], 0, inputs[1], gathered))
        added.meta["val"] = table
        with self.assertRaisesRegex(regions.Refused, "no kernel of this device adds rows"):
            Importer().statement(added)


class Texts(unittest.TestCase):
    def region(self, function, *args, mode="fake"):
        found = find(traced(function, *args, mode=mode).graph)
        self.assertEqual(len(found.regions), 1, found.left)
        return found.regions[0].graph

    def test_a_layer(self):
        self.assertEqual(self.region(lambda x, w, b: F.silu(torch.addmm(b, x, w)), X.half(),
                                     W.half(), B.half()),
                         # In one line: Inductor quotes it in comments.
                         'graph "silu"("b_1": f16[8], "x_1": f16[6, 16], "w_1": f16[16, 8]) { '
                         '"addmm" = cast(matmul("x_1", "w_1", out=f32) + "b_1", f16, '
                         'compute=f32); "silu" = silu("addmm"); return "silu" }')

    def test_symbolic_sizes(self):
        text = self.region(lambda x, w: torch.relu(x @ w), X3, W, mode="symbolic")
        self.assertRegex(text, r'"x_1": f32\[s\d+, s\d+, s\d+\]')
        self.assertRegex(text, r'reshape\("x_1", \[s\d+\*s\d+, s\d+\]\)')

    def test_strides_that_are_declared(self):
        self.assertIn('"w_1": f32[16, 8; 1, 16]',
                      self.region(lambda x, w: (x @ w).relu(), X, W.t().contiguous().t()))

    def test_scalars_do_not_promote(self):
        text = self.region(lambda x, w, s: (x @ w) * s, X.bfloat16(), W.bfloat16(), SCALE)
        self.assertIn('cast("mm" * "s_1", bf16)', text)

    def test_a_number_times_alpha_does_not_promote(self):
        for op, sign in ((torch.add, "+"), (torch.sub, "-")):
            module = traced(lambda x, w: op((x @ w), 0.5, alpha=2.0), X.bfloat16(), W.bfloat16())
            want = module(X.bfloat16(), W.bfloat16())
            self.assertEqual(rewrite(module.graph, ALWAYS), 1)
            module.recompile()
            got = module(X.bfloat16(), W.bfloat16())
            torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)
            self.assertRegex(str(module.graph), rf"mm.? \{sign} 1.0")

    def test_products_of_another_dtype(self):
        text = self.region(lambda x, w: torch.ops.aten.mm.dtype(x, w, torch.float32).relu(),
                           X.bfloat16(), W.bfloat16())
        self.assertIn('matmul("x_1", "w_1", out=f32)', text)

    def test_scaled_mm_with_rows_of_scales(self):
        a, b, _, _ = quantized()
        text = self.region(lambda a, b, s,
                           t: aten._scaled_mm.default(a, b, s, t, out_dtype=torch.bfloat16).relu(),
                           a, b, torch.rand(6, 1), torch.rand(1, 8))
        self.assertIn('cast(matmul("a_1", "b_1", out=f32) * "s_1" * "t_1", bf16, compute=f32)',
                      text)

    def test_scaled_mm_with_fast_accumulation(self):
        a, b, s, t = quantized()
        text = self.region(lambda a, b, s,
                           t: aten._scaled_mm.default(a, b, s, t, out_dtype=torch.bfloat16,
                                                                      use_fast_accum=True).relu(),
                                                                      a, b, s, t)
        self.assertIn('matmul("a_1", "b_1", out=f32, fast=true)', text)

    def test_scaled_products_of_groups(self):
        text = self.region(
            lambda x, w, s, t, ends: aten._scaled_grouped_mm.default(
                x, w, s, t, ends, out_dtype=torch.bfloat16, use_fast_accum=True).relu(),
            *scaled_groups_of(), mode="symbolic")
        rows = re.search(r'"x_1": f8e4m3\[(\w+), ', text)[1]
        self.assertIn(
            'cast(grouped_matmul("x_1", "w_1", "ends_1", out=f32, fast=true) * '
            f'reshape("s_1", [{rows}, 1]) * gather("t_1", group_ids("ends_1", [{rows}])), bf16, '
            'compute=f32)', text)

    def test_weights_of_torchaos_layers(self):
        """As its int8, and its 4 and 8 bits with zero points, of rows and of groups, are traced;
        against f64."""
        x = torch.randn(5, 128).bfloat16()
        w = torch.randint(-8, 8, (24, 128), dtype=torch.int8)

        def int8(x, w, s):
            return torch.mm(x, w.permute(1, 0).to(x.dtype)) * s.to(x.dtype).view(24) + 1

        def intx(x, w, s, z):
            groups = s.shape[1]
            codes = w.view(24, groups, -1)
            scaled = (codes.to(x.dtype) - z.view(24, groups, 1).to(x.dtype)) \
                * s.view(24, groups, 1)
            return torch.mm(x, scaled.view(24, 128).permute(1, 0)) + 1
        for groups, function in [(None, int8), (1, intx), (4, intx)]:
            s = torch.rand(24, groups or 1).bfloat16()
            z = torch.randint(-8, 8, (24, groups or 1), dtype=torch.int8)
            args = (x, w, s) if groups is None else (x, w, s, z)
            with self.subTest(groups=groups):
                module = traced(function, *args)
                self.assertEqual(rewrite(module.graph, ALWAYS), 1)
                module.recompile()
                codes = w.double().view(24, groups or 1, -1)
                exact = (codes - (z.double()[..., None] if groups else 0)) * s.double()[..., None]
                want = x.double() @ exact.view(24, 128).t() + 1
                torch.testing.assert_close(module(*args).double(), want, rtol=2e-2,
                                           atol=2e-2 * want.abs().max().item())

    def test_scaled_mm_with_scales_of_blocks(self):
        """Against f64: PyTorch computes it on a GPU alone."""
        m, k, n = 5, 320, 144  # the last blocks are shorter
        a = torch.randn(m, k).to(torch.float8_e4m3fn)
        b = torch.randn(n, k).to(torch.float8_e4m3fn).t()
        bias = torch.randn(n).bfloat16()

        def spread(scale, rows, columns):
            return scale.repeat_interleave(rows, 0).repeat_interleave(columns, 1).double()
        for left, right in [((1, 128), (128, 128)), ((1, 128), (128, 1)), ((128, 128), (128, 1))]:
            s = torch.rand(-(-m // left[0]), -(-k // left[1])) + 0.5
            t = torch.rand(-(-k // right[0]), -(-n // right[1])) + 0.5
            text = self.region(lambda a, b, s, t, c: aten._scaled_mm.default(
                a, b, s, t, bias=c, out_dtype=torch.bfloat16).relu(), a, b, s, t, bias)
            self.assertIn(f'dequantize("a_1", "s_1", block=[{left[0]}, {left[1]}])', text)
            self.assertIn(f'dequantize("b_1", "t_1", block=[{right[0]}, {right[1]}])', text)
            got = attacca.compile(text)(a, b, s, t, bias)
            want = torch.relu((a.double() * spread(s, *left)[:m, :k])
                              @ (b.double() * spread(t, *right)[:k, :n]) + bias.double())
            torch.testing.assert_close(got.double(), want, rtol=1e-2, atol=1e-2)

    def test_extents(self):
        from torch.fx.experimental.symbolic_shapes import ShapeEnv
        module = traced(lambda x, y: torch.cat([x, y]).reshape(-1), X, torch.randn(5, 16),
                        mode="symbolic")
        self.assertIsInstance(ShapeEnv(), ShapeEnv)
        size = list(module.graph.nodes)[-2].meta["val"].shape[0]
        self.assertRegex(dim_text(size), r"^s\d+\*s\d+ \+ s\d+\*s\d+$")
        self.assertEqual(dim_text(7), "7")


class ResultsOfTheCore(unittest.TestCase):
    """Regions whose results the core chooses among values that are equal for the mode "fp32"."""

    def compare(self, function, args, wanted):
        """Compares the rewritten graph with f64: the error must not be above the graph's own."""
        module = make_fx(function, decomposition_table=select_decomp_table())(*args)
        plain = module(*args)
        exact = function(*(each.double() for each in args))
        self.assertEqual(rewrite(module.graph, ALWAYS), wanted)
        module.graph.lint()
        module.recompile()
        for got, eager, true in zip(module(*args), plain, exact):
            self.assertEqual((got.dtype, got.shape), (eager.dtype, eager.shape))
            error, eagers = ((each.double() - true).abs().mean() for each in (got, eager))
            self.assertLessEqual(error, 1.1 * eagers)

    def test_a_sum_that_is_read_as_it_is_and_in_f32(self):
        def residual(x, w, r, w2):  # T5's
            h = r + x @ w
            n = h.float() if h.dtype == torch.bfloat16 else h
            n = (n * torch.rsqrt(n.pow(2).mean(-1, keepdim=True) + 1e-6)).to(h.dtype)
            return h + torch.relu(n @ w2), h

        args = [torch.randn(32, 16), torch.randn(16, 16), torch.randn(32, 16), torch.randn(16, 16)]
        self.compare(residual, [each.bfloat16() for each in args], 2)

    def test_a_product_that_a_wider_sum_reads(self):
        def scores(q, k, bias):  # MPT's
            return torch.softmax(q @ k.mT * 0.25 + bias, -1), q

        self.compare(scores, (torch.randn(2, 30, 8).bfloat16(), torch.randn(2, 50, 8).bfloat16(),
                              torch.randn(2, 30, 50)), 1)


class StoredProducts(unittest.TestCase):
    """A product with its bias is rounded to 16 bits where it is stored, not before its tail."""

    @staticmethod
    def decomposed(function, *args):
        """The graph as Inductor gives it to its passes."""
        return make_fx(function, decomposition_table=select_decomp_table())(*args)

    @staticmethod
    def data(dtype):
        """Numbers of several sizes, and sums that cancel but for what a rounding loses."""
        x, w = torch.randn(32, 48), torch.randn(48, 24) / 7
        for scale in (1e-4, 1e-2, 1, 30, 1000):
            yield (x * scale).to(dtype), w.to(dtype), (torch.randn(24) * scale).to(dtype)
        x, w = (x[:1].expand(32, 48) * 30).to(dtype), w.to(dtype)
        for offset in (0, 0.3, -2):
            yield x, w, (offset - (x[0].float() @ w.float())).to(dtype)

    def gelu(self, approximate):
        return lambda x, w, b: F.gelu(torch.addmm(b, x, w).view(2, -1, w.shape[1]),
                                      approximate=approximate)

    def fused(self, function, args, mode="fp32"):
        module = self.decomposed(function, *args)
        self.assertEqual(rewrite(module.graph, ALWAYS._replace(mode=mode)), 1)
        module.recompile()
        return module(*args)

    def test_the_error_is_not_above_eagers(self):
        ratios = []
        for dtype in (torch.bfloat16, torch.float16):
            for approximate in ("tanh", "none"):
                function = self.gelu(approximate)
                for args in self.data(dtype):
                    x, w, b = (each.double() for each in args)
                    exact = function(x, w, b)
                    ours, eager = ((each.double() - exact).abs()
                                   for each in (self.fused(function, args), function(*args)))
                    # f32 sums, in any order.
                    sums = 2 ** -23 * (x.abs() @ w.abs() + b.abs()).max()
                    with self.subTest(dtype=dtype, approximate=approximate, size=b.abs().max()):
                        self.assertLessEqual(ours.max(), eager.max() + sums)
                        ours, eager = (each.square().mean().sqrt() for each in (ours, eager))
                        self.assertLessEqual(ours, eager + sums)
                    ratios.append(float(ours / eager))
        self.assertLess(statistics.geometric_mean(ratios), 0.9)  # one rounding instead of two

    def test_nan_and_infinities(self):
        for approximate in ("tanh", "none"):
            x, w, b = X.bfloat16(), W.bfloat16(), B.bfloat16()
            x[1, 2], x[2, 3], b[4], b[5] = math.nan, math.inf, math.inf, math.nan
            got = self.fused(self.gelu(approximate), (x, w, b))
            want = self.gelu(approximate)(*(each.double() for each in (x, w, b)))
            torch.testing.assert_close(got.double(), want, rtol=2e-2, atol=2e-2, equal_nan=True)

    def test_what_is_stored_is_rounded(self):
        def function(x, w, b):
            y = torch.addmm(b, x, w)
            return y, F.gelu(y)
        args = (X.bfloat16(), W.bfloat16(), B.bfloat16())
        got, want = self.fused(function, args), function(*args)
        self.assertEqual(got[0].dtype, torch.bfloat16)
        torch.testing.assert_close(got[0], want[0], rtol=2 ** -8, atol=1e-6)

    def test_eager_mode_rounds(self):
        for args in self.data(torch.bfloat16):
            sums = self.fused(lambda x, w, b: torch.addmm(b, x, w).relu(), args, "eager")
            widened = self.fused(
                lambda x, w, b: prims.convert_element_type.default(torch.addmm(b, x, w),
                                                                   torch.float32).relu(), args,
                "eager")
            self.assertTrue(torch.equal(sums.float(), widened))

    def test_casts_of_the_graph_round(self):
        def function(x, w):
            return F.relu((x @ w).bfloat16().float())
        got = self.fused(function, (X, W))
        self.assertTrue(torch.equal(got, got.bfloat16().float()))


class Levels(unittest.TestCase):
    """No region depends on a value that depends on it."""

    def rewritten(self, function, *args, regions):
        module = traced(function, *args)
        want = module(*args)
        self.assertEqual(rewrite(module.graph, ALWAYS), regions)
        module.graph.lint()
        module.recompile()
        torch.testing.assert_close(module(*args), want, rtol=1e-4, atol=1e-4)
        return ops_of(module.graph)

    def test_an_op_between_lets_both_sides_fuse(self):
        ops = self.rewritten(lambda x, w, v: torch.relu(torch.cumsum(torch.relu(x @ w), 0) @ v) * 2,
                             X, W,
                             torch.randn(8, 4), regions=2)
        self.assertEqual(ops, {"attacca.region", "getitem", "aten.cumsum"})

    def test_an_operand_that_depends_on_the_product(self):
        def function(x, w):
            y = x @ w
            return torch.relu(y) + torch.cumsum(y, 0), y * 2
        self.rewritten(function, X, W, regions=1)

    def test_an_operand_that_is_made_later_is_waited_for(self):
        ops = self.rewritten(lambda x, w, c: (x @ w) * torch.cumsum(c, 0), X, W, C, regions=1)
        self.assertNotIn("aten.mul", ops)

    def test_users_before_the_last_input_are_moved(self):
        def function(x, w, c):
            y = torch.relu(x @ w)
            early = torch.cumsum(y, 1)
            late = torch.cumsum(c, 0)
            return early, y, (x @ w[:, :8]) + late
        self.rewritten(function, X, W, C, regions=2)

    def test_parts_of_a_split_at_other_levels_than_the_split(self):
        def function(x, w):
            first, second = torch.split(torch.exp(x), 8, dim=1)
            return torch.relu((second + torch.cumsum(first, 0)) @ w)
        ops = self.rewritten(function, X, W[:8], regions=1)
        self.assertNotIn("aten.relu", ops)

    def test_equal_levels_are_explained_once_by_their_own_names(self):
        def layers(count):
            def run(x, w):
                for _ in range(count):
                    x = torch.cumsum(torch.relu(x @ w).mean(-1, keepdim=True) * x, 0)
                return x
            return make_fx(run, tracing_mode="fake")(X[:, :8], W[:8])
        calls = {}
        for count in (4, 12):
            graph = layers(count).graph
            with mock.patch.object(regions, "explained", side_effect=regions.explained) as counted:
                regions._explained_json.cache_clear()
                found = find(graph)
            calls[count] = counted.call_count
            self.assertEqual(len(found.regions), count)
            self.assertEqual([left.node for left in found.left],
                             [node.name for node in graph.nodes if "mul" in str(node.target)])
        self.assertLessEqual(calls[12], calls[4])
        for first, second in ("ab", "ba", ("x", "a name")):
            text = (f'graph "g"("x 1": f32[4, 8], "w": f32[8, 8], "v": f32[8, 8]) {{ '
                    f'"{first}" = sin("x 1"); '
                    f'"{second}" = exp("x 1" @ "w") + "{first}"; '
                    f'return "{second}", "z" = cos("x 1" @ "v") + "{first}" }}')
            told = regions._explanation(text, "cpu")
            self.assertEqual(told, json.loads(regions.explained(text, "cpu").explain_json()))
            self.assertIn(f"{second} already belongs", str(told))

    def test_several_results_of_one_region(self):
        self.rewritten(lambda x, w: (torch.relu(x @ w), torch.exp(-(x @ w).abs())), X, W, regions=1)
        self.rewritten(lambda x, w, v: (torch.relu(x @ w), torch.exp(-(x @ v).abs())), X, W, -W,
                       regions=2)

    def test_graphs_that_write_in_place_are_left(self):
        def function(x, w, c):
            y = c.clone()
            y.add_(1)
            return (x @ w).relu() + y
        found = find(traced(function, X, W, C).graph)
        self.assertEqual(found.regions, [])
        self.assertIn("it writes in place", found.left[0].reason)

    def test_writing_back_to_inputs_at_the_end_is_no_obstacle(self):
        def function(x, w, c):
            y = (x @ w).relu() + c
            c.copy_(y)
            return y
        module = traced(function, X, W, C.clone())
        self.assertEqual(rewrite(module.graph, ALWAYS), 1)
        module.recompile()
        c = C.clone()
        torch.testing.assert_close(module(X, W, c), (X @ W).relu() + C, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(c, (X @ W).relu() + C, rtol=1e-4, atol=1e-4)


class LeftAlone(unittest.TestCase):
    def reasons(self, function, *args, mode="fake"):
        module = traced(function, *args, mode=mode)
        before = str(module.graph)
        self.assertEqual(rewrite(module.graph, ALWAYS), 0)
        self.assertEqual(str(module.graph), before)
        return "; ".join(each.reason for each in attacca.torch.report().graphs[-1].left)

    def test_reasons(self):
        for function, args, reason in [
                (lambda x, w: x @ w, (X, W), "a product without an epilogue"),
                (lambda x, w: torch.cumsum(x @ w, 0), (X, W), "a product without an epilogue"),
                (lambda x, w: torch.relu(torch.mm(x, w)), (X.cdouble(), W.cdouble()), "")]:
            with self.subTest(reason):
                try:
                    self.assertIn(reason, self.reasons(function, *args))
                except RuntimeError:  # relu of complex numbers
                    pass

    def test_dtypes_without_a_name(self):
        self.assertIn("complex", self.reasons(lambda x, w: (x @ w).abs(), X.cfloat(), W.cfloat()))

    def test_arguments_that_no_row_knows(self):
        self.assertIn("a product without an epilogue", self.reasons(
            lambda x, w: aten.round.decimals(x @ w, decimals=2), X, W))

    def test_scales_of_other_blocks(self):
        a, b, _, _ = quantized()
        self.assertIn("_scaled_mm with scales of f32 [6, 2] and f32 [1, 8]", self.reasons(
            lambda a, b, s, t: aten._scaled_mm.default(a, b, s, t, out_dtype=torch.float32).relu(),
            a, b, torch.rand(6, 2), torch.rand(1, 8)))

    def test_scaled_products_that_are_stored_in_8_bits(self):
        self.assertIn("_scaled_mm with a result of dtype f8e4m3", self.reasons(
            lambda a, b, s, t: aten._scaled_mm.default(
                a, b, s, t, out_dtype=torch.float8_e4m3fn).to(torch.float32).relu(), *quantized()))

    def test_scaled_products_of_other_groups(self):
        x, w, s, t, ends = scaled_groups_of()
        scaled = aten._scaled_grouped_mm.default
        for reason, function, args in [
                ("_scaled_grouped_mm of 2-D operands, whose groups are parts of the sums",
                 lambda x, w, s, t, ends: scaled(x, w, s, t, ends).relu(),
                 (x, w[0], torch.rand(18), torch.rand(24), ends)),
                ("dtype torch.float8_e8m0fnu",
                 lambda x, w, s, t, ends: scaled(x, w, s, t, ends).relu(),
                 (x.repeat(1, 8), w.repeat(1, 8, 1).mT.contiguous().mT,
                  torch.ones(128, 4).to(torch.float8_e8m0fnu),
                  torch.ones(3, 512).to(torch.float8_e8m0fnu), ends))]:
            with self.subTest(reason):
                self.assertIn(reason, self.reasons(function, *args))
        # What PyTorch's own checks refuse today.
        for reason, changed in [
                ("_scaled_grouped_mm with a bias", {"bias": t}),
                ("_scaled_grouped_mm with a scale of the result", {"scale_result": s}),
                ("_scaled_grouped_mm with scales of [18] and [3, 8]", {"scale_a": torch.rand(18)}),
                ("_scaled_grouped_mm with scales of [6] and [3]", {"scale_b": s[:3]}),
                ("_scaled_grouped_mm with operands and scales of dtypes f8e4m3, bf16",
                 {"mat2": w.bfloat16()}),
                ("_scaled_grouped_mm with operands and scales of dtypes f8e4m3, f8e4m3, f16",
                 {"scale_a": s.half()})]:
            graph = torch.fx.Graph()
            nodes = {}
            for name, value in {"self": x, "mat2": w, "scale_a": s, "scale_b": t, "offs": ends,
                                **changed}.items():
                nodes[name] = graph.placeholder(name)
                nodes[name].meta["val"] = value
            product = graph.call_function(scaled, (), nodes)
            product.meta["val"] = torch.empty(6, 8, dtype=torch.bfloat16)
            with self.subTest(reason), self.assertRaises(regions.Refused) as refused:
                Importer().statement(product)
            self.assertIn(reason, str(refused.exception))

    def test_scaled_products_of_groups_by_other_recipes(self):
        x, w, s, t, ends = scaled_groups_of()
        for reason, changed in [
                ("_scaled_grouped_mm_v2 with scales by BlockWise1x32 and BlockWise1x32",
                 {"recipe_a": [3], "recipe_b": [3]}),
                ("_scaled_grouped_mm_v2 with scales by TensorWise and RowWise", {"recipe_a": [0]}),
                ("_scaled_grouped_mm_v2 with scales by BlockWise1x16 and TensorWise and RowWise",
                 {"recipe_a": [2, 0]}),
                ("_scaled_grouped_mm_v2 with scales in a swizzled order", {"swizzle_b": [1]}),
                ("_scaled_grouped_mm_v2 with contraction_dim=[1, 1]", {"contraction_dim": [1, 1]}),
                ("_scaled_grouped_mm_v2 with a bias", {"bias": t}),
                ("_scaled_grouped_mm_v2 of 2-D by 3-D operands without ends of groups",
                 {"offs": None})]:
            graph = torch.fx.Graph()

            def node(name, value, graph=graph):
                if isinstance(value, list):
                    return [node(f"{name}{i}", each) for i, each in enumerate(value)]
                if not isinstance(value, torch.Tensor):
                    return value
                made = graph.placeholder(name)
                made.meta["val"] = value
                return made
            arguments = {"self": x, "mat2": w, "scale_a": [s], "recipe_a": [1], "swizzle_a": [],
                         "scale_b": [t], "recipe_b": [1], "swizzle_b": [], "offs": ends, **changed}
            product = graph.call_function(
                aten._scaled_grouped_mm_v2.default, (),
                {name: node(name, value) for name, value in arguments.items()})
            product.meta["val"] = torch.empty(6, 8, dtype=torch.bfloat16)
            with self.subTest(reason), self.assertRaises(regions.Refused) as refused:
                Importer().statement(product)
            self.assertIn(reason, str(refused.exception))

    def test_the_policy_measured_fuses_nothing_on_the_cpu(self):
        module = traced(lambda x, w: torch.relu(x @ w), X, W)
        attacca.torch.reset()
        self.assertEqual(rewrite(module.graph, Options()), 0)
        left = attacca.torch.report().graphs[0].left
        self.assertIn("on cpu only the policy \"always\" fuses", [each.reason for each in left])

    def test_the_policy_measured_by_times(self):
        def judged(*decisions):
            verdict = judge_decisions(tuple(attacca.Decision(*each) for each in decisions))
            return verdict.keep, verdict.reason
        self.assertEqual(judged(("sm90", "measured", 1e-4, 2e-4))[0], True)
        keep, reason = judged(("sm90", "measured", 1.99e-4, 2e-4))
        self.assertFalse(keep)
        self.assertIn("is not faster than the unfused path: 199.0 us, unfused 200.0 us", reason)
        self.assertFalse(judged(("unfused algorithm=3", "measured", 1e-4, 1e-4))[0])
        self.assertEqual(judged(("sm90", "model", 0.0, 0.0)),
                         (True, "chosen by model, not measured"))


if __name__ == "__main__":
    unittest.main()
