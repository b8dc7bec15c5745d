"""attacca.fuse: what functions of numpy and torch become, and what they compute."""
import io
import unittest

import numpy as np
import torch
import torch.nn.functional as F

import attacca

torch.manual_seed(0)
X, Y, W, V, B = (torch.randn(*s) for s in [(6, 16), (6, 16), (32, 16), (32, 16), (32,)])


def body(function, *args):
    """What lies between the braces of the traced text, in one line."""
    text = attacca.fuse(function).text(*args)
    return "; ".join(line.strip() for line in text.splitlines()[1:-1])


class Text(unittest.TestCase):
    def test_one_function_a_line(self):
        for function, expected in [
                (lambda x: F.silu(x), "silu(\"x\")"),
                (lambda x: x.sigmoid(), "sigmoid(\"x\")"),
                (lambda x: F.gelu(x, approximate="tanh"), "gelu_tanh(\"x\")"),
                (lambda x: torch.clamp(x, max=7.0), "clamp(\"x\", max=7.0)"),
                (lambda x: np.clip(x, -1, 1), "clamp(\"x\", min=-1, max=1)"),
                (lambda x: F.leaky_relu(x, 0.2), "leaky_relu(\"x\", alpha=0.2)"),
                (lambda x: F.softplus(x), "softplus(\"x\")"),
                (lambda x: x.to(torch.bfloat16), "cast(\"x\", bf16)"),
                (lambda x: x.astype(np.float16), "cast(\"x\", f16)"),
                (lambda x: x[:, 1::2], "\"x\"[:, 1::2]"),
                (lambda x: x[..., :4], "\"x\"[..., :4]"),
                (lambda x: 2 - x, "2 - \"x\""),
                (lambda x: x ** 2, "pow(\"x\", 2)"),
                (lambda x: -x, "-\"x\""),
                (lambda x: x + -1, "\"x\" + (-1)"),
                (lambda x: x.transpose(0, 1), "transpose(\"x\")"),
                (lambda x: x.T, "transpose(\"x\")"),
                (lambda x: x.reshape(3, -1), "reshape(\"x\", [3, -1])"),
                (lambda x: torch.softmax(x, -1), "softmax(\"x\", axis=-1)"),
                (lambda x: x.sum(-1, keepdim=True), "sum(\"x\", axes=[-1], keepdims=true)"),
                (lambda x: np.mean(x, axis=0), "mean(\"x\", axes=[0])"),
                (lambda x: F.rms_norm(x, (16,)), "rmsnorm(\"x\", eps=1e-06)"),
                (lambda x: np.add(x, np.float32(3)), "\"x\" + 3.0")]:
            with self.subTest(expected):
                self.assertEqual(body(function, X), f"v0 = {expected}; return v0")

    def test_numbers_are_part_of_the_code(self):
        def scaled(x, factor=2.0, bias=None):
            return x * factor if bias is None else x * factor + bias
        fused = attacca.fuse(scaled)
        self.assertIn("* 3", fused.text(X, factor=3))
        torch.testing.assert_close(fused(X, 3, Y), X * 3 + Y)

    def test_several_results_and_parts(self):
        self.assertEqual(body(lambda x: torch.chunk(x, 2, dim=-1), X),
                         "v0_0, v0_1 = split(\"x\", 2, axis=-1); return v0_0, v0_1")


class Values(unittest.TestCase):
    def same(self, function, *args):
        got, want = attacca.fuse(function)(*args), function(*args)
        for g, w in zip(*(r if isinstance(r, tuple) else (r,) for r in (got, want))):
            np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=2e-5, atol=2e-5)

    def test_blocks_of_torch(self):
        self.same(lambda x, w, v, b: F.silu(F.linear(x, w, b)) * (x @ v.T), X, W, V, B)
        self.same(lambda x, w: F.glu(x @ w.T), X, W)
        self.same(lambda x, y, w: torch.addmm(x @ w.T, y, w.T, beta=0.5, alpha=2), X, Y, W)
        self.same(lambda x, y: torch.where(x > y, x, y) + torch.maximum(x, -y), X, Y)
        self.same(lambda x, w: F.layer_norm(x @ w.T, (32,)), X, W)
        self.same(lambda x, y: (torch.cat([x, y], 1), x.split([10, 6], 1)[1]), X, Y)

    def test_blocks_of_numpy(self):
        x, w = X.numpy(), W.numpy()
        self.same(lambda x, w: np.maximum(x @ w.T, 0) ** 2 / (1 + np.exp(-(x @ w.T))), x, w)

    def test_strided_arguments(self):
        self.same(lambda x, w: x @ w, X, W.T)
        self.same(lambda x: torch.exp(x), X[:, ::2])

    def test_one_plan_serves_symbolic_sizes(self):
        @attacca.fuse
        def layer(x: "[M, 16]", w: "f32[32, 16]"):
            """A layer."""
            return torch.relu(x @ w.T)
        self.assertEqual(layer.__doc__, "A layer.")
        plans = {id(layer.plan(X[:rows], W)) for rows in (6, 3, 1)}
        self.assertEqual(len(plans), 1)
        torch.testing.assert_close(layer(X[:3], W), torch.relu(X[:3] @ W.T))
        self.assertIn("gemm over [M, 32]", str(layer.explain(X, W)))

    def test_out(self):
        out = torch.empty(6, 32)
        self.assertIs(attacca.fuse(lambda x, w: x @ w.T)(X, W, out=out), out)

    def test_epilogues_as_functions(self):
        got = attacca.matmul(X, W.T, lambda acc, bias, gain=None: F.gelu(acc + bias) * bias, bias=B)
        torch.testing.assert_close(got, F.gelu(X @ W.T + B) * B, rtol=1e-5, atol=1e-5)
        column, res = X[:, :1].clone(), torch.randn(6, 32)
        got = attacca.matmul(X, W.T, lambda acc, c, r: (acc * c + r, acc), c=column, r=res)
        torch.testing.assert_close(got[0], (X @ W.T) * column + res, rtol=1e-5, atol=1e-5)


class Errors(unittest.TestCase):
    def test_each_says_the_mend(self):
        def branch(x):
            return x if x > 0 else -x
        for call, pattern in [
                (lambda: attacca.fuse(branch)(X), "asks for a tensor's value.*where"),
                (lambda: attacca.fuse(lambda x: x.siluu())(X), "did you mean silu?"),
                (lambda: attacca.fuse(lambda x: torch.fft.fft(x))(X), "fft_fft is not known"),
                (lambda: attacca.fuse(lambda x: x + W[0, :1])(X), "Tensor inside the function.*arguments"),
                (lambda: attacca.fuse(lambda x: F.silu(x, inplace=True))(X), "silu: got an unexpected.*inplace"),
                (lambda: attacca.fuse(lambda x: x[0])(X), "index 0.*slices"),
                (lambda: attacca.fuse(lambda x: 3)(X), "returns a int"),
                (lambda: attacca.fuse(lambda x, y: x)(X), "missing a required argument: 'y'"),
                (lambda: attacca.fuse(lambda x: x.to(torch.complex64))(X), "cast to torch.complex64"),
                (lambda: attacca.fuse(lambda x, y: x + y)(X, Y.to("meta")), "device meta"),
                (lambda: attacca.fuse(lambda x, y: x + y)(X, Y.half().requires_grad_()), "requires a gradient"),
                (lambda: attacca.fuse(lambda x, y: x @ y)(X, Y), "16"),
                (lambda: attacca.matmul(X, W.T, lambda acc, bias: acc + bias), "give bias="),
                (lambda: attacca.matmul(X, W.T, lambda acc, bias: acc + bias, bias=B[:3]), r"give it \[\], \[32\]"),
                (lambda: attacca.matmul(X, W.T, lambda acc: acc, bias=B), "names no operand bias"),
                (lambda: attacca.tune("graph g(x: f32[M]) { return exp(x) }", device="cpu", M=1), "give cuda")]:
            with self.subTest(pattern), self.assertRaisesRegex(attacca.Error, pattern):
                call()


class Progress(unittest.TestCase):
    def test_a_line_a_step_where_there_is_no_terminal(self):
        from attacca._tune import _Bar
        stream = io.StringIO()
        bar = _Bar(2, stream)
        bar.show("M=1")
        bar.step("M=1")
        self.assertRegex(stream.getvalue(), r"^tune 0/2 M=1\ntune 1/2 M=1, \d+\.\d s\n$")

    def test_a_bar_on_a_terminal(self):
        from attacca._tune import _Bar

        class Terminal(io.StringIO):
            def isatty(self):
                return True
        stream = Terminal()
        _Bar(1, stream).step("M=1")
        self.assertIn("[##############################] 1/1 M=1", stream.getvalue())
        self.assertTrue(stream.getvalue().endswith("\n"))


if __name__ == "__main__":
    unittest.main()
