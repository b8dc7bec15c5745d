"""Tensors of any strides: slices, transposes, broadcasts, as inputs and as outputs."""
import os
import unittest

import ml_dtypes
import numpy as np
import torch

import attacca

SEED = int(os.environ.get("ATTACCA_SEED", "0"))
DTYPES = {"f64": (np.float64, 1e-12), "f32": (np.float32, 2e-5), "f16": (np.float16, 4e-3),
          "bf16": (ml_dtypes.bfloat16, 3e-2), "s8": (np.int8, 0)}
# B batches of M rows, K in, N out.
GRAPHS = {
    "linear": ("x: {t}[B, M, K], w: {t}[N, K], r: {t}[B, M, N]",
               "return y = silu(x @ transpose(w)) + r",
               lambda x, w, r: (silu(x @ w.T) + r,)),
    "batched": ("x: {t}[B, M, K], w: {t}[B, K, N], c: {t}[N]",
                "return y = relu(x @ w + c), z = x @ w",
                lambda x, w, c: (np.maximum(x @ w + c, 0), x @ w)),
    "rows of all": ("x: {t}[B, M, K], w: {t}[K, N]",
                    "return y = reshape(x, [B*M, K]) @ w",
                    lambda x, w: (x.reshape(-1, x.shape[-1]) @ w,)),
    "pointwise": ("x: {t}[B, M, N], w: {t}[M, 1], c: {t}[]",
                  "return y = x * w + c, z = permute(x, [2, 0, 1])",
                  lambda x, w, c: (x * w + c, x.transpose(2, 0, 1))),
    "reductions": ("x: {t}[B, M, N]", "return y = softmax(x, axis=-1), z = sum(x, axes=[1])",
                   lambda x: (softmax(x), x.sum(1))),
}
WHOLE = ("x: s8[B, M, K], w: s8[N, K], r: s32[B, M, N]", "return y = matmul(x, transpose(w)) + r",
         lambda x, w, r: (x @ w.T + r,))


def silu(x):
    return x / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def laid_out(random, shape, repeats):
    """A zero array's view of this shape: permuted, padded and, where it may, repeated axes."""
    order = random.permutation(len(shape)) if random.random() < 0.3 else np.arange(len(shape))
    extents, parts = [], []
    for axis in order:
        step = int(random.integers(1, 3)) if random.random() < 0.3 else 1
        before, after = (int(e) for e in random.integers(0, 4, 2) * (random.random() < 0.5))
        once = repeats and random.random() < 0.15
        extents.append(1 if once else before + shape[axis] * step + after)
        parts.append(slice(None) if once else slice(before, before + shape[axis] * step, step))
    view = np.empty(extents, np.float64)[tuple(parts)]
    strides = np.empty(len(shape), int)
    for place, axis in enumerate(order):
        strides[axis] = 0 if extents[place] == 1 and shape[axis] != 1 else view.strides[place] // 8
    return int(np.prod(extents)), (view.__array_interface__["data"][0]
                                   - (view.base if view.base is not None else view)
                                   .__array_interface__["data"][0]) // 8, strides


def tensor(random, shape, dtype, repeats=True, fill=None):
    """A random array in such a layout, and the whole memory that it is a part of."""
    elements, offset, strides = laid_out(random, shape, repeats)
    values = random.integers(-9, 10, elements) if np.dtype(
        dtype).kind == "i" else random.standard_normal(elements)
    whole = values.astype(dtype) if fill is None else np.full(elements, fill, dtype)
    view = np.lib.stride_tricks.as_strided(whole[offset:] if elements else whole, shape,
                                           [s * whole.itemsize for s in strides])
    return view, whole


def extents(random, types, sizes):
    found = []
    for declared in types.split("], "):
        inside = declared.partition("[")[2].strip("]")
        found.append(tuple(sizes.get(d.strip(), 1) for d in inside.split(",")) if inside else ())
    return found


class Strides(unittest.TestCase):
    def compare(self, random, plan, arguments, expected, tolerance, label):
        """Without out, with dense and with padded outs, whose padding stays as it was."""
        for got, want in zip(as_tuple(plan(*arguments)), expected):
            self.close(got, want, tolerance, label)
        outs, wholes = zip(*[tensor(random, want.shape, got.dtype, False, 7)
                             for got, want in zip(as_tuple(plan(*arguments)), expected)])
        covered = [whole.copy() for whole in wholes]
        for out, whole, cover in zip(outs, wholes, covered):
            start = (out.__array_interface__["data"][0]
                     - whole.__array_interface__["data"][0]) // whole.itemsize
            np.lib.stride_tricks.as_strided(cover[start:] if cover.size else cover, out.shape,
                                            out.strides)[...] = 0
        plan(*arguments, out=list(outs))
        for out, whole, cover, want in zip(outs, wholes, covered, expected):
            self.close(out, want, tolerance, f"{label}, out {out.strides}")
            untouched = cover.astype(np.float64) == 7
            np.testing.assert_array_equal(whole.astype(np.float64)[untouched], 7, label)

    def close(self, got, want, tolerance, label):
        self.assertEqual(got.shape, want.shape, label)
        scale = max(1, float(np.abs(want).max(initial=0)))
        np.testing.assert_allclose(np.asarray(got, np.float64), want, tolerance, tolerance * scale,
                                   err_msg=label)

    def test_graphs(self):
        random = np.random.default_rng(SEED)
        for name, (types, body, reference) in {**GRAPHS, "whole": WHOLE}.items():
            for short in ["s8"] if name == "whole" else [d for d in DTYPES if d != "s8"]:
                dtype, tolerance = DTYPES[short]
                plan = attacca.compile(f"graph g({types.format(t=short)}) {{ {body} }}", threads=2)
                for turn in range(6):
                    sizes = {s: int(random.integers(1, 7)) if random.random() < 0.8 else 1
                             for s in "BMKN"}
                    if turn == 5:
                        sizes[random.choice(["B", "M"])] = 0
                        if name == "reductions":
                            sizes["M"] = max(1, sizes["M"])
                    arguments = [tensor(random, shape,
                                        np.int32 if name == "whole" and i == 2 else dtype)[0]
                                 for i, shape in enumerate(extents(random, types, sizes))]
                    wide = np.int64 if name == "whole" else np.float64
                    with np.errstate(all="ignore"):
                        expected = reference(*(a.astype(wide) for a in arguments))
                    label = f"seed {SEED}, {name} {short} {sizes} {[a.strides for a in arguments]}"
                    with self.subTest(label):
                        self.compare(random, plan, arguments, expected, tolerance, label)

    def test_matmul(self):
        random = np.random.default_rng(SEED + 1)
        for short, (dtype, tolerance) in DTYPES.items():
            if short == "s8":
                continue
            for _ in range(15):
                m, n, k = (int(e) for e in random.integers(1, 20, 3))
                a, b, full = (tensor(random, s, dtype)[0] for s in [(m, k), (k, n), (m, n)])
                row, column = tensor(random, (n,), np.float32)[0], tensor(random, (m, 1), dtype)[0]
                label = f"seed {SEED + 1}, {short} {[t.strides for t in (a, b, full, row)]}"
                exact = [t.astype(np.float64) for t in (a, b, full, row, column)]
                want = np.maximum(exact[0] @ exact[1] + exact[3], 0) * exact[4] + exact[2]
                out, whole = tensor(random, (m, n), dtype, False, 7)
                with self.subTest(label):
                    operands = {"r": row, "c": column, "f": full}
                    tail = "relu(acc + row(r)) * col(c) + full(f)"
                    self.close(attacca.matmul(a, b, tail, **operands), want, tolerance, label)
                    attacca.matmul(a, b, tail, out=out, **operands)
                    self.close(out, want, tolerance, label)
                    out[...] = 7
                    self.assertTrue((whole.astype(np.float64) == 7).all(), label)

    def test_leading_axes_of_slices(self):
        random = np.random.default_rng(SEED + 2)
        x, w = random.standard_normal((3, 5, 40), np.float32), random.standard_normal((24, 16),
                                                                                      np.float32)
        res, out = random.standard_normal((3, 5, 32), np.float32), np.full((3, 5, 32), 7,
                                                                           np.float32)
        got = attacca.matmul(x[..., 8:32], w, "acc + full(r)", r=res[..., 16:], out=out[..., :16])
        self.close(got, x[..., 8:32].astype(np.float64) @ w + res[..., 16:], 1e-5, "")
        self.assertTrue((out[..., 16:] == 7).all())
        self.close(attacca.matmul(x[:, :1, :24], w), x[:, :1, :24] @ w, 1e-5, "")

    def test_leading_axes_that_lie_as_they_please(self):
        random = np.random.default_rng(SEED + 3)
        tail = "relu(acc + row(r)) * col(c) + full(f), acc"
        for turn in range(60):
            short = ["f32", "f64", "f16", "bf16"][turn % 4]
            dtype, tolerance = DTYPES[short]
            lead = tuple(int(e) for e in random.integers(1, 6, random.integers(2, 5)))
            if turn % 15 == 14:
                lead = (*lead[:-1], 0)
            n, k = (int(e) for e in random.integers(1, 20, 2))
            # operands and outs may have all rows on one axis
            flat = (int(np.prod(lead)),) if turn % 3 == 0 else lead
            (a, _), (b, _), (full, _), (column, _), (row, _) = (
                tensor(random, shape, dtype)
                for shape in [(*lead, k), (k, n), (*flat, n), (*lead, 1), (n,)])
            (first, padding), (second,
                               _) = (tensor(random, (*flat, n), dtype, False, 7) for _ in range(2))
            exact = {name: t.astype(np.float64)
                     for name, t in [("a", a), ("b", b), ("f", full), ("c", column), ("r", row)]}
            product = exact["a"] @ exact["b"]
            want = np.maximum(product + exact["r"], 0) * exact["c"] + exact["f"].reshape(*lead, n)
            strides = [t.strides for t in (a, b, full, column, first, second)]
            label = f"seed {SEED + 3}, {short} {lead} {strides}"
            with self.subTest(label):
                got = attacca.matmul(a, b, tail, r=row, c=column, f=full)
                for each, wanted in zip(got, [want, product]):
                    self.close(each, wanted, tolerance, label)
                attacca.matmul(a, b, tail, r=row, c=column, f=full, out=[first, second])
                self.close(first, want.reshape(*flat, n), tolerance, label)
                self.close(second, product.reshape(*flat, n), tolerance, label)
                first[...] = 7
                self.assertTrue((padding.astype(np.float64) == 7).all(), label)

    def test_leading_axes_of_torch(self):
        generator = torch.Generator().manual_seed(SEED)
        wide, w = torch.randn(4, 3, 9, 40, generator=generator), torch.randn(16, 24,
                                                                             generator=generator)
        for dtype, tolerance in [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)]:
            for x in (wide[:, :, :7, 8:32], wide[:, 1, ::2, :24],
                      wide.transpose(0, 2)[1:, ..., :24],
                      wide[:1, :, :, :24].expand(5, 3, 9, 24)):
                x, v = x.to(dtype), w.to(dtype)
                out = torch.full((*x.shape[:-2], x.shape[-2] + 2, 48), 7, dtype=dtype)
                part = out[..., 1:-1, 16:32]
                for given, mode in [(x, "fp32"), (x.contiguous(), "eager")]:
                    self.assertIs(attacca.matmul(given, v.T, "silu(acc) + 1", out=part, mode=mode),
                                  part)
                    want = torch.nn.functional.silu(given.double() @ v.double().T) + 1
                    torch.testing.assert_close(part.double(), want, rtol=tolerance,
                                               atol=tolerance * 4)
                part.fill_(7)
                self.assertTrue((out == 7).all())

    def test_torch(self):
        generator = torch.Generator().manual_seed(SEED)
        x, w, r = (torch.randn(*s, generator=generator) for s in [(9, 64), (48, 64), (9, 1)])
        for dtype, tolerance in [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)]:
            a, b, c = (t.to(dtype) for t in (x[:, 8:40], w[:, :32], r.expand(9, 48)))
            a, b = x.to(dtype)[:, 8:40], w.to(dtype)[:, :32]
            out = torch.full((9, 96), 7, dtype=dtype)
            for each in (b.T, b.T.contiguous(), b.T.contiguous().T.contiguous().T):
                got = attacca.matmul(a, each, "silu(acc) + full(c)", c=c, out=out[:, 48:])
                want = torch.nn.functional.silu(a.double() @ b.double().T) + c.double()
                torch.testing.assert_close(got.double(), want, rtol=tolerance, atol=tolerance * 4)
            self.assertTrue((out[:, :48] == 7).all())

    def test_one_plan_serves_other_sizes_of_tensors_laid_out_alike(self):
        plan = attacca.compile("graph g(x: f32[B, M, 8], w: f32[8, 4]) { return relu(x @ w) }")
        w = np.random.default_rng(0).standard_normal((8, 4), np.float32)
        for batch, rows in [(2, 3), (5, 7), (1, 3), (2, 1)]:
            x = np.random.default_rng(1).standard_normal((batch, rows, 20), np.float32)[..., 3:11]
            self.close(plan(x, w), np.maximum(x.astype(np.float64) @ w, 0), 1e-5, f"{batch} {rows}")

    def test_what_is_refused(self):
        plan = attacca.compile("graph g(x: f32[M, N]) { return y = x * 2 }")
        x = np.ones((4, 6), np.float32)
        for call, pattern in [
                (lambda: plan(x[::-1]), "negative stride.*at x"),
                (lambda: plan(x[:, ::-1]), "negative stride"),
                (lambda: plan(x, out=np.zeros_like(x)[::-1]), "negative stride.*at out"),
                (lambda: plan(x, out=np.lib.stride_tricks.as_strided(np.zeros(9, "f4"), (4, 6),
                                                                     (4, 4))),
                 "elements of output y may overlap")]:
            with self.subTest(pattern), self.assertRaisesRegex(attacca.Error, pattern):
                call()
        self.close(plan(x[:1][::-1]), np.full((1, 6), 2), 0, "one row has no direction")


def as_tuple(results):
    return results if isinstance(results, tuple) else (results,)


if __name__ == "__main__":
    unittest.main()
