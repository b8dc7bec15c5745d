"""Models for the tests of ONNX Runtime's plug-in, each with inputs for several sizes."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from onnx import TensorProto as T
from onnx import helper, numpy_helper

EXPORTED = Path(__file__).resolve().parent / "models"
NUMPY = {T.FLOAT: np.float32, T.FLOAT16: np.float16}
Feeds = dict[str, Any]


class Model(NamedTuple):
    """A model, and inputs to run it with."""

    name: str
    data: bytes
    feeds: list[Feeds]
    tolerance: float  # of the largest value
    left: tuple[str, ...] = ()  # ops that stay with ONNX Runtime
    claimed: bool = True  # whether Attacca can take something


class Graph:
    """Collects nodes and constants."""

    def __init__(self, rng: np.random.Generator, dtype: int = T.FLOAT):
        self.rng, self.dtype, self.nodes, self.constants = rng, dtype, [], []  # type: ignore

    def __call__(self, op: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """Adds a node; arrays become constants. The names of its outputs."""
        number = len(self.nodes)
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        made = [f"{op.lower()}{number}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, names, made, f"{op}_{number}", **attributes))
        return made[0] if outputs == 1 else made

    def constant(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *shape: int) -> Any:
        scale = 1 / np.sqrt(shape[0]) if len(shape) > 1 else 0.5
        return (self.rng.standard_normal(shape) * scale).astype(NUMPY[self.dtype])

    def model(self, inputs: dict[str, list[Any]], outputs: list[str], opset: int = 17,
              **types: int) -> bytes:
        infos = [helper.make_tensor_value_info(name, types.get(name, self.dtype), shape)
                 for name, shape in inputs.items()]
        made = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph(self.nodes, "main", infos, made, self.constants)
        model: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)],
                                         ir_version=8).SerializeToString()
        return model

    def gelu(self, x: str) -> str:
        number = NUMPY[self.dtype]
        erf = self("Erf", self("Mul", x, number(2 ** -0.5)))
        scaled: str = self("Mul", self("Mul", x, self("Add", erf, number(1))), number(0.5))
        return scaled

    def norm(self, x: str, width: int) -> str:
        made: str = self("LayerNormalization", x, self.weight(width), self.weight(width), axis=-1)
        return made


def mlp(rng: np.random.Generator, dtype: int, rows: Any, sizes: list[int]) -> tuple[bytes, Any]:
    g = Graph(rng, dtype)
    hidden = g.gelu(g("Add", g("MatMul", "x", g.weight(64, 256)), g.weight(256)))
    g("Add", g("MatMul", hidden, g.weight(256, 48)), g.weight(48))
    feeds = [{"x": rng.standard_normal((size, 64)).astype(NUMPY[dtype])} for size in sizes]
    return g.model({"x": [rows, 64]}, [g.nodes[-1].output[0]]), feeds


def block(rng: np.random.Generator) -> tuple[bytes, Any]:
    """A transformer's layer with a mask, of any batch and length, with shapes as data."""
    g, width, heads = Graph(rng), 32, 4
    shape = g("Shape", "x")
    ends = [g("Gather", shape, np.int64(i), axis=0) for i in range(2)]
    parts = [g("Unsqueeze", each, np.array([0])) for each in ends]
    split = g("Concat", *parts, np.array([heads, width // heads]), axis=0)
    joined = g("Concat", *parts, np.array([width]), axis=0)
    x = g.norm("x", width)
    q, k, v = (g("Transpose", g("Reshape", g("Add", g("MatMul", x, g.weight(width, width)),
                                             g.weight(width)), split), perm=perm)
               for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
    scores = g("Add", g("Mul", g("MatMul", q, k), np.float32((width // heads) ** -0.5)), "mask")
    mixed = g("MatMul", g("Softmax", scores, axis=-1), v)
    mixed = g("Reshape", g("Transpose", mixed, perm=[0, 2, 1, 3]), joined)
    x = g("Add", "x", g("MatMul", mixed, g.weight(width, width)))
    inner = g.gelu(g("Add", g("MatMul", g.norm(x, width), g.weight(width, 128)), g.weight(128)))
    g("Add", x, g("MatMul", inner, g.weight(128, width)))
    feeds = []
    for batch, length in ((2, 7), (1, 1), (3, 16)):
        mask = np.where(rng.random((batch, 1, 1, length)) < 0.3, np.float32(-1e4), np.float32(0))
        feeds.append({"x": rng.standard_normal((batch, length, width)).astype(np.float32),
                      "mask": mask})
    return g.model({"x": ["batch", "seq", width], "mask": ["batch", 1, 1, "seq"]},
                   [g.nodes[-1].output[0]]), feeds


def convolutions(rng: np.random.Generator) -> tuple[bytes, Any]:
    """Convolutions, between them a product that reads a shape, and a product at the end."""
    g = Graph(rng)
    x = g("Relu", g("Conv", "x", g.weight(8, 3, 3, 3), g.weight(8), pads=[1, 1, 1, 1]))
    shape = g("Shape", x)
    rows = g("Unsqueeze", g("Gather", shape, np.int64(0), axis=0), np.array([0]))
    flat = g("Reshape", g("LpPool", x, kernel_shape=[2, 2], strides=[2, 2]),
             g("Concat", rows, np.array([-1]), axis=0))
    y = g("Relu", g("Add", g("MatMul", flat, g.weight(8 * 16, 40)), g.weight(40)))
    z = g("Conv", g("Reshape", y, np.array([-1, 1, 8, 5])), g.weight(2, 1, 3, 3))
    g("Gemm", g("Flatten", z, axis=1), g.weight(36, 10), g.weight(10))
    feeds = [{"x": rng.standard_normal((size, 3, 8, 8)).astype(np.float32)} for size in (2, 5)]
    return g.model({"x": ["n", 3, 8, 8]}, [g.nodes[-1].output[0], y]), feeds


def quantized(rng: np.random.Generator) -> tuple[bytes, Any]:
    """Two layers between QuantizeLinear and DequantizeLinear, weights by column."""
    g = Graph(rng)

    def through(x: str, scale: float, zero: int) -> str:
        step, point = np.float32(scale), np.uint8(zero)
        made: str = g("DequantizeLinear", g("QuantizeLinear", x, step, point), step, point)
        return made

    def weights(*shape: int) -> str:
        codes = rng.integers(-127, 128, shape).astype(np.int8)
        scales = (rng.random(shape[1]) * 0.002 + 0.001).astype(np.float32)
        made: str = g("DequantizeLinear", codes, scales, np.zeros(shape[1], np.int8), axis=1)
        return made

    x = through("x", 0.03, 121)
    h = through(g("Relu", g("Add", g("MatMul", x, weights(64, 128)), g.weight(128))), 0.05, 0)
    through(g("Add", g("MatMul", h, weights(128, 32)), g.weight(32)), 0.1, 128)
    feeds = [{"x": rng.standard_normal((rows, 64)).astype(np.float32)} for rows in (4, 33)]
    return g.model({"x": ["rows", 64]}, [g.nodes[-1].output[0]]), feeds


def dynamic_quantized(rng: np.random.Generator) -> tuple[bytes, Any]:
    g = Graph(rng)
    codes, scale, zero = g("DynamicQuantizeLinear", "x", outputs=3)
    weights = rng.integers(0, 256, (64, 96)).astype(np.uint8)
    sums = g("Cast", g("MatMulInteger", codes, weights, zero, np.uint8(128)), to=T.FLOAT)
    g("Relu", g("Add", g("Mul", sums, g("Mul", scale, np.float32(0.01))), g.weight(96)))
    feeds = [{"x": rng.standard_normal((rows, 64)).astype(np.float32)} for rows in (1, 8)]
    return g.model({"x": ["rows", 64]}, [g.nodes[-1].output[0]]), feeds


def ways_around(rng: np.random.Generator) -> tuple[bytes, Any]:
    """A product whose results meet again after an op that Attacca lacks, and a graph in an If."""
    g = Graph(rng)
    a = g("MatMul", "x", g.weight(16, 16))
    around = g("Cast", g("NonZero", a), to=T.FLOAT)
    b = g("Mul", g("MatMul", g("Relu", a), g.weight(16, 16)), g("ReduceMean", around, keepdims=0))
    branches = [helper.make_graph(
        [helper.make_node(op, [b, b], [f"{op}_out"])], op, [],
        [helper.make_tensor_value_info(f"{op}_out", T.FLOAT, None)]) for op in ("Add", "MatMul")]
    g("If", "which", then_branch=branches[0], else_branch=branches[1])
    feeds = [{"x": rng.standard_normal((16, 16)).astype(np.float32), "which": np.array(which)}
             for which in (True, False)]
    return g.model({"x": [16, 16], "which": []}, [g.nodes[-1].output[0], a], which=T.BOOL), feeds


def captured(rng: np.random.Generator) -> tuple[bytes, Any]:
    """Products between graphs in Ifs, which read their values without naming them as inputs: two
    products and the last one's factor are one level, but for what the Ifs capture."""
    g = Graph(rng)

    def either(value: str) -> str:
        branches = [helper.make_graph(
            [helper.make_node(op, [value], [f"{value}_{op}"])], op, [],
            [helper.make_tensor_value_info(f"{value}_{op}", T.FLOAT, [None, 16])])
            for op in ("Neg", "Abs")]
        return str(g("If", "which", then_branch=branches[0], else_branch=branches[1]))

    b = g("MatMul", either(g("MatMul", "x", g.weight(16, 16))), g.weight(16, 16))
    g("Mul", g("MatMul", either(b), g.weight(16, 16)), b)
    feeds = [{"x": rng.standard_normal((5, 16)).astype(np.float32), "which": np.array(which)}
             for which in (True, False)]
    return g.model({"x": [5, 16], "which": []}, [g.nodes[-1].output[0]], which=T.BOOL), feeds


def texts(rng: np.random.Generator) -> tuple[bytes, Any]:
    """A product scaled by what a comparison of texts gives."""
    g = Graph(rng)
    equal = g("Cast", g("Equal", "words", np.array(["a"], object)), to=T.FLOAT)
    g("Mul", g("MatMul", "x", g.weight(8, 4)), g("Unsqueeze", equal, np.array([1])))
    feeds = [{"x": rng.standard_normal((3, 8)).astype(np.float32),
              "words": np.array(["a", "b", "a"], object)}]
    return g.model({"x": ["n", 8], "words": ["n"]}, [g.nodes[-1].output[0]], opset=19,
                   words=T.STRING), feeds


def no_product(rng: np.random.Generator) -> tuple[bytes, Any]:
    g = Graph(rng)
    g("Relu", g("Add", "x", g.weight(8)))
    return g.model({"x": [2, 8]}, [g.nodes[-1].output[0]]), \
        [{"x": rng.standard_normal((2, 8)).astype(np.float32)}]


def tokens(rng: np.random.Generator) -> list[Feeds]:
    feeds = []
    for batch, length in ((2, 6), (1, 30)):
        mask = np.ones((batch, length), np.int64)
        mask[batch - 1, length - 1:] = 0 if batch > 1 else 1
        feeds.append({"input_ids": rng.integers(2, 23, (batch, length)), "attention_mask": mask})
    return feeds


MADE: list[tuple[str, Callable[[Any], Any], dict[str, Any]]] = [
    ("mlp", lambda rng: mlp(rng, T.FLOAT, 24, [24]), {"tolerance": 1e-5}),
    ("mlp, any batch", lambda rng: mlp(rng, T.FLOAT, "batch", [5, 1, 64]), {"tolerance": 1e-5}),
    ("mlp, fp16", lambda rng: mlp(rng, T.FLOAT16, "batch", [5, 32]), {"tolerance": 3e-3}),
    ("block", block, {"tolerance": 1e-5}),
    ("convolutions", convolutions, {"tolerance": 1e-5, "left": ("Conv", "LpPool")}),
    # One step of the last quantisation, which is 0.1 of values up to 12.
    ("quantized", quantized, {"tolerance": 0.02}),
    ("quantized at run time", dynamic_quantized, {"tolerance": 1e-5}),
    ("ways around", ways_around, {"tolerance": 1e-5, "left": ("NonZero", "If")}),
    ("captured", captured, {"tolerance": 1e-5, "left": ("If",)}),
    ("texts", texts, {"tolerance": 1e-5, "left": ("Equal",)}),
    ("no product", no_product, {"tolerance": 0, "left": ("Relu",), "claimed": False}),
]


def models() -> Iterator[Model]:
    for name, make, facts in MADE:
        rng = np.random.default_rng(len(name))
        data, feeds = make(rng)
        yield Model(name, data, feeds, **facts)
    paths = sorted(EXPORTED.glob("*.onnx"))
    assert len(paths) == 8, "the exported models are not found any more"
    for path in paths:
        yield Model(path.stem, path.read_bytes(), tokens(np.random.default_rng(5)), 1e-5)
