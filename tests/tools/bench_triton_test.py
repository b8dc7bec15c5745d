"""The Triton kernels of bench/gpu/triton_experts.py in Triton's interpreter, on the CPU, beside a
loop over the experts in f64. The interpreter multiplies no bf16: the tests are of f16 and f32."""
import os
import sys
import types
import unittest
from unittest import mock

os.environ["TRITON_INTERPRET"] = "1"
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench/gpu"))

import torch
import torch.nn.functional as F

import stopwatch
import triton_experts
from triton_experts import Config, Work, padded

COUNTS = [[5, 0, 1, 16, 0, 0, 17, 3], [0, 0, 0, 0, 0, 0, 0, 1], [40, 0, 0, 0, 0, 0, 0, 0],
          [16, 32, 16, 16, 0, 16, 16, 16], [0, 1, 1, 1, 0, 1, 1, 0]]
# Of each BLOCK_M, with one band and with several, with blocks of columns that end behind n = 80.
CONFIGS = [Config(16, 16, 32, 1, 4, 2), Config(16, 32, 16, 2, 4, 2), Config(32, 64, 64, 8, 4, 2),
           Config(64, 16, 32, 4, 4, 2)]


def ends_of(counts):
    return torch.tensor(counts).cumsum(0).to(torch.int32)


def by_expert(x, w, counts, pairs, divisor):
    """Row i: the product of pairs[i], in f64."""
    parts, begin = [], 0
    for matrix, count in zip(w.double(), counts):
        rows = pairs[begin:begin + count] // divisor
        parts.append(x[rows].double() @ matrix)
        begin += count
    return torch.cat(parts)


def launched(launch, count):
    """In place of stopwatch.Timed."""
    for i in range(count):
        launch(i)


def medians(contenders, rounds):
    """In place of stopwatch.medians: blocks of 32 rows are the fastest."""
    return {config: abs(config.block_m - 32) for config in contenders}


class Experts(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(7)

    def check(self, got, wanted, dtype):
        room = {torch.float16: 2.0**-9, torch.float32: 2.0**-18}[dtype]
        self.assertEqual((got.dtype, got.shape), (dtype, wanted.shape))
        self.assertLess(float((got.double() - wanted).abs().max()),
                        room * (1 + float(wanted.abs().max())))

    def test_every_configuration_at_every_routing(self):
        for config in CONFIGS:
            for counts in COUNTS:
                for dtype in (torch.float16, torch.float32):
                    with self.subTest(config=str(config), counts=counts, dtype=dtype):
                        rows, k, n = sum(counts), 96, 80
                        x, w = torch.randn(rows, k).to(dtype), torch.randn(8, k, n).to(dtype)
                        pairs = torch.arange(rows)
                        work = Work(x, w, [(ends_of(counts), pairs)], 1, False, None)
                        got = work.launches(config, work.buffers())(0)
                        self.check(got, by_expert(x, w, counts, pairs, 1), dtype)

    def test_weights_of_both_layouts_and_k_that_ends_within_a_block(self):
        for k in (64, 72):
            x, w = torch.randn(42, k).half(), torch.randn(8, 48, k).half()
            for matrices in (w.transpose(1, 2), w.transpose(1, 2).contiguous()):
                work = Work(x, matrices, [(ends_of(COUNTS[0]), torch.arange(42))], 1, False, None)
                got = work.launches(CONFIGS[0], work.buffers())(0)
                self.check(got, by_expert(x, w.transpose(1, 2), COUNTS[0], torch.arange(42), 1),
                           torch.float16)

    def test_pairs_of_tokens_and_the_router_s_weights(self):
        counts, k, n = COUNTS[0], 32, 48
        x, w, router = torch.randn(14, k).half(), torch.randn(8, k, n).half(), torch.rand(42, 1)
        pairs = torch.randperm(42)
        work = Work(x, w, [(ends_of(counts), pairs)], 3, False, router.half())
        got = work.launches(CONFIGS[1], work.buffers())(0)
        wanted = by_expert(x, w, counts, pairs, 3) * router.half().double()[pairs]
        self.check(got[pairs], wanted, torch.float16)

    def test_a_gate_and_several_draws(self):
        x, w = torch.randn(42, 32).half(), torch.randn(8, 32, 96).half()
        draws = [(ends_of(counts), torch.arange(42)) for counts in (COUNTS[0], COUNTS[0][::-1])]
        work = Work(x, w, draws, 1, True, None)
        launch = work.launches(CONFIGS[2], work.buffers())
        results = [launch(i) for i in range(2)]
        for got, counts in zip(results, (COUNTS[0], COUNTS[0][::-1])):
            gate, up = by_expert(x, w, counts, torch.arange(42), 1).chunk(2, dim=-1)
            # The product lies in memory as f16 before the activation.
            gate, up = gate.half().double(), up.half().double()
            self.check(got, F.silu(gate) * up, torch.float16)

    def test_inner_widths_beyond_a_block_of_the_activation(self):
        h = torch.randn(3, 2 * (triton_experts.SWIGLU_BLOCK + 8))
        out = torch.empty(3, h.shape[1] // 2)
        triton_experts.swiglu(h, out)
        gate, up = h.double().chunk(2, dim=-1)
        self.check(out, F.silu(gate) * up, torch.float32)

    def test_the_index_has_each_pair_once_in_blocks_of_its_expert(self):
        for counts in COUNTS:
            for block_m in (1, 16, 64):
                rows = sum(counts)
                pairs = torch.randperm(rows)
                ids, experts, used = padded(ends_of(counts), pairs, block_m)
                self.assertEqual(int(used), sum(-(-count // block_m) for count in counts))
                self.assertLessEqual(int(used), len(experts))
                self.assertEqual(len(ids), len(experts) * block_m)
                found = [[] for _ in counts]
                for block, expert in zip(ids.view(-1, block_m)[:int(used)], experts):
                    found[expert] += block[block < rows].tolist()
                self.assertEqual(found, [part.tolist() for part in pairs.split(counts)])
                self.assertTrue((ids[int(used) * block_m:] == rows).all())

    def test_a_graph_of_launches_fits_every_routing(self):
        sizes = {(len(made.ids), len(made.experts))
                 for counts in ([42] + [0] * 7, COUNTS[0], [7] + [5] * 7)
                 for made in [padded(ends_of(counts), torch.arange(42), 16)]}
        self.assertEqual(len(sizes), 1)
        # A block for each of 8 experts, and the 34 other rows in whole blocks.
        self.assertEqual(sizes, {(10 * 16, 10)})

    def test_the_fastest_configuration_that_runs(self):
        x, w = torch.randn(42, 32).half(), torch.randn(8, 32, 48).half()
        work = Work(x, w, [(ends_of(COUNTS[0]), torch.arange(42))], 1, False, None)
        broken = Config(24, 16, 32, 1, 4, 2)  # no power of two
        with mock.patch.multiple(stopwatch, Timed=launched, medians=medians), \
                mock.patch.object(triton_experts, "CONFIGS", [broken, *CONFIGS]):
            launch, config = triton_experts.fastest(work)
        self.assertEqual(config, CONFIGS[2])
        self.check(launch(0), by_expert(x, w, COUNTS[0], torch.arange(42), 1), torch.float16)
        with mock.patch.multiple(stopwatch, Timed=launched, medians=medians), \
                mock.patch.object(triton_experts, "CONFIGS", [broken]), \
                self.assertRaisesRegex(RuntimeError, "24x16x32 band=1 warps=4 stages=2: "):
            triton_experts.fastest(work)

    def test_without_triton_there_is_a_reason(self):
        with mock.patch.object(triton_experts, "triton", None), \
                self.assertRaisesRegex(RuntimeError, "there is no Triton"):
            triton_experts.fastest(types.SimpleNamespace())


if __name__ == "__main__":
    unittest.main()
