"""batch_invariant=True on the CPU: a row has the same bits however many rows there are.

ATTACCA_SEED=7 and ATTACCA_CASES=200 test other and more cases. Each case runs a second time in a
process whose oneDNN has no AVX-512: its product then sums some rows in another order.
"""
import os
import random
import subprocess
import sys
import unittest

import ml_dtypes
import numpy as np

import attacca

SEED, CASES = int(os.environ.get("ATTACCA_SEED", 0)), int(os.environ.get("ATTACCA_CASES", 40))
FEWER = "DNNL_MAX_CPU_ISA"
BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
NUMPY = {"f32": np.float32, "f16": np.float16, "bf16": BF16, "f64": np.float64, "s8": np.int8,
         "u8": np.uint8, "f8e4m3": E4M3}
ROWS = [*range(1, 41), 47, 48, 49, 63, 64, 65, 95, 96, 97, 127, 128, 129, 130, 143, 144, 145, 191,
        192, 193, 200, 255, 256, 257, 299, 300]
MANY = [1024, 4097, 8192]

# Text of a graph's body, with the inputs besides x and w; "{w}" is w as [K, N].
FORMS = {
    "product": ("return matmul(x, {w})", []),
    "bias": ("return gelu(cast(matmul(x, {w}), f32) + b)", ["b: f32[N]"]),
    "column": ("return silu(matmul(x, {w}) * c) + b", ["b: f32[N]", "c: f32[M, 1]"]),
    "residual": ("return cast(relu(matmul(x, {w}) + b) * r, bf16)", ["b: f32[N]", "r: f32[M, N]"]),
    "softmax": ("h = matmul(x, {w})\n  e = exp(h - reduce_max(h, axes=[-1], keepdims=true))\n"
                "  return e / sum(e, axes=[-1], keepdims=true)", []),
    "norm": ("h = matmul(x, {w}) + r\n  s = mean(h * h, axes=[-1], keepdims=true)\n"
             "  n = h * rsqrt(s + 0.00001)\n  return tanh(matmul(n, transpose(v)))",
             ["r: f32[M, N]", "v: f32[9, N]"]),
    "gate": ("return silu(cast(matmul(x, {w}), f32)) * cast(matmul(x, {u}), f32)", ["u"]),
    "transposed": ("return matmul(transpose(y), {w}) + b", ["b: f32[N]", "y: f32[K, M]"]),
}


def values(generator, dtype, shape):
    if dtype in ("s8", "u8"):
        low, high = (-128, 128) if dtype == "s8" else (0, 256)
        return generator.integers(low, high, shape).astype(NUMPY[dtype])
    return generator.standard_normal(shape).astype(NUMPY[dtype])


class Case:
    """A graph with symbolic M, and inputs of the most rows."""

    def __init__(self, seed, most):
        pick = random.Random(seed)
        self.dtype = pick.choice(["f32", "f32", "f16", "bf16", "f64", "s8", "u8", "f8e4m3"])
        self.n = pick.choice([1, 3, 16, 33, 64, 100, 257, 300])
        self.k = pick.choice([1, 2, 7, 16, 63, 64, 129, 333, 1001])
        self.form = pick.choice(list(FORMS) if self.dtype == "f32" else ["product", "bias", "gate"])
        self.by_columns, self.constant = pick.random() < 0.5, pick.random() < 0.5
        self.mode = pick.choice(["fp32", "fp32", "eager"])
        self.threads = pick.choice([1, 2])
        generator = np.random.default_rng(seed)
        weights = "s8" if self.dtype == "u8" else self.dtype
        stored = (self.n, self.k) if self.by_columns else (self.k, self.n)
        body, more = FORMS[self.form]
        types = [f"x: {self.dtype}[M, {self.k}]",
                 f"w: {weights}[{stored[0]}, {stored[1]}]"]
        types += [f"u: {weights}[{stored[0]}, {stored[1]}]" if each == "u" else each
                  for each in more]
        read = {name: f"transpose({name})" if self.by_columns else name for name in "wu"}
        self.text = (f"graph g({', '.join(types)}) {{\n  {body.format(**read)}\n}}"
                     .replace("[N", f"[{self.n}").replace("N]", f"{self.n}]")
                     .replace("[K", f"[{self.k}"))
        self.inputs = {}
        for each in types:
            name, dtype = each.split(": ")[0], each.split(": ")[1].split("[")[0]
            shape = each.split("[", 1)[1][:-1].replace("M", str(most)).replace("N", str(self.n))
            shape = shape.replace("K", str(self.k))
            self.inputs[name] = values(generator, dtype, [int(e) for e in shape.split(",")])

    def __str__(self):
        return (f"{self.mode}, {self.threads} threads, constant={self.constant}:\n{self.text}")

    def plan(self, **options):
        constants = {"w": self.inputs["w"]} if self.constant else None
        return attacca.compile(self.text, mode=self.mode, threads=self.threads,
                               constants=constants, **options)

    def run(self, plan, first, end):
        """The rows from `first` on as a batch of their own."""
        given = []
        for info in plan.inputs:
            tensor = self.inputs[info.name]
            if info.shape[0] == "M":
                tensor = tensor[first:end]
            elif info.shape[-1] == "M":
                tensor = tensor[:, first:end]
            given.append(tensor)
        return np.asarray(plan(*given))


def bits(array):
    return np.ascontiguousarray(array).view(np.uint8)


def differing(case, plan, whole, spans):
    """The spans of rows whose bits are not those that the rows have in the largest batch."""
    return [(first, end) for first, end in spans
            if not np.array_equal(bits(case.run(plan, first, end)), bits(whole[first:end]))]


def spans_of(seed, most, rows):
    """Batches of each size, from the first row and from others on."""
    pick = random.Random(seed)
    spans = [(0, count) for count in rows if count <= most]
    for count in rows:
        if count < most:
            first = pick.randrange(1, most - count + 1)
            spans.append((first, first + count))
    return spans


class Rows(unittest.TestCase):
    def test_random_cases(self):
        for seed in range(SEED * CASES, (SEED + 1) * CASES):
            case = Case(seed, 300)
            plan = case.plan(batch_invariant=True)
            whole = case.run(plan, 0, 300)
            spans = spans_of(seed, 300, random.Random(seed).sample(ROWS, 25) + [1, 2])
            with self.subTest(str(case)):
                self.assertEqual(differing(case, plan, whole, spans), [])

    def test_many_rows(self):
        for seed in range(SEED * CASES, SEED * CASES + max(2, CASES // 8)):
            case = Case(seed, 8192)
            plan = case.plan(batch_invariant=True)
            whole = case.run(plan, 0, 8192)
            with self.subTest(str(case)):
                self.assertEqual(
                    differing(case, plan, whole, spans_of(seed, 8192, [1, 5, 300, *MANY])), [])

    def test_long_reductions(self):
        """Results of more than 32 K elements, fewer and more of them than one task takes."""
        text = "graph g(x: f32[M, 40000]) {\n  return sum(x, axes=[-1])\n}"
        plan = attacca.compile(text, batch_invariant=True)
        x = np.random.default_rng(0).standard_normal((600, 40000), np.float32)
        whole = np.asarray(plan(x))
        for count in (1, 100, 511, 512, 513):
            np.testing.assert_array_equal(np.asarray(plan(x[:count])), whole[:count])
        np.testing.assert_allclose(whole, x.astype(np.float64).sum(-1), rtol=1e-5, atol=1e-3)

    def test_other_rows(self):
        """A row depends on no other, not even on NaN."""
        plan = attacca.compile("graph g(x: f32[M, 77], w: f32[50, 77]) {\n"
                               "  return tanh(matmul(x, transpose(w)))\n}", batch_invariant=True)
        generator = np.random.default_rng(0)
        x, w = values(generator, "f32", (60, 77)), values(generator, "f32", (50, 77))
        whole = np.asarray(plan(x, w))
        other = x.copy()
        other[::2] = np.nan
        np.testing.assert_array_equal(np.asarray(plan(other, w))[1::2], whole[1::2])

    def test_values(self):
        """The products themselves, beside NumPy in f64."""
        for seed in range(SEED * CASES, SEED * CASES + 12):
            case = Case(seed, 70)
            got = case.run(attacca.compile(case.text, batch_invariant=True), 0, 70)
            usual = case.run(attacca.compile(case.text), 0, 70)
            with self.subTest(str(case)):
                np.testing.assert_allclose(got.astype(np.float64), usual.astype(np.float64),
                                           rtol=2e-2, atol=2e-2)
        generator = np.random.default_rng(1)
        x, w = values(generator, "f32", (70, 301)), values(generator, "f32", (301, 65))
        got = attacca.matmul(x, w, batch_invariant=True)
        np.testing.assert_allclose(got, x.astype(np.float64) @ w, rtol=1e-4, atol=1e-4)

    def test_usual_plans_differ(self):
        """Without the option, some row depends on the number of rows: the tests above can fail."""
        x = np.random.default_rng(0).standard_normal((300, 333), np.float32)
        w = np.random.default_rng(1).standard_normal((333, 16), np.float32)
        def rows(count, **options):
            return np.asarray(attacca.matmul(x[:count], w, **options))
        usual = rows(300)
        self.assertTrue(any(not np.array_equal(rows(m), usual[:m]) for m in range(1, 300)))
        invariant = rows(300, batch_invariant=True)
        for count in range(1, 300):
            np.testing.assert_array_equal(rows(count, batch_invariant=True), invariant[:count])

    @unittest.skipIf(FEWER in os.environ, "it is the process that the test starts")
    def test_without_avx512(self):
        run = subprocess.run([sys.executable, __file__, "Rows"],
                             env={**os.environ, FEWER: "AVX2"}, capture_output=True, text=True,
                             check=False)
        self.assertEqual(run.returncode, 0, run.stderr)


class Interface(unittest.TestCase):
    TEXT = "graph g(x: f32[M, 8], w: f32[8, 4]) {\n  return matmul(x, w)\n}"

    def test_plan(self):
        plan = attacca.compile(self.TEXT, batch_invariant=True)
        self.assertTrue(plan.batch_invariant)
        self.assertFalse(attacca.compile(self.TEXT).batch_invariant)
        self.assertIn("batch_invariant", str(plan.explain()))

    def test_file(self):
        import pickle
        plan = pickle.loads(pickle.dumps(attacca.compile(self.TEXT, mode="eager",
                                                         batch_invariant=True)))
        self.assertTrue(plan.batch_invariant)
        self.assertEqual(plan.mode, "eager")

    def test_not_a_flag(self):
        with self.assertRaisesRegex(attacca.Error, "batch_invariant is 1"):
            attacca.compile(self.TEXT, batch_invariant=1)

    def test_matmul_of_both(self):
        """Calls with and without it do not share a plan."""
        x = np.random.default_rng(0).standard_normal((5, 333), np.float32)
        w = np.random.default_rng(1).standard_normal((333, 3), np.float32)
        first = np.asarray(attacca.matmul(x, w, batch_invariant=True))
        attacca.matmul(x, w)
        np.testing.assert_array_equal(np.asarray(attacca.matmul(x, w, batch_invariant=True)), first)


if __name__ == "__main__":
    unittest.main()
