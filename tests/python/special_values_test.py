"""Softmax, norms and reductions of NaN, infinities, huge numbers, equal numbers and nothing: fused,
op by op and in f64 (run --check compares the three), and against torch.
"""
import math
import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np
import torch

import attacca

ATTACCA = pathlib.Path(os.environ["ATTACCA_BINARY_DIR"]) / "src/cli/attacca"
NAN, INF = math.nan, math.inf

# name: the text form, torch, and how many axes it keeps
OPS = {
    "softmax": ("softmax(x)", lambda x: torch.softmax(x, -1)),
    "softmax_down": ("softmax(x, axis=0)", lambda x: torch.softmax(x, 0)),
    "layernorm": ("layernorm(x)", lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:])),
    "rmsnorm": ("rmsnorm(x)", lambda x: torch.nn.functional.rms_norm(x, x.shape[-1:], eps=1e-6)),
    "sum": ("sum(x, axes=[1])", lambda x: x.sum(1)),
    "sum_down": ("sum(x, axes=[0])", lambda x: x.sum(0)),
    "mean": ("mean(x, axes=[1])", lambda x: x.mean(1)),
    "mean_of_squares": ("mean(x * x, axes=[1])", lambda x: (x * x).mean(1)),
    "largest": ("reduce_max(x, axes=[1])", lambda x: x.amax(1)),
    "smallest": ("reduce_min(x, axes=[1])", lambda x: x.amin(1)),
    "size": ("amax(x, axes=[1])", lambda x: x.abs().amax(1)),
}
F = torch.nn.functional
# Functions that torch has, too, and that give a zero for a zero.
OF_ZERO = {
    "relu": F.relu, "relu6": F.relu6, "leaky_relu": F.leaky_relu, "elu": F.elu, "selu": F.selu,
    "silu": F.silu,
    # As F.gelu where PyTorch has kernels of AVX-512; elsewhere that gives 0 for -0.
    "gelu": lambda x: 0.5 * x * (1 + torch.erf(x * 0.5 ** 0.5)),
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x), "mish": F.mish, "hardswish": F.hardswish,
    "tanh": torch.tanh, "erf": torch.erf, "expm1": torch.expm1, "log1p": torch.log1p,
    "sinh": torch.sinh, "asinh": torch.asinh, "atanh": torch.atanh, "sin": torch.sin,
    "tan": torch.tan, "asin": torch.asin, "atan": torch.atan,
    "sqrt": torch.sqrt, "floor": torch.floor, "ceil": torch.ceil, "round": torch.round,
    "neg": torch.neg, "abs": torch.abs, "softsign": F.softsign,
}
ROWS = [
    [1, NAN, 2, 3], [1, INF, 2, 3], [1, -INF, 2, 3], [-INF] * 4, [INF] * 4, [INF, -INF, 1, 2],
    [NAN] * 4, [3e4, 3e4, 3e4, 3e4], [1e-30, 2e-30, 1e-38, 1e-40], [0, -0.0, 0, -0.0], [5] * 4,
    [-1e4, 1e4, 0, 88], [1, 2, 3, 4],
]
# The sum of squares overflows f32, that of the numbers does not.
HUGE = [[1e20, -1e20, 1e20, 3e20], [2e38, 1e38, -1e38, 1]]
DTYPES = {"f16": torch.float16, "f32": torch.float32, "f64": torch.float64}


class SpecialValues(unittest.TestCase):
    def run_all(self, x, dtype, mode, texts):
        """Every text's result by attacca, checked against f64."""
        with tempfile.TemporaryDirectory() as folder:
            np.save(f"{folder}/x.npy", x.numpy())
            results = ", ".join(f"{name} = {text}" for name, text in texts.items())
            graph = pathlib.Path(folder) / "g.attacca"
            graph.write_text(
                f"graph g(x: {dtype}[{x.shape[0]}, {x.shape[1]}]) {{ return {results} }}")
            run = subprocess.run([ATTACCA, "run", graph, "--input", f"x={folder}/x.npy", "--output",
                                  f"{folder}/out", "--check", "--mode", mode],
                                 capture_output=True, text=True, timeout=100)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            return {name: torch.from_numpy(np.load(f"{folder}/out/{name}.npy")) for name in texts}

    def compare(self, x, dtype, ops=tuple(OPS)):
        for mode in ("fp32", "eager"):
            for name, got in self.run_all(x, dtype, mode,
                                          {name: OPS[name][0] for name in ops}).items():
                # torch sums f16 in f32 and rounds once, too; in f32 its norms lose what ours keep.
                want = OPS[name][1](x.double() if dtype == "f16" else x).to(x.dtype)
                tolerance = {"f16": 2e-3, "f32": 2e-6, "f64": 1e-13}[dtype]
                with self.subTest(op=name, dtype=dtype, mode=mode):
                    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance * 1e-3,
                                               equal_nan=True)

    def test_rows(self):
        for dtype, torch_dtype in DTYPES.items():
            for begin in (0, 3, 8):  # an axis down the rows mixes them
                self.compare(torch.tensor(ROWS[begin:], dtype=torch_dtype), dtype)

    def test_overflow_of_the_squares(self):
        ops = ("softmax", "rmsnorm", "mean_of_squares", "largest", "size", "mean")
        self.compare(torch.tensor(HUGE), "f32", ops)

    def test_long_equal_rows(self):
        for dtype, torch_dtype in DTYPES.items():
            self.compare(torch.full((3, 1000), 0.1, dtype=torch_dtype), dtype,
                         ("softmax", "rmsnorm", "mean", "largest"))

    def test_celu_near_the_largest_numbers(self):
        """x / 0.1 overflows where neither x nor 2 * x does."""
        for dtype, torch_dtype in DTYPES.items():
            huge = torch.finfo(torch_dtype).max
            x = torch.tensor([3e38 if dtype == "f32" else 0.9 * huge, huge, -huge, huge / 20, 1,
                              -1],
                             dtype=torch_dtype)
            tolerance = {"f16": 2e-3, "f32": 2e-6, "f64": 1e-13}[dtype]
            for alpha in (0.1, 0.25, 1e-4, 3.0):
                want = torch.nn.functional.celu(x, alpha=alpha)
                for v, given in (("x", x), ("(2 * x)", x / 2)):
                    for text in (f"where({v} < 0, {alpha} * expm1({v} / {alpha}), {v})",
                                 f"max({v}, 0) + min({alpha} * (exp({v} / {alpha}) - 1), 0)"):
                        plan = attacca.compile(f"graph g(x: {dtype}[N]) {{ return {text} }}")
                        with self.subTest(text=text, dtype=dtype):
                            torch.testing.assert_close(torch.from_numpy(plan(given.numpy())), want,
                                                       rtol=tolerance, atol=0)

    def test_nothing(self):
        """torch refuses the maximum of no elements; here it is the identity of max."""
        for dtype, torch_dtype in DTYPES.items():
            for shape in ((3, 0), (0, 4), (0, 0)):
                x = torch.zeros(shape, dtype=torch_dtype)
                extremes = ("largest", "smallest", "size")
                self.compare(x, dtype, tuple(name for name in OPS if name not in extremes))
                got = self.run_all(x, dtype, "fp32", {name: OPS[name][0] for name in extremes})
                for name, value in zip(extremes, (-INF, INF, 0)):
                    self.assertEqual(got[name].tolist(), [value] * shape[0])

    def test_signs_of_zeros(self):
        """Alone, and beside a number for which the functions take their slow path."""
        texts = {f"{name}_": f"{name}(x)" for name in OF_ZERO}
        texts["softsign_"] = "x / (1 + abs(x))"
        for dtype, torch_dtype in DTYPES.items():
            for beside in (0.0, 100.0):
                x = torch.tensor([[-0.0, 0.0, -0.0, -0.0, 0.0, beside] * 6], dtype=torch_dtype)
                for mode in ("fp32", "eager"):
                    got = self.run_all(x, dtype, mode, texts)
                    for name, function in OF_ZERO.items():
                        with self.subTest(name, dtype=dtype, beside=beside, mode=mode):
                            zeros = got[f"{name}_"][x == 0]
                            want = function(x)[x == 0]
                            self.assertTrue(bool((zeros == 0).all()), zeros)
                            self.assertEqual(zeros.signbit().tolist(), want.signbit().tolist())


if __name__ == "__main__":
    unittest.main()
