"""What type checkers report, and that arguments of wrong types raise attacca.Error, never another
exception."""
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types
import unittest
from typing import Annotated

import ml_dtypes
import numpy as np
import torch

import attacca
import attacca.torch
from attacca.torch import QuantizedLinear

HERE = pathlib.Path(__file__).resolve().parent
TEXT = "graph g(x: f32[M, 24], w: f32[N, 24]) { return y = silu(x @ transpose(w)) }"
A, W = np.ones((3, 24), np.float32), np.ones((5, 24), np.float32)


class Mypy(unittest.TestCase):
    def test_a_users_file(self):
        """All that is documented passes --strict, and so do the examples; each wrong line has the
        error that its end names."""
        user = HERE / "typed_user.py"
        lines = user.read_text().splitlines()
        expected = {(number, line.partition("# EXPECT ")[2]) for number, line in enumerate(lines, 1)
                    if "# EXPECT " in line and not line.startswith("reveal")}
        cache = pathlib.Path(os.environ.get("ATTACCA_BINARY_DIR",
                                            tempfile.gettempdir())) / "mypy_cache"
        with tempfile.TemporaryDirectory() as empty:  # no settings of this repository
            ran = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir",
                                  str(cache), "--config-file",
                                  str(HERE / "typed_user.toml"), str(user),
                                  *map(str,
                                       sorted((HERE.parents[1] / "examples/python").glob("*.py")))],
                                 capture_output=True, text=True, cwd=empty,
                                 env={**os.environ,
                                      "PYTHONPATH": str(pathlib.Path(attacca.__file__).parents[1])})
        found = {(int(number), code) for number, code in
                 re.findall(r"typed_user\.py:(\d+): error: .*\[([\w-]+)\]$", ran.stdout, re.M)}
        self.assertEqual(found, expected, ran.stdout + ran.stderr)
        # none in examples
        self.assertEqual(ran.stdout.count(": error:"), len(expected), ran.stdout)
        for revealed in ("attacca._plan.Plan", "attacca._trace.fused.Fused", "builtins.str"):
            self.assertIn(f'Revealed type is "{revealed}"', ran.stdout)


class Names(unittest.TestCase):
    def test_dtypes_of_every_kind(self):
        for given, short in [("bf16", torch.bfloat16), ("bfloat16", torch.bfloat16),
                             (torch.bfloat16, torch.bfloat16),
                             (ml_dtypes.bfloat16, torch.bfloat16),
                             (np.dtype(ml_dtypes.bfloat16), torch.bfloat16),
                             (np.float16, torch.float16), (np.dtype("f8"), torch.float64),
                             (torch.float8_e4m3fn, torch.float8_e4m3fn), (float, torch.float64)]:
            with self.subTest(given):
                got = attacca.matmul(torch.from_numpy(A), torch.from_numpy(W).T, out_dtype=given)
                self.assertIs(got.dtype, short)
        for given in [np.dtype(">f4"), np.complex64, torch.complex64, np.dtype([("x", "f4")]),
                      "f33", str, torch]:
            with self.subTest(given), self.assertRaisesRegex(attacca.Error, "dtype"):
                attacca.matmul(A, W.T, out_dtype=given)

    def test_devices(self):
        self.assertEqual(attacca.compile(TEXT, device=torch.device("cpu")).device, "cpu")
        for device in ["tpu", torch.device("meta"), torch.device("cpu:1"), "cpu:0", "", "cuda:-1"]:
            with self.subTest(device), self.assertRaisesRegex(attacca.Error, "unknown device"):
                attacca.compile(TEXT, device=device)

    def test_integers_of_numpy(self):
        plan = attacca.compile(TEXT, threads=np.int32(1), tuning_seconds=np.float32(1.5))
        plan.prepare(M=np.int64(3), N=np.uint8(5))
        with self.assertRaisesRegex(attacca.Error, "the device is cpu"):
            attacca.tune(TEXT, device="cpu", M=np.arange(3), N=np.int64(3))

    def test_annotations(self):
        def product(x: Annotated[np.ndarray, "f32[M, 24]"], w: "f32[N, 24]"):
            return x @ w.T
        function = attacca.fuse(product)
        np.testing.assert_allclose(function(A, W), A @ W.T)
        self.assertEqual(function.plan(A, W).symbols, ("M", "N"))
        product.__annotations__ = {"x": "Annotated[npt.NDArray[np.float32], 'f32[M, 24]']",
                                   "w": "np.ndarray"}
        self.assertEqual(attacca.fuse(product).plan(A, W).symbols, ("M",))


class Constants(unittest.TestCase):
    def test_dtype_and_shape(self):
        text = "graph g(x: f32[M, 24], w: f32[4, 24]) { return y = x @ transpose(w) }"
        w = np.arange(96, dtype=np.float32).reshape(4, 24)
        np.testing.assert_allclose(attacca.compile(text, constants={"w": w})(A), A @ w.T)
        for wrong, pattern in [(w.view(np.int32), "s32"), (w.reshape(24, 4), r"shape \[24, 4\]"),
                               (w.reshape(-1), r"shape \[96\]"), (w.view(np.float64), "f64"),
                               (w[:2], r"shape \[2, 24\]"),
                               (w.astype(np.float16).repeat(2, 1), "f16"),
                               (w[:, ::2].repeat(2, 1).T.copy().T, "contiguous"),
                               (torch.zeros(4, 24, dtype=torch.int32), "s32"),
                               (torch.zeros(4, 24, device="meta"), "meta")]:
            with self.subTest(pattern), self.assertRaisesRegex(attacca.Error, pattern):
                attacca.compile(text, constants={"w": wrong})

    def test_of_other_inputs(self):
        for wrong, pattern in [({"v": W}, "no input v"), ({"x": W}, r"f32\[M, 24\]"),
                               ([W], "constants is a list"),
                               ({3: W}, "constants is 3"),
                               ({"w": None}, "NoneType is not a tensor")]:
            with self.subTest(pattern), self.assertRaisesRegex(attacca.Error, pattern):
                attacca.compile(TEXT, constants=wrong)


class OutOfRange(unittest.TestCase):
    def test_numbers(self):
        for name, values in [("threads", [-1, 5000, 1.5, 2**70, True, np.int64(-3)]),
                             ("tuning_seconds",
                              [-1, float("nan"), float("inf"), True, "3", np.float32("nan"), 1j])]:
            for value in values:
                for call in [attacca.compile, attacca.explain, lambda _,
                             **k: attacca.matmul(A, W.T, **k),
                             lambda _, **k: attacca.fuse(lambda x: x * 2, **k)]:
                    with self.subTest(f"{name}={value!r}"), self.assertRaisesRegex(
                        attacca.Error, "threads|tuning_seconds"):
                        call(TEXT, **{name: value})

    def test_what_an_exported_program_ignores(self):
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval()
        exported = torch.export.export(model, (torch.ones(2, 8),))
        for options, where in [({"device": "tpu:77"}, "device"), ({"device": "cuda"}, "device"),
                               ({"threads": 2}, "threads"),
                               ({"threads": -5}, "threads"),
                               ({"constants": {"no such": A}}, "constants"),
                               ({"tuning_seconds": -1}, "tuning_seconds"),
                               ({"mode": "fp31"}, "mode"),
                               ({"tuning": "fast"}, "tuning")]:
            with self.subTest(str(options)), self.assertRaises(attacca.Error) as caught:
                attacca.compile(exported, **options)
            self.assertEqual(caught.exception.where, where)

    def test_what_a_plan_ignores(self):
        plan = attacca.compile(TEXT)
        attacca.explain(plan)
        for options in [{"mode": "eager"}, {"threads": 2}, {"device": "cuda"}, {"constants": {}}]:
            with self.subTest(str(options)), self.assertRaisesRegex(attacca.Error,
                                                                    "compiled already"):
                attacca.explain(plan, **options)

    def test_options_of_fuse(self):
        with self.assertRaisesRegex(attacca.Error, "unknown option mod.*did you mean mode"):
            attacca.fuse(mod="eager")
        with self.assertRaisesRegex(attacca.Error, "unknown mode eagr.*did you mean eager"):
            attacca.fuse(mode="eagr")
        for wrong in [3, "x", int, None.__class__, dict.fromkeys]:
            with self.subTest(wrong), contextlib.suppress(attacca.Error):
                attacca.fuse(wrong)


class Odd:
    """Whose every attribute is an object."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return object()


class NoDevice:
    """A tensor by DLPack whose device is wrong: an exception that is raised, or anything else."""

    def __init__(self, device):
        self.device = device

    def __dlpack__(self, **_):
        raise AssertionError("read")

    def __dlpack_device__(self):
        if isinstance(self.device, Exception):
            raise self.device
        return self.device


class WrongTypes(unittest.TestCase):
    """Every argument of every public function, given values of every type."""

    VALUES = [None, object(), Odd(), NoDevice(None), NoDevice(("a", 0)),
              NoDevice(ValueError("none")),
              3, 3.5, -1, 1j, True, float("nan"), 2**80, "x", "", "\0",
              "\ud800", b"x", b"\xff", [], [1], (),
              {}, {"x": 1}, {1: 2}, set(), np.zeros(3), np.zeros((2, 3, 4), "f4"), np.float32(2),
              np.array("x"), np.array([None]),
              np.ma.zeros((3, 24)), torch.zeros(3), torch.zeros(()), torch.float32,
              torch.device("cpu"), torch.Tensor, np.ndarray, int, range,
              lambda *_: 0, types, range(3), memoryview(b"xy"), bytearray(b"xy"), Ellipsis,
              NotImplemented, slice(1),
              attacca.compile("graph g(x: f32[M]) { return exp(x) }"), pathlib.Path("absent")]

    def test_every_argument(self):
        plan = attacca.compile(TEXT)
        fused = attacca.fuse(lambda x, w: x @ w)
        linear = torch.nn.Linear(64, 8).requires_grad_(False)
        layer = QuantizedLinear.from_linear(linear, group=64)
        words, zeros = torch.zeros(8, 8, dtype=torch.int32), torch.zeros(2, 1, dtype=torch.int32)
        functions = [
            (attacca.matmul, [A, W.T], {},
             ["epilogue", "out", "out_dtype", "mode", "tuning", "tuning_seconds", "threads"]),
            (lambda *a, **k: attacca.matmul(*a, "acc + full(r)", **k), [A, W.T],
             {"r": np.ones((3, 5), "f4")}, ["r"]),
            (attacca.compile, [TEXT], {},
             ["device", "mode", "tuning", "tuning_seconds", "threads", "constants"]),
            (lambda *a, **k: attacca.compile(TEXT, constants={"w": k["w"]}), [], {"w": W}, ["w"]),
            (attacca.explain, [TEXT], {},
             ["device", "mode", "tuning", "tuning_seconds", "threads", "constants"]),
            (attacca.load, ["absent"], {}, ["device"]),
            (attacca.tune, [TEXT], {"device": "cuda", "M": 3, "N": 4},
             ["mode", "again", "seconds", "progress", "M", "device"]),
            (attacca.export_choices, ["/nowhere/c"], {}, ["device"]),
            (attacca.import_choices, ["absent"], {}, ["device"]),
            (attacca.fuse, [lambda x: x], {},
             ["device", "mode", "tuning", "tuning_seconds", "threads", "constants"]),
            (plan, [A, W], {}, ["out", "x"]), (fused, [A, W.T], {}, ["out"]),
            (fused.text, [A, W.T], {}, []),
            (plan.prepare, [], {"M": 3, "N": 4}, ["M", "N"]), (plan.save, ["/nowhere/p"], {}, []),
            (attacca.torch.enable, [], {},
             ["policy", "compare", "kernels", "mode", "tuning", "tuning_seconds"]),
            (attacca.torch.Program, [None], {}, ["mode", "tuning", "tuning_seconds", "policy"]),
            (attacca.pack, [W], {}, ["scales", "zeros", "bits", "group", "symmetric",
                                     "scale_dtype"]),
            (layer, [torch.zeros(3, 64)], {}, []), (layer.dequantized, [torch.float16], {}, []),
            (QuantizedLinear.from_linear, [linear, 4, 64], {}, ["symmetric"]),
            (QuantizedLinear.from_gptq, [words, zeros, torch.ones(2, 8)], {},
             ["g_idx", "bias", "bits", "zero_offset", "dtype"]),
            (QuantizedLinear.from_awq, [words[:, :1], zeros, torch.ones(2, 8)], {},
             ["bias", "dtype"]),
        ]
        ran = 0
        self.addCleanup(attacca.torch.disable)
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder) if hasattr(
            contextlib, "chdir") else contextlib.nullcontext():
            for function, positional, named, others in functions:
                for place in [*range(len(positional)), *dict.fromkeys([*named, *others])]:
                    for value in self.VALUES:
                        arguments, keywords = list(positional), dict(named)
                        if isinstance(place, int):
                            arguments[place] = value
                        else:
                            keywords[place] = value
                        ran += 1
                        with self.subTest(
                            f"{getattr(function, '__qualname__', function)} "
                            f"{place}={type(value).__name__} {str(value)[:20]!r}"):
                            try:
                                function(*arguments, **keywords)
                            except attacca.Error as error:
                                self.assertTrue(error.what)
        self.assertGreater(ran, 2000)


class WithoutTorch(unittest.TestCase):
    def run_without(self, module, code):
        blocked = f"import sys; sys.modules[{module!r}] = None\n"
        return subprocess.run([sys.executable, "-c", blocked + code], capture_output=True,
                              text=True)

    def test_import_of_attacca_torch(self):
        ran = self.run_without("torch",
                               "import attacca\ntry: import attacca.torch\nexcept ImportError as "
                               "e: print('import', e)")
        self.assertIn("import PyTorch is not installed", ran.stdout, ran.stderr)

    def test_results_without_numpy(self):
        ran = self.run_without("numpy", """
import array, attacca
m = memoryview(array.array("f", [1, 2, 3, 4])).cast("B").cast("f", [2, 2])
try: attacca.matmul(m, m)
except attacca.Error as e: print(e)
o = memoryview(array.array("f", [0] * 4)).cast("B").cast("f", [2, 2])
attacca.matmul(m, m, out=o)
print(o.tolist())
try: attacca.matmul(m, m, out=memoryview(bytes(16)).cast("f", [2, 2]))
except attacca.Error as e: print(e)
""")
        self.assertRegex(ran.stdout,
                         r"(?s)numpy.*is not installed.*\[\[7.0, 10.0\], \[15.0, 22.0\]\].*cannot "
                         r"be written",
                         ran.stderr)


if __name__ == "__main__":
    unittest.main()
