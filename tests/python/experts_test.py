"""Layers of experts, written as transformers writes them, under torch.compile(backend="attacca") on
CPU tensors, against a loop over experts in f64."""
import os
import tempfile
import unittest

# Inductor's check for vector instructions compiles for half a minute; its scalar code does here.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")
FOLDER = tempfile.TemporaryDirectory()
os.environ["TORCHINDUCTOR_CACHE_DIR"] = FOLDER.name

import torch
import torch.nn.functional as F

import attacca.torch
import scaled_groups

EXPERTS, WIDTH, INNER, CHOSEN = 8, 64, 32, 2


def setUpModule():
    torch.manual_seed(5)
    torch.set_grad_enabled(False)


def gate_mixtral(projected):
    """Mixtral's, Qwen3-MoE's, OLMoE's and DeepSeek-V3's."""
    gate, up = projected.chunk(2, dim=-1)
    return F.silu(gate) * up


def gate_gpt_oss(projected, alpha=1.702, limit=7.0):
    gate, up = projected[..., ::2], projected[..., 1::2]
    gate, up = gate.clamp(max=limit), up.clamp(min=-limit, max=limit)
    return (up + 1) * (gate * torch.sigmoid(gate * alpha))


class Layer(torch.nn.Module):
    """Experts that multiply rows sorted by expert. ``transposed``: weights are [E, K, N].
    ``direct``: tokens are gathered once, by the sorted places, as later versions write it."""

    def __init__(self, gate, biased=False, transposed=False, direct=False):
        super().__init__()
        self.gate, self.transposed, self.direct = gate, transposed, direct
        for name, columns, inner in (("up", 2 * INNER, WIDTH), ("down", WIDTH, INNER)):
            weight = torch.randn(EXPERTS, columns, inner) * inner**-0.5
            if transposed:
                weight = weight.transpose(1, 2).contiguous()
            bias = torch.randn(EXPERTS, columns) * 0.3
            self.register_buffer(name, weight.bfloat16())
            self.register_buffer(name + "_bias", bias.bfloat16() if biased else None)

    def linear(self, x, name, experts, offsets):
        weight, bias = getattr(self, name), getattr(self, name + "_bias")
        out = torch._grouped_mm(x, weight if self.transposed else weight.transpose(-2, -1),
                                offs=offsets)
        return out if bias is None else out + bias[experts]

    def forward(self, hidden, chosen, weights):
        tokens, count = chosen.shape
        token = torch.arange(tokens).unsqueeze(1).expand(-1, count).reshape(-1)
        experts = chosen.reshape(-1)
        order = torch.argsort(experts)
        back = torch.argsort(order)
        experts = experts[order]
        rows = hidden[order // count] if self.direct else hidden[token][order]
        counts = torch.histc(experts.float(), bins=EXPERTS, min=0, max=EXPERTS - 1)
        offsets = torch.cumsum(counts, dim=0, dtype=torch.int32)
        inner = self.gate(self.linear(rows, "up", experts, offsets))
        out = self.linear(inner, "down", experts, offsets)
        out = out * weights.reshape(-1)[order].unsqueeze(-1)
        return out[back].view(tokens, count, -1).sum(dim=1).to(hidden.dtype)

    def loop(self, hidden, chosen, weights):
        """The same in f64, expert by expert."""
        result = torch.zeros(hidden.shape, dtype=torch.float64)
        for token in range(len(hidden)):
            for place, expert in enumerate(chosen[token].tolist()):
                x = hidden[token].double()
                for name in ("up", "down"):
                    weight, bias = getattr(self, name)[expert].double(), getattr(self,
                                                                                 name + "_bias")
                    x = (x @ weight if self.transposed else weight @ x)
                    if bias is not None:
                        x = x + bias[expert].double()
                    if name == "up":
                        x = self.gate(x)
                result[token] += x * weights[token, place].double()
        return result


class Routed(torch.nn.Module):
    """A layer with its router, as transformers 5 writes GPT-OSS's. ``ranks``: how many ranks have
    experts; those of others are numbered from EXPERTS on, and their rows are zeroed."""

    def __init__(self, ranks=1, skewed=False):
        super().__init__()
        self.ranks, self.layer = ranks, Layer(gate_gpt_oss, True, True)
        self.register_buffer("router", torch.randn(ranks * EXPERTS, WIDTH).bfloat16())
        scores = torch.randn(ranks * EXPERTS)
        if skewed:  # nearly all rows are of one expert, and some have none
            scores[2] += 200
            scores[4:] -= 200
        self.register_buffer("router_bias", scores.bfloat16())

    def route(self, hidden):
        logits = F.linear(hidden, self.router, self.router_bias)
        weights, chosen = torch.topk(logits, CHOSEN, dim=-1)
        return chosen, torch.softmax(weights, -1)

    def forward(self, hidden):
        chosen, weights = self.route(hidden)
        experts, order = torch.sort(chosen.reshape(-1))
        rows = hidden[order // CHOSEN]
        counts = torch.histc(experts.float(), bins=EXPERTS, min=0, max=EXPERTS - 1)
        offsets = torch.cumsum(counts, dim=0, dtype=torch.int32)
        elsewhere = (experts >= EXPERTS).unsqueeze(-1)
        if self.ranks > 1:
            experts = experts.clamp(max=EXPERTS - 1)
        inner = self.layer.linear(rows, "up", experts, offsets)
        if self.ranks > 1:
            inner = inner.masked_fill(elsewhere, 0.0)
        out = self.layer.linear(gate_gpt_oss(inner), "down", experts, offsets)
        if self.ranks > 1:
            out = out.masked_fill(elsewhere, 0.0)
        out = out * weights.reshape(-1)[order].unsqueeze(-1)
        back = torch.empty_like(order)
        back[order] = torch.arange(order.size(0))
        return out[back].view(*chosen.shape, -1).sum(dim=1).to(hidden.dtype)


def routed(tokens, experts=EXPERTS):
    """Rows, the experts of each and their weights; some experts may have no rows."""
    logits = torch.randn(tokens, experts)
    weights, chosen = torch.topk(torch.softmax(logits, -1), CHOSEN)
    return torch.randn(tokens, WIDTH).bfloat16(), chosen, weights.bfloat16()


class Experts(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        attacca.torch.reset()

    def compiled(self, function, dynamic=False):
        return torch.compile(function, backend="attacca", options={"policy": "always"},
                             fullgraph=True, dynamic=dynamic)

    def kinds(self):
        return [fused.epilogue for graph in attacca.torch.report().graphs
                for fused in graph.fused]

    def check(self, layer, inputs, compiled):
        wanted, plain = layer.loop(*inputs), layer(*inputs).double()
        got = compiled(*inputs).double()
        self.assertEqual(got.shape, wanted.shape)
        room = 2 * (plain - wanted).abs().max() + 0.01 * wanted.abs().max()
        self.assertLessEqual(float((got - wanted).abs().max()), float(room))

    def test_layers_as_transformers_writes_them(self):
        for gate, biased, transposed, direct in ((gate_mixtral, False, False, False),
                                                 (gate_mixtral, False, False, True),
                                                 (gate_gpt_oss, True, True, True)):
            with self.subTest(gate=gate.__name__, direct=direct):
                torch._dynamo.reset()
                attacca.torch.reset()
                layer = Layer(gate, biased, transposed, direct)
                compiled = self.compiled(layer)
                self.check(layer, routed(40), compiled)
                kinds = self.kinds()
                self.assertEqual(["gated gemm" in kind for kind in kinds], [True, False], kinds)
                self.assertTrue(all("gemm over" in kind for kind in kinds), kinds)
                self.assertRegex(kinds[0], r"= \w+\[\w+\]:bf16 @ ")  # rows by an index

    def test_any_number_of_tokens_without_compiling_again(self):
        layer = Layer(gate_mixtral)
        compiled = self.compiled(layer, dynamic=True)
        for tokens, experts in ((40, EXPERTS), (7, EXPERTS), (90, 2)):
            with self.subTest(tokens=tokens):
                self.check(layer, routed(tokens, experts), compiled)
        self.assertEqual(len(attacca.torch.report().graphs), 1)

    def test_rows_are_gathered_and_biases_read_by_the_region(self):
        layer = Layer(gate_gpt_oss, True, True)
        self.check(layer, routed(40), self.compiled(layer))
        first, second = self.kinds()
        # Rows of rows are one gather, and the bias is that of the row's expert.
        self.assertRegex(first, r"\[\w+\]:bf16 @ .* groups")
        for kind in (first, second):
            self.assertRegex(kind, r"full\(\w+\[\w+\]")

    def test_biases_are_those_of_the_rows_groups(self):
        """Where the graph has the router, biases are read by group: with empty groups, one group of
        nearly all rows, and rows of no group."""
        for ranks, skewed in ((1, False), (1, True), (2, False), (2, True)):
            with self.subTest(ranks=ranks, skewed=skewed):
                torch._dynamo.reset()
                attacca.torch.reset()
                layer = Routed(ranks, skewed)
                compiled = self.compiled(layer, dynamic=True)
                for tokens in (40, 7, 300):
                    hidden = torch.randn(tokens, WIDTH).bfloat16()
                    wanted, got = layer(hidden).double(), compiled(hidden).double()
                    self.assertEqual(got.shape, wanted.shape)
                    room = 0.02 * float(wanted.abs().max())
                    self.assertLessEqual(float((got - wanted).abs().max()), room)
                self.assertEqual(len(attacca.torch.report().graphs), 1)
                kinds = [kind for kind in self.kinds() if "groups that end" in kind]
                self.assertEqual(["gated gemm" in kind for kind in kinds], [True, False], kinds)
                self.assertRegex(kinds[0], r"(?s)(row\(\w+\[[01]::2\] by group\).*){2}")
                self.assertRegex(kinds[1], r"row\(\w+ by group\)")
                for kind in kinds:
                    self.assertNotRegex(kind, r"full\(\w+\[")

    def test_indices_stay_where_regions_are_left(self):
        """A policy that fuses nothing on this device leaves the graph as it was."""
        layer, hidden = Routed(), torch.randn(40, WIDTH).bfloat16()
        compiled = torch.compile(layer, backend="attacca", fullgraph=True)
        with self.assertWarns(attacca.torch.NotFusedWarning):
            got = compiled(hidden)
        torch.testing.assert_close(got, layer(hidden), rtol=0.02, atol=0.05)
        self.assertEqual(self.kinds(), [])

    def test_rows_are_added_to_tokens(self):
        for form in ("index_add", "index_put"):
            with self.subTest(form):
                torch._dynamo.reset()
                attacca.torch.reset()

                def function(x, w, offsets, token, weight, base, form=form):
                    rows = torch._grouped_mm(x, w, offs=offsets) * weight
                    if form == "index_add":
                        return base.index_add(0, token, rows)
                    return base.index_put((token,), rows, accumulate=True)

                x, w = torch.randn(48, 32).bfloat16(), torch.randn(4, 32, 24).bfloat16()
                offsets = torch.tensor([16, 16, 40, 44], dtype=torch.int32)
                token, weight = torch.randint(0, 12, (48,)), torch.randn(48, 1).bfloat16()
                base = torch.randn(12, 24).bfloat16()
                got = self.compiled(function)(x, w, offsets, token, weight, base)
                wanted, begin = base.double(), 0
                for group, end in enumerate(offsets.tolist()):
                    rows = x[begin:end].double() @ w[group].double() * weight[begin:end].double()
                    wanted.index_add_(0, token[begin:end], rows)
                    begin = end
                self.assertLess(float((got.double() - wanted).abs().max()),
                                0.01 * float(wanted.abs().max()))
                kinds = self.kinds()
                self.assertEqual(len(kinds), 1)
                self.assertIn("scatter_add(", kinds[0])

    def test_weights_and_activations_of_8_bits(self):
        """A scale for each row and for each column of each expert, gathered rows, a gate of two
        products, and any number of rows; against a loop over experts in f64."""
        def layer(x, token, gate, up, scales, gate_scales, up_scales, offsets):
            x, scales = x.index_select(0, token), scales.index_select(0, token)

            def product(w, of_w):
                return torch._scaled_grouped_mm(x, w.transpose(-2, -1), scales, of_w, offsets,
                                                out_dtype=torch.bfloat16, use_fast_accum=True)
            return F.silu(product(gate, gate_scales)) * product(up, up_scales)

        def eighth(*shape):
            return torch.randn(shape).to(torch.float8_e4m3fn)
        gate, up, scales = eighth(4, 32, 64), eighth(4, 32, 64), torch.rand(12) * 0.3
        gate_scales, up_scales = torch.rand(4, 32), torch.rand(4, 32)
        compiled = self.compiled(layer, dynamic=True)
        for ends in ([16, 16, 40, 48], [0, 0, 7, 9], [3, 9, 9, 9]):
            rows = ends[-1] + ends[0] // 16  # one row belongs to no group, once
            x, token = eighth(12, 64), torch.randint(0, 12, (rows,))
            offsets = torch.tensor(ends, dtype=torch.int32)
            got = compiled(x, token, gate, up, scales, gate_scales, up_scales, offsets)

            def product(w, of_w, x=x[token], by=scales[token], offsets=offsets):
                return scaled_groups.by_groups(x, w.mT, by, of_w, offsets)
            wanted = F.silu(product(gate, gate_scales)) * product(up, up_scales)
            with self.subTest(ends=ends):
                self.assertEqual(got.shape, wanted.shape)
                # Each of three values is rounded to bf16.
                torch.testing.assert_close(got.double(), wanted, rtol=0.02, atol=0.02)
        self.assertEqual(len(attacca.torch.report().graphs), 1)
        kinds = self.kinds()
        self.assertEqual(len(kinds), 1)
        self.assertIn("gated gemm", kinds[0])
        # Rows by an index in both products, and the scales of the rows' groups.
        self.assertRegex(kinds[0], r"(?s)(= \w+\[\w+\]:f8e4m3 @ .*){2}(row\(\w+ by group\).*){2}")

    def test_a_loop_over_experts(self):
        """Eager transformers', where torch captures shapes that depend on data: a region for each
        product of each expert, which gathers the expert's rows and adds them to their tokens."""
        layer = Layer(gate_mixtral)

        def loop(hidden, chosen, weights):
            result = torch.zeros_like(hidden)
            mask = F.one_hot(chosen, num_classes=EXPERTS).permute(2, 1, 0)
            for expert in range(EXPERTS):
                place, token = torch.where(mask[expert])
                inner = gate_mixtral(F.linear(hidden[token], layer.up[expert]))
                rows = F.linear(inner, layer.down[expert]) * weights[token, place, None]
                result.index_add_(0, token, rows)
            return result

        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            self.check(layer, routed(40), self.compiled(loop))
        kinds = self.kinds()
        self.assertEqual(len(kinds), 2 * EXPERTS)
        self.assertEqual(sum("gated gemm" in kind for kind in kinds), EXPERTS)
        self.assertEqual(sum("scatter_add(" in kind for kind in kinds), EXPERTS)

    def test_weights_in_mxfp4(self):
        blocks = torch.randint(0, 256, (4, 24, 2, 16), dtype=torch.uint8)
        scales = torch.randint(120, 130, (4, 24, 2), dtype=torch.uint8)
        values = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6],
                              dtype=torch.float64)
        codes = torch.stack([blocks & 15, blocks >> 4], -1).long()
        wanted = (values[codes].reshape(4, 24, 2, 32)
                  * torch.exp2(scales.double() - 127).unsqueeze(-1)).reshape(4, 24, 64)
        weights = attacca.torch.mxfp4(blocks, scales)
        self.assertEqual(weights.dtype, torch.bfloat16)
        self.assertTrue(torch.equal(weights.double(), wanted))
        self.assertTrue(torch.equal(attacca.torch.mxfp4(blocks.reshape(4, 24, 32), scales),
                                    weights))

        def function(x, blocks, scales, offsets):
            weights = attacca.torch.mxfp4(blocks, scales)
            return F.relu(torch._grouped_mm(x, weights.transpose(-2, -1), offs=offsets))

        x, offsets = torch.randn(30, 64).bfloat16(), torch.tensor([4, 4, 20, 30]).int()
        got = self.compiled(function)(x, blocks, scales, offsets)
        group = torch.bucketize(torch.arange(30), offsets.long(), right=True)
        product = torch.einsum("rk,rnk->rn", x.double(), wanted[group]).relu()
        self.assertLess(float((got.double() - product).abs().max()),
                        0.01 * float(product.abs().max()))
        self.assertRegex(self.kinds()[0], r"\^T:bf16 of mxfp4 by \w+, ")

    def test_bad_weights_in_mxfp4_are_errors(self):
        scales = torch.zeros(4, 2, dtype=torch.uint8)
        for blocks in (torch.zeros(4, 2, 15, dtype=torch.uint8), torch.zeros(4, 2, 16),
                       torch.zeros(2, 2, 16, dtype=torch.uint8),
                       torch.zeros(4, 31, dtype=torch.uint8)):
            with self.subTest(blocks.shape), self.assertRaisesRegex(attacca.Error, "blocks are"):
                attacca.torch.mxfp4(blocks, scales)

    def test_products_of_one_row_each(self):
        """transformers' batched_mm: the weights of each row's expert are gathered."""
        weights = torch.randn(EXPERTS, 2 * INNER, WIDTH).bfloat16()

        def function(rows, chosen):
            out = torch.bmm(weights[chosen], rows.unsqueeze(-1)).squeeze(-1)
            return gate_mixtral(out)

        rows, chosen = torch.randn(20, WIDTH).bfloat16(), torch.randint(0, EXPERTS, (20,))
        got = self.compiled(function)(rows, chosen)
        product = torch.einsum("rk,rnk->rn", rows.double(), weights[chosen].double())
        wanted = gate_mixtral(product)
        self.assertLess(float((got.double() - wanted).abs().max()),
                        0.02 * float(wanted.abs().max()))

    def test_a_matrix_of_rows_for_each_group(self):
        def function(x, w):
            return F.relu(torch._grouped_mm(x, w.transpose(1, 2)))

        x, w = torch.randn(4, 24, 32).bfloat16(), torch.randn(4, 16, 32).bfloat16()
        got = self.compiled(function)(x, w)
        wanted = F.relu(x.double() @ w.double().transpose(1, 2))
        self.assertLess(float((got.double() - wanted).abs().max()), 0.1)
        self.assertEqual(len(self.kinds()), 1)

    def test_groups_of_the_columns(self):
        """The matrices of the groups by parts of the columns, some empty; columns of no group."""
        def function(x, y, offsets):
            return F.relu(torch._grouped_mm(x, y, offs=offsets))

        compiled = self.compiled(function)
        for ends in ([16, 16, 40], [0, 0, 40], [40, 40, 40], [0, 9, 33]):
            x, y = torch.randn(3, 24, 32).bfloat16(), torch.randn(40, 32).bfloat16().t()
            got = compiled(x, y, torch.tensor(ends, dtype=torch.int32)).double()
            wanted, begin = torch.zeros(24, 40, dtype=torch.float64), 0
            for group, end in enumerate(ends):
                wanted[:, begin:end] = (x[group].double() @ y[:, begin:end].double()).relu()
                begin = end
            with self.subTest(ends=ends):
                self.assertLess(float((got - wanted)[:, :begin].abs().max()), 0.1)
        self.assertEqual(len(self.kinds()), 1)

    def test_scaled_grouped_mm_by_its_recipes(self):
        rows = F.ScalingType.RowWise

        def function(x, w, s, t, offsets=None):
            y = F.scaled_grouped_mm(x, w, s, rows, t, rows, offs=offsets)
            return F.relu(y)

        def eighth(*shape):
            return torch.randn(shape).to(torch.float8_e4m3fn)
        ends = torch.tensor([0, 5, 5, 16], dtype=torch.int32)
        for name, x, w, s, t, offsets in [
                ("rows", eighth(16, 32), eighth(4, 24, 32).mT, (16,), (4, 24), ends),
                ("columns", eighth(4, 24, 32), eighth(16, 32).mT, (4, 24), (16,), ends),
                ("batch", eighth(4, 16, 32), eighth(4, 24, 32).mT, (4, 16), (4, 24), None)]:
            with self.subTest(name):
                torch._dynamo.reset()
                attacca.torch.reset()
                by = torch.rand(s), torch.rand(t)
                got = self.compiled(function)(x, w, *by, offsets)
                wanted = F.relu(scaled_groups.by_groups(x, w, *by, offsets))
                torch.testing.assert_close(got.double(), wanted, rtol=0.01, atol=0.01)
                self.assertEqual(len(self.kinds()), 1)

    def test_groups_of_the_sums_are_left(self):
        def function(x, y, offsets):
            return F.relu(torch._grouped_mm(x.t(), y, offs=offsets))

        x, y = torch.randn(48, 32).bfloat16(), torch.randn(48, 16).bfloat16()
        offsets = torch.tensor([16, 16, 48], dtype=torch.int32)
        got = self.compiled(function)(x, y, offsets)
        torch.testing.assert_close(got, function(x, y, offsets))
        reasons = [left.reason for graph in attacca.torch.report().graphs for left in graph.left]
        self.assertIn("_grouped_mm of 2-D operands, whose groups are parts of the sums", reasons)


if __name__ == "__main__":
    unittest.main()
