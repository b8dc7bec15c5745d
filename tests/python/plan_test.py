"""attacca.compile, plans, their explanation and their file."""
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import threading
import typing
import unittest

import numpy as np
import torch

import attacca
from attacca import _arguments
from attacca._dims import Dim, sources

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TEXT = "graph g(x: f32[M, 24], w: f32[N, 24]) { return y = silu(x @ transpose(w)) }"
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((17, 24), np.float32)
W = RANDOM.standard_normal((40, 24), np.float32)


def want(x=X, w=W):
    product = x.astype(np.float64) @ w.T
    return product / (1 + np.exp(-product))


class Plans(unittest.TestCase):
    def setUp(self):
        self.plan = attacca.compile(TEXT)

    def close(self, got, expected):
        np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-5, atol=1e-5)

    def test_positions_and_names(self):
        for got in [self.plan(X, W), self.plan(X, w=W), self.plan(w=W, x=X)]:
            self.close(got, want())

    def test_sizes_differ_from_call_to_call(self):
        for rows in [17, 1, 5, 17]:
            self.close(self.plan(X[:rows], W), want(X[:rows]))
        self.close(self.plan(torch.from_numpy(X), torch.from_numpy(W[:7])), want(w=W[:7]))

    def test_what_it_says_of_itself(self):
        self.assertEqual(self.plan.symbols, ("M", "N"))
        self.assertEqual(self.plan.inputs[1], attacca.Tensor("w", "f32", "f32[N, 24]", ("N", "24")))
        self.assertEqual(self.plan.outputs[0].type, "f32[M, N]")
        self.assertEqual((self.plan.device, self.plan.mode), ("cpu", "fp32"))
        self.assertIn("(x: f32[M, 24], w: f32[N, 24]) -> y: f32[M, N] on cpu", repr(self.plan))

    def test_out(self):
        out = np.empty((17, 40), np.float32)
        self.assertIs(self.plan(X, W, out=out), out)
        self.close(out, want())
        listed = self.plan(X, W, out=[out])
        self.assertIs(listed[0], out)

    def test_strided_inputs_where_the_graph_says_so(self):
        plan = attacca.compile("graph g(x: f32[M, 12; 24, 1]) { return exp(x) }")
        self.close(plan(X[:, :12]), np.exp(X[:, :12]))
        self.close(plan(X[:, :12].copy()), np.exp(X[:, :12]))

    def test_several_outputs_and_no_input(self):
        plan = attacca.compile("graph g(x: f32[M]) { return a = exp(x), b = x[1:] }")
        a, b = plan(X[0])
        self.close(a, np.exp(X[0]))
        self.close(b, X[0][1:])
        self.close(attacca.compile("graph g() { return constant(f32[2], [1, 2]) }")(), [1, 2])

    def test_constants(self):
        plan = attacca.compile(TEXT.replace("N", "40"), constants={"w": W})
        self.assertEqual(len(plan.inputs), 1)
        self.close(plan(X), want())
        with self.assertRaisesRegex(attacca.Error, "no input v"):
            attacca.compile(TEXT, constants={"v": W})

    def test_files_bytes_and_models(self):
        path = SOURCE / "examples/bert_mlp.onnx"
        names = [t.name for t in attacca.compile(path).inputs]
        self.assertEqual(names, [t.name for t in attacca.compile(path.read_bytes()).inputs])
        self.assertEqual(names, [t.name for t in attacca.compile(str(path)).inputs])

        class Model:
            SerializeToString = staticmethod(path.read_bytes)
        self.assertEqual(names, [t.name for t in attacca.compile(Model()).inputs])
        attacca.compile(str(SOURCE / "examples/llama3_8b_mlp.attacca"))

    def test_files_and_pickles_of_plans(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "p.plan"
            self.plan.save(path)
            self.close(attacca.load(path)(X, W), want())
            path.write_bytes(path.read_bytes()[:-9])
            with self.assertRaises(attacca.Error):
                attacca.load(path)
        self.close(pickle.loads(pickle.dumps(self.plan))(X, W), want())

    def test_threads(self):
        results = [None] * 8

        def work(i):
            results[i] = self.plan(X[:i + 1], W)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for i, result in enumerate(results):
            self.close(result, want(X[:i + 1]))

    def test_instances_are_given_up(self):
        plan = attacca.compile("graph g(x: f32[M]) { return exp(x) }")
        for size in range(1, 300):
            plan(np.zeros(size, np.float32))
        self.assertEqual(len(plan._engine._instances), 256)

    def test_every_documented_tuning_is_taken(self):
        graph = "graph g(x: f32[M, 4], w: f32[4, 2]) { return relu(x @ w) }"
        for tuning in typing.get_args(_arguments.Tuning):
            plan = attacca.compile(graph, tuning=tuning)
            self.assertEqual(plan(np.ones((1, 4), "f"), np.ones((4, 2), "f")).tolist(), [[4, 4]])


class Explanations(unittest.TestCase):
    def test_text_data_and_drawing(self):
        explanation = attacca.explain(TEXT)
        self.assertIn("region 1: gemm over [M, N]", str(explanation))
        self.assertIn("y: f32[M, N] = silu(acc)", repr(explanation))
        self.assertEqual(explanation.data["regions"][0]["kind"], "gemm")
        self.assertTrue(explanation.dot.startswith("digraph"))
        self.assertIn("<svg", explanation._repr_svg_())
        self.assertEqual(str(attacca.compile(TEXT).explain()), str(explanation))

    def test_without_graphviz(self):
        path = os.environ["PATH"]
        try:
            os.environ["PATH"] = "/nowhere"
            self.assertIsNone(attacca.explain(TEXT)._repr_svg_())
            with self.assertRaisesRegex(attacca.Error, "install graphviz"):
                attacca.explain(TEXT).svg()
        finally:
            os.environ["PATH"] = path


class Errors(unittest.TestCase):
    def test_each_says_the_fix(self):
        plan = attacca.compile(TEXT)
        for call, pattern in [
                (lambda: plan(X), r"operand w is missing.*give w=, a f32\[N, 24\]"),
                (lambda: plan(X, W, W), "3 inputs where the plan has 2.*give x, w"),
                (lambda: plan(X, W, x=X), "given twice"),
                (lambda: plan(X, v=W), "no input v.*the inputs are x, w; initializers"),
                (lambda: plan(X, W.astype(np.float64)), "w is f64.*convert it to float32"),
                (lambda: plan(X[:, :20].copy(), W), r"give it shape \(17, 24\)"),
                (lambda: plan(X[0], W), "give it 2 dimensions"),
                (lambda: plan(X[::-1], W), "negative stride"),
                (lambda: plan(torch.from_numpy(X).requires_grad_(), W), "requires a gradient"),
                (lambda: plan(X, W, out=[]), "out has 0 tensors for 1 outputs"),
                (lambda: plan.prepare(M=1), "size N has no value"),
                (lambda: plan.prepare(M=-1, N=1), "size M is -1"),
                (lambda: attacca.compile("graph g(x: f32[4]) { return foo(x) }"),
                 "unknown op 'foo'"),
                (lambda: attacca.compile(3), "3 is not a graph.*text form"),
                (lambda: attacca.compile("absent.onnx"), "cannot read absent.onnx"),
                (lambda: attacca.compile("absent.attacca"), "cannot read absent.attacca"),
                (lambda: attacca.compile("graph g(x: f32[4]) return x * 2.0"), r"<text>:1:"),
                (lambda: attacca.compile(b"abc"), "not an ONNX file"),
                (lambda: attacca.compile(TEXT, device="gpu"), "unknown device gpu.*cpu, cuda"),
                (lambda: attacca.compile("graph g(x: f32[2*M, 3*M]) { return exp(x) }")(X),
                 "give it shape"),
                (lambda: attacca.load("absent.plan"), "absent.plan")]:
            with self.subTest(pattern), self.assertRaisesRegex(attacca.Error, pattern):
                call()


class Dims(unittest.TestCase):
    def test_values(self):
        for text, value in [("7", 7), ("M", 5), ("2*M", 10), ("M + 1", 6), ("2*M*N - 3", 67),
                            ("-1*M + N", 2), ("M*M - N + 1", 19), ("-M + 8", 3),
                            ("floordiv(N, 2)", 3), ("2*floordiv(M + -1*N, 2) + 3", 1),
                            ("M*min(N + max(M, 9), 4) - 1", 19)]:
            with self.subTest(text):
                self.assertEqual(Dim(text).value({"M": 5, "N": 7}), value)

    def test_functions(self):
        size = Dim("M*min(floordiv(N, 2), 4)")
        self.assertEqual(size.symbols, {"M", "N"})
        self.assertIsNone(Dim("floordiv(N, 2)").linear())
        plan = attacca.compile("graph g(x: f32[M]) { return exp(x[1::3]), x[:min(M, 4)] }")
        x = np.arange(8, dtype=np.float32)
        for result, wanted in zip(plan(x), (np.exp(x[1::3]), x[:4]), strict=True):
            np.testing.assert_allclose(result, wanted, rtol=1e-6)

    def test_the_simplest_source_of_a_symbol(self):
        shapes = [[Dim("2*M"), Dim("M*N")], [Dim("N + 1"), Dim("M")]]
        self.assertEqual(sources(shapes), {"M": (1, 1, 1, 0), "N": (1, 0, 1, 1)})


class Package(unittest.TestCase):
    def test_neither_torch_nor_numpy_is_imported(self):
        code = ("import sys, attacca; attacca.compile('graph g(x: f32[2]) { return exp(x) }');"
                "print('torch' in sys.modules, 'numpy' in sys.modules)")
        printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                                 check=True)
        self.assertEqual(printed.stdout, "False False\n")


if __name__ == "__main__":
    unittest.main()
