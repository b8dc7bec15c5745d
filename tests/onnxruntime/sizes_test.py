"""Models whose shapes are no polynomials over their inputs' symbols against ONNX Runtime: one plan
serves all sizes, and is an error where ONNX Runtime's session is."""
from __future__ import annotations

import pathlib
import tempfile
import unittest
from typing import Any

import numpy as np
import onnx.parser
import onnxruntime

import attacca

onnxruntime.set_default_logger_severity(4)
LENGTHS = (1, 2, 3, 6, 7, 8, 12, 13)
INTS = ", ".join(f"int64[1] {name} = {{{value}}}" for name, value in (
    ("zero", 0), ("one", 1), ("two", 2), ("three", 3), ("five", 5), ("minus", -1),
    ("far", 2**62), ("near", -2**62), ("last", 2**63 - 1), ("last_32", 2**31 - 1)))
FLOATS = ("float[1] two_f = {2.0}, float[1] three_f = {3.0}, float[1] five_f = {5.0}, "
          "float[1] more_f = {1.5}, float[2] scales_f = {2.0, 0.5}, "
          "float[8] eight = {0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0}")
SCALARS = "int64 nought = {0}, int64 single = {1}, int64 pair = {2}, int64 back = {-3}"
# After these m is [M], half [M / 2] and length M.
BEGIN = ("s = Shape (x) m = Slice (s, one, two) half = Div (m, two) length = Squeeze (m) "
         "rest = Mod (m, five) ")

# name, nodes that make y, y's dtype.
MODELS = (
    ("half", "y = Slice (x, zero, half, one)", "float"),
    ("other half", "y = Slice (x, half, far, one)", "float"),
    ("the first five", "y = Slice (x, zero, five, one)", "float"),
    ("all, from the end", "back_m = Neg (m) y = Slice (x, back_m, far, one)", "float"),
    ("half from the end", "h = Neg (half) y = Slice (x, h, far, one)", "float"),
    ("all but half", "h = Neg (half) y = Slice (x, zero, h, one)", "float"),
    ("as many of eight", "back_m = Neg (m) e = Slice (eight, back_m, far, zero) y = Add (e, x)",
     "float"),
    ("beyond the first", "y = Slice (x, five, far, one)", "float"),
    ("the last five", "five_back = Neg (five) y = Slice (x, five_back, far, one)", "float"),
    ("without the last three", "back_three = Neg (three) y = Slice (x, zero, back_three, one)",
     "float"),
    ("in the middle", "back_three = Neg (three) y = Slice (x, two, back_three, one)", "float"),
    ("in the middle by two", "back_three = Neg (three) y = Slice (x, one, back_three, one, two)",
     "float"),
    ("backwards from five", "y = Slice (x, five, near, one, minus)", "float"),
    ("backwards from the third last", "third = Neg (three) "
                                      "y = Slice (x, third, near, one, minus)", "float"),
    ("backwards to three", "y = Slice (x, minus, three, one, minus)", "float"),
    ("backwards to the end", "y = Slice (x, minus, last, one, minus)", "float"),
    ("backwards to the end of 32 bits", "y = Slice (x, five, last_32, one, minus)", "float"),
    ("a shape backwards", "t = Slice (s, minus, last, zero, minus) y = ConstantOfShape (t)",
     "float"),
    ("split at three", "p = Slice (x, zero, three, one) q = Slice (x, three, far, one) "
                       "c = Concat <axis = 1> (p, q) y = Add (c, x)", "float"),
    ("every other", "y = Slice (x, zero, far, one, two)", "float"),
    ("from the end", "by = Neg (three) y = Slice (x, minus, near, one, by)", "float"),
    ("two parts", "y, z = Split <axis = 1, num_outputs = 2> (x)", "float"),
    ("parts", "other = Sub (m, half) p = Concat <axis = 0> (half, other) "
              "z, y = Split <axis = 1> (x, p)", "float"),
    ("wrong parts", "p = Concat <axis = 0> (half, three) y, z = Split <axis = 1> (x, p)", "float"),
    ("tiles", "p = Concat <axis = 0> (one, half) y = Tile (x, p)", "float"),
    ("filled", "p = Concat <axis = 0> (half, three) y = ConstantOfShape (p)", "float"),
    ("expanded", "p = Concat <axis = 0> (half, one, one) y = Expand (x, p)", "float"),
    ("at most five", "k = Min (m, five) y = Slice (x, zero, k, one)", "float"),
    ("at least five", "k = Max (m, five) y = ConstantOfShape (k)", "float"),
    ("beyond five", "k = Sub (m, five) z = Max (k, zero) y = ConstantOfShape (z)", "float"),
    ("quotient below zero", "k = Sub (m, five) q = Div (k, two) z = Add (q, three) "
                            "y = ConstantOfShape (z)", "float"),
    ("remainder", "y = ConstantOfShape (rest)", "float"),
    ("compared", "c = Greater (m, five) k = Where (c, five, one) y = ConstantOfShape (k)",
     "float"),
    ("as data", "c = LessOrEqual (m, five) k = Where (c, half, rest) y = Add (k, m)", "int64"),
    ("equal to five", "y = Equal (m, five)", "bool"),
    ("counted by two", "y = Range (nought, length, pair)", "int64"),
    ("counted down", "y = Range (length, nought, back)", "int64"),
    ("none to count", "y = Range (length, single, pair)", "int64"),
    ("padded", "k = Sub (five, rest) p = Concat <axis = 0> (zero, zero, zero, k) y = Pad (x, p)",
     "float"),
    ("cut or padded", "k = Sub (five, m) p = Concat <axis = 0> (zero, zero, zero, k) "
                      "y = Pad (x, p)", "float"),
    ("windows", "k = Add (m, two) q = Div (k, three) t = Mul (q, three) k2 = Sub (t, m) "
                "p = Concat <axis = 0> (zero, zero, zero, k2) w = Pad (x, p) "
                "r = Concat <axis = 0> (zero, q, three) y = Reshape (w, r)", "float"),
    ("pairs", "r = Concat <axis = 0> (minus, two) y = Reshape (x, r)", "float"),
    ("triples", "r = Concat <axis = 0> (zero, minus, three) y = Reshape (x, r)", "float"),
    ("halves of rows", "k = Max (half, one) r = Concat <axis = 0> (two, k, minus) "
                       "y = Reshape (x, r)", "float"),
    ("half through floats", "f = Cast <to = 1> (m) d = Div (f, two_f) c = Ceil (d) "
                            "k = Cast <to = 7> (c) y = ConstantOfShape (k)", "float"),
    ("a third through floats", "f = Cast <to = 1> (m) d = Div (f, three_f) c = Floor (d) "
                               "k = Cast <to = 7> (c) y = Slice (x, zero, k, one)", "float"),
    ("a third of doubles, cut", "f = Cast <to = 11> (length) t = Cast <to = 11> (three) "
                                "d = Div (f, t) k = Cast <to = 7> (d) "
                                "y = ConstantOfShape (k)", "float"),
    ("below zero through floats", "f = Cast <to = 1> (m) g = Sub (f, five_f) d = Div (g, two_f) "
                                  "c = Ceil (d) k = Cast <to = 7> (c) q = Add (k, three) "
                                  "y = ConstantOfShape (q)", "float"),
    ("one and a half times", "f = Cast <to = 1> (m) g = Mul (f, more_f) c = Floor (g) "
                             "k = Cast <to = 7> (c) y = ConstantOfShape (k)", "float"),
    ("scaled sizes", "f = Cast <to = 1> (s) g = Mul (f, scales_f) c = Floor (g) "
                     "k = Cast <to = 7> (c) y = ConstantOfShape (k)", "float"),
    ("windows through floats", "f = Cast <to = 1> (m) d = Div (f, three_f) c = Ceil (d) "
                               "q = Cast <to = 7> (c) t = Mul (q, three) k2 = Sub (t, m) "
                               "p = Concat <axis = 0> (zero, zero, zero, k2) w = Pad (x, p) "
                               "r = Concat <axis = 0> (zero, q, three) y = Reshape (w, r)",
     "float"),
    ("a shape to check", "r = Concat <axis = 0> (two, half, two) y = Reshape (x, r)", "float"),
)


class Sizes(unittest.TestCase):
    def check(self, nodes: str, dtype: str, opset: int) -> None:
        model = onnx.parser.parse_model(
            f'<ir_version: 9, opset_import: ["" : {opset}]> g (float[2, M] x) => ({dtype} y) '
            f"<{INTS}, {FLOATS}, {SCALARS}> {{ {BEGIN}{nodes} }}")
        data = model.SerializeToString()
        session = onnxruntime.InferenceSession(data)
        plans = [attacca.compile(data, mode=mode, threads=1) for mode in ("fp32", "eager")]
        compared = 0
        for length in LENGTHS:
            x = np.arange(2.0 * length, dtype=np.float32).reshape(2, length)
            try:
                want: Any = session.run(["y"], {"x": x})[0]
            except Exception:  # its classes are not public
                for plan in plans:
                    with self.assertRaises(attacca.Error, msg=f"length {length}"):
                        plan(x)
                continue
            compared += 1
            for plan in plans:
                np.testing.assert_array_equal(plan(x), want, f"length {length}", strict=True)
        self.assertGreater(compared, 0)

    def test_models(self) -> None:
        for name, nodes, dtype in MODELS:
            with self.subTest(name):
                self.check(nodes, dtype, 18)

    def test_equal_parts_before_opset_18(self) -> None:
        self.check("y, z = Split <axis = 1> (x)", "float", 17)

    def test_symbols_that_must_be_equal(self) -> None:
        model = onnx.parser.parse_model(
            """<ir_version: 9, opset_import: ["" : 18]>
               g (float[2, M] x, float[N, 3] w, float[K] v) => (float y, float z, float u) {
                 y = MatMul (x, w) z = MatMul (x, v) t = Transpose <perm = [1, 0]> (w)
                 u = Concat <axis = 0> (x, t) }""")
        session = onnxruntime.InferenceSession(model.SerializeToString())
        plan = attacca.compile(model.SerializeToString(), threads=1)
        rng = np.random.default_rng(4)
        for m, n, k in ((5, 5, 5), (1, 1, 1), (5, 4, 5), (5, 5, 4), (4, 5, 5), (1, 5, 1)):
            feeds: dict[str, Any] = {
                name: rng.integers(-9, 9, shape).astype(np.float32)
                for name, shape in (("x", (2, m)), ("w", (n, 3)), ("v", (k,)))}
            if m == n == k:
                for got, want in zip(plan(**feeds), session.run(None, feeds)):
                    np.testing.assert_array_equal(got, want, strict=True)
                continue
            with self.assertRaises(attacca.Error):
                plan(**feeds)
            with self.assertRaises(Exception):
                session.run(None, feeds)

    def test_slices_beside_symbols_that_must_be_equal(self) -> None:
        model = onnx.parser.parse_model(
            f"""<ir_version: 9, opset_import: ["" : 18]>
               g (float[1, N] x, float[4, 2] w) => (float y, float z) <{INTS}> {{
                 back = Neg (five) v = Slice (x, zero, back, one) y = Neg (v)
                 z = MatMul (x, w) }}""")
        session = onnxruntime.InferenceSession(model.SerializeToString())
        plan = attacca.compile(model.SerializeToString(), threads=1)
        feeds: dict[str, Any] = {"x": np.ones((1, 4), np.float32),
                                 "w": np.ones((4, 2), np.float32)}
        for got, want in zip(plan(**feeds), session.run(None, feeds)):
            np.testing.assert_array_equal(got, want, strict=True)

    def test_dimensions_that_are_expressions(self) -> None:
        """A decoder's mask of the past and the new tokens."""
        model = onnx.parser.parse_model(
            """<ir_version: 9, opset_import: ["" : 18]>
               g (float[B, P, 8] past, float[B, S, 8] keys, float[B, 1, T] mask) => (float y) {
                 all = Concat <axis = 1> (past, keys) t = Transpose <perm = [0, 2, 1]> (all)
                 scores = MatMul (keys, t) y = Add (scores, mask) }""")
        model.graph.input[2].type.tensor_type.shape.dim[2].dim_param = "P + S"
        session = onnxruntime.InferenceSession(model.SerializeToString())
        plan = attacca.compile(model.SerializeToString(), threads=1)
        rng = np.random.default_rng(5)
        for past, new, total in ((3, 1, 4), (0, 5, 5), (3, 2, 4)):
            feeds: dict[str, Any] = {
                name: rng.integers(-9, 9, shape).astype(np.float32)
                for name, shape in (("past", (2, past, 8)), ("keys", (2, new, 8)),
                                    ("mask", (2, 1, total)))}
            if total == past + new:
                np.testing.assert_array_equal(plan(**feeds), session.run(None, feeds)[0])
                continue
            with self.assertRaisesRegex(attacca.Error, "mask"):
                plan(**feeds)

    def test_symbols_that_broadcast_count_as_equal(self) -> None:
        for nodes, inputs in (
                ("h = MatMul (x, w) y = Add (h, r)", "float[A, 8] x, float[8, 6] w, float[B, 6] r"),
                ("z = Less (x, r) y = Where (z, x, r)", "float[A, 8] x, float[B, 8] r"),
                ("y = Sum (x, r, x)", "float[A, 8] x, float[B, 8] r"),
                ("y = Gemm (x, w, r)", "float[A, 8] x, float[8, 6] w, float[B, 6] r"),
                ("y = MatMul (x, r)", "float[A, 3, 8] x, float[B, 8, 6] r")):
            with self.subTest(nodes):
                model = onnx.parser.parse_model(
                    f"""<ir_version: 9, opset_import: ["" : 18]>
                        g ({inputs}) => (float y) {{ {nodes} }}""")
                session = onnxruntime.InferenceSession(model.SerializeToString())
                plan = attacca.compile(model.SerializeToString(), threads=1)
                rng = np.random.default_rng(6)
                for rows, others in ((4, 4), (1, 1), (4, 3), (4, 1), (1, 4)):
                    sizes = {"A": rows, "B": others}
                    feeds: dict[str, Any] = {
                        each.name: rng.integers(-9, 9, [sizes.get(dim.dim_param, dim.dim_value)
                                                        for dim in each.type.tensor_type.shape.dim]
                                                ).astype(np.float32)
                        for each in model.graph.input}
                    if rows == others:
                        np.testing.assert_array_equal(plan(**feeds), session.run(None, feeds)[0])
                        continue
                    with self.assertRaisesRegex(attacca.Error, "r has shape .* is wanted with A="):
                        plan(**feeds)

    def test_slices_by_other_symbols(self) -> None:
        """Where a bound lies outside the axis a plan may be an error, but never another result."""
        bounds = ("z = Slice (x, zero, n)", "z = Slice (x, n, far)", "z = Slice (x, one, n)",
                  "z = Slice (x, n, k)", "z = Slice (x, less, far)", "z = Slice (x, zero, less)",
                  "back = Neg (n) z = Slice (x, back, far)", "z = Slice (x, zero, n, zero, two)",
                  "back = Neg (n) z = Slice (x, zero, back)",
                  "z = Slice (x, less, near, zero, minus)", "z = Slice (x, minus, n, zero, minus)",
                  "z = Slice (x, minus, less, zero, minus)", "z = Slice (x, n, k, zero, minus)")
        sizes = [(m, n, k) for m in (0, 1, 3, 6) for n in (0, 1, 3, 4, 9) for k in (0, 2, 9)]
        for nodes in bounds:
            model = onnx.parser.parse_model(
                f'''<ir_version: 9, opset_import: ["" : 18]>
                    g (float[M] x, float[N] u, float[K] v) => (float[L] y) <{INTS}> {{
                      n = Shape (u) k = Shape (v) less = Sub (n, one) {nodes} y = Abs (z) }}''')
            session = onnxruntime.InferenceSession(model.SerializeToString())
            plan = attacca.compile(model.SerializeToString(), threads=1)
            same = 0
            for m, n, k in sizes:
                feeds = {name: np.arange(1.0, size + 1, dtype=np.float32)
                         for name, size in (("x", m), ("u", n), ("v", k))}
                want = session.run(None, feeds)[0]
                try:
                    got = plan(**{each.name: feeds[each.name] for each in plan.inputs})
                except attacca.Error as error:
                    inside = 0 < n < m and ", k" not in nodes
                    self.assertRegex(str(error), "is outside axis 0 of size")
                    self.assertFalse(inside, f"{nodes}, {m}, {n}, {k}: {error}")
                    continue
                same += 1
                np.testing.assert_array_equal(got, want, f"{nodes}, {m}, {n}, {k}", strict=True)
            self.assertGreaterEqual(same, 8, nodes)

    def test_sizes_that_are_given(self) -> None:
        random = np.random.default_rng(7)
        weights = [onnx.numpy_helper.from_array(random.standard_normal(shape, np.float32), name)
                   for name, shape in (("w", (1, 12, 3)), ("r", (1, 12, 3)))]
        info = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=3)], "g",
            [info("x", onnx.TensorProto.FLOAT, ["S", "B", 3])],
            [info("y", onnx.TensorProto.FLOAT, None)], weights)
        model = onnx.helper.make_model(graph, ir_version=10,
                                       opset_imports=[onnx.helper.make_opsetid("", 17)])
        with self.assertRaisesRegex(attacca.Error, r'dims=\{"S": 64\}'):
            attacca.compile(model)
        session = onnxruntime.InferenceSession(model.SerializeToString())
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "lstm.onnx"
            onnx.save(model, path)
            for given in (model, model.SerializeToString(), path, str(path)):
                plan = attacca.compile(given, dims={"S": 5})
                for batch in (1, 4):
                    x = random.standard_normal((5, batch, 3), np.float32)
                    np.testing.assert_allclose(plan(x), session.run(None, {"x": x})[0], atol=1e-5)
        attacca.explain(model, dims={"S": np.int64(2)})
        for dims, said in (({"T": 5}, "the model has no dimension T.*S"),
                           ({"S": -1}, "size S is -1"), ({"S": 1.5}, "size S is 1.5"),
                           ([5], "dims is a list")):
            with self.assertRaisesRegex(attacca.Error, said):
                attacca.compile(model, dims=dims)
        text = "graph g(x: f32[S]) { return exp(x) }"
        for other in (text, attacca.compile(text)):
            with self.assertRaisesRegex(attacca.Error, "no ONNX model|no effect on a plan"):
                attacca.explain(other, dims={"S": 5})

    def test_space_to_depth(self) -> None:
        self.check("r = Concat <axis = 0> (one, one, two, m) c = Reshape (x, r) "
                   "y = SpaceToDepth <blocksize = 2> (c)", "float", 18)

    def test_fractions(self) -> None:
        self.check("f = Cast <to = 1> (length) b = Constant <value_float = 0.0> () "
                   "d = Constant <value_float = 0.75> () y = Range (b, f, d)", "float", 18)


if __name__ == "__main__":
    unittest.main()
