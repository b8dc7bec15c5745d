"""Models on the command line. Right results pass --check: a third of the models of ONNX's backend
tests, on made-up data, and every example. --dim decides what a model's shapes depend on.

Usage: check_models_test.py ATTACCA [unittest arguments]. ATTACCA_SEED: the data, and which third.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import helper

ATTACCA = sys.argv.pop(1)
SEED = int(os.environ.get("ATTACCA_SEED", "1"))
MODELS = pathlib.Path(onnx.__file__).parent / "backend/test/data"
EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
EXPORTED = pathlib.Path(__file__).parents[1] / "onnxruntime/models"
REFUSED = 2  # exit codes: 0, bad input, 3 where the check fails


class Models(unittest.TestCase):
    def test_right_results_pass(self):
        checked = 0
        for number, model in enumerate(sorted(MODELS.glob("*/*/model.onnx"))[SEED % 3::3]):
            mode = ("fp32", "eager")[number % 2]
            run = subprocess.run([ATTACCA, "run", model, "--check", "--mode", mode, "--seed",
                                  str(SEED)], capture_output=True, text=True, timeout=60)
            with self.subTest(model.parent.name, mode=mode, seed=SEED):
                self.assertIn(run.returncode, (0, REFUSED), run.stdout + run.stderr)
            checked += run.returncode == 0
        self.assertGreaterEqual(checked, 200)


class Examples(unittest.TestCase):
    def test_their_results_pass(self):
        examples = sorted([*EXAMPLES.glob("*.onnx"), *EXAMPLES.glob("*.attacca")])
        self.assertGreaterEqual(len(examples), 6)
        for example in examples:
            if "llama" in example.name:
                continue  # the demo runs it: its weights are real-sized
            run = subprocess.run([ATTACCA, "run", example, "--check"], capture_output=True,
                                 text=True, timeout=600)
            with self.subTest(example.name):
                self.assertEqual(run.returncode, 0, run.stdout + run.stderr)


def of_a_shape_by_comparison():
    """relu(x @ w) of M x 16 in rows of 8 if M > 4, else in two rows."""
    def integers(name, value):
        return onnx.numpy_helper.from_array(np.array(value, np.int64), name)
    nodes = [helper.make_node(*node) for node in (
        ("Shape", ["x"], ["s"]), ("Gather", ["s", "zero"], ["m"]),
        ("Greater", ["m", "four"], ["big"]), ("Where", ["big", "rows", "two"], ["shape"]),
        ("MatMul", ["x", "w"], ["p"]), ("Relu", ["p"], ["r"]), ("Reshape", ["r", "shape"], ["y"]))]
    weights = np.random.default_rng(SEED).standard_normal((8, 16)).astype(np.float32)
    constants = [integers("zero", 0), integers("four", 4), integers("rows", [-1, 8]),
                 integers("two", [2, -1]), onnx.numpy_helper.from_array(weights, "w")]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["M", 8])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Transformers(unittest.TestCase):
    def test_their_results_have_bounds(self):
        for model in sorted(EXPORTED.glob("*.onnx")):
            run = subprocess.run([ATTACCA, "run", model, "--check", "--dim", "batch=2", "--dim",
                                  "seq=11"], capture_output=True, text=True, timeout=60)
            with self.subTest(model.stem):
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertIn("passed", run.stdout)
                self.assertNotIn("no bound", run.stdout)


class Sizes(unittest.TestCase):
    def test_they_decide_comparisons(self):
        with tempfile.TemporaryDirectory() as folder:
            model, given = f"{folder}/m.onnx", f"{folder}/x.npy"
            onnx.save(of_a_shape_by_comparison(), model)

            def attacca(command, *arguments):
                return subprocess.run([ATTACCA, command, model, *arguments], capture_output=True,
                                      text=True, timeout=60)
            for size in (3, 9):
                x = np.random.default_rng(SEED).standard_normal((size, 8)).astype(np.float32)
                np.save(given, x)
                ran = attacca("run", "--dim", f"M={size}", "--input", f"x={given}", "--output",
                              folder)
                self.assertEqual(ran.returncode, 0, ran.stderr)
                want = onnxruntime.InferenceSession(model).run(None, {"x": x})[0]
                np.testing.assert_allclose(np.load(f"{folder}/y.npy"), want, rtol=1e-5, atol=1e-6)
                explained = attacca("explain", "--dim", f"M={size}")
                self.assertIn(f"f32{list(want.shape)} = relu", explained.stdout, explained.stderr)
            # One size decides, several do not.
            self.assertEqual(attacca("run").returncode, REFUSED)
            bundled = attacca("bundle", "--as", "h200", "--dim", "M=3,9", "-o", f"{folder}/b")
            self.assertIn("must follow from constants and shapes", bundled.stderr)


def recurrent(op, gates):
    """A layer of a sequence whose length T is open, in both directions."""
    random = np.random.default_rng(SEED)
    constants = [onnx.numpy_helper.from_array(
        (random.standard_normal(shape) / 2).astype(np.float32), name) for name, shape in (
        ("w", (2, gates * 5, 3)), ("r", (2, gates * 5, 5)), ("b", (2, gates * 10)))]
    node = helper.make_node(op, ["x", "w", "r", "b"], ["y", "h"], hidden_size=5,
                            direction="bidirectional", clip=0.75)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["T", "N", 3])],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in "yh"],
        constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


class Recurrent(unittest.TestCase):
    def test_dim_gives_the_length(self):
        for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
            with self.subTest(op), tempfile.TemporaryDirectory() as folder:
                model = f"{folder}/m.onnx"
                onnx.save(recurrent(op, gates), model)

                def attacca(*arguments):
                    return subprocess.run([ATTACCA, "run", model, *arguments], capture_output=True,
                                          text=True, timeout=60)
                refused = attacca("--dim", "N=2")
                self.assertEqual(refused.returncode, REFUSED)
                self.assertRegex(refused.stderr, "T steps: they are unrolled(.|\n)*--dim T=64")
                for length in (1, 7):
                    x = np.random.default_rng(SEED).standard_normal((length, 2, 3))
                    np.save(f"{folder}/x.npy", x.astype(np.float32))
                    ran = attacca("--dim", f"T={length}", "--check", "--input",
                                  f"x={folder}/x.npy", "--output", folder)
                    self.assertEqual(ran.returncode, 0, ran.stderr)
                    session = onnxruntime.InferenceSession(model)
                    for name, want in zip("yh", session.run(None, {"x": x.astype(np.float32)})):
                        np.testing.assert_allclose(np.load(f"{folder}/{name}.npy"), want, rtol=1e-5,
                                                   atol=1e-6)


if __name__ == "__main__":
    unittest.main()
