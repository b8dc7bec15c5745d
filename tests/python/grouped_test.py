"""attacca.grouped_matmul on numpy arrays and torch tensors, against a loop over rows in f64."""
import unittest

import numpy as np
import torch

import attacca

RANDOM = np.random.default_rng(0)
GROUPS, INNER, COLUMNS = 4, 24, 10
W = RANDOM.standard_normal((GROUPS, INNER, COLUMNS), np.float32)
ENDS = ([3, 3, 20, 31], [0, 0, 0, 0], [31, 31, 31, 31], [5, 9, 12, 20], [20, 5, 40, 9],
        [-3, 7, -1, 10**9], [2**31 - 1, -2**31, 0, 0])


def products(x, w, ends):
    """Each row by the matrix of the first group whose end lies behind it."""
    result, begin = np.zeros((len(x), w.shape[2])), 0
    for group, end in enumerate(ends):
        end = min(max(end, begin), len(x))
        result[begin:end] = x[begin:end].astype(np.float64) @ w[group]
        begin = end
    return result


def silu(x):
    return x / (1 + np.exp(-x))


class Grouped(unittest.TestCase):
    def close(self, got, wanted, tolerance=1e-5):
        np.testing.assert_allclose(np.asarray(got, np.float64), wanted, rtol=tolerance,
                                   atol=tolerance)

    def test_products_of_any_offsets(self):
        for rows in (0, 1, 31):
            x = RANDOM.standard_normal((rows, INNER), np.float32)
            for ends in ENDS:
                offsets = np.array(ends, np.int32)
                wanted = products(x, W, ends)
                for w in (W, W.mT.copy().mT, np.repeat(W, 2, 2)[:, :, ::2]):
                    with self.subTest(rows=rows, ends=ends, strides=w.strides):
                        self.close(attacca.grouped_matmul(x, w, offsets), wanted)

    def test_operands_and_results(self):
        x = RANDOM.standard_normal((31, INNER), np.float32)
        row, col = RANDOM.standard_normal(COLUMNS), RANDOM.standard_normal((31, 1), np.float32)
        full = RANDOM.standard_normal((31, COLUMNS), np.float32)
        offsets = np.array(ENDS[0], np.int32)
        wanted = products(x, W, ENDS[0])
        tail = "relu(acc + row(r)) * col(c), y = acc - full(f)"
        got = attacca.grouped_matmul(x, W, offsets, tail, r=row, c=col, f=full)
        self.close(got[0], np.maximum(wanted + row, 0) * col)
        self.close(got[1], wanted - full)
        out = np.empty((31, COLUMNS), np.float32)
        given = attacca.grouped_matmul(x, W, offsets, lambda acc, f: acc * f, out=out, f=full)
        self.assertIs(given, out)
        self.close(out, wanted * full)
        named = attacca.grouped_matmul(x, W, offsets, "acc * full(x) + row(w) - col(offsets)",
                                       x=full, w=row, offsets=col)
        self.close(named, wanted * full + row - col)

    def test_gates(self):
        x = RANDOM.standard_normal((31, INNER), np.float32)
        offsets = np.array(ENDS[0], np.int32)
        wanted, half = products(x, W, ENDS[0]), COLUMNS // 2
        gate = "silu(acc0) * acc1"
        self.close(attacca.grouped_matmul(x, W, offsets, gate),
                   silu(wanted[:, :half]) * wanted[:, half:])
        self.close(attacca.grouped_matmul(x, W, offsets, gate, gate="alternate"),
                   silu(wanted[:, ::2]) * wanted[:, 1::2])
        self.close(attacca.grouped_matmul(x, (W[:, :, :half], W[:, :, half:]), offsets, gate),
                   silu(wanted[:, :half]) * wanted[:, half:])

    def test_torch_in_bf16(self):
        x, w = torch.randn(31, INNER).bfloat16(), torch.randn(GROUPS, COLUMNS, INNER).bfloat16()
        offsets = torch.tensor(ENDS[0]).int()
        got = attacca.grouped_matmul(x, w.mT, offsets, "gelu(acc)")
        self.assertEqual(got.dtype, torch.bfloat16)
        product = torch.from_numpy(products(x.float().numpy(), w.mT.float().numpy(), ENDS[0]))
        self.close(got.float(), torch.nn.functional.gelu(product), 0.01)
        peer = torch._grouped_mm(x, w.mT, offs=offsets)
        self.close(attacca.grouped_matmul(x, w.mT, offsets).float(), peer.double(), 0.02)

    def test_scaled_blocks(self):
        """Against a loop over experts whose blocks torch scales, as DeepSeek-V3's."""
        rows, k, n, ends = 31, 256, 384, ENDS[0]
        x, w = torch.randn(rows, k).to(torch.float8_e4m3fn), torch.randn(GROUPS, n, k)
        w = w.to(torch.float8_e4m3fn)
        s, t = torch.rand(rows, k // 128) + 0.1, torch.rand(GROUPS, n // 128, k // 128) + 0.1
        wide_x = (x.double().view(rows, -1, 128) * s[..., None]).view(rows, k)
        wide_w = (w.double().view(GROUPS, n // 128, 128, k // 128, 128)
                  * t[:, :, None, :, None]).view(GROUPS, n, k)
        wanted, begin = torch.zeros(rows, n, dtype=torch.float64), 0
        for expert, end in enumerate(ends):
            wanted[begin:end] = torch.nn.functional.silu(wide_x[begin:end] @ wide_w[expert].T)
            begin = end
        inputs = (f"x: f8e4m3[R, {k}], s: f32[R, 2], w: f8e4m3[{GROUPS}, {n}, {k}], "
                  f"t: f32[{GROUPS}, 3, 2], o: s32[{GROUPS}]")
        spread = (f"a = reshape(cast(reshape(x, [R, 2, 128]), f32) * reshape(s, [R, 2, 1]), "
                  f"[R, {k}])\n"
                  f"c = reshape(cast(reshape(w, [{GROUPS}, 3, 128, 2, 128]), f32) "
                  f"* reshape(t, [{GROUPS}, 3, 1, 2, 1]), [{GROUPS}, {n}, {k}])\n")
        known = ("a = scale_blocks(x, s, [1, 128])\n"
                 "c = scale_blocks(w, t, [1, 128, 128])\n")
        for body in (spread, known):
            for mode in ("fp32", "eager"):
                with self.subTest(body=body, mode=mode):
                    plan = attacca.compile(f"graph experts({inputs}) {{\n{body}return "
                                           "silu(grouped_matmul(a, transpose(c), o))\n}",
                                           mode=mode)
                    self.close(plan(x, s, w, t, torch.tensor(ends).int()), wanted, 1e-3)

    def test_errors(self):
        x, offsets = np.zeros((5, INNER), np.float32), np.zeros(GROUPS, np.int32)

        def expect(message, *arguments, **keywords):
            with self.assertRaisesRegex(attacca.Error, message):
                attacca.grouped_matmul(*arguments, **keywords)
        expect("x has shape", x[0], W, offsets)
        expect("w has shape", x, W[0], offsets)
        expect(r"x has K=24 and w K=10(.|\n)*w\.mT", x, W.swapaxes(1, 2), offsets)
        expect("x is f32 and w is f64", x, W.astype(np.float64), offsets)
        expect(r"offsets are s64\[4\], s32\[4\] is wanted", x, W, offsets.astype(np.int64))
        expect(r"offsets are s32\[3\]", x, W, offsets[1:])
        expect("the epilogue reads one product", x, (W, W), offsets)
        expect("w is 3 tensors", x, (W, W, W), offsets)
        expect("w has 9 columns", x, W[:, :, 1:], offsets, "acc0 * acc1")
        expect("unknown gate half", x, W, offsets, "acc0 * acc1", gate="half")
        expect("operand b is missing", x, W, offsets, "acc + row(b)")
        expect("unknown op", x, W, offsets, "sigmoyd(acc)")
        expect("operand gate has the name of a parameter of grouped_matmul", x, W, offsets,
               "acc * full(gate)")

    def test_torch_does_not_trace_it(self):
        x, w = torch.randn(5, INNER), torch.from_numpy(W)
        offsets = torch.zeros(GROUPS, dtype=torch.int32)
        with self.assertRaisesRegex(attacca.Error, "no custom op"):
            torch.func.vmap(lambda x: attacca.grouped_matmul(x, w, offsets))(x[None])


if __name__ == "__main__":
    unittest.main()
