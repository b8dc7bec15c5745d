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
                (lambda x: x.to(torch.bfloat16, False, copy=True), "cast(\"x\", bf16)"),
                (lambda x: x.to(dtype=torch.bfloat16), "cast(\"x\", bf16)"),
                (lambda x: x.bfloat16(memory_format=torch.preserve_format), "cast(\"x\", bf16)"),
                (lambda x: x.astype(np.float16), "cast(\"x\", f16)"),
                (lambda x: x[:, 1::2], "\"x\"[:, 1::2]"),
                (lambda x: x[..., :4], "\"x\"[..., :4]"),
                (lambda x: 2 - x, "2 - \"x\""),
                (lambda x: x ** 2, "pow(\"x\", 2)"),
                (lambda x: -x, "-\"x\""),
                (lambda x: x + -1, "\"x\" + (-1)"),
                (lambda x: x.transpose(0, 1), "transpose(\"x\")"),
                (lambda x: x.T, "transpose(\"x\")"),
                (lambda x: x.reshape(3, -1), "reshape(\"x\", [3, 32])"),
                (lambda x: torch.softmax(x, -1), "softmax(\"x\", axis=-1)"),
                (lambda x: x.sum(-1, keepdim=True), "sum(\"x\", axes=[1], keepdims=true)"),
                (lambda x: np.mean(x, axis=0), "mean(\"x\", axes=[0])"),
                (lambda x: F.rms_norm(x, (16,)), "rmsnorm(\"x\", eps=1.1920928955078125e-07)"),
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


X3 = torch.randn(2, 3, 4)
HALVES, NANS = torch.randn(2, 3).bfloat16(), torch.tensor([[1.0, float("nan")], [-2.0, 0.0]])
COUNTS = torch.tensor([[7, -8, 3], [1, 2, 0]], dtype=torch.int32)


class Meaning(unittest.TestCase):
    """The same name means what it means to the framework of the tensors, or of the function."""

    def check(self, function, tensor):
        got, want = attacca.fuse(function)(tensor), function(tensor)
        several = isinstance(want, (tuple, list))
        for g, w in zip(got if several else (got,), want if several else (want,), strict=True):
            self.assertEqual((g.dtype, tuple(g.shape)), (w.dtype, tuple(w.shape)))
            if isinstance(w, (np.ndarray, np.generic)):
                np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)
            else:
                torch.testing.assert_close(g, w, rtol=1e-2 if w.dtype == torch.bfloat16 else 1e-5,
                                           atol=1e-6,
                                           equal_nan=True)

    def test_torch(self):
        for function, tensor in [
                (lambda x: x.transpose(0, 1), X3), (lambda x: x.transpose(0, -1), X3),
                (lambda x: x.transpose(1, 2), X3), (lambda x: x.permute(2, 0, 1), X3),
                (lambda x: x.T, X),
                (lambda x: x.mT, X3), (lambda x: x.split(2, dim=1), X3),
                (lambda x: x.split([1, 3], -1), X3),
                (lambda x: torch.tensor_split(x, (1, 3), 2), X3), (lambda x: x / 2, COUNTS),
                (lambda x: 7 / x, COUNTS.clamp(1)),
                (lambda x: x.div(x.to(torch.int8)), COUNTS.clamp(1)),
                (lambda x: F.rms_norm(x, (3, 4)), X3 * 1e-4),
                (lambda x: F.rms_norm(x, (4,)), X3 * 1e-4),
                (lambda x: F.rms_norm(x, (3,)), HALVES * 1e-2),
                (lambda x: F.layer_norm(x, [3, 4]), X3),
                (lambda x: F.softplus(x, 2.0, threshold=0.5), X3),
                (lambda x: torch.add(x, 0.5, alpha=2.0), HALVES),
                (lambda x: torch.sub(x, 0.5, alpha=2.0), HALVES),
                (lambda x: torch.fmax(x, -x), NANS),
                (lambda x: torch.sum(x, dtype=torch.float64), X3),
                (lambda x: torch.sum(x, axis=1, keepdims=True), X3),
                (lambda x: x.sum(), COUNTS), (lambda x: x.sigmoid(), COUNTS),
                (lambda x: x * True, COUNTS),
                (lambda x: x.float() * np.float32(0.1), HALVES),
                (lambda x: x == 0.1, torch.tensor([0.1, 0.2]))]:
            with self.subTest(body(function, tensor)):
                self.check(function, tensor)

    def test_numpy(self):
        x, halves, counts = X3.numpy(), X3.half().numpy(), COUNTS.numpy()
        for function, tensor in [
                (lambda x: x.transpose(0, 2, 1), x), (lambda x: x.T, x),
                (lambda x: np.swapaxes(x, 0, 1), x),
                (lambda x: np.swapaxes(x, 0, -1), x), (lambda x: np.transpose(x, (1, 0, 2)), x),
                (lambda x: np.split(x, [1, 3], axis=2), x), (lambda x: np.split(x, 2, 2), x),
                (lambda x: np.array_split(x, 2, 1), x), (lambda x: np.sum(x, 0, np.float64), x),
                (lambda x: np.sum(x, 0, keepdims=False), x),
                (lambda x: np.fmin(x, -x), NANS.numpy()),
                (lambda x: x / 2, counts), (lambda x: x / x, counts[:1]),
                (lambda x: np.exp(x), counts),
                (lambda x: x + np.float32(0.5), halves), (lambda x: x + 0.5, halves),
                (lambda x: np.mean(x), counts),
                (lambda x: x * np.int64(3), counts), (lambda x: x.max(-1), counts)]:
            with self.subTest(body(function, tensor)):
                self.check(function, tensor)

    def test_arguments_that_are_not_understood(self):
        x = X3.numpy()
        for function, tensor, name in [
                (lambda x: np.round(x, 1), x, "decimals=1"),
                (lambda x: np.sum(x, where=x > 0), x, "where="),
                (lambda x: np.sum(x, initial=2.0), x, "initial=2.0"),
                (lambda x: np.copy(x, order="F"), x, "order='F'"),
                (lambda x: x.reshape(-1, order="F"), x, "order='F'"),
                (lambda x: np.exp(x, dtype=np.float64), x, "dtype="),
                (lambda x: np.exp(x, where=x > 0), x, "where="),
                (lambda x: np.max(x, initial=3.0), x, "initial=3.0"),
                (lambda x: torch.round(x, decimals=2), X3, "decimals=2"),
                (lambda x: F.relu(x, inplace=True), X3, "inplace"),
                (lambda x: F.rms_norm(x, (3,)), X3, "normalized_shape"),
                (lambda x: torch.baddbmm(x, x, x, alpha=0), X3[:, :3, :3], "alpha=0"),
                (lambda x: torch.nan_to_num(F.dropout(x)), X3, "training=True"),
                (lambda x: np.nan_to_num(x, copy=False), x, "copy=False"),
                (lambda x: x.to("cuda"), X3, "device='cuda'"),
                (lambda x: x.to(0, torch.float16), X3, "device=0"),
                (lambda x: x.to(torch.device("cpu"), torch.float16, True), X3, "device=device"),
                (lambda x: x.to(device="cuda", dtype=torch.float16), X3, "device='cuda'"),
                (lambda x: x.view(torch.int32), X3, "dtype")]:
            with self.subTest(name), self.assertRaisesRegex(attacca.Error, f"the argument {name}"):
                attacca.fuse(function)(tensor)

    def test_tensors_of_several_frameworks(self):
        both = attacca.fuse(lambda x,
                            y: (x.reshape(4, 6), x + y, y.sum(1), x.clip(0, 1)))(X3, X3.numpy())
        torch.testing.assert_close(torch.as_tensor(both[1]), X3 * 2)
        for function in (lambda x, y: x.max(1), lambda x, y: x.transpose(0, 1), lambda x,
                         y: x.to(torch.int32) / 2):
            with self.assertRaisesRegex(attacca.Error, "define it differently|indices|axes"):
                attacca.fuse(function)(X3, X3.numpy())

    def test_symbolic_sizes(self):
        def flat(x: "[B, 3, 4]"):
            return x.flatten(1), x.flatten(0, 1), x.reshape(-1, 2, 2)

        def norms(x: "[B, 3, 4]"):
            return F.rms_norm(x, (3, 4)), F.layer_norm(x.flatten(0, 1), (4,)), x.softmax(0)

        def parts(x: "[B, 3, 4]"):
            return x.chunk(2, -1) + (torch.cat([x, x]), x[1:, :99, -2:],
                                     x.unsqueeze(1) + x.unsqueeze(0), x.permute(2, 1, 0).sum(2))
        for function in (flat, norms, parts):
            with self.subTest(function.__name__):
                self.check(function, X3)
        def split(x: "[B, 3, 4]"):
            return x.split(1), x.squeeze()
        with self.assertRaisesRegex(attacca.Error, "symbolic"):
            attacca.fuse(split)(X3)

    def test_methods_that_are_named_after_dtypes(self):
        """Values that every dtype holds, and NaN as a bool."""
        x = torch.tensor([[0.0, 1.5, 2.7, -0.0], [100.9, 0.5, 7.0, 3.2]])
        self.check(lambda x: (x.int(), x.long(), x.char(), x.byte(), x.bool(), x.half(), x.float(),
                              x.bfloat16(), x.double(), (x.int() // 2) % 3), x)
        self.check(lambda x: x.bool(), NANS)

    def cast_to(self, dtype):
        return lambda x: x.astype(dtype)

    def test_names_of_dtypes_are_numpys(self):
        for dtype in ["float", "int", "half", "single", "double", "f2", "f4", "f8", "i1", "u1",
                      "i4", "i8", "<f8", "=f4", "?", float, int, np.float32, np.dtype("i4"), None]:
            with self.subTest(dtype):
                self.check(self.cast_to(dtype), np.abs(X3.numpy()) * 50)
        for dtype in ["u8", "f16", ">f4", "complex", "S4"]:  # numpy has them, and no others do
            with self.subTest(dtype), self.assertRaisesRegex(attacca.Error, "a cast to"):
                attacca.fuse(self.cast_to(dtype))(X3.numpy())
        self.assertEqual(attacca.fuse(self.cast_to("bf16"))(X3.numpy()).dtype.name,
                         "bfloat16")

    def at(self, index):
        return lambda x: x[index] * 2

    def test_slices_beyond_the_axis(self):
        self.check(lambda x: (x[:0], x[:100, 3:50], x[-3:, -4:-1], x[7:9], x[2:1], x[..., ::2]), X)
        for index, error in ((slice(1.5, None), "the index slice"), (1.0, "the index 1.0"),
                             (True, "the index True"), ([0, 1], "the index"),
                             (torch.tensor([0]), "the index tensor"), (6, "of an axis of 6"),
                             (-7, "of an axis of 6"), ((0, 0, 0), "3 indices of a tensor with 2"),
                             ((..., ...), "several")):
            with self.assertRaisesRegex(attacca.Error, error):
                attacca.fuse(self.at(index))(X)
        for function in (lambda x: x[::-1], lambda x: divmod(x, 2), lambda x: x.__iadd__(1),
                         lambda x: float(x)):
            with self.assertRaisesRegex(attacca.Error, "step|operator|value"):
                attacca.fuse(function)(X)

    def test_indices_that_remove_and_add_axes(self):
        for index in (0, -1, (slice(None), None), (..., None), (..., 3), (1, ..., None), None,
                      (None, ..., None), (slice(1, 3), None, 2), (0, 5), np.int64(2),
                      (..., slice(2)), (slice(None), -1, None), slice(None), ...):
            with self.subTest(index):
                self.check(self.at(index), X)
                self.check(self.at(index), X.numpy())
        def symbolic(x: "[B, 3, 4]"):
            return x[:, 0], x[..., None] * 2, x[0], x[:, None, 1:, -1], x[-1, 0]
        self.check(symbolic, X3)

    def test_epilogues_of_integers_divide_as_the_framework_does(self):
        a, b = torch.full((4, 16), 3, dtype=torch.int8), torch.ones(16, 8, dtype=torch.int8)
        a[0, 0] = 4
        torch.testing.assert_close(attacca.matmul(a, b, lambda acc: acc / 2, out_dtype="f32"),
                                   (a.float() @ b.float()) / 2)

    def test_numbers_that_are_equal_but_not_the_same(self):
        fused = attacca.fuse(lambda x, s: 1.0 / (x * s) if s != 3 else x
                             * (s // 2 if type(s) is int else s / 2))
        ones = torch.ones(2)
        for number in (0.0, -0.0, 3, 3.0, np.float32(3), 1, 1.0, float("nan")):
            with self.subTest(repr(number)):
                want = 1.0 / (ones * number) if number != 3 else ones * (
                    number // 2 if type(number) is int else number / 2)
                torch.testing.assert_close(fused(ones, number), want, equal_nan=True)
        branch = attacca.fuse(lambda x, flag: x + 100 if flag is True else x)
        self.assertEqual([branch(ones, 1)[0].item(), branch(ones, True)[0].item()], [1, 101])
        one = attacca.fuse(lambda x, s: x + s)
        self.assertIs(one.plan(ones, float("nan")), one.plan(ones, float("nan")))


class Values(unittest.TestCase):
    def same(self, function, *args):
        got, want = attacca.fuse(function)(*args), function(*args)
        for g, w in zip(*(r if isinstance(r, tuple) else (r,) for r in (got, want))):
            self.assertEqual(np.shape(g), np.shape(w))
            np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=2e-5, atol=2e-5)

    def test_blocks_of_torch(self):
        self.same(lambda x, w, v, b: F.silu(F.linear(x, w, b)) * (x @ v.T), X, W, V, B)
        self.same(lambda x, w: F.glu(x @ w.T), X, W)
        self.same(lambda x, y, w: torch.addmm(x @ w.T, y, w.T, beta=0.5, alpha=2), X, Y, W)
        self.same(lambda x, y: torch.where(x > y, x, y) + torch.maximum(x, -y), X, Y)
        self.same(lambda x, y: x.masked_fill(y < 0, -torch.inf).exp() + y.masked_fill(x > y, 2), X,
                  Y)
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

    def test_sizes_that_are_sums(self):
        def gram(x: "[2*M + 1, 16]"):
            return x.T @ x
        rows = torch.randn(7, 16)
        for plan in (attacca.fuse(gram),
                     attacca.compile("graph g(x: f32[2*M + 1, 16]) { return transpose(x) @ x }")):
            for x in (rows, rows[:1]):
                torch.testing.assert_close(plan(x), x.T @ x)
            with self.assertRaisesRegex(attacca.Error,
                                        r"x has shape \(6, 16\), f32\[2\*M \+ 1, 16\] is wanted"):
                plan(rows[:6])

    def test_one_tensor_returned_twice(self):
        self.same(lambda x: (x, x), X)
        self.same(lambda x: (x, x, x), X)
        def twice(x, out1):
            y = torch.exp(x) * out1
            return y, y, out1
        self.same(twice, X, Y)
        for result in attacca.matmul(X, W.T, lambda acc: (acc, acc)):
            torch.testing.assert_close(result, X @ W.T)
        names = [output.name for output in attacca.fuse(twice).plan(X, Y).outputs]
        self.assertEqual(names, ["v1", "out1_", "out1"])

    def test_out(self):
        out = torch.empty(6, 32)
        self.assertIs(attacca.fuse(lambda x, w: x @ w.T)(X, W, out=out), out)

    def test_shapes_and_dtypes(self):
        def heads(x, w):
            batch, rows, width = x.shape
            assert x.ndim == x.dim() == 3 and x.size() == x.shape and len(x) == batch
            h = (x @ w).reshape(batch, rows, 2, -1).transpose(1, 2)
            return (h * h.shape[-1]**-0.5 + h.size(-1)).to(w.dtype).reshape(*h.shape[:2], -1)
        for dtype in (torch.float32, torch.bfloat16):
            x, w = torch.randn(2, 5, 8).to(dtype), torch.randn(8, 6).to(dtype)
            torch.testing.assert_close(attacca.fuse(heads)(x, w), heads(x, w), rtol=1e-2, atol=3e-2)

        def flat(x, w):
            return np.reshape(x @ w, x.size // x.shape[-1] * w.shape[1]).astype(x.dtype)
        x, w = x.float().numpy(), w.float().numpy()
        got = attacca.fuse(flat)(x, w)
        np.testing.assert_allclose(got, flat(x, w), rtol=1e-5, atol=1e-5)

    def test_products_with_vectors(self):
        shapes = (((8,), (8, 5)), ((3, 8), (8,)), ((8,), (8,)), ((2, 3, 8), (8,)),
                  ((8,), (2, 8, 5)), ((1,), (1,)))
        for dtype in (torch.float32, torch.float16, torch.int32):
            for shape, other in shapes:
                x, w = (torch.randint(-4, 5, each).to(dtype) for each in (shape, other))
                self.same(lambda x, w: torch.matmul(x, w).clamp(max=9) + 1, x, w)
        x, w, bias = torch.randn(8), torch.randn(5, 8), torch.randn(5)
        self.same(lambda x, w, bias: F.gelu(F.linear(x, w, bias)), x, w, bias)
        self.same(lambda x, w: F.linear(w, x[0]), torch.randn(1, 4, 8), w)
        self.same(lambda x, w: np.maximum(x @ w, 0), x.numpy(), w.t().numpy())
        with self.assertRaisesRegex(attacca.Error, r"a product of \(8,\) with \(5, 8\)"):
            attacca.fuse(lambda x, w: x @ w)(x, w)

    def test_symbolic_sizes_are_not_read(self):
        """A number computed from one would hold for the first call alone."""
        given = torch.randn(3, 8), torch.randn(8, 6)
        for read in (lambda x: x.shape[0], lambda x: x.shape[-2], lambda x: tuple(x.shape),
                     lambda x: x.size(0), len, lambda x: x.shape == (3, 8),
                     lambda x: x.relu().shape[0]):
            def function(x: "[M, 8]", w: "[8, N]"):
                read(x)
                return x @ w * x.shape[1]
            with self.assertRaisesRegex(attacca.Error, "reads the size M, which is symbolic"):
                attacca.fuse(function)(*given)
        def read(x):
            return x.dim(), x.shape[1]
        fused = attacca.fuse(function)
        for rows in (3, 4):
            x = torch.randn(rows, 8)
            torch.testing.assert_close(fused(x, given[1]), x @ given[1] * 8)
        self.assertEqual(len(fused._plans), 1)

    def test_epilogues_as_functions(self):
        got = attacca.matmul(X, W.T, lambda acc, bias, gain=None: F.gelu(acc + bias) * bias, bias=B)
        torch.testing.assert_close(got, F.gelu(X @ W.T + B) * B, rtol=1e-5, atol=1e-5)
        column, res = X[:, :1].clone(), torch.randn(6, 32)
        got = attacca.matmul(X, W.T, lambda acc, c, r: (acc * c + r, acc), c=column, r=res)
        torch.testing.assert_close(got[0], (X @ W.T) * column + res, rtol=1e-5, atol=1e-5)


class Layer(torch.nn.Module):
    """Methods that read numbers, tensors, modules and other methods of their object."""

    def __init__(self, scale=2.0):
        super().__init__()
        self.linear, self.act = torch.nn.Linear(16, 32), F.silu
        self.scale, self.bounds, self.dtype = scale, (-1.0, 1.0), torch.float32
        self.requires_grad_(False)

    @property
    def weight(self):
        return self.linear.weight.T

    @attacca.fuse
    def forward(self, x, shift=0.5):
        y = self.shifted(self.act(x @ self.weight + self.linear.bias), shift)
        return torch.clamp(y, *self.bounds).to(self.dtype)

    def shifted(self, y, shift):
        return y * self.scale + shift if getattr(self, "shifts", True) else y * self.scale

    @attacca.fuse
    def twice(self, x):
        return self.forward(x) * 2 if isinstance(self, Layer) else x

    @staticmethod
    @attacca.fuse
    def product(x, w):
        return torch.relu(x @ w.T)

    @attacca.fuse
    def writes(self, x):
        self.last = x
        return x

    @attacca.fuse
    def calls(self, x):
        return self.linear(x)


class Wider(Layer):
    """One that calls the method that it overrides, while it is traced itself."""

    @attacca.fuse
    def forward(self, x, shift=0.5):
        return super().forward(x, shift) - 1


class Shifted(Layer):
    def shifted(self, y, shift):
        return y * self.scale + 2 * shift


class Plain(Layer):
    def forward(self, x, shift=0.5):
        return super().forward(x, shift) - 1


class Methods(unittest.TestCase):
    def same(self, got, layer, x, shift=0.5):
        y = F.silu(layer.linear(x)) * layer.scale + (shift if getattr(layer, "shifts", True) else 0)
        torch.testing.assert_close(got, torch.clamp(y, *layer.bounds), rtol=1e-5, atol=1e-5)

    def test_what_is_read_of_the_object_is_read_in_each_call(self):
        layer = Layer()
        self.same(layer(X), layer, X)
        self.same(layer.forward(X, shift=-1), layer, X, -1)
        narrow = torch.nn.Linear(16, 8).requires_grad_(False)
        for name, value in [("scale", 3), ("bounds", (0.0, 0.5)), ("linear", narrow),
                            ("shifts", False), ("scale", 3.5)]:
            setattr(layer, name, value)
            with self.subTest(name):
                self.same(layer(X), layer, X)
        layer.act = torch.relu
        want = torch.clamp(torch.relu(layer.linear(X)) * 3.5, 0, 0.5)
        torch.testing.assert_close(layer(X), want, rtol=1e-5, atol=1e-5)

    def test_what_is_read_of_the_class_is_that_of_the_object(self):
        first, second = Layer(), Shifted()
        for layer, shift in ((first, 0.5), (second, 1), (first, 0.5)):
            self.same(layer(X), layer, X, shift)

        class Optional:
            norm = None

            @attacca.fuse
            def run(self, x):
                return x * 2 if self.norm is None else x * 3
        optional = Optional()
        for norm, factor in ((None, 2), (first, 3), (second, 3), (None, 2)):
            optional.norm = norm
            torch.testing.assert_close(optional.run(X), X * factor)
        first.shifted = second.shifted.__func__.__get__(first)
        self.same(first(X), first, X, 1)

    def test_what_is_read_through_the_class_is_read_in_each_call(self):
        class Scaled:
            factor = 2.0

            def scaled(self, x):
                return x * self.factor

            @attacca.fuse
            def run(self, x):
                fresh = self.__class__().scaled(x)
                return fresh + self.__class__.factor + self.__class__.scaled(self, x)
        scaled = Scaled()
        for factor in (2.0, 5.0, 2.0):
            Scaled.factor = factor
            torch.testing.assert_close(scaled.run(X), X * factor + factor + X * factor)

    def test_a_class_that_is_only_compared_is_not_read(self):
        class Scaled:
            factor, other = 2.0, 1.0

            @attacca.fuse
            def asked(self, x):
                return x * self.factor if isinstance(self, (str, Layer, Scaled)) else x

            @attacca.fuse
            def matched(self, x):
                match self:
                    case Scaled():
                        return x * self.factor
                return x
        scaled = Scaled()
        plans = [method.plan(X) for method in (scaled.asked, scaled.matched)]
        Scaled.other = 5.0
        for method, plan in zip((scaled.asked, scaled.matched), plans):
            torch.testing.assert_close(method(X), X * 2)
            self.assertIs(method.plan(X), plan)

    def test_one_plan_serves_objects_that_are_alike(self):
        first, second, other = Layer(), Layer(), Layer(scale=4.0)
        plan = first.forward.plan(X)
        self.assertIs(second.forward.plan(X), plan)
        self.assertIsNot(other.forward.plan(X), plan)
        self.same(second(X), second, X)
        names = [each.name for each in plan.inputs]
        self.assertEqual(names, ["x", "self.weight", "self.linear.bias"])
        self.assertIn("gemm over [6, 32]", str(first.forward.explain(X)))
        self.assertIn('graph "forward"("x": f32[6, 16], "self.weight"', first.forward.text(X))

    def test_methods_of_methods_and_of_classes_above(self):
        for kind in (Wider, Plain):
            layer = kind()
            self.same(layer(X) + 1, layer, X)
        layer = Layer()
        self.same(layer.twice(X) / 2, layer, X)
        torch.testing.assert_close(Layer.product(X, W), torch.relu(X @ W.T), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(layer.product(X, W), torch.relu(X @ W.T), rtol=1e-5, atol=1e-5)

    def test_numpy_and_out(self):
        class Scaled:
            def __init__(self, w):
                self.w, self.factor = w, np.float32(0.5)

            @attacca.fuse
            def __call__(self, x):
                return x @ self.w.T * self.factor
        x, w, out = X.numpy(), W.numpy(), np.empty((6, 32), np.float32)
        self.assertIs(Scaled(w).__call__(x, out=out), out)
        np.testing.assert_allclose(out, x @ w.T * 0.5, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(Scaled(2 * w)(x), x @ w.T, rtol=1e-5, atol=1e-5)

    def test_under_torch_compile(self):
        layer = Layer()
        compiled = torch.compile(lambda x: layer(x) + 1, backend="eager")
        self.same(compiled(X) - 1, layer, X)

    def test_errors(self):
        layer = Layer()
        for call, pattern in [
                (lambda: layer.writes(X), "writes self.last.*return it"),
                (lambda: layer.calls(X), "self.linear, a Linear, is called.*function of tensors"),
                (lambda: layer(X.double()), "same dtype"),
                (lambda: layer.twice(X.numpy()), "self.weight is a Tensor, and no argument is"),
                (lambda: layer(), "missing a required argument: 'x'"),
                (lambda: attacca.fuse(staticmethod(lambda x: x)), "write @staticmethod above"),
                (lambda: attacca.fuse(classmethod(lambda cls, x: x)), "make it a static method")]:
            with self.subTest(pattern), self.assertRaisesRegex(attacca.Error, pattern):
                call()
        layer.linear.requires_grad_()
        with self.assertRaisesRegex(attacca.Error, "requires a gradient.*self.weight.*detach"):
            layer(X)


class Errors(unittest.TestCase):
    def test_each_says_the_fix(self):
        def branch(x):
            return x if x > 0 else -x
        for call, pattern in [
                (lambda: attacca.fuse(branch)(X), "reads a tensor's value.*where"),
                (lambda: attacca.fuse(lambda x: x.siluu())(X), "did you mean silu?"),
                (lambda: attacca.fuse(lambda x: torch.fft.fft(x))(X), "fft_fft is not known"),
                (lambda: attacca.fuse(lambda x: x + W[0, :1])(X),
                 "Tensor inside the function.*arguments"),
                (lambda: attacca.fuse(lambda x: F.silu(x, inplace=True))(X),
                 "silu: the argument inplace=True"),
                (lambda: attacca.fuse(lambda x: x[6])(X), "index 6 of an axis of 6.*within"),
                (lambda: attacca.fuse(lambda x: 3)(X), "returns a int"),
                (lambda: attacca.fuse(lambda x: ())(X), "must return a tensor"),
                (lambda: attacca.fuse(lambda x: [row * 2 for row in x])(X), "iterates.*unbind"),
                (lambda: attacca.fuse(lambda x: x.__setitem__(0, 1))(X), "writes to.*where"),
                (lambda: attacca.matmul(X, W.T, lambda acc: acc * acc.shape[1]), "reads a size"),
                (lambda: attacca.fuse(lambda x, y: x.to(y.dtype))(X, Y.numpy()), "reads a dtype"),
                (lambda: attacca.fuse(lambda x, y: x)(X), "missing a required argument: 'y'"),
                (lambda: attacca.fuse(lambda x: x.to(torch.complex64))(X),
                 "cast to torch.complex64"),
                (lambda: attacca.fuse(lambda x, y: x + y)(X, Y.to("meta")), "device meta"),
                (lambda: attacca.fuse(lambda x, y: x + y)(X, Y.half().requires_grad_()),
                 "requires a gradient"),
                (lambda: attacca.fuse(lambda x, y: x @ y)(X, Y), "16"),
                (lambda: attacca.matmul(X, W.T, lambda acc, bias: acc + bias), "give bias="),
                (lambda: attacca.matmul(X, W.T, lambda acc, bias: acc + bias, bias=B[:3]),
                 r"give it \[\], \[32\]"),
                (lambda: attacca.matmul(X, W.T, lambda acc: acc, bias=B), "names no operand bias"),
                (lambda: attacca.tune("graph g(x: f32[M]) { return exp(x) }", device="cpu", M=1),
                 "give cuda")]:
            with self.subTest(pattern), self.assertRaisesRegex(attacca.Error, pattern):
                call()


class Progress(unittest.TestCase):
    def test_a_line_a_step_where_there_is_no_terminal(self):
        from attacca._progress import Bar
        stream = io.StringIO()
        bar = Bar(2, stream)
        bar.show("M=1")
        bar.step("M=1")
        self.assertRegex(stream.getvalue(), r"^tune 0/2 M=1\ntune 1/2 M=1, \d+\.\d s\n$")

    def test_a_bar_on_a_terminal(self):
        from attacca._progress import Bar

        class Terminal(io.StringIO):
            def isatty(self):
                return True
        stream = Terminal()
        Bar(1, stream).step("M=1")
        self.assertIn("[##############################] 1/1 M=1", stream.getvalue())
        self.assertTrue(stream.getvalue().endswith("\n"))


if __name__ == "__main__":
    unittest.main()
