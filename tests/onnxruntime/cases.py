"""One random ONNX graph of a row of src/import/onnx/ops.def: its nodes, its inputs and their
values."""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

import numpy as np
import onnx
from ml_dtypes import bfloat16
from onnx import TensorProto as T
from onnx import helper, numpy_helper

NUMPY = {T.FLOAT: np.float32, T.DOUBLE: np.float64, T.FLOAT16: np.float16, T.BFLOAT16: np.float32,
         T.INT32: np.int32, T.INT64: np.int64, T.INT8: np.int8, T.UINT8: np.uint8,
         T.INT16: np.int16, T.UINT16: np.uint16, T.BOOL: np.bool_}
FLOATS = (T.FLOAT, T.FLOAT, T.FLOAT, T.DOUBLE, T.FLOAT16, T.BFLOAT16)
NUMBERS = FLOATS + (T.INT32, T.INT64)


@dataclass(frozen=True)
class Row:
    """A row of the table. `known`: of the shape arithmetic computed while importing."""
    name: str
    first: int
    last: int
    domain: str = ""
    known: bool = False

    def __str__(self) -> str:
        if self.known:
            return f"KNOWN {self.name}"
        return f"{self.domain}{'.' if self.domain else ''}{self.name} ({self.first} to {self.last})"


def table(path: Path) -> list[Row]:
    """All rows of ops.def."""
    text = path.read_text()
    rows = [Row(name, int(first), int(last), "com.microsoft" if "MICROSOFT" in kind else "")
            for kind, name, first, last in re.findall(
                r'^(\w+)\("(\w+)",\s*(\d+),\s*(\d+),', text, re.M)]
    known = [Row(name, 1, 10**6, known=True)
             for name in re.findall(r'^KNOWN\("(\w+)",', text, re.M)]
    assert len(rows) > 100 and known, "onnx_ops.def is not read any more"
    return rows + known


Fill = Callable[[np.random.Generator, tuple[int, ...]], Any]


@dataclass
class Input:
    """An input: `dims` are numbers or names of symbols; a constant has no symbols."""
    name: str
    dtype: int
    dims: list[Any]
    fill: Fill
    constant: bool = False


@dataclass
class Case:
    """A graph under construction. `modern`: the same graph in an opset that ONNX Runtime runs,
    where it has no kernel for `opset`."""
    rng: np.random.Generator
    row: Row
    opset: int
    sizes: dict[str, int] = field(default_factory=dict)
    inputs: list[Input] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    nodes: list[Any] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    modern: "tuple[int, list[Any]] | None" = None
    attributes: dict[str, Any] = field(default_factory=dict)  # of the op under test
    dtype: int = T.FLOAT  # of the op under test's first input
    special: bool = False  # values may be NaN, infinite and so on
    chained: bool = False  # more than the op under test computes
    exact: bool = False    # elements are moved or compared: results are the same bits
    loose: float = 0.0     # further relative error allowed, of the largest element

    # Choices.
    def one(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def maybe(self, probability: float = 0.5) -> bool:
        return bool(self.rng.random() < probability)

    def extent(self) -> int:
        if self.maybe(0.03):
            return 33
        return self.one(0, 1, 1, 2, 2, 3, 3, 4, 5, 6)

    def shape(self, low: int = 0, high: int = 4) -> list[Any]:
        """A shape; some axes are symbols."""
        return [self.dim() for _ in range(int(self.rng.integers(low, high + 1)))]

    def dim(self, zero: bool = True) -> Any:
        if self.maybe(0.2):
            name = self.one("M", "N")
            self.sizes.setdefault(name, max(self.extent(), 0 if zero else 1))
            return name
        return self.extent() if zero else max(1, self.extent())

    def axis(self, rank: int) -> int:
        return int(self.rng.integers(-rank, rank))

    # Building.
    def input(self, name: str, dtype: int, dims: list[Any], fill: "Fill | None" = None,
              constant: "bool | None" = None) -> str:
        symbolic = any(isinstance(dim, str) for dim in dims)
        if constant is None:
            constant = self.maybe(0.25) and not symbolic and bool(self.inputs)
        self.inputs.append(Input(name, dtype, dims, fill or numbers(dtype, self.special),
                                 constant and not symbolic))
        return name

    def constant(self, name: str, value: Any) -> str:
        self.constants[name] = np.asarray(value)
        return name

    def node(self, op: str, inputs: list[str], outputs: "list[str] | None" = None,
             domain: str = "", **attributes: Any) -> str:
        outputs = outputs or ["y"]
        self.nodes.append(helper.make_node(op, inputs, outputs, domain=domain, **attributes))
        self.outputs = [name for name in outputs if name]
        return outputs[0]

    def tested(self, inputs: list[str], outputs: "list[str] | None" = None,
               **attributes: Any) -> str:
        """The op of the row."""
        self.attributes = attributes
        return self.node(self.row.name, inputs, outputs, self.row.domain, **attributes)

    def extents(self, dims: list[Any], sizes: "dict[str, int] | None" = None) -> tuple[int, ...]:
        known = self.sizes if sizes is None else sizes
        return tuple(known[dim] if isinstance(dim, str) else dim for dim in dims)


# Without these instructions ONNX Runtime adds two products of u8 and s8 in 16 bits, which saturate;
# its page "Quantize ONNX Models" advises weights of 7 bits there, which do not.
VNNI = "vnni" in Path("/proc/cpuinfo").read_text(encoding="utf-8")


def numbers(dtype: int, special: bool) -> Fill:
    """Random numbers of a dtype: near 1, small integers, and, if special, the ends of the range."""
    def fill(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        numpy = NUMPY[dtype]
        if dtype == T.BOOL:
            return rng.random(shape) < 0.5
        if dtype in (T.INT8, T.UINT8, T.INT16, T.UINT16):
            info = np.iinfo(numpy)
            values = rng.integers(info.min, info.max + 1, shape)
            return (values >> (dtype == T.INT8 and not VNNI)).astype(numpy)
        if dtype in (T.INT32, T.INT64):
            small = rng.integers(-9, 10, shape)
            if not special:
                return small.astype(numpy)
            info = np.iinfo(numpy)
            ends = rng.choice(np.array([info.min, info.max, 1 << 24, (1 << 24) + 1, -1000003]),
                              shape)
            return np.where(rng.random(shape) < 0.15, ends, small).astype(numpy)
        kind = rng.integers(3)
        values = (rng.normal(0, 3, shape) if kind == 0 else rng.uniform(-1, 1, shape) if kind == 1
                  else rng.integers(-4, 5, shape).astype(np.float64))
        if special:
            largest, tiny = ((6e4, 6e-8) if dtype == T.FLOAT16 else (3e38, 1e-40)
                             if dtype != T.DOUBLE
                             else (1e300, 1e-310))
            ends = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, largest, -largest, tiny, -tiny,
                             1e-3,
                             -1e-3, 88.9, -88.9, 20.0, -5e3, 1e-5, 0.5, -2.5])
            values = np.where(rng.random(shape) < 0.3, rng.choice(ends, shape), values)
        with np.errstate(over="ignore"):
            if dtype == T.BFLOAT16:
                return np.asarray(values).astype(bfloat16).astype(np.float32)
            return np.asarray(values).astype(numpy)
    return fill


def chosen(values: Any) -> Fill:
    return lambda rng, shape: np.broadcast_to(np.asarray(values), shape).copy()


def between(low: float, high: float, dtype: int = T.FLOAT) -> Fill:
    def fill(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        values = rng.uniform(low, high, shape)
        if dtype == T.BFLOAT16:
            return values.astype(bfloat16).astype(np.float32)
        return values.astype(NUMPY[dtype])
    return fill


def integers_between(low: int, high: int, dtype: int = T.INT64) -> Fill:
    """low..high, both included."""
    return lambda rng, shape: rng.integers(low, high + 1, shape).astype(NUMPY[dtype])


def values_of(case: Case, rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, Any]:
    """An array for each input, constant or not."""
    return {each.name: each.fill(rng, case.extents(each.dims, sizes)) for each in case.inputs}


def model_of(case: Case, opset: int, tested: list[Any], wide: bool = False) -> onnx.ModelProto:
    """A graph as a model. bfloat16 enters and leaves as float32; if `wide`, the op itself computes
    in float32 and its result is rounded."""
    declared, initializers, before = [], [], []
    for each in case.inputs:
        if each.constant:
            array = np.asarray(each.fill(case.rng, case.extents(each.dims)))
            each.fill = chosen(array)  # the same in every model
            if each.dtype == T.BFLOAT16 and not wide:
                array = array.astype(bfloat16)
            initializers.append(numpy_helper.from_array(array, each.name))
            continue
        rounded = each.dtype == T.BFLOAT16
        name = f"{each.name}_f32" if rounded else each.name
        declared.append(helper.make_tensor_value_info(name, T.FLOAT if rounded else each.dtype,
                                                      each.dims))
        if rounded:
            to = T.FLOAT if wide else T.BFLOAT16
            before.append(helper.make_node("Cast", [name], [each.name], to=to))
    for name, value in case.constants.items():
        initializers.append(numpy_helper.from_array(value, name))
    outputs, after = list(case.outputs), []
    if any(each.dtype == T.BFLOAT16 for each in case.inputs):
        outputs = [f"{name}_f32" for name in case.outputs]
        for name in case.outputs:
            if wide:
                after.append(helper.make_node("Cast", [name], [f"{name}_bf16"], to=T.BFLOAT16))
            last = f"{name}_bf16" if wide else name
            after.append(helper.make_node("Cast", [last], [f"{name}_f32"], to=T.FLOAT))
    graph = helper.make_graph(before + tested + after, "g", declared,
                              [onnx.ValueInfoProto(name=name) for name in outputs], initializers)
    domains = {node.domain for node in tested}
    imports = [helper.make_opsetid(domain, 1 if domain else opset) for domain in domains | {""}]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)
