"""What makes a random graph of each op. Attributes and inputs as the operator texts allow them."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
from onnx import TensorProto as T
from onnx import helper

from cases import (FLOATS, NUMBERS, NUMPY, Case, between, chosen, integers_between)

Generator = Callable[[Case], None]
GENERATORS: dict[str, Generator] = {}


def of(*names: str) -> Callable[[Generator], Generator]:
    def add(function: Generator) -> Generator:
        for name in names:
            GENERATORS[name] = function
        return function
    return add


def typed(case: Case, *dtypes: int) -> int:
    case.dtype = case.one(*dtypes)
    if case.dtype == T.BFLOAT16 and case.opset < 13:
        case.dtype = T.FLOAT
    return case.dtype


def before(case: Case, name: str, dtype: int, dims: list[Any]) -> str:
    """An input; sometimes it comes out of a product, so that the op is in an epilogue."""
    if dtype != T.FLOAT or len(dims) < 2 or not case.maybe(0.3):
        return case.input(name, dtype, dims)
    # One-hot rows: the product is exact, whatever the order of its sums.
    case.chained = True
    case.input(name + "_in", dtype, dims)
    if isinstance(dims[-1], str):
        return name + "_in"
    case.constant(name + "_w", np.eye(dims[-1], dtype=np.float32)[:, ::-1].copy())
    if case.special:
        return name + "_in"  # infinity times 0 is NaN
    case.node("MatMul", [name + "_in", name + "_w"], [name])
    return name


def after(case: Case) -> None:
    """Sometimes a further op, which a region would take in."""
    if case.dtype not in (T.FLOAT, T.DOUBLE) or len(case.outputs) != 1 or not case.maybe(0.25):
        return
    case.chained = True
    (last,) = case.outputs
    if case.modern is not None:
        return
    case.node(case.one("Neg", "Abs", "Relu") if case.opset >= 7 else "Neg", [last], ["z"])


UNARY = {
    "Abs": NUMBERS, "Neg": NUMBERS, "Sign": NUMBERS, "Relu": FLOATS, "Ceil": FLOATS,
    "Floor": FLOATS,
    "Round": FLOATS, "Reciprocal": FLOATS, "Sqrt": FLOATS, "Exp": FLOATS, "Log": FLOATS,
    "Erf": FLOATS, "Sigmoid": FLOATS, "Tanh": FLOATS, "Softplus": FLOATS, "Softsign": FLOATS,
    "Mish": FLOATS, "HardSwish": FLOATS, "Cos": FLOATS, "Sin": FLOATS, "Tan": FLOATS,
    "Sinh": FLOATS,
    "Cosh": FLOATS, "Asinh": FLOATS, "Acosh": FLOATS,
    "Asin": FLOATS, "Acos": FLOATS, "Atan": FLOATS, "Atanh": FLOATS, "Not": (T.BOOL,),
    "IsNaN": FLOATS, "Identity": NUMBERS + (T.BOOL, T.UINT8, T.INT8),
}


def unary(case: Case) -> None:
    dtype = typed(case, *UNARY[case.row.name])
    case.special = case.maybe()
    case.exact = case.row.name in ("Abs", "Neg", "Sign", "Relu", "Ceil", "Floor", "Round", "Not",
                                   "IsNaN",
                                   "Identity")
    case.tested([before(case, "x", dtype, case.shape())])
    if case.row.name not in ("Not", "IsNaN"):
        after(case)


for _name in UNARY:
    GENERATORS[_name] = unary

ATTRIBUTES: dict[str, dict[str, tuple[float, float]]] = {
    "LeakyRelu": {"alpha": (-0.5, 2)}, "Elu": {"alpha": (0.1, 2)},
    "Selu": {"alpha": (1, 2), "gamma": (1, 2)}, "Celu": {"alpha": (0.5, 2)},
    "ThresholdedRelu": {"alpha": (-1, 2)}, "Shrink": {"bias": (-1, 1), "lambd": (0, 2)},
    "HardSigmoid": {"alpha": (0.1, 1), "beta": (0, 1)}, "Swish": {"alpha": (0.5, 2)},
}


def parametric(case: Case) -> None:
    floats = (T.FLOAT,) if case.row.name == "Celu" else FLOATS
    dtype = typed(case, *floats)
    case.special = case.maybe()
    given = {name: float(np.float32(case.rng.uniform(*ends)))
             for name, ends in ATTRIBUTES[case.row.name].items() if case.maybe(0.7)}
    x = before(case, "x", dtype, case.shape())
    case.tested([x], **given)
    if case.row.name == "Selu" and case.opset < 6:  # its defaults had fewer digits
        given = {"alpha": 1.6732, "gamma": 1.0507, **given}
        case.modern = (7, [*case.nodes[:-1], helper.make_node("Selu", [x], ["y"], **given)])
    after(case)


for _name in ATTRIBUTES:
    GENERATORS[_name] = parametric


@of("Gelu")
def gelu(case: Case) -> None:
    dtype = typed(case, T.FLOAT) if case.row.domain else typed(case, *FLOATS)
    case.special = case.maybe()
    given = {"approximate": case.one("none",
                                     "tanh")} if not case.row.domain and case.maybe(0.7) else {}
    case.tested([before(case, "x", dtype, case.shape(1))], **given)


@of("QuickGelu")
def quick_gelu(case: Case) -> None:
    typed(case, T.FLOAT)
    given = {"alpha": case.one(1.702, 1.0, 0.5)} if case.maybe() else {}
    case.tested([case.input("x", T.FLOAT, case.shape(1))], **given)


@of("FastGelu", "BiasGelu")
def with_bias(case: Case) -> None:
    typed(case, T.FLOAT)
    dims = case.shape(1, 3)
    if not isinstance(dims[-1], str):
        dims[-1] = max(dims[-1], 1)
    x = case.input("x", T.FLOAT, dims)
    if case.row.name == "BiasGelu" or case.maybe():
        case.tested([x, case.input("b", T.FLOAT, dims[-1:])])
    else:
        case.tested([x])


@of("IsInf")
def is_inf(case: Case) -> None:
    dtype = typed(case, T.FLOAT, T.DOUBLE, *((T.FLOAT16, T.BFLOAT16) if case.opset >= 20 else ()))
    case.special = case.exact = True
    given = {name: int(case.maybe()) for name in ("detect_negative", "detect_positive")
             if case.maybe()}
    case.tested([case.input("x", dtype, case.shape())], **given)


def broadcast_pair(case: Case) -> tuple[list[Any], list[Any]]:
    """Two shapes that broadcast."""
    dims = case.shape()
    left, right = list(dims), list(dims)
    for axis in range(len(dims)):
        if case.maybe(0.2):
            case.one(left, right)[axis] = 1
    cut = case.one(left, right)
    del cut[:int(case.rng.integers(len(cut) + 1)) if case.maybe(0.4) else 0]
    return left, right


ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Pow")
LOGIC = ("And", "Or", "Xor")


@of(*ARITHMETIC, *LOGIC, "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
def binary(case: Case) -> None:
    name = case.row.name
    if name in LOGIC:
        dtype = typed(case, T.BOOL)
    elif name in ARITHMETIC:
        dtype = typed(case, *(NUMBERS if case.opset >= 7 else FLOATS[:5]))
    elif case.opset < 9:
        dtype = typed(case,
                      *((T.FLOAT, T.DOUBLE) if name != "Equal" else (T.INT32, T.INT64, T.BOOL)))
    else:
        dtype = typed(case,
                      *(NUMBERS if name != "Equal" or case.opset >= 11 else (T.INT32, T.BOOL)))
    case.special = case.maybe(0.4)
    case.exact = name not in ARITHMETIC
    divisor = nonzero(dtype) if name in ("Div", "Mod") and dtype in (T.INT32, T.INT64) else None
    if name == "Pow":
        divisor = exponent(case, dtype)
    if case.opset < 7:
        legacy(case, dtype, divisor)
        return
    left, right = broadcast_pair(case)
    x = before(case, "a", dtype, left)
    if case.maybe(0.1) and name != "Pow" and divisor is None:
        case.tested([x, x])
    else:
        case.tested([x, case.input("b", dtype, right, divisor)])
    if name in ARITHMETIC:
        after(case)


def nonzero(dtype: int) -> Any:
    """Nor -1: ONNX Runtime crashes where it divides the least integer by it."""
    def fill(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        values = rng.integers(1, 9, shape)
        return np.where(rng.random(shape) < 0.4, -1 - values, values).astype(NUMPY[dtype])
    return fill


def exponent(case: Case, dtype: int) -> Any:
    if dtype in (T.INT32, T.INT64):
        return integers_between(0, 5, dtype)
    if case.maybe():
        return chosen(np.array(case.one(2.0, 0.5, 3.0, -1.0, 0.0, 1.0), NUMPY[dtype]))
    return None


def legacy(case: Case, dtype: int, fill: Any) -> None:
    """Until opset 6 shapes are equal, or broadcast=1 places the second at axis=."""
    dims = case.shape(1)
    x = case.input("a", dtype, dims)
    if case.maybe(0.3):
        y = case.input("b", dtype, dims, fill, constant=False)
        case.tested([x, y])
        case.modern = (7, [helper.make_node(case.row.name, [x, y], ["y"])])
        return
    begin = int(case.rng.integers(len(dims) + 1))
    end = int(case.rng.integers(begin, len(dims) + 1))
    suffix = case.maybe()
    y = case.input("b", dtype, dims[begin:] if suffix else dims[begin:end], fill, constant=False)
    nodes, spread = [], y
    if suffix or begin == len(dims):
        case.tested([x, y], broadcast=1)
    else:
        case.tested([x, y], broadcast=1, axis=begin)
        axes = list(range(end - begin, len(dims) - begin))
        if axes and end > begin:
            spread = "b_spread"
            nodes = [helper.make_node("Unsqueeze", [y], [spread], axes=axes)]
    case.modern = (7, nodes + [helper.make_node(case.row.name, [x, spread], ["y"])])


@of("Where")
def where(case: Case) -> None:
    dtype = typed(case, T.FLOAT, T.DOUBLE, T.FLOAT16, T.INT32, T.INT64, T.UINT8, T.BOOL)
    case.special, case.exact = case.maybe(), True
    left, right = broadcast_pair(case)
    case.tested([case.input("c", T.BOOL, case.one(left, right)), case.input("a", dtype, left),
                 case.input("b", dtype, right)])


@of("Mod")
def modulo(case: Case) -> None:
    dtype = typed(case, T.FLOAT, T.DOUBLE, T.FLOAT16, T.INT32, T.INT64, T.INT8, T.UINT8)
    floats = dtype in FLOATS
    case.special = floats and case.maybe(0.4)
    case.exact = True
    left, right = broadcast_pair(case)
    divisor = None if floats else integers_between(1, 9,
                                                   dtype) if dtype == T.UINT8 else nonzero(dtype)
    given = {"fmod": 1} if floats else {"fmod": int(case.maybe())} if case.maybe() else {}
    case.tested([case.input("a", dtype, left), case.input("b", dtype, right, divisor)], **given)


@of("Max", "Min", "Sum", "Mean")
def variadic(case: Case) -> None:
    integers = case.row.name in ("Max", "Min") and case.opset >= 12
    dtype = typed(case, *(NUMBERS if integers else FLOATS))
    case.special = case.maybe(0.3)
    case.exact = case.row.name in ("Max", "Min")
    left, right = broadcast_pair(case) if case.opset >= 8 else (case.shape(),) * 2
    names = [case.input(f"x{i}", dtype, case.one(left, right), constant=False if not i else None)
             for i in range(int(case.rng.integers(1, 5)))]
    case.tested(names)


@of("PRelu")
def prelu(case: Case) -> None:
    dtype = typed(case, T.FLOAT, T.FLOAT, *((T.DOUBLE, T.FLOAT16) if case.opset >= 7 else ()))
    case.special = case.maybe(0.4)
    dims = case.shape(1)
    x = case.input("x", dtype, dims)
    if case.opset < 7:
        channels = dims[1] if len(dims) > 1 else dims[0]
        one = case.maybe(0.3) or len(dims) < 2
        slope = case.input("slope", dtype, [1] if one else [channels], constant=False)
        case.tested([x, slope])
        axes = [] if one else list(range(1, len(dims) - 1))
        spread = [helper.make_node("Unsqueeze", [slope], ["spread"], axes=axes)] if axes else []
        last = helper.make_node("PRelu", [x, "spread" if axes else slope], ["y"])
        case.modern = (7, spread + [last])
        return
    slope_dims = [1 if case.maybe(0.4) else dim for dim in dims]
    case.tested([x, case.input("slope", dtype, slope_dims[int(case.rng.integers(len(dims) + 1)):])])


@of("Clip")
def clip(case: Case) -> None:
    case.special = case.maybe()
    case.exact = True
    if case.opset < 11:
        dtype = typed(case, T.FLOAT)
        given = {"min": -1.5, "max": 2.0}
        case.tested([before(case, "x", dtype, case.shape())],
                    **{name: value for name, value in given.items() if case.maybe(0.7)})
        return
    dtype = typed(case, *(NUMBERS if case.opset >= 12 else (T.FLOAT,)))
    x = before(case, "x", dtype, case.shape())
    ends = []
    for name in ("low", "high"):
        if not case.maybe(0.75):
            ends.append("")
            continue
        value = case.one(-1.5, 0, 2, 6, *((np.nan,) if case.special and dtype in FLOATS else ()))
        fill = chosen(np.array(value, np.float64).astype(NUMPY[dtype]))
        ends.append(case.input(name, dtype, [], fill))
    case.tested([x, *ends] if ends[1] else [x, ends[0]] if ends[0] else [x])


CAST = (T.FLOAT, T.DOUBLE, T.FLOAT16, T.INT32, T.INT64, T.INT8, T.UINT8, T.BOOL)


@of("Cast")
def cast(case: Case) -> None:
    dtype, to = typed(case, *CAST), case.one(*CAST)
    # Beyond an integer's range the text leaves floats undefined.
    case.special, case.exact = dtype in FLOATS and to in FLOATS and case.maybe(), True
    fill = integers_between(0, 90, dtype) if to in (T.UINT8, T.INT8) and dtype != T.BOOL else None
    x = case.input("x", dtype, case.shape(), fill)
    case.tested([x], to=T.DataType.Name(to) if case.opset < 6 else to)
    if case.opset < 6:
        case.modern = (9, [helper.make_node("Cast", [x], ["y"], to=to)])


@of("CastLike")
def cast_like(case: Case) -> None:
    dtype, to = typed(case, *CAST), case.one(*CAST)
    case.special, case.exact = dtype in FLOATS and to in FLOATS and case.maybe(), True
    fill = integers_between(0, 90, dtype) if to in (T.UINT8, T.INT8) and dtype != T.BOOL else None
    case.tested([case.input("x", dtype, case.shape(), fill),
                 case.input("like", to, case.shape(0, 2))])


@of("Dropout")
def dropout(case: Case) -> None:
    dtype = typed(case, T.FLOAT, T.DOUBLE, T.FLOAT16)
    case.special, case.exact = case.maybe(0.3), True
    x = case.input("x", dtype, case.shape())
    outputs = ["y", "mask"] if case.opset >= 10 and case.maybe() else ["y"]
    if case.opset >= 12:
        case.tested([x], outputs)
    elif case.opset < 7:
        case.tested([x], outputs, is_test=1)
        case.modern = (7, [helper.make_node("Dropout", [x], outputs)])
    else:
        case.tested([x], outputs, **({"ratio": 0.3} if case.maybe() else {}))


# Matrix products.
def product_dims(case: Case) -> tuple[list[Any], list[Any]]:
    batch = case.shape(0, 2)
    m, n, k = case.dim(), case.dim(), case.dim()
    left, right = [*batch, m, k], [*batch, k, n]
    for dims in (left, right):
        if case.maybe(0.3):
            del dims[:-2]
    for axis in range(min(len(left), len(right)) - 2):
        if case.maybe(0.3):
            case.one(left, right)[axis] = 1
    return left, right


def small(dtype: int) -> Any:
    """Integers whose products every accumulation sums exactly."""
    return lambda rng, shape: rng.integers(-4, 5, shape).astype(NUMPY[dtype])


@of("MatMul")
def mat_mul(case: Case) -> None:
    dtype = typed(case, *FLOATS, *((T.INT32, T.INT64) if case.opset >= 9 else ()))
    left, right = product_dims(case)
    if case.maybe(0.2):
        left = left[-1:]
    if case.maybe(0.2):
        right = right[-2:-1]
    fill = small(dtype) if case.maybe() else None
    case.tested([case.input("a", dtype, left, fill), case.input("b", dtype, right, fill)])
    after(case)


@of("Gemm")
def gemm(case: Case) -> None:
    dtype = typed(case, T.FLOAT, T.FLOAT, T.DOUBLE, T.FLOAT16)
    m, n, k = case.dim(), case.dim(), case.dim()
    given: dict[str,
                Any] = {name: int(case.maybe()) for name in ("transA", "transB") if case.maybe()}
    given |= {name: case.one(0.5, 2.0, 1.0, 0.0, -1.5) for name in ("alpha", "beta")
              if case.maybe()}
    fill = small(dtype) if case.maybe() else None
    inputs = [case.input("a", dtype, [k, m] if given.get("transA") else [m, k], fill),
              case.input("b", dtype, [n, k] if given.get("transB") else [k, n], fill)]
    if case.opset < 11 or case.maybe(0.7):
        dims = case.one([m, n], [n], [1, n], [m, 1], [1], []) if case.opset >= 7 else [m, n]
        inputs.append(case.input("c", dtype, dims))
    case.tested(inputs, **given)
    if case.opset < 7:
        case.modern = (7, [helper.make_node("Gemm", inputs, ["y"], **given)])
    after(case)


# Quantised.
def scale_fill(case: Case) -> Any:
    """Round numbers make ties; others do not."""
    if case.maybe():
        return chosen(np.float32(case.one(0.5, 0.25, 1.0, 0.1, 0.02, 0.03)))
    return between(0.01, 0.6)


def small_scale(case: Case) -> Any:
    if case.maybe():
        return chosen(np.float32(case.one(0.01, 0.02, 0.05, 0.0625, 0.03125)))
    return between(0.001, 0.05)


def bytes_like(case: Case) -> int:
    return case.one(T.INT8, T.UINT8)


@of("MatMulInteger")
def mat_mul_integer(case: Case) -> None:
    a, b = T.UINT8, bytes_like(case)
    if case.maybe(0.3):
        a = b = T.INT8
    typed(case, a)
    left, right = product_dims(case)
    case.exact = True
    inputs = [case.input("a", a, left), case.input("b", b, right)]
    if case.maybe(0.7):
        inputs.append(case.input("za", a, case.one([], [1])) if case.maybe(0.8) else "")
        if case.maybe(0.7):
            dims = case.one([], [1], [right[-1]] if not isinstance(right[-1], str) else [])
            inputs.append(case.input("zb", b, dims))
    while inputs and not inputs[-1]:
        inputs.pop()
    case.tested(inputs)


@of("QLinearMatMul")
def qlinear_mat_mul(case: Case) -> None:
    a = T.UINT8 if case.maybe(0.6) else T.INT8
    b = bytes_like(case) if a == T.UINT8 else T.INT8
    y = a
    typed(case, a)
    left, right = product_dims(case)
    case.exact = True
    column = case.one([], [1],
                      [right[-1]] if not isinstance(right[-1], str) and len(right) == 2 else [])
    zero = integers_between(120, 136, a) if a == T.UINT8 else integers_between(-5, 5, a)
    inputs = [case.input("a", a, left), case.input("sa", T.FLOAT, [], small_scale(case)),
              case.input("za", a, [], zero), case.input("b", b, right),
              case.input("sb", T.FLOAT, column, small_scale(case), constant=True),
              case.input("zb", b, column, integers_between(0, 9, b), constant=True),
              case.input("sy", T.FLOAT, [], scale_fill(case)), case.input("zy", y, [], zero)]
    case.tested(inputs)


@of("QuantizeLinear")
def quantize_linear(case: Case) -> None:
    if has_sixteen_bits(case):
        return through_sixteen_bits(case, case.one([], [4]), axis=1)
    dtype = typed(case, T.FLOAT, T.FLOAT, T.INT32, *((T.FLOAT16,) if case.opset >= 19 else ()))
    case.exact = True
    dims = case.shape(1)
    case.special = case.maybe(0.3)
    to = bytes_like(case)
    scale_type = T.FLOAT16 if dtype == T.FLOAT16 else T.FLOAT
    axis = int(case.rng.integers(len(dims)))
    per_axis = case.opset >= 13 and case.maybe(0.4) and not isinstance(dims[axis], str)
    spread = [dims[axis]] if per_axis else []
    fill = between(0.01, 0.6, scale_type) if per_axis else chosen(
        np.array(case.one(0.5, 0.25, 1.0, 0.1, 0.02, 0.03), NUMPY[scale_type]))
    inputs = [case.input("x", dtype, dims), case.input("s", scale_type, spread, fill)]
    given: dict[str, Any] = {}
    if case.maybe(0.8):
        inputs.append(case.input("z", to, spread))
    if per_axis:
        given["axis"] = axis - len(dims) * int(case.maybe())
    if case.opset >= 21 and case.maybe(0.3):
        given["output_dtype"] = to if len(inputs) == 3 else T.UINT8
    case.tested(inputs, **given)


def through_sixteen_bits(case: Case, spread: list[Any], **given: Any) -> None:
    """The row's op and its inverse, between which numbers are int16 or uint16."""
    to = case.one(T.INT16, T.UINT16)
    inputs = [case.input("x", T.FLOAT, case.shape(1) if not spread else [3, *spread]),
              case.input("s", T.FLOAT, spread, between(0.00001, 0.001)),
              case.input("z", to, spread, constant=True)]
    case.dtype, case.special, case.chained = T.FLOAT, case.maybe(0.3), True
    case.node("QuantizeLinear", inputs, ["q"], case.row.domain, **given)
    case.node("DequantizeLinear", ["q", *inputs[1:]], ["y"], case.row.domain, **given)


def has_sixteen_bits(case: Case) -> bool:
    return (case.opset >= 21 or case.row.domain != "") and case.maybe(0.3)


@of("DequantizeLinear")
def dequantize_linear(case: Case) -> None:
    if has_sixteen_bits(case):
        numbers, scale = case.one(T.INT16, T.UINT16), case.input("s", T.FLOAT, [],
                                                                 between(0.00001, 0.001))
        typed(case, T.FLOAT)
        case.tested([case.input("x", numbers, [5, 3], constant=True), scale,
                     case.input("z", numbers, [], constant=True)])
        return None
    dtype = typed(case, T.INT8, T.UINT8, T.INT32)
    dims = case.shape(1)
    scale_type = case.one(T.FLOAT, T.FLOAT16) if case.opset >= 19 else T.FLOAT
    axis = int(case.rng.integers(len(dims)))
    per_axis = case.opset >= 13 and case.maybe(0.4) and not isinstance(dims[axis], str)
    spread = [dims[axis]] if per_axis else []
    inputs = [case.input("x", dtype, dims),
              case.input("s", scale_type, spread, between(0.01, 0.6, scale_type))]
    if case.maybe(0.7):
        zero = chosen(np.int32(0)) if dtype == T.INT32 else None
        inputs.append(case.input("z", dtype, spread, zero))
    case.tested(inputs, **({"axis": axis} if per_axis else {}))


@of("DynamicQuantizeLinear")
def dynamic_quantize_linear(case: Case) -> None:
    typed(case, T.FLOAT)
    case.exact = True
    dims = [case.dim(zero=False) for _ in range(case.one(1, 2, 3))]
    fill = case.one(None, between(0.5, 4), between(-4, -0.5), chosen(np.float32(0)),
                    chosen(np.float32(3)))
    case.tested([case.input("x", T.FLOAT, dims, fill)], ["y", "s", "z"])
