"""The command line as a user meets it: output, exit codes, and every kind of bad input.

Usage: cli_test.py ATTACCA [unittest arguments]. Needs numpy and ml_dtypes.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import ml_dtypes
import numpy as np

ATTACCA = sys.argv.pop(1)
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"

LINEAR = """graph linear(x: f32[M, 8], w: f32[8, 16], b: f32[16]) {
  return relu(x @ w + b)
}
"""


def attacca(*args, env=None):
    run = subprocess.run([ATTACCA, *map(str, args)], capture_output=True, text=True, timeout=600,
                         env=None if env is None else {**os.environ, **env})
    return run.returncode, run.stdout, run.stderr


class Cli(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, text, name="graph.attacca"):
        path = self.folder / name
        path.write_text(text) if isinstance(text, str) else path.write_bytes(text)
        return path

    def save(self, array, name):
        np.save(self.folder / name, array)
        return self.folder / name

    def refused(self, *args, what, mend=None, env=None):
        code, out, err = attacca(*args, env=env)
        self.assertEqual(code, 2, out + err)
        self.assertIn(what, err)
        if mend:
            self.assertIn(mend, err)
        self.assertNotIn("terminate", err)
        return err


class Commands(Cli):
    def test_fold_prints_the_recovered_op(self):
        self.assertEqual(attacca("fold", "x / (1 + exp(-x))"), (0, "silu(x)\n", ""))

    def test_fold_explains(self):
        code, out, _ = attacca("fold", "x / (1 + exp(-x))", "--explain")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"silu\(x\)\n  \S+: silu\(x\)")

    def test_fold_says_why_not(self):
        code, out, _ = attacca("fold", "x / (1 + exp(-y))", "--why-not", "silu")
        self.assertEqual(code, 0)
        self.assertIn("wanted", out)

    def test_fold_leaves_look_alikes(self):
        self.assertEqual(attacca("fold", "x / (1 + exp(-y))")[1], "x / (1 + exp(-y))\n")

    def test_version_and_doctor(self):
        self.assertRegex(attacca("version")[1], r"attacca \d+\.\d+\.\d+\n")
        code, out, _ = attacca("doctor", env={"ATTACCA_CACHE_DIR": "/somewhere/else"})
        self.assertEqual(code, 0)
        self.assertIn("/somewhere/else", out)
        self.assertIn("oneDNN", out)

    def test_run_checks_against_f64(self):
        code, out, err = attacca("run", self.write(LINEAR), "--dim", "M=5", "--check")
        self.assertEqual(code, 0, out + err)
        self.assertIn("relu(acc + row(b))", out)
        self.assertIn("passed", out)

    def test_run_json_is_json(self):
        code, out, _ = attacca("run", self.write(LINEAR), "--dim", "M=5", "--check", "--json")
        self.assertEqual(code, 0)
        report = json.loads(out)
        self.assertEqual(report["dims"], {"M": 5})
        self.assertTrue(report["checks"][0]["passed"])
        self.assertEqual(len(report["partition"]["regions"]), 1)

    def test_run_computes_what_numpy_does(self):
        rng = np.random.default_rng(1)
        x, w, b = (rng.standard_normal(s, dtype=np.float32) for s in [(3, 8), (8, 16), (16,)])
        inputs = [f"--input={n}={self.save(a, n + '.npy')}" for n, a in zip("xwb", (x, w, b))]
        code, out, err = attacca("run", self.write(LINEAR), *inputs, "--output", self.folder / "out")
        self.assertEqual(code, 0, out + err)
        got = np.load(next((self.folder / "out").glob("*.npy")))
        np.testing.assert_allclose(got, np.maximum(x @ w + b, 0), rtol=1e-5, atol=1e-5)

    def test_run_takes_bf16_and_fortran_order(self):
        x = np.asfortranarray(np.arange(24, dtype=np.float32).reshape(3, 8))
        w = np.eye(8, 16, dtype=np.float32).astype(ml_dtypes.bfloat16)
        graph = self.write("graph g(x: f32[M, 8], w: bf16[8, 16]) { return x @ cast(w, f32) }")
        code, out, err = attacca("run", graph, f"--input=x={self.save(x, 'x.npy')}",
                                 f"--input=w={self.save(w, 'w.npy')}", "--output", self.folder / "out")
        self.assertEqual(code, 0, out + err)
        got = np.load(next((self.folder / "out").glob("*.npy")))
        np.testing.assert_array_equal(got[:, :8], x)

    def test_explain_forms(self):
        graph = self.write(LINEAR)
        self.assertIn("relu(acc + row(b))", attacca("explain", graph)[1])
        self.assertIn("regions", json.loads(attacca("explain", graph, "--json")[1]))
        self.assertIn("digraph", attacca("explain", graph, "--dot")[1])
        svg = self.folder / "graph.svg"
        self.assertEqual(attacca("explain", graph, "--svg", svg)[0], 0)
        self.assertIn("<svg", svg.read_text())

    def test_every_example_runs_and_checks(self):
        examples = sorted([*EXAMPLES.glob("*.onnx"), *EXAMPLES.glob("*.attacca")])
        self.assertGreaterEqual(len(examples), 6)
        for example in examples:
            if "llama" in example.name:
                continue  # the demo runs it: its weights are real-sized
            with self.subTest(example.name):
                code, out, err = attacca("run", example, "--check")
                self.assertEqual(code, 0, out + err)

    def test_eager_mode_runs(self):
        code, out, err = attacca("run", self.write(LINEAR), "--mode", "eager", "--check")
        self.assertEqual(code, 0, out + err)


class EdgeCases(Cli):
    def test_zero_rows(self):
        code, out, err = attacca("run", self.write(LINEAR), "--dim", "M=0", "--check")
        self.assertEqual(code, 0, out + err)

    def test_ones(self):
        graph = self.write("graph g(x: bf16[M, 1], w: bf16[1, 1]) { return gelu(x @ w) }")
        self.assertEqual(attacca("run", graph, "--dim", "M=1", "--check")[0], 0)

    def test_nan_weights_stay_nan(self):
        w = np.full((8, 16), np.nan, dtype=np.float32)
        code, out, err = attacca("run", self.write(LINEAR), f"--input=w={self.save(w, 'w.npy')}",
                                 "--check", "--output", self.folder / "out")
        self.assertEqual(code, 0, out + err)
        self.assertTrue(np.isnan(np.load(next((self.folder / "out").glob("*.npy")))).all())

    def test_square_shapes_are_not_ambiguous(self):
        graph = self.write("graph g(x: f32[8, 8], w: f32[8, 8], b: f32[8]) { return x @ w + b }")
        self.assertIn("row(b)", attacca("run", graph, "--check")[1])


class BadInput(Cli):
    def test_no_command(self):
        self.assertEqual(attacca()[0], 2)

    def test_unknown_option(self):
        self.assertEqual(attacca("run", "x.onnx", "--nonsense")[0], 2)

    def test_missing_file(self):
        self.refused("run", self.folder / "none.attacca", what="cannot read")
        self.refused("run", self.folder / "none.onnx", what="none.onnx")

    def test_malformed_text(self):
        self.refused("run", self.write("graph g(x: f32[4]) { return x + }"), what="graph.attacca:1:")

    def test_binary_garbage(self):
        self.refused("run", self.write(bytes(range(256)) * 8), what="graph.attacca:")
        self.refused("run", self.write(bytes(range(256)) * 8, "g.onnx"), what="g.onnx")

    def test_empty_files(self):
        self.refused("run", self.write(""), what="graph.attacca:1:")
        self.refused("run", self.write("", "g.onnx"), what="g.onnx")

    def test_unknown_dtype(self):
        self.refused("run", self.write("graph g(x: f31[4]) { return x }"), what="f31", mend="f32")

    def test_unknown_op(self):
        self.refused("run", self.write("graph g(x: f32[4]) { return siluu(x) }"), what="siluu", mend="silu")

    def test_use_before_definition(self):
        self.refused("run", self.write("graph g(x: f32[4]) {\n a = b + x\n b = a\n return b }"), what=":2:6")

    def test_wrong_ranks(self):
        self.refused("run", self.write("graph g(x: f32[4], w: f32[4, 4]) { return x @ w }"),
                     what="matmul needs matrices", mend="reshape")

    def test_inner_dimensions(self):
        self.refused("run", self.write("graph g(x: f32[M, 4], w: f32[8, 4]) { return x @ w }"),
                     what="inner dimensions", mend="transpose(b)")

    def test_huge_dims(self):
        text = "graph g(x: f32[4611686018427387904, 4611686018427387904]) { return x + 1 }"
        self.refused("run", self.write(text), what="overflow")
        self.refused("run", self.write(LINEAR), "--dim", "M=4611686018427387904", what="")
        self.refused("run", self.write(LINEAR), "--dim", "M=100000000000", what="memory")

    def test_dims(self):
        graph = self.write(LINEAR)
        self.refused("run", graph, "--dim", "M=-1", what="-1")
        self.refused("run", graph, "--dim", "M=ten", what="ten")
        self.refused("run", graph, "--dim", "M", what="NAME=VALUE")
        self.refused("run", graph, "--dim", "Q=4", what="no dimension Q", mend="M")
        self.refused("run", graph, "--dim", "M=4", "--dim", "M=5", what="twice")

    def test_missing_npy(self):
        self.refused("run", self.write(LINEAR), "--input", "x=none.npy", what="none.npy")

    def test_input_names(self):
        self.refused("run", self.write(LINEAR), "--input", "q=x.npy", what="no input q", mend="x, w, b")

    def test_npy_of_another_dtype(self):
        path = self.save(np.zeros((3, 8)), "x.npy")
        self.refused("run", self.write(LINEAR), f"--input=x={path}", what="wants f32")

    def test_npy_of_another_shape(self):
        path = self.save(np.zeros((3, 9), dtype=np.float32), "x.npy")
        self.refused("run", self.write(LINEAR), f"--input=x={path}", what="input x")

    def test_npy_shapes_disagree_with_dim(self):
        path = self.save(np.zeros((3, 8), dtype=np.float32), "x.npy")
        self.refused("run", self.write(LINEAR), f"--input=x={path}", "--dim", "M=4", what="M")

    def test_damaged_npy(self):
        whole = self.save(np.zeros((3, 8), dtype=np.float32), "x.npy").read_bytes()
        for length in [0, 5, 9, 40, 127, len(whole) - 1]:
            with self.subTest(length):
                path = self.write(whole[:length], "cut.npy")
                self.refused("run", self.write(LINEAR), f"--input=x={path}", what="cut.npy")
        huge = whole.replace(b"(3, 8)", b"(9999999999999, 8)")
        self.refused("run", self.write(LINEAR), f"--input=x={self.write(huge, 'h.npy')}", what="h.npy")

    def test_unwritable_output(self):
        blocked = self.write("", "blocked")
        self.refused("run", self.write(LINEAR), "--output", blocked / "out", what="cannot")

    def test_truncated_onnx(self):
        whole = (EXAMPLES / "bert_mlp.onnx").read_bytes()
        for length in range(0, len(whole) - 1, max(1, len(whole) // 17)):
            with self.subTest(length):
                code, _, err = attacca("explain", self.write(whole[:length], "cut.onnx"))
                self.assertEqual(code, 2)
                self.assertIn("error:", err)

    def test_fold_errors(self):
        self.refused("fold", "x / (", what="1:")
        self.refused("fold", "silu(x)", "--dtype", "f31", what="f31")
        self.refused("fold", "x", "--why-not", "nonsense", what="nonsense")


if __name__ == "__main__":
    unittest.main()
