"""attacca.matmul on numpy arrays, torch tensors and other tensors that speak DLPack."""
import ctypes
import unittest

import ml_dtypes
import numpy as np
import torch

import attacca

RANDOM = np.random.default_rng(0)
A = RANDOM.standard_normal((17, 24), np.float32)
W = RANDOM.standard_normal((40, 24), np.float32)
BIAS = RANDOM.standard_normal(40, np.float32)
RES = RANDOM.standard_normal((17, 40), np.float32)
TAIL = "silu(acc + row(bias)) * full(res)"


def want(a=A, w=W, bias=BIAS, res=RES):
    x = a.astype(np.float64) @ w.T.astype(np.float64) + bias
    return x / (1 + np.exp(-x)) * res


class Spoken:
    """A tensor that speaks DLPack and no more."""

    def __init__(self, array, device=None):
        self.array, self.device = array, device or array.__dlpack_device__()

    def __dlpack__(self, **keywords):
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.device


class Standard(Spoken):
    """One that follows the array API standard besides."""

    def __array_namespace__(self):
        class Namespace:
            from_dlpack = staticmethod(lambda array: Standard(np.from_dlpack(array)))
        return Namespace


class Settable(Standard):
    """One whose elements may be set."""

    def __setitem__(self, index, value):
        self.array[index] = value


class Results(unittest.TestCase):
    def close(self, got, tolerance=1e-5, expected=None):
        np.testing.assert_allclose(np.asarray(got, np.float64),
                                   want() if expected is None else expected,
                                   rtol=tolerance, atol=tolerance)

    def test_numpy(self):
        got = attacca.matmul(A, W.T, TAIL, bias=BIAS, res=RES)
        self.assertIsInstance(got, np.ndarray)
        self.close(got)

    def test_b_in_either_layout_is_the_same(self):
        columns = attacca.matmul(A, W.T, TAIL, bias=BIAS, res=RES)
        rows = attacca.matmul(A, np.ascontiguousarray(W.T), TAIL, bias=BIAS, res=RES)
        np.testing.assert_allclose(columns, rows, rtol=1e-6, atol=1e-6)

    def test_torch(self):
        a, w, bias, res = map(torch.from_numpy, (A, W, BIAS, RES))
        got = attacca.matmul(a, w.T, TAIL, bias=bias, res=res)
        self.assertIsInstance(got, torch.Tensor)
        self.close(got)

    def test_sixteen_bits(self):
        for dtype, tolerance in [(torch.bfloat16, 1e-2), (torch.float16, 2e-3)]:
            a, w, bias, res = (torch.from_numpy(x).to(dtype) for x in (A, W, BIAS, RES))
            got = attacca.matmul(a, w.T, TAIL, bias=bias, res=res)
            self.assertIs(got.dtype, dtype)
            exact = want(*(x.double().numpy() for x in (a, w, bias, res)))
            self.close(got.double(), tolerance, exact)

    def test_numpy_with_ml_dtypes(self):
        a, w = A.astype(ml_dtypes.bfloat16), W.astype(ml_dtypes.bfloat16)
        got = attacca.matmul(a, w.T, TAIL, bias=BIAS, res=RES)
        self.assertEqual(got.dtype, ml_dtypes.bfloat16)
        self.close(got, 1e-2, want(a.astype(np.float32), w.astype(np.float32)))

    def test_operands_keep_their_own_dtypes(self):
        a, w = torch.from_numpy(A).bfloat16(), torch.from_numpy(W).bfloat16()
        got = attacca.matmul(a, w.T, TAIL, bias=BIAS, res=torch.from_numpy(RES).half(),
                             out_dtype="f32")
        self.assertIs(got.dtype, torch.float32)
        self.close(got, 1e-3, want(a.float().numpy(), w.float().numpy()))

    def test_int8(self):
        a = RANDOM.integers(-128, 128, (5, 32), np.int8)
        b = RANDOM.integers(-128, 128, (32, 8), np.int8)
        exact = a.astype(np.int32) @ b.astype(np.int32)
        np.testing.assert_array_equal(attacca.matmul(a, b), exact)
        scaled = attacca.matmul(a, b, "acc * row(scale)", out_dtype="f32",
                                scale=np.full(8, 0.5, np.float32))
        np.testing.assert_array_equal(scaled, exact * np.float32(0.5))

    def test_float8_is_scaled_as_torch_does(self):
        a, b = (torch.from_numpy(RANDOM.standard_normal(shape, np.float32)).to(torch.float8_e4m3fn)
                for shape in ((16, 64), (48, 64)))
        sa, sb = (torch.from_numpy(RANDOM.uniform(0.01, 2, shape).astype(np.float32))
                  for shape in ((16, 1), (48,)))
        one = torch.ones(())  # torch's CPU takes one scale a tensor
        expected = torch._scaled_mm(a, b.T, one, one, out_dtype=torch.float32) * sa * sb
        for mode in ("fp32", "eager"):
            with self.subTest(mode):
                got = attacca.matmul(a, b.T, "acc * col(sa) * row(sb)", sa=sa, sb=sb,
                                     out_dtype="f32", mode=mode)
                torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
                self.assertIs(attacca.matmul(a, b.T, mode=mode).dtype, torch.bfloat16)

    def test_scalar_column_and_several_results(self):
        column = RANDOM.standard_normal((17, 1), np.float32)
        scale = np.array(0.5, np.float32)
        twice, same = attacca.matmul(A, W.T, "(acc + col(c)) * scalar(s), acc", c=column, s=scale)
        self.close(same, expected=A.astype(np.float64) @ W.T)
        self.close(twice, expected=(A.astype(np.float64) @ W.T + column) * 0.5)

    def test_operands_with_the_names_of_parameters(self):
        exact = A.astype(np.float64) @ W.T + BIAS
        for _ in range(2):  # the second call comes from the cache
            self.close(attacca.matmul(A, W.T, "acc + row(b)", b=BIAS), expected=exact)
            self.close(attacca.matmul(A, W.T, "acc + row(a: f32) * full(b)", a=BIAS, b=RES),
                       expected=exact - BIAS + BIAS.astype(np.float64) * RES)
        self.close(attacca.matmul(A, W.T, lambda acc, b, offsets: acc + b - offsets, b=BIAS,
                                  offsets=np.array(1, np.float32)), expected=exact - 1)
        with self.assertRaisesRegex(attacca.Error, r"^b has shape \(1,\).*, at b: "):
            attacca.matmul(A, W.T, "acc + row(b)", b=BIAS[:1])
        self.close(attacca.matmul(A, W.T, lambda acc, *a, **kw: acc * 2),
                   expected=2 * A.astype(np.float64) @ W.T)
        axes = attacca.matmul(A[:16].reshape(2, 8, 24)[:, :7], W.T, "acc + row(b)", b=BIAS)
        self.close(axes, expected=exact[:16].reshape(2, 8, 40)[:, :7])

    def test_leading_axes(self):
        a, res = A[:16].reshape(2, 8, 24), RES[:16].reshape(2, 8, 40)
        got = attacca.matmul(a, W.T, TAIL, bias=BIAS, res=res)
        self.assertEqual(got.shape, (2, 8, 40))
        self.close(got, expected=want()[:16].reshape(2, 8, 40))

    def test_out_is_written(self):
        out = torch.full((17, 40), float("nan"))
        got = attacca.matmul(A, W.T, TAIL, bias=BIAS, res=RES, out=out)
        self.assertIs(got, out)
        self.close(out)

    def test_several_outputs(self):
        outs = [np.zeros((17, 40), np.float32) for _ in range(2)]
        got = attacca.matmul(A, W.T, "acc, acc * 2", out=outs)
        self.assertIs(got[0], outs[0])
        np.testing.assert_array_equal(outs[0] * 2, outs[1])

    def test_only_dlpack(self):
        got = attacca.matmul(Spoken(A), Spoken(W.T), TAIL, bias=Spoken(BIAS), res=Spoken(RES))
        self.assertIsInstance(got, np.ndarray)
        self.close(got)

    def test_buffers_without_strides(self):
        a, out = (ctypes.c_float * 24 * 17)(), (ctypes.c_float * 40 * 17)()
        np.ctypeslib.as_array(a)[:] = A
        want = A.astype(np.float64) @ W.T
        self.close(attacca.matmul(a, W.T), expected=want)
        self.assertIs(attacca.matmul(a, W.T, out=out), out)
        self.close(np.ctypeslib.as_array(out), expected=want)

    def test_results_of_the_array_api_are_of_its_kind(self):
        got = attacca.matmul(Standard(A), W.T, TAIL, bias=BIAS, res=RES)
        self.assertIsInstance(got, Standard)
        self.close(got.array)

    def test_nothing_in_it(self):
        self.assertEqual(attacca.matmul(A[:0], W.T).shape, (0, 40))
        np.testing.assert_array_equal(attacca.matmul(A[:, :0].copy(), W.T[:0]), np.zeros((17, 40)))

    def test_eager_rounds_as_the_graph_does(self):
        a, w = torch.from_numpy(A).bfloat16(), torch.from_numpy(W).bfloat16()
        got = attacca.matmul(a, w.T, "acc * 3", mode="eager", out_dtype="f32")
        rounded = (a.double() @ w.T.double()).bfloat16()
        self.assertLess((got - (rounded * 3).float()).abs().max().item(), 0.2)
        torch.testing.assert_close(got, got.bfloat16().float(), rtol=0, atol=0)


class Errors(unittest.TestCase):
    def test_each_says_the_fix(self):
        a, w = torch.from_numpy(A), torch.from_numpy(W)
        for call, pattern in [
                (lambda: attacca.matmul(A, W), "transpose b: b.T"),
                (lambda: attacca.matmul(A, W.T, "siluu(acc)"), "did you mean silu?"),
                (lambda: attacca.matmul(A, W.T, "acc + row(bias)"),
                 "operand bias is missing.*give bias="),
                (lambda: attacca.matmul(A, W.T, "acc + row(bias)", bais=BIAS),
                 "did you mean bias?"),
                (lambda: attacca.matmul(A, W.T, "acc + row(bias)", bias=BIAS[:-1]),
                 r"give it shape \(40,\)"),
                (lambda: attacca.matmul(a.clone().requires_grad_(), w.T),
                 "requires a gradient.*detach"),
                (lambda: attacca.matmul(a.to("meta"), w.T), "device meta.*move it"),
                (lambda: attacca.matmul(a, w.T.half()), "b is f16.*convert"),
                (lambda: attacca.matmul(a.to_sparse(), w.T), "sparse_coo.*to_dense"),
                (lambda: attacca.matmul(A.astype(complex), W.T),
                 "complex128 is not supported.*float32"),
                (lambda: attacca.matmul(A.astype(">f4"), W.T), ">f4 is not supported"),
                (lambda: attacca.matmul(A, W.T, mode="exact"), "unknown mode exact.*fp32, eager"),
                (lambda: attacca.matmul(A, W.T, tuning="fast"), "unknown tuning fast"),
                (lambda: attacca.matmul(A, W.T, threads=-1), "-1 threads"),
                (lambda: attacca.matmul(A, W.T, out_dtype="f33"), "unknown dtype f33"),
                (lambda: attacca.matmul(A[:, ::-1], W.T), "negative stride.*ascontiguousarray"),
                (lambda: attacca.matmul(A, W.T, "acc + row(v)", v=BIAS[::-1]),
                 "negative stride.*at v"),
                (lambda: attacca.matmul(A[:16].reshape(2, 8, 24), W.T, "acc + full(r)",
                                        r=RES[:8].reshape(2, 4, 40)),
                 r"r has shape \(2, 4, 40\), at r: give it shape \(2, 8, 40\)"),
                (lambda: attacca.matmul(A[:16].reshape(2, 8, 24)[:, :7], W.T,
                                        out=np.zeros((2, 8, 40), np.float32)),
                 r"out has shape \(2, 8, 40\), at out: give it shape \(2, 7, 40\)"),
                (lambda: attacca.matmul(A, W.T, out=np.zeros((17, 39), np.float32)),
                 r"give it shape \(17, 40\)"),
                (lambda: attacca.matmul(A, W.T, out=np.zeros((17, 40), np.float32)[:, ::-1]),
                 "negative stride"),
                (lambda: attacca.matmul(A, W.T, out=torch.zeros(17, 1).expand(17, 40)),
                 "output acc may overlap"),
                (lambda: attacca.matmul(A, W.T, "acc, acc * 2", out=RES.copy()),
                 "out has 1 tensors for 2 outputs"),
                (lambda: attacca.matmul(A, W.T, out=[RES.copy(), RES.copy()]),
                 "out has 2 tensors for 1 outputs"),
                (lambda: attacca.matmul(A, W.T, "acc + row(mode)", mode=BIAS),
                 "operand mode has the name of a parameter of matmul, at mode: rename.*mode_"),
                (lambda: attacca.matmul(A, W.T, lambda acc, out: acc + out, out=BIAS),
                 "operand out has the name of a parameter"),
                (lambda: attacca.matmul(3, W.T), "int is not a tensor"),
                (lambda: attacca.matmul([1.0], W.T), "list is not a tensor"),
                (lambda: attacca.matmul(A[0], W.T), "two axes or more"),
                (lambda: attacca.matmul(Spoken(A, (2, 0)), W.T), "torch.from_dlpack")]:
            with self.subTest(pattern), self.assertRaisesRegex(attacca.Error, pattern):
                call()

    def test_outputs_that_cannot_be_written(self):
        out = np.zeros((17, 40), np.float32)
        out.flags.writeable = False
        for each, pattern in [(out, "read-only"), (Spoken(out), "not a writable tensor"),
                              (memoryview(bytes(17 * 40 * 4)).cast("f", (17, 40)),
                               "memoryview cannot be written"),
                              (Standard(np.zeros((17, 40), np.float32)),
                               "Standard cannot be written")]:
            with self.subTest(pattern), self.assertRaisesRegex(attacca.Error, pattern):
                attacca.matmul(A, W.T, out=each)
            self.assertFalse(np.asarray(getattr(each, "array", each)).any())
        writable = Settable(np.zeros((17, 40), np.float32))
        attacca.matmul(A, W.T, out=writable)
        np.testing.assert_array_equal(writable.array, attacca.matmul(A, W.T))

    def test_outputs_that_overlap(self):
        square, eye = np.ones((8, 8), np.float32), np.eye(8, dtype=np.float32)
        y, wide = np.zeros((8, 8), np.float32), np.zeros((8, 24), np.float32)
        long = np.zeros(100, np.float32)
        for pattern, call in [
                ("overlaps input a", lambda: attacca.matmul(square, eye, out=square)),
                ("overlaps input r",
                 lambda: attacca.matmul(square, eye, "acc + full(r)", r=y, out=y)),
                ("overlaps input b", lambda: attacca.matmul(square, eye, out=eye.T)),
                ("overlaps output",
                 lambda: attacca.matmul(square, eye, "acc, acc * 2", out=[y, y])),
                ("overlaps output", lambda: attacca.matmul(square, eye, "acc, acc * 2", out=[
                    wide[:, :8], wide[:, 7:15]])),
                ("overlaps output", lambda: attacca.matmul(square, eye, "acc, acc * 2", out=[
                    long[:64].reshape(8, 8), long[36:].reshape(8, 8)]))]:
            with self.subTest(pattern), self.assertRaisesRegex(attacca.Error, pattern):
                call()
        for untouched in (y, wide, long):
            self.assertFalse(untouched.any())
        # Columns of the same rows are apart, those of an input among them.
        wide[:, :8] = square
        attacca.matmul(wide[:, :8], eye, "acc + 1, acc * 3", out=[wide[:, 8:16], wide[:, 16:]])
        np.testing.assert_array_equal(wide[0], np.repeat(np.float32([1, 2, 3]), 8))

    def test_gradients_are_fine_where_none_are_kept(self):
        a = torch.from_numpy(A).requires_grad_()
        with torch.no_grad():
            self.assertFalse(attacca.matmul(a, torch.from_numpy(W).T).requires_grad)

    def test_an_error_is_a_value_error_with_three_texts(self):
        with self.assertRaises(ValueError) as caught:
            attacca.matmul(A, W)
        error = caught.exception
        self.assertEqual((error.what, error.where, error.fix),
                         ("a has K=24 and b K=40", "b", "transpose b: b.T"))
        self.assertEqual(str(error), "a has K=24 and b K=40, at b: transpose b: b.T")


class NotWhatTheySeem(unittest.TestCase):
    """Arrays whose memory is not described by dtype and shape alone."""

    def test_fields_of_packed_records(self):
        packed = np.zeros(40, dtype=[("x", "f4"), ("y", "u1")])
        packed["x"] = BIAS
        with self.assertRaisesRegex(attacca.Error,
                                    "strides of \\(5,\\) bytes are not multiples of an element.s 4 "
                                    "bytes.*at v"):
            attacca.matmul(A, W.T, "acc + row(v)", v=packed["x"])
        aligned = np.zeros(40, dtype=[("x", "f4"), ("y", "f4")])
        aligned["x"] = BIAS
        np.testing.assert_array_equal(attacca.matmul(A, W.T, "acc + row(v)", v=aligned["x"]),
                                      attacca.matmul(A, W.T, "acc + row(v)", v=BIAS))
        # The stride of an axis of one element does not matter.
        self.assertEqual(attacca.matmul(A, W.T[:, :1], "acc + row(v)", v=packed["x"][:1]).shape,
                         (17, 1))

    def test_masked_arrays(self):
        masked = np.ma.masked_array(A, mask=A > 0)
        for call in [lambda: attacca.matmul(masked, W.T),
                     lambda: attacca.matmul(A, W.T, "acc + full(r)", r=np.ma.zeros((17, 40), "f4")),
                     lambda: attacca.matmul(A, W.T, out=np.ma.zeros((17, 40), "f4"))]:
            with self.assertRaisesRegex(attacca.Error, "masked array.*filled"):
                call()

    def test_text_after_nul(self):
        for call in [lambda: attacca.matmul(A, W.T, "acc\0 + nonsense"),
                     lambda: attacca.matmul(A, W.T, mode="fp32\0x"),
                     lambda: attacca.matmul(A, W.T, out_dtype="f32\0"),
                     lambda: attacca.compile("graph g(x: f32[M]) { return exp(x) }\0"),
                     lambda: attacca.compile("graph g(x: f32[M]) { return exp(x) }",
                                             device="cpu\0"),
                     lambda: attacca.compile("graph g(x: f32[2]) { return exp(x) }",
                                             constants={"x\0": BIAS[:2]}),
                     lambda: attacca.compile("graph g(x: f32[M]) { return exp(x) }").save(
                         "/nowhere\0/p"),
                     lambda: attacca.compile("graph g(x: f32[M]) { return exp(x) }").prepare(
                         **{"M\0": 2}),
                     lambda: attacca.load("/nowhere\0/p"),
                     lambda: attacca.compile("/nowhere\0/g.attacca")]:
            with self.assertRaisesRegex(attacca.Error, r"NUL|unknown (mode|dtype)"):
                call()


if __name__ == "__main__":
    unittest.main()
