"""Single ONNX ops at the ends of their range: one line each, against what the operator text
says."""
from __future__ import annotations

import math
import unittest
from typing import Any

import numpy as np
import onnx.parser
import onnxruntime
from ml_dtypes import bfloat16
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import attacca
from compare import EXACT

INF, NAN = float("inf"), float("nan")


def compiled(body: str, opset: int = 20, mode: str = "fp32") -> attacca.Plan:
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]> g {body}')
    return attacca.compile(model, mode=mode)


def unary(op: str, x: Any, dtype: Any = np.float32) -> Any:
    values = np.asarray(x, dtype)
    name = {np.float32: "float", np.float64: "double", np.float16: "float16"}[dtype]
    results = [compiled(f"({name}[N] x) => ({name}[N] y) {{ y = {op} (x) }}", mode=mode)(values)
               for mode in ("fp32", "eager")]
    np.testing.assert_array_equal(results[0], results[1])
    return results[0]


class Transcendental(unittest.TestCase):
    """f32 results are f64's, rounded, up to one last place, over the whole range."""

    WIDE = np.concatenate([sign * np.geomspace(1e-40, 3e38, 400) for sign in (1, -1)])
    SPECIAL = [0.0, -0.0, INF, -INF, NAN, 1.0, -1.0, 0.5, 88.9, -88.9, 89.4, 90.0, 1e20, -5e3]

    def check(self, op: str, exact: Any) -> None:
        for dtype, last_place in ((np.float32, 1.2e-7), (np.float64, 4.5e-16)):
            x = np.concatenate([self.WIDE, self.SPECIAL]).astype(dtype)
            with np.errstate(all="ignore"):
                want = exact(x.astype(np.float64))
                wanted = want.astype(dtype)
                got = unary(op, x, dtype)
                fine = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
                fine |= np.abs(got - wanted) <= last_place * np.abs(wanted) + 1e-44
            for at in np.flatnonzero(~fine)[:1]:
                self.fail(f"{op}({x[at]!r}) is {got[at]!r}, wanted {wanted[at]!r}")
            zeros = wanted == 0
            np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(wanted[zeros]))

    def test_functions(self) -> None:
        for op in ("Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Asin", "Acos", "Atan"):
            with self.subTest(op=op):
                self.check(op, EXACT[op])

    def test_tanh(self) -> None:
        x = np.asarray([-0.0, 0.0, 1e-40, -1e-20, INF, -INF, 1.0], np.float32)
        got = unary("Tanh", x)
        np.testing.assert_allclose(got, np.tanh(x.astype(np.float64)).astype(np.float32), rtol=3e-7)
        self.assertTrue(np.signbit(got[0]) and not np.signbit(got[1]))


class Powers(unittest.TestCase):
    """A base and an exponent of two types: the result has the base's."""

    def test_two_types(self) -> None:
        names = {np.float32: "float", np.float64: "double", np.float16: "float16",
                 np.int32: "int32", np.int64: "int64"}
        for base, exponent in [
                (np.asarray([70000, 100000, 300, 3], np.int64), np.asarray([1, .5, 2, 2], "f2")),
                (np.asarray([70000, 100000, 300, 3], np.int32), np.asarray([1, .5, 2, 2], "f2")),
                (np.asarray([16777217, 3], np.int32), np.asarray([1, 2], np.float32)),
                (np.asarray([-1, -1, 1.001], np.float16), np.asarray([2049, 70001, 9], np.int32)),
                (np.asarray([-1, -2, 3], np.float32), np.asarray([16777217, 2**31 - 1, -2])),
                (np.asarray([2, -3, 0], np.float32), np.asarray([1e-3, 3, 0], np.float64))]:
            x, y = names[base.dtype.type], names[exponent.dtype.type]
            body = f"({x}[N] x, {y}[N] y) => ({x}[N] z) {{ z = Pow (x, y) }}"
            model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 15]> g {body}')
            session = onnxruntime.InferenceSession(model.SerializeToString())
            (want,) = session.run(None, {"x": base, "y": exponent})
            for mode in ("fp32", "eager"):
                got = compiled(body, 15, mode)(base, exponent)
                self.assertEqual(got.dtype, want.dtype)
                np.testing.assert_allclose(got, want, rtol=2e-3 if x == "float16" else 1e-6)

    def test_bytes_in_einsum(self) -> None:
        rng = np.random.default_rng(0)
        for name, dtype in (("int8", np.int8), ("uint8", np.uint8)):
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
            x, y = (rng.integers(low, high, shape, dtype, endpoint=True)
                    for shape in ((3, 40), (40, 2)))
            body = (f'({name}[3, 40] x, {name}[40, 2] y) => ({name}[3, 2] z) '
                    '{ z = Einsum <equation = "ij,jk->ik"> (x, y) }')
            got = compiled(body)(x, y)
            self.assertEqual(got.dtype, dtype)
            np.testing.assert_array_equal(got, (x.astype(np.int64) @ y).astype(dtype))


class Overloads(unittest.TestCase):
    """Functions of a model that have one name."""

    def test_the_named_one_is_called(self) -> None:
        def function(overload: str, factor: float) -> onnx.FunctionProto:
            nodes = [helper.make_node("Constant", [], ["c"], value_float=float(factor)),
                     helper.make_node("Mul", ["x", "c"], ["y"])]
            return helper.make_function("own", "F", ["x"], ["y"], nodes,
                                        [helper.make_opsetid("", 20)], overload=overload)

        def model(called: str) -> onnx.ModelProto:
            node = helper.make_node("F", ["x"], ["y"], domain="own", overload=called)
            x, y = (helper.make_tensor_value_info(name, T.FLOAT, [2]) for name in "xy")
            return helper.make_model(
                helper.make_graph([node], "g", [x], [y]), ir_version=10,
                functions=[function("twice", 2), function("thrice", 3)],
                opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("own", 1)])

        x = np.asarray([1, -2], np.float32)
        for called, factor in (("twice", 2), ("thrice", 3)):
            np.testing.assert_array_equal(attacca.compile(model(called))(x), x * factor)
        for called in ("", "other"):
            with self.assertRaisesRegex(attacca.Error, "F"):
                attacca.compile(model(called))


class Scatters(unittest.TestCase):
    def test_many_additions(self) -> None:
        rng = np.random.default_rng(2)
        for name, dtype in (("float", np.float32), ("int64", np.int64), ("double", np.float64)):
            model = onnx.parser.parse_model(
                f'<ir_version: 9, opset_import: ["" : 18]> g ({name}[N, 3] x, int64[U, 3] i, '
                f"{name}[U, 3] u, int64[V, 1] j, {name}[V, 3] v) => "
                f"({name}[N, 3] y, {name}[N, 3] z)"
                ' { y = ScatterElements <axis = 0, reduction = "add"> (x, i, u) '
                'z = ScatterND <reduction = "add"> (x, j, v) }')
            session = onnxruntime.InferenceSession(model.SerializeToString())
            plan = attacca.compile(model)
            for rows, count in ((5, 4), (1, 9), (2000, 30_000)):
                x, u, v = (rng.integers(-4, 4, (n, 3)).astype(dtype) for n in (rows, count, count))
                i, j = (rng.integers(-rows, rows, (count, n)) for n in (3, 1))
                given = {"x": x, "i": i, "u": u, "j": j, "v": v}
                for got, want in zip(plan(**given), session.run(None, given), strict=True):
                    np.testing.assert_array_equal(got, want)


class CumulativeSums(unittest.TestCase):
    def test_along_symbols(self) -> None:
        rng = np.random.default_rng(1)
        for options in ("", "<exclusive = 1>", "<reverse = 1>", "<exclusive = 1, reverse = 1>"):
            for dtype, name in ((np.float64, "double"), (np.int64, "int64")):
                model = onnx.parser.parse_model(
                    f'<ir_version: 9, opset_import: ["" : 20]> g ({name}[2, N, 3] x) => '
                    f"({name}[2, N, 3] y) {{ a = Constant <value_int = 1> () "
                    f"y = CumSum {options} (x, a) }}")
                session = onnxruntime.InferenceSession(model.SerializeToString())
                plan = attacca.compile(model)
                for rows in (0, 1, 2, 255, 256, 257, 1000):
                    x = rng.integers(-9, 9, (2, rows, 3)).astype(dtype)
                    (want,) = session.run(None, {"x": x})
                    np.testing.assert_array_equal(plan(x), want)


class Reductions(unittest.TestCase):
    def test_log_sum_exp_of_infinities(self) -> None:
        x = np.asarray([[INF, 1, 2], [-INF] * 3, [1, 2, 3], [NAN, 1, INF], [-INF, 0, -INF],
                        [INF, -INF, 0], [3e38, 3e38, 3e38]], np.float32)
        want = [INF, -INF, math.log(sum(map(math.exp, (1, 2, 3)))), NAN, 0, INF, 3e38]
        for dtype, name in ((np.float32, "float"), (np.float64, "double")):
            plan = compiled(f"({name}[M, 3] x) => ({name}[M] y) <int64[1] a = {{1}}> "
                            "{ y = ReduceLogSumExp <keepdims = 0> (x, a) }")
            np.testing.assert_allclose(plan(x.astype(dtype)), np.asarray(want, dtype), rtol=1e-6)

    def test_products_of_nothing_and_of_many(self) -> None:
        dynamic = compiled("(float[2, N] x) => (float[2, 1] y) <int64[1] a = {1}> "
                           "{ y = ReduceProd (x, a) }")
        for count in (0, 1, 2, 3, 7, 64, 65, 200):
            x = np.linspace(0.9, 1.1, 2 * count, dtype=np.float32).reshape(2, count)
            np.testing.assert_allclose(dynamic(x), np.prod(x.astype(np.float64), 1, keepdims=True),
                                       1e-5)
            plan = compiled(f"(float[2, {count}] x) => (float[2, 1] y) <int64[1] a = {{1}}> "
                            "{ y = ReduceProd (x, a) }")
            np.testing.assert_allclose(plan(x), np.prod(x.astype(np.float64), 1, keepdims=True),
                                       1e-5)

    def test_extrema_of_no_elements(self) -> None:
        for name, dtype in (("int32", np.int32), ("int64", np.int64), ("int8", np.int8),
                            ("uint8", np.uint8)):
            info = np.iinfo(dtype)
            for op, want in (("ReduceMax", info.min), ("ReduceMin", info.max)):
                plan = compiled(f"({name}[N] x) => ({name}[1] y) {{ y = {op} (x) }}")
                self.assertEqual(plan(np.zeros(0, dtype)).item(), want, f"{op} of {name}")
                self.assertEqual(plan(np.asarray([3, 5], dtype)).item(),
                                 3 if op == "ReduceMin" else 5)
        for op, want in (("ReduceMax", False), ("ReduceMin", True)):
            plan = compiled(f"(bool[N] x) => (bool[1] y) {{ y = {op} (x) }}")
            self.assertEqual(plan(np.zeros(0, np.bool_)).item(), want)
            self.assertEqual(plan(np.asarray([True, False])).item(), op == "ReduceMax")

    def test_softmax_of_infinities(self) -> None:
        x = np.asarray([[INF, 0], [-INF, -INF], [-INF, 0], [NAN, 0], [3e38, -3e38]], np.float32)
        got = unary_rows("Softmax", x)
        np.testing.assert_array_equal(got, np.asarray([[NAN, NAN], [NAN, NAN], [0, 1], [NAN, NAN],
                                                       [1, 0]], np.float32))


def unary_rows(op: str, x: Any) -> Any:
    return compiled(f"(float[M, 2] x) => (float[M, 2] y) {{ y = {op} (x) }}")(x)


class Bounds(unittest.TestCase):
    def test_clip_to_nan(self) -> None:
        x = np.asarray([0, 2, -1], np.float32)
        for low, high in ((NAN, 1), (0, NAN), (NAN, NAN)):
            given = compiled(
                "(float[3] x, float l, float u) => (float[3] y) { y = Clip (x, l, u) }")
            constant = compiled(
                f"(float[3] x) => (float[3] y) <float l = {{{low}}}, float u = {{{high}}}> "
                                "{ y = Clip (x, l, u) }")
            self.assertTrue(np.isnan(given(x, np.float32(low), np.float32(high))).all())
            self.assertTrue(np.isnan(constant(x)).all(), (low, high))

    def test_clip_without_a_bound_ends_at_the_largest_number(self) -> None:
        x, most = np.asarray([INF, -INF, 2], np.float32), np.finfo(np.float32).max
        low = compiled("(float[3] x, float l) => (float[3] y) { y = Clip (x, l) }")
        np.testing.assert_array_equal(low(x, np.float32(0)), np.asarray([most, 0, 2], np.float32))
        fixed = compiled("(float[3] x) => (float[3] y) <float u = {1}> { y = Clip (x, , u) }")
        np.testing.assert_array_equal(fixed(x), np.asarray([1, -most, 1], np.float32))

    def test_mod_of_floats(self) -> None:
        x = np.asarray([5.5, -5.5, 0.3, 1e30, INF, 1], np.float32)
        y = np.asarray([2, 2, 0.1, 3, 2, INF], np.float32)
        plan = compiled("(float[6] x, float[6] y) => (float[6] z) { z = Mod <fmod = 1> (x, y) }")
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(plan(x, y), np.fmod(x, y))


class Quantised(unittest.TestCase):
    def test_exact_quotient_next_to_a_tie(self) -> None:
        """250 * 23 * 0.02f * 0.01f / 0.1f is below 11.5, by less than float32's products can
        tell."""
        plan = compiled("(uint8[1, 1] a) => (uint8[1, 1] y) <float sa = {0.02}, uint8 za = {0}, "
                        "int8[1, 1] b = {23}, float sb = {0.01}, int8 zb = {0}, float sy = {0.1}, "
                        "uint8 zy = {9}> { y = QLinearMatMul (a, sa, za, b, sb, zb, sy, zy) }")
        self.assertEqual(plan(np.asarray([[250]], np.uint8)).item(), 20)

    def test_requantised_as_by_onnx_runtime(self) -> None:
        """Bit for bit, by scales of any size; it differs from the exact quotient only next to a
        half."""
        generator = np.random.default_rng(7)
        for extent, columns in ((1, 64), (17, 33), (300, 40), (1024, 8)):
            a = generator.integers(0, 256, (64, extent), dtype=np.uint8)
            # ONNX Runtime's sums of wider weights saturate on CPUs without VNNI.
            b = generator.integers(-64, 64, (extent, columns), dtype=np.int8)
            sa, sy = (float(np.float32(10.0 ** generator.uniform(-4, 0))) for _ in range(2))
            za, zy = (int(each) for each in generator.integers(0, 256, 2))
            typical = 100 * sy / (sa * 9000 * np.sqrt(extent))  # most results lie within the range
            sb = (typical * generator.uniform(0.5, 2, columns)).astype(np.float32)
            scales = ", ".join(f"{each:.9g}" for each in sb)
            model = onnx.parser.parse_model(
                f'<ir_version: 9, opset_import: ["" : 21]> g (uint8[64, {extent}] a, '
                f'int8[{extent}, {columns}] b) '
                f"=> (uint8[64, {columns}] y) <float sa = {{{sa:.9g}}}, uint8 za = {{{za}}}, "
                f"float[{columns}] sb = {{{scales}}}, int8[{columns}] zb = "
                f"{{{', '.join('0' * columns)}}}, float sy = {{{sy:.9g}}}, uint8 zy = {{{zy}}}> "
                "{ y = QLinearMatMul (a, sa, za, b, sb, zb, sy, zy) }")
            plan = attacca.compile(model.SerializeToString())
            self.assertIn("= cast(round(", str(plan.explain()))  # one region with the product
            got = plan(a, b)
            session = onnxruntime.InferenceSession(model.SerializeToString())
            np.testing.assert_array_equal(got, session.run(None, {"a": a, "b": b})[0])
            product = (a.astype(np.int64) - za) @ b.astype(np.int64)
            quotient = product * (sa * sb.astype(np.float64)) / sy  # off by 2**-50 of it at most
            exact = np.clip(np.rint(quotient) + zy, 0, 255)
            near = np.abs(np.abs(quotient - np.floor(quotient)) - 0.5) < 2.0**-22 * np.abs(quotient)
            self.assertTrue(((got == exact) | near).all())
            self.assertGreater(len(np.unique(got)), 20)

    def test_four_bits(self) -> None:
        """Weights of an odd number, and zero points, of a tensor, an axis and blocks."""
        rng = np.random.default_rng(11)
        for kind, low in ((T.INT4, -8), (T.UINT4, 0)):
            for of, parameters in (({}, []), ({"axis": 1}, [5]), ({"axis": 0}, [7]),
                                   ({"axis": 0, "block_size": 2}, [4, 5]),
                                   ({"axis": 1, "block_size": 5}, [7, 1])):
                codes = rng.integers(low, low + 16, (7, 5))
                zeros = rng.integers(low, low + 16, parameters)
                scale = rng.uniform(0.5, 2, parameters).astype(np.float32)
                graph = helper.make_graph(
                    [helper.make_node("DequantizeLinear", ["q", "s", "z"], ["w"], **of),
                     helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
                    [helper.make_tensor_value_info("x", T.FLOAT, [3, 7])],
                    [helper.make_tensor_value_info(each, T.FLOAT, None) for each in ("w", "y")],
                    [helper.make_tensor("q", kind, codes.shape, codes.ravel()),
                     helper.make_tensor("z", kind, zeros.shape, zeros.ravel()),
                     numpy_helper.from_array(scale, "s")])
                data = helper.make_model(
                    graph, opset_imports=[helper.make_opsetid("", 21)],
                    ir_version=10).SerializeToString()
                x = rng.standard_normal((3, 7)).astype(np.float32)
                with self.subTest(kind=kind, of=of):
                    want: Any = onnxruntime.InferenceSession(data).run(None, {"x": x})
                    got = attacca.compile(data)(x)
                    np.testing.assert_array_equal(got[0], want[0], strict=True)
                    np.testing.assert_allclose(got[1], want[1], rtol=1e-5, atol=1e-4)

    def test_true_ties_round_to_even_before_the_zero_point(self) -> None:
        """Quotients 0.5, 1.5, 2.5 ...: exact ties, and then the zero point, then saturation."""
        a = np.arange(0, 256, dtype=np.uint8).reshape(-1, 1)
        for zero in (0, 1, 200):
            plan = compiled(
                "(uint8[256, 1] a) => (uint8[256, 1] y) <float sa = {0.25}, uint8 za = {0}, "
                            "int8[1, 1] b = {2}, float sb = {0.5}, int8 zb = {0}, float sy = "
                            "{0.5}, "
                            f"uint8 zy = {{{zero}}}> "
                            "{ y = QLinearMatMul (a, sa, za, b, sb, zb, sy, zy) }")
            want = np.clip(np.rint(a / 2.0) + zero, 0, 255).astype(np.uint8)
            np.testing.assert_array_equal(plan(a), want)

    def test_quantize_linear_ties(self) -> None:
        x = np.asarray([0.5, 1.5, 2.5, -0.5, -1.5, 1e30, -INF, 127.5, 128.5], np.float32)
        plan = compiled("(float[9] x) => (int8[9] y) <float s = {1}, int8 z = {1}> "
                        "{ y = QuantizeLinear (x, s, z) }")
        want = np.clip(np.rint(x) + 1, -128, 127).astype(np.int8)
        np.testing.assert_array_equal(plan(x), want)

    def test_dynamic_quantize_of_zeros(self) -> None:
        plan = compiled("(float[3] x) => (uint8[3] y, float s, uint8 z) { y, s, z = "
                        "DynamicQuantizeLinear (x) }")
        y, s, z = plan(np.zeros(3, np.float32))
        self.assertEqual((y.tolist(), s.item(), z.item()), ([0, 0, 0], 0.0, 0))


class Einsums(unittest.TestCase):
    def test_symbols_and_empty_axes(self) -> None:
        generator = np.random.default_rng(5)
        for equation, shapes in (("bij,bjk->bik", ("M,N,3", "M,3,2")), ("ij->", ("M,N",)),
                                 ("...i,ji->...j", ("M,N,3", "4,3")), ("ii->i", ("M,M",)),
                                 ("ij,jk,kl->li", ("M,2", "2,N", "N,3")), ("i,j", ("M", "N")),
                                 ("bhid,bhjd->bhij", ("2,3,M,4", "2,3,N,4"))):
            inputs = ", ".join(f"float[{dims}] x{i}" for i, dims in enumerate(shapes))
            names = ", ".join(f"x{i}" for i in range(len(shapes)))
            plan = compiled(f'({inputs}) => (float[R] y) {{ y = Einsum <equation = "{equation}"> '
                            f"({names}) }}")
            for sizes in ({"M": 3, "N": 2}, {"M": 1, "N": 5}, {"M": 0, "N": 4}):
                values = [generator.normal(0, 1, [sizes.get(dim) or int(dim.isdigit() and dim)
                                                  for dim in dims.split(",")]).astype(np.float32)
                          for dims in shapes]
                np.testing.assert_allclose(plan(*values), np.einsum(equation, *values),
                                           rtol=1e-5, atol=1e-5)


class BlockWeights(unittest.TestCase):
    def test_packed_weights_are_the_dequantised_ones(self) -> None:
        """The product with an identity, of bfloat16: ONNX Runtime has no kernel for it."""
        rng = np.random.default_rng(3)
        for bits, block, columns in ((4, 64, 130), (4, 128, 256), (8, 64, 70), (4, 32, 64)):
            blocks, rows, levels = -(-columns // block), 33, 1 << bits
            codes = rng.integers(0, levels, (rows, blocks * block))
            zeros = rng.integers(0, levels, (rows, blocks))
            scales = rng.uniform(0.01, 0.1, (rows, blocks)).astype(bfloat16)
            for given in (zeros, None):
                shift = levels // 2 if given is None else np.repeat(given, block, 1)
                real = (codes - shift) * np.repeat(scales.astype(np.float64), block, 1)
                names = {"b": in_bytes(codes, bits).reshape(rows, blocks, -1), "s": scales}
                if given is not None:
                    names["z"] = in_bytes(zeros, bits)
                node = helper.make_node("MatMulNBits", ["x", *names], ["y"], N=rows, K=columns,
                                        bits=bits, block_size=block, domain="com.microsoft")
                graph = helper.make_graph(
                    [node], "g", [helper.make_tensor_value_info("x", T.BFLOAT16, ["M", columns])],
                    [helper.make_tensor_value_info("y", T.BFLOAT16, ["M", rows])],
                    [numpy_helper.from_array(value, name) for name, value in names.items()])
                plan = attacca.compile(helper.make_model(graph, opset_imports=[
                    helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]))
                got = plan(np.eye(columns, dtype=bfloat16))
                np.testing.assert_array_equal(got, real[:, :columns].T.astype(bfloat16))


def in_bytes(codes: Any, bits: int) -> Any:
    """Rows of codes, the first in the lowest bits of a byte."""
    if bits == 8:
        return codes.astype(np.uint8)
    if codes.shape[1] % 2:
        codes = np.pad(codes, ((0, 0), (0, 1)))
    return (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)


def of_node(op: str, feeds: dict[str, Any], names: list[str], outputs: list[str],
            constants: "dict[str, Any] | None" = None, domain: str = "",
            **attributes: Any) -> bytes:
    """A model of one node, whose inputs are `names`: feeds, constants or absent."""
    node = helper.make_node(op, names, outputs, domain=domain, **attributes)
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype),
                                       value.shape) for name, value in feeds.items()],
        [helper.make_tensor_value_info(name, T.FLOAT, None) for name in outputs if name],
        [numpy_helper.from_array(np.asarray(value), name)
         for name, value in (constants or {}).items()])
    opsets = [helper.make_opsetid("", 24), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


class Masks(unittest.TestCase):
    """Attention against ONNX Runtime. The reference of onnx 1.19 is no oracle here: it has an early
    text, which masks before softcap= and counts a query's place from the first key."""

    LOWEST = float(np.finfo(np.float32).min)

    def setUp(self) -> None:
        self.rng = np.random.default_rng(5)

    def random(self, *shape: int) -> Any:
        return self.rng.normal(0, 1, shape).astype(np.float32)

    def check(self, model: bytes, feeds: dict[str, Any]) -> list[Any]:
        """ONNX Runtime's results."""
        theirs = onnxruntime.InferenceSession(model).run(None, feeds)
        for mode in ("fp32", "eager"):
            mine = attacca.compile(model, mode=mode)(**feeds)
            mine = mine if isinstance(mine, tuple) else (mine,)
            for pair in zip(mine, theirs, strict=True):
                # Hidden scores are minus infinity, ONNX Runtime's the lowest number.
                one, other = (np.maximum(each, self.LOWEST) for each in pair)
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
        return list(theirs)

    def attention(self, more: dict[str, Any], keys: int = 6, **attributes: Any) -> list[Any]:
        feeds = {"q": self.random(2, 2, 3, 4), "k": self.random(2, 2, keys, 4),
                 "v": self.random(2, 2, keys, 4), **more}
        names = [name if name in feeds else "" for name in ("q", "k", "v", "m", "", "", "ends")]
        return self.check(of_node("Attention", feeds, names, ["y", "", "", "s"], **attributes),
                          feeds)

    def test_a_mask_after_softcap(self) -> None:
        hidden = np.where(self.rng.random((3, 6)) < 0.5, -np.inf, self.random(3, 6))
        for mode in range(4):
            for causal in (0, 1):
                for mask in (hidden.astype(np.float32), hidden > -np.inf):
                    with self.subTest(mode=mode, causal=causal, mask=mask.dtype):
                        self.attention({"m": mask}, softcap=1.5, is_causal=causal,
                                       qk_matmul_output_mode=mode)

    def test_a_query_that_sees_no_key(self) -> None:
        mask = self.random(3, 6)
        mask[0], mask[1] = -np.inf, self.LOWEST
        for each in (mask, mask > self.LOWEST):
            y, weights = self.attention({"m": each}, qk_matmul_output_mode=3)
            self.assertFalse(y[:, :, :2].any() or weights[:, :, :2].any())
            self.assertTrue(y[:, :, 2].all())
        y, _ = self.attention({"m": np.full((3, 6), -1e4, np.float32)}, qk_matmul_output_mode=3)
        self.assertTrue(y.all())  # a number that hides nothing

    def test_queries_at_the_end_of_each_batch(self) -> None:
        for ends in ([3, 3], [6, 4], [3, 5], [2, 1], [0, 6]):
            for causal in (0, 1):
                for more in ({}, {"m": self.random(3, 6)}):
                    with self.subTest(ends=ends, causal=causal):
                        self.attention({"ends": np.array(ends), **more}, is_causal=causal,
                                       qk_matmul_output_mode=3)

    def test_masks_of_the_runtime_that_hide_all(self) -> None:
        """MultiHeadAttention's rows are NaN then, but where causal order hides keys, too: by less
        than minus infinity."""
        feeds = {"q": self.random(1, 3, 8), "k": self.random(1, 3, 8), "v": self.random(1, 3, 8)}
        for mask in (np.array([0], np.int32), np.array([[0, 1, 0]], np.int32)):
            for hidden in (-10000.0, -INF, self.LOWEST):
                for causal in (0, 1):
                    with self.subTest(mask=mask, hidden=hidden, causal=causal):
                        given = {**feeds, "mask": mask}
                        self.check(of_node(
                            "MultiHeadAttention", given, ["q", "k", "v", "", "mask"], ["y"],
                            domain="com.microsoft", num_heads=2, unidirectional=causal,
                            mask_filter_value=hidden), given)

    def test_what_a_query_among_other_keys_sees(self) -> None:
        feeds = {"q": self.random(1, 2, 8), "k": self.random(1, 6, 8), "v": self.random(1, 6, 8)}
        model = of_node("MultiHeadAttention", feeds, [*feeds], ["y"], domain="com.microsoft",
                        num_heads=2, unidirectional=1)
        with self.assertRaisesRegex(attacca.Error, "unidirectional attention of 2 queries to 6"):
            attacca.compile(model)

    def test_places_outside_the_cache_of_angles(self) -> None:
        quiet = onnxruntime.SessionOptions()
        quiet.log_severity_level = 4
        for places in ([[0, -1]], [[0, 9]], [-1], [8]):
            feeds = {"x": self.random(1, 2, 2, 4), "p": np.array(places), "c": self.random(9, 2),
                     "s": self.random(9, 2)}
            model = of_node("RotaryEmbedding", feeds, [*feeds], ["y"], domain="com.microsoft")
            with self.assertRaisesRegex(Exception, "out of range|exceeds"):
                onnxruntime.InferenceSession(model, quiet).run(None, feeds)
            with self.assertRaisesRegex(attacca.Error, "index 9 is outside an axis of 9"):
                attacca.compile(model)(**feeds)

    def grouped(self, batch: int, length: int, past: int, last: list[int],
                bias: Any = None, **attributes: Any) -> list[Any]:
        feeds = {"q": self.random(batch, length, 32), "k": self.random(batch, length, 16),
                 "v": self.random(batch, length, 16), "pk": self.random(batch, 1, past, 16),
                 "pv": self.random(batch, 1, past, 16), "last": np.array(last, np.int32)}
        names = [*feeds, "total"]
        if bias is not None:
            feeds["bias"] = bias
            names += ["", "", "", "bias"]
        total = {"total": np.array(max(last) + 1, np.int32)}
        return self.check(of_node("GroupQueryAttention", feeds, names, ["y", "nk", "nv"], total,
                                  "com.microsoft", num_heads=2, kv_num_heads=1, **attributes),
                          feeds)

    def test_a_past_that_is_a_buffer(self) -> None:
        for batch, length, past, last in ((1, 1, 10, [6]), (2, 1, 10, [6, 3]), (2, 1, 10, [9, 3]),
                                          (1, 3, 10, [6]), (2, 3, 10, [2, 2]), (1, 2, 5, [6]),
                                          (2, 1, 5, [5, 2]), (2, 1, 5, [3, 2])):
            with self.subTest(batch=batch, length=length, past=past, last=last):
                _, keys, _ = self.grouped(batch, length, past, last)
                self.assertEqual(keys.shape[2], max(past, max(last) + 1))

    def test_a_bias_that_hides_all(self) -> None:
        for hidden in (-INF, self.LOWEST):
            bias = np.zeros((1, 2, 2, 2), np.float32)
            bias[..., 0] = hidden
            for each in (bias, np.full_like(bias, hidden)):
                for smooth in (0, 1):
                    y, _, _ = self.grouped(1, 2, 0, [1], each, smooth_softmax=smooth)
                    self.assertFalse(y[:, 0].any())


class Caches(unittest.TestCase):
    """Attention whose sizes are symbols: one plan for the prompt and for each token after it."""

    NODES = ("lengths = Cast <to = 6> (last)\ns = Shape (mask)\nt = Gather (s, one)\n"
             "total = Cast <to = 6> (t)\n")
    BODY = ("(float[B, S, 64] q, float[B, S, 32] k, float[B, S, 32] v, int64[B, T] mask, "
            "float[B, 2, P, 16] pk, float[B, 2, P, 16] pv, float[20, 8] cosine, "
            "float[20, 8] sine) => "
            "(float[B, S, 64] y, float[B, 2, T, 16] nk, float[B, 2, T, 16] nv) "
            "<int64 one = {1}, int64 first = {1}, int64[1] axis = {1}> { "
            "sum = ReduceSum <keepdims = 0> (mask, axis)\nlast = Sub (sum, first)\n" + NODES +
            "y, nk, nv = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2, "
            "do_rotary = 1> (q, k, v, pk, pv, lengths, total, cosine, sine) }")

    def test_prompt_and_tokens(self) -> None:
        model = onnx.parser.parse_model('<ir_version: 9, opset_import: ["" : 20, "com.microsoft" : '
                                        f"1]> g {self.BODY}").SerializeToString()
        plan, session = attacca.compile(model), onnxruntime.InferenceSession(model)
        rng = np.random.default_rng(5)

        def random(*shape: int) -> Any:
            return rng.normal(0, 1, shape).astype(np.float32)

        cos, sin = random(20, 8), random(20, 8)
        for batch, lengths in ((1, (5, 1, 1, 3)), (3, (4, 1, 1))):
            cache = [random(batch, 2, 0, 16), random(batch, 2, 0, 16)]
            for length in lengths:
                total = cache[0].shape[2] + length
                feeds = {"q": random(batch, length, 64), "k": random(batch, length, 32),
                         "v": random(batch, length, 32), "mask": np.ones((batch, total), np.int64),
                         "pk": cache[0], "pv": cache[1], "cosine": cos, "sine": sin}
                want, got = session.run(None, feeds), plan(**feeds)
                for mine, theirs in zip(got, want, strict=True):
                    np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)
                cache = list(want[1:])

    def test_buffers(self) -> None:
        """P is more than T."""
        model = onnx.parser.parse_model('<ir_version: 9, opset_import: ["" : 20, "com.microsoft" : '
                                        f"1]> g {self.BODY.replace('2, T, 16', '2, N, 16')}")
        plan = attacca.compile(model)
        session = onnxruntime.InferenceSession(model.SerializeToString())
        rng = np.random.default_rng(5)
        for length, total, past in ((4, 4, 9), (1, 5, 9), (1, 9, 9), (1, 10, 9)):
            feeds = {name: rng.normal(0, 1, shape).astype(np.float32) for name, shape in (
                ("q", (1, length, 64)), ("k", (1, length, 32)), ("v", (1, length, 32)),
                ("pk", (1, 2, past, 16)), ("pv", (1, 2, past, 16)), ("cosine", (20, 8)),
                ("sine", (20, 8)))}
            feeds["mask"] = np.ones((1, total), np.int64)
            for mine, theirs in zip(plan(**feeds), session.run(None, feeds), strict=True):
                np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)


class Experts(unittest.TestCase):
    """Forms of MoE that ONNX Runtime computes on a GPU alone, for any number of tokens, against a
    loop over experts."""

    SIZE, INNER, EXPERTS, K = 8, 6, 5, 2

    def check(self, attributes: str, third: bool, gate: Any) -> None:
        columns = self.INNER if third else 2 * self.INNER
        third_input = f", float[{self.EXPERTS}, {self.INNER}, {self.SIZE}] w3" if third else ""
        model = onnx.parser.parse_model(
            '<ir_version: 9, opset_import: ["" : 20, "com.microsoft" : 1]> g '
            f"(float[N, {self.SIZE}] x, float[N, {self.EXPERTS}] scores, "
            f"float[{self.EXPERTS}, {columns}, {self.SIZE}] w1, "
            f"float[{self.EXPERTS}, {self.SIZE}, {self.INNER}] w2{third_input}) => "
            f"(float[N, {self.SIZE}] y) {{ y = com.microsoft.MoE <k = {self.K}, {attributes}> "
            f"(x, scores, w1, , w2{', , w3' if third else ''}) }}")
        plan = attacca.compile(model)
        rng = np.random.default_rng(5)
        for tokens in (1, 40, 7):
            feeds = {name: rng.normal(0, 1, shape).astype(np.float32) for name, shape in (
                ("x", (tokens, self.SIZE)), ("scores", (tokens, self.EXPERTS)),
                ("w1", (self.EXPERTS, columns, self.SIZE)),
                ("w2", (self.EXPERTS, self.SIZE, self.INNER)),
                *([("w3", (self.EXPERTS, self.INNER, self.SIZE))] if third else []))}
            wide = {name: value.astype(np.float64) for name, value in feeds.items()}
            wanted = np.zeros((tokens, self.SIZE))
            for row in range(tokens):
                probability = np.exp(wide["scores"][row])
                probability /= probability.sum()
                for expert in np.argsort(-probability)[:self.K]:
                    first = wide["w1"][expert] @ wide["x"][row]
                    up = (wide["w3"][expert] @ wide["x"][row] if third else first[self.INNER:])
                    inner = gate(first if third else first[:self.INNER], up)
                    wanted[row] += probability[expert] * (wide["w2"][expert] @ inner)
            np.testing.assert_allclose(plan(**feeds), wanted, rtol=1e-5, atol=1e-4)

    def test_gates_of_two_weights(self) -> None:
        def silu(x: Any) -> Any:
            return x / (1 + np.exp(-x))

        def clamped(x: Any, y: Any) -> Any:
            x, y = np.minimum(x, 0.7), np.clip(y, -0.7, 0.7)
            return x / (1 + np.exp(-1.702 * x)) * (y + 1)

        self.check('activation_type = "silu"', True, lambda x, y: silu(x) * y)
        self.check('activation_type = "swiglu"', True, lambda x, y: silu(x) * y)
        self.check('activation_type = "swiglu", swiglu_fusion = 2', False,
                   lambda x, y: silu(x) * y)
        self.check('activation_type = "swiglu", swiglu_fusion = 2, activation_alpha = 1.702, '
                   'activation_beta = 1.0, swiglu_limit = 0.7', False, clamped)


    def test_weights_of_8_bits(self) -> None:
        rng = np.random.default_rng(5)
        for block, zeros in ((0, False), (4, False), (4, True)):
            blocks = [self.SIZE // (block or self.SIZE)]
            codes = rng.integers(0, 256, (self.EXPERTS, self.SIZE, self.SIZE), np.uint8)
            scales = rng.uniform(0.001, 0.01, (self.EXPERTS, self.SIZE, *blocks)).astype(np.float32)
            points = rng.integers(0, 256, scales.shape, np.uint8)
            middle = points if zeros else np.full(points.shape, 128)
            wide = np.repeat(middle, self.SIZE // blocks[0], axis=2)
            weights = (codes.astype(np.float64) - wide) * np.repeat(
                scales.astype(np.float64), self.SIZE // blocks[0], axis=2)
            names = ["x", "scores", "w", "s", "", "w", "s", "", *(["", "", "", "z", "z"] if zeros
                                                                  else [])]
            attributes = {"block_size": block} if block else {}
            node = helper.make_node("QMoE", names, ["y"], domain="com.microsoft", k=1,
                                    activation_type="identity", expert_weight_bits=8,
                                    weights_prepacked=0, **attributes)
            graph = helper.make_graph(
                [node], "g", [helper.make_tensor_value_info(name, T.FLOAT, ("N", size))
                              for name, size in (("x", self.SIZE), ("scores", self.EXPERTS))],
                [helper.make_tensor_value_info("y", T.FLOAT, ("N", self.SIZE))],
                [numpy_helper.from_array(value, name) for name, value in (
                    ("w", codes), ("s", scales if block else scales[..., 0]), ("z", points))])
            plan = attacca.compile(helper.make_model(graph, ir_version=9, opset_imports=[
                helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]))
            x, scores = (rng.normal(0, 1, (9, n)).astype(np.float32)
                         for n in (self.SIZE, self.EXPERTS))
            probability = np.exp(scores.astype(np.float64))
            probability /= probability.sum(axis=1, keepdims=True)
            wanted = np.stack([probability[i].max() * (weights[e] @ (weights[e] @ x[i]))
                               for i, e in enumerate(scores.argmax(axis=1))])
            np.testing.assert_allclose(plan(x=x, scores=scores), wanted, rtol=1e-5, atol=1e-4)


    def test_weights_that_stay_codes(self) -> None:
        """Of scales in the activations' dtype: the plan decodes them, in a loop's f64."""
        rng = np.random.default_rng(7)
        size, experts = 64, 3
        for bits, block, zeros in ((4, 0, False), (4, 32, False), (4, 32, True), (8, 32, True)):
            blocks = size // (block or size)
            shape = (experts, size, size * bits // 8)
            codes = rng.integers(0, 256, shape, np.uint8)
            scales = rng.uniform(0.001, 0.01, (experts, size, blocks)).astype(np.float16)
            points = rng.integers(0, 256, (experts, size, blocks * bits // 8), np.uint8)
            wide = codes if bits == 8 else np.stack([codes & 15, codes >> 4], -1).reshape(
                experts, size, size)
            middle = np.full((experts, size, blocks), 1 << (bits - 1))
            if zeros:
                middle = points if bits == 8 else np.stack([points & 15, points >> 4], -1).reshape(
                    experts, size, blocks)
            weights = ((wide.astype(np.float64) - np.repeat(middle, size // blocks, axis=2))
                       * np.repeat(scales.astype(np.float64), size // blocks, axis=2))
            names = ["x", "scores", "w", "s", "", "w", "s", "", *(["", "", "", "z", "z"] if zeros
                                                                  else [])]
            attributes = {"block_size": block} if block else {}
            node = helper.make_node("QMoE", names, ["y"], domain="com.microsoft", k=1,
                                    activation_type="identity", expert_weight_bits=bits,
                                    weights_prepacked=0, **attributes)
            graph = helper.make_graph(
                [node], "g", [helper.make_tensor_value_info(name, T.FLOAT16, ("N", width))
                              for name, width in (("x", size), ("scores", experts))],
                [helper.make_tensor_value_info("y", T.FLOAT16, ("N", size))],
                [numpy_helper.from_array(value, name) for name, value in (
                    ("w", codes), ("s", scales if block else scales[..., 0]), ("z", points))])
            model = helper.make_model(graph, ir_version=9, opset_imports=[
                helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)])
            plan = attacca.compile(model)
            self.assertRegex(str(plan.explain()), rf" of u{bits} by ")
            x, scores = (rng.normal(0, 1, (9, n)).astype(np.float16) for n in (size, experts))
            probability = np.exp(scores.astype(np.float64))
            probability /= probability.sum(axis=1, keepdims=True)
            wanted = np.stack([probability[i].max() * (weights[e] @ (weights[e] @ x[i]))
                               for i, e in enumerate(scores.argmax(axis=1))])
            np.testing.assert_allclose(plan(x=x, scores=scores).astype(np.float64), wanted,
                                       rtol=0.02, atol=0.01 * np.abs(wanted).max())


class Refusals(unittest.TestCase):
    """The error names the unknown size that a result depends on, and what to do."""

    def refused(self, body: str, what: str, fix: str) -> None:
        with self.assertRaisesRegex(attacca.Error, what) as caught:
            compiled(body)
        self.assertIn(fix, str(caught.exception))

    def test_sizes_that_are_not_known(self) -> None:
        fixed = "export the model with a fixed size"
        self.refused("(float[M, N] x, float[1, 48] c) => (float[M, N] y) { s = Shape (x)\n"
                     "y = Expand (c, s) }", "does not expand", fixed)

    def test_equations_that_do_not_fit(self) -> None:
        for equation, what in (("ij,jk->ik", "labels name other extents"), ("ij", "2 inputs"),
                               ("ij,jk->iq", "label q"), ("ij,jk->ii", "label i"),
                               ("ijk,jk", "ijk does not fit"), ("i1,jk", "other characters"),
                               ("ij,jk->i,k", "wrong place"), ("i...j...,jk", "does not fit"),
                               ("ii,jk", "label i names 2 and 3"), ("", "2 inputs")):
            self.refused("(float[2, 3] x, float[4, 5] z) => (float[R] y) "
                         f'{{ y = Einsum <equation = "{equation}"> (x, z) }}', what, "")

    def test_sizes_that_are_known_at_run_time(self) -> None:
        triangle = compiled("(float[M, N] x) => (float[M, N] y) { y = Trilu (x) }")
        column = compiled("(float[M, 2] x) => (float[1] y) { n = Size (x)\nf = Cast <to = 1> (n)\n"
                          "t = ReduceSum <keepdims = 0> (x)\ny = Div (t, f) }")
        less = compiled("(float[M, N] x) => (int64[1] y) <int64[1] zero = {0}, "
                        "int64[1] one = {1}> { s = Shape (x)\nm = Gather (s, zero)\n"
                        "n = Gather (s, one)\ny = Sub (m, n) }")
        for m, n in ((3, 3), (5, 2), (2, 6)):
            self.assertEqual(less(np.zeros((m, n), np.float32)).tolist(), [m - n])
        for m, n in ((3, 3), (5, 2), (0, 4)):
            x = np.arange(1.0, m * n + 1, dtype=np.float32).reshape(m, n)
            np.testing.assert_array_equal(triangle(x), np.triu(x))
        for m in (1, 7):
            x = np.arange(2.0 * m, dtype=np.float32).reshape(m, 2)
            np.testing.assert_allclose(column(x), np.mean(x), rtol=1e-6)

    def test_declared_types_of_outputs(self) -> None:
        """ONNX Runtime refuses them too."""
        for declared in ("float16", "int64"):
            body = f"(float[2, 3] x, float[3, 4] w) => ({declared}[2, 4] y) {{ y = MatMul (x, w) }}"
            self.refused(body, f"declared as {declared}, computed as f32", "insert a Cast")
            model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> g {body}')
            with self.assertRaises(Exception):
                onnxruntime.InferenceSession(model.SerializeToString())

    def test_integer_mean(self) -> None:
        self.refused("(int32[3] x) => (int32[1] y) { y = ReduceMean (x) }", "mean of s32", "cast")

    def test_slice_beyond_a_dynamic_axis(self) -> None:
        plan = compiled("(float[M, 3] x) => (float[N, 3] y) <int64[1] s = {0}, int64[1] e = {10}, "
                        "int64[1] a = {0}> { y = Slice (x, s, e, a) }")
        x = np.arange(36, dtype=np.float32).reshape(12, 3)
        for length in (12, 10, 4, 0):
            np.testing.assert_array_equal(plan(x[:length]), x[:length][:10])

    def test_slice_of_a_length_that_the_model_counts_on(self) -> None:
        """Added to 10 rows, it must have 10."""
        plan = compiled("(float[M, 3] x, float[10, 3] z) => (float[10, 3] y) <int64[1] s = {0}, "
                        "int64[1] e = {10}, int64[1] a = {0}> { c = Slice (x, s, e, a) "
                        "y = Add (c, z) }")
        x, z = np.ones((12, 3), np.float32), np.ones((10, 3), np.float32)
        np.testing.assert_array_equal(plan(x, z), x[:10] + z)
        with self.assertRaisesRegex(attacca.Error, "outside axis 0 of size 4"):
            plan(x[:4], z)


if __name__ == "__main__":
    unittest.main()
