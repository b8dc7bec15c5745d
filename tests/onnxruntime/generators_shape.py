"""What makes a random graph of each op that moves, makes or reduces elements."""
from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from cases import FLOATS, NUMPY, Case, between, integers_between
from generators import GENERATORS, before, of, typed

MOVED = (T.FLOAT, T.DOUBLE, T.FLOAT16, T.INT32, T.INT64, T.UINT8, T.BOOL)


def moved(case: Case, low: int = 0, high: int = 4) -> tuple[int, list[Any]]:
    case.exact, case.special = True, case.maybe(0.2)
    return typed(case, *MOVED), case.shape(low, high)


def integers(case: Case, name: str, values: Any) -> str:
    return case.constant(name, np.asarray(values, np.int64))


@of("Constant")
def constant(case: Case) -> None:
    case.exact = True
    value = np.asarray(numbers_like(case,
                                    tuple(case.rng.integers(0, 4, int(case.rng.integers(4))))))
    forms: list[dict[str, Any]] = [{"value": numpy_helper.from_array(value)}]
    if case.opset >= 12:
        forms += [{"value_float": 1.5}, {"value_int": 7}, {"value_floats": [0.5, -2.0]},
                  {"value_ints": [3, -4]}]
    case.tested([], ["c"], **case.one(*forms))
    case.node("Identity", ["c"], ["y"])


def numbers_like(case: Case, shape: tuple[int, ...]) -> Any:
    dtype = typed(case, *MOVED)
    return case.rng.integers(0, 2 if dtype == T.BOOL else 9, shape).astype(NUMPY[dtype])


@of("ConstantOfShape")
def constant_of_shape(case: Case) -> None:
    case.exact = True
    dims = [case.extent() for _ in range(int(case.rng.integers(1, 4)))]
    given = {"value": numpy_helper.from_array(np.asarray(numbers_like(case, (1,))))}
    if case.maybe():
        x = case.input("x", T.FLOAT, case.shape(1, 3))
        case.node("Shape", [x], ["s"])
    else:
        integers(case, "s", dims)
    case.tested(["s"], **(given if case.maybe(0.7) else {}))


@of("Shape")
def shape(case: Case) -> None:
    dtype, dims = moved(case)
    given = {name: int(case.rng.integers(-5, 6)) for name in ("start", "end")
             if case.opset >= 15 and case.maybe()}
    case.tested([case.input("x", dtype, dims)], **given)


@of("Size")
def size(case: Case) -> None:
    dtype, dims = moved(case)
    case.tested([case.input("x", dtype, dims)])


@of("Range")
def range_of(case: Case) -> None:
    case.exact = True
    dtype = typed(case, T.FLOAT, T.DOUBLE, T.INT32, T.INT64)
    if dtype in (T.INT32, T.INT64):
        ends = [int(value) for value in case.rng.integers(-9, 10, 2)] + [case.one(1, 2, -1, 3, -4)]
    else:
        ends = [case.one(0.0, -2.5), case.one(0.0, 4.25, -7.0), case.one(0.5, 1.0, -0.75)]
    names = [case.constant(name, np.asarray(value, NUMPY[dtype]))
             for name, value in zip(("begin", "end", "step"), ends)]
    if case.maybe(0.3):  # up to a size, as a mask counts
        case.input("x", T.FLOAT, ["N"])
        case.sizes["N"] = case.extent()
        case.node("Size", ["x"], ["size"])
        case.node("Cast", ["size"], ["end_size"], to=dtype)
        steps = (1, 1, 2, 3, -2) + ((0.5, -0.75) if dtype in (T.FLOAT, T.DOUBLE) else ())
        step = case.one(*steps)
        ends = [case.constant("first", np.asarray(case.one(0, 0, -3), NUMPY[dtype])), "end_size"]
        names = [*(ends if step > 0 else reversed(ends)),
                 case.constant("by", np.asarray(step, NUMPY[dtype]))]
        case.dtype = T.FLOAT
    case.tested(names, ["r"])
    case.node("Identity", ["r"], ["y"])


@of("EyeLike")
def eye_like(case: Case) -> None:
    case.exact = True
    dtype = typed(case, T.FLOAT, T.DOUBLE, T.INT32, T.INT64)
    given = {name: value for name, value in (("k", int(case.rng.integers(-4, 5))),
                                             ("dtype", case.one(T.FLOAT, T.INT64, T.DOUBLE)))
             if case.maybe()}
    case.tested([case.input("x", dtype, [case.extent(), case.extent()])], **given)


@of("Trilu")
def trilu(case: Case) -> None:
    dtype, dims = moved(case, 2)
    dims[-2:] = [case.extent(), case.extent()]
    x = case.input("x", dtype, dims)
    inputs = [x, integers(case, "k", int(case.rng.integers(-4, 5)))] if case.maybe() else [x]
    case.tested(inputs, **({"upper": int(case.maybe())} if case.maybe(0.7) else {}))


@of("OneHot")
def one_hot(case: Case) -> None:
    case.exact = True
    typed(case, T.FLOAT)
    depth, dims = case.one(1, 3, 5), case.shape(1, 3)
    case.constant("depth", np.asarray(depth, np.int64))
    case.constant("ends", np.asarray([case.one(0, -1, 5), case.one(1, 7)], np.float32))
    x = case.input("x", T.INT64, dims, integers_between(-depth, depth - 1))
    case.tested([x, "depth", "ends"],
                **({"axis": case.axis(len(dims) + 1)} if case.maybe() else {}))


@of("Gather")
def gather(case: Case) -> None:
    dtype, dims = moved(case, 1)
    axis = case.axis(len(dims))
    if isinstance(dims[axis], str):
        dims[axis] = 3
    dims[axis] = max(dims[axis], 1)
    low = -dims[axis] if case.opset >= 11 else 0
    index_type = case.one(T.INT32, T.INT64)
    index = case.input("i", index_type, case.shape(0, 2),
                       integers_between(low, dims[axis] - 1, index_type), constant=case.maybe())
    case.tested([case.input("x", dtype, dims), index], **({"axis": axis} if axis else {}))


@of("Transpose")
def transpose(case: Case) -> None:
    dtype, dims = moved(case)
    perm = {"perm": [int(axis) for axis in case.rng.permutation(len(dims))]}
    case.tested([before(case, "x", dtype, dims)], **(perm if dims and case.maybe(0.7) else {}))


@of("Reshape")
def reshape(case: Case) -> None:
    dtype, dims = moved(case, 1)
    target = [0 if isinstance(dim, str) or case.maybe(0.3) else dim for dim in dims]
    static = [axis for axis, dim in enumerate(dims) if not isinstance(dim, str)]
    form = case.one("same", "open", "flat")
    if form == "open" and static and all(dims[axis] for axis in static):
        target[case.one(*static)] = -1
    elif form == "flat" and not any(dim == 0 for dim in dims):
        target = [-1]
    x = case.input("x", dtype, dims, constant=False)
    if case.opset < 5:
        case.tested([x], shape=target)
        case.modern = (7, [helper.make_node("Constant", [], ["s"], value=numpy_helper.from_array(
            np.asarray(target, np.int64))), helper.make_node("Reshape", [x, "s"], ["y"])])
        return
    if case.opset >= 14 and case.maybe(0.3) and not case.sizes:
        case.tested([x, integers(case, "s", dims)], allowzero=1)
    else:
        case.tested([x, integers(case, "s", target)])


@of("Flatten")
def flatten(case: Case) -> None:
    dtype, dims = moved(case, 1)
    low = -len(dims) if case.opset >= 11 else 0
    given = {"axis": int(case.rng.integers(low, len(dims) + 1))} if case.maybe(0.7) else {}
    case.tested([case.input("x", dtype, dims)], **given)


def with_axes(case: Case, inputs: list[str], axes: list[int], since: int) -> None:
    if case.opset < since:
        case.tested(inputs, axes=axes)
    else:
        case.tested([*inputs, integers(case, "axes", axes)])


@of("Squeeze")
def squeeze(case: Case) -> None:
    dtype, dims = moved(case)
    dims = [dim if isinstance(dim, str) else max(dim, 2) for dim in dims]
    places = sorted(int(at) for at in case.rng.integers(0, len(dims) + 1, case.one(1, 2)))
    for at in reversed(places):
        dims.insert(at, 1)
    axes = [axis for axis, dim in enumerate(dims) if dim == 1]
    x = case.input("x", dtype, dims)
    if case.maybe(0.3) and not case.sizes:
        case.tested([x])
    else:
        negative = case.opset >= 11 and case.maybe()
        with_axes(case, [x], [axis - len(dims) * negative for axis in axes], 13)


@of("Unsqueeze")
def unsqueeze(case: Case) -> None:
    dtype, dims = moved(case, 0, 3)
    rank = len(dims) + case.one(1, 2)
    axes = [int(a) for a in case.rng.choice(rank, rank - len(dims), replace=False)]
    negative = case.opset >= 11 and case.maybe()
    with_axes(case, [case.input("x", dtype, dims)],
              [axis - rank * negative for axis in sorted(axes)],
              13)


@of("Expand")
def expand(case: Case) -> None:
    dtype, dims = moved(case)
    target = [case.one(dim, 1) if not isinstance(dim, str) else 1 for dim in dims]
    for axis, dim in enumerate(dims):
        if case.maybe(0.3) and not isinstance(dim, str):
            dims[axis], target[axis] = 1, case.extent()
    target = [case.extent()] * int(case.rng.integers(0, 2)) + target
    case.tested([case.input("x", dtype, dims), integers(case, "s", target)])


@of("Tile")
def tile(case: Case) -> None:
    dtype, dims = moved(case, 1)
    case.tested([case.input("x", dtype, dims),
                 integers(case, "repeats", case.rng.integers(0, 4, len(dims)))])


FAR = (2**31 - 1, 2**63 - 1, -2**31, -2**63 + 1)


@of("Slice")
def slice_of(case: Case) -> None:
    dtype, dims = moved(case, 1)
    count = int(case.rng.integers(1, len(dims) + 1))
    axes = [int(axis) for axis in case.rng.permutation(len(dims))[:count]]
    starts, ends, steps = [], [], []
    for axis in axes:
        step = case.one(1, 1, 2, -1, -3) if case.opset >= 10 else 1
        starts.append(case.one(0, int(case.rng.integers(-6, 7)),
                               *(FAR[2:] if step > 0 else FAR[:2])))
        ends.append(case.one(int(case.rng.integers(-6, 7)), *(FAR[:2] if step > 0 else FAR[2:])))
        steps.append(step)
    x = case.input("x", dtype, dims)
    if case.opset < 10:
        case.tested([x], starts=starts, ends=ends, axes=axes)
        return
    negative = case.maybe()
    inputs = [x, integers(case, "starts", starts), integers(case, "ends", ends),
              integers(case, "axes", [axis - len(dims) * negative for axis in axes])]
    if any(step != 1 for step in steps) or case.maybe(0.3):
        inputs.append(integers(case, "steps", steps))
    case.tested(inputs)


@of("Concat")
def concat(case: Case) -> None:
    dtype, dims = moved(case, 1)
    axis = case.axis(len(dims)) if case.opset >= 11 else int(case.rng.integers(len(dims)))
    names = []
    for i in range(int(case.rng.integers(1, 5))):
        own = list(dims)
        if not isinstance(own[axis], str):
            own[axis] = case.extent()
        names.append(case.input(f"x{i}", dtype, own, constant=False if not i else None))
    case.tested(names, axis=axis)


@of("Split")
def split(case: Case) -> None:
    dtype, dims = moved(case, 1)
    axis = case.axis(len(dims)) if case.opset >= 11 else int(case.rng.integers(len(dims)))
    sizes = [int(value) for value in case.rng.integers(0, 4, case.one(1, 2, 3))]
    outputs = [f"y{i}" for i in range(len(sizes))]
    equal = case.maybe(0.4)
    if equal:
        sizes = [max(sizes[0], 1)] * len(sizes)
    dims[axis] = sum(sizes)
    if equal and case.maybe(0.3):
        case.sizes["N"] = sum(sizes)
        dims[axis] = "N"
    given: dict[str, Any] = {"axis": axis} if axis or case.maybe() else {}
    x = case.input("x", dtype, dims)
    if case.opset >= 18 and equal and case.maybe():
        case.tested([x], outputs, num_outputs=len(sizes), **given)
    elif equal and case.opset < 18 and case.maybe():
        case.tested([x], outputs, **given)
    elif case.opset < 13:
        case.tested([x], outputs, split=sizes, **given)
    else:
        case.tested([x, integers(case, "sizes", sizes)], outputs, **given)
    if case.opset < 2:
        case.modern = (2, [helper.make_node("Split", [x], outputs, split=sizes, axis=axis)])


@of("Pad")
def pad(case: Case) -> None:
    dtype, dims = moved(case, 1)
    if case.opset < 11:
        dtype = typed(case, T.FLOAT)
    pads = [int(value) for value in case.rng.integers(0, 4, 2 * len(dims))]
    modes = ["constant", "edge", "reflect", *(["wrap"] if case.opset >= 19 else [])]
    mode = case.one(*modes) if case.opset >= 11 and case.maybe(0.4) else "constant"
    if mode != "constant":
        dims = [6 if isinstance(dim, str) else max(dim, 4) for dim in dims]
        case.tested([case.input("x", dtype, dims), integers(case, "pads", pads)], mode=mode)
        return
    for axis, dim in enumerate(dims):
        if not isinstance(dim, str) and dim > 2 and case.maybe(0.2):
            pads[axis] = -1
    x = case.input("x", dtype, dims)
    if case.opset < 11:
        given = {"value": 1.5} if case.maybe() else {}
        case.tested([x], **{"paddings" if case.opset < 2 else "pads": pads}, **given)
        if case.opset < 2:
            case.modern = (2, [helper.make_node("Pad", [x], ["y"], pads=pads, **given)])
        return
    inputs = [x, integers(case, "pads", pads)]
    if case.maybe():
        inputs.append(case.constant("value", np.asarray(case.one(0, 1), NUMPY[dtype])))
    if case.opset >= 18 and case.maybe(0.3):
        axes = [int(axis) for axis in case.rng.permutation(len(dims))[:1]]
        case.constants["pads"] = np.asarray([pads[axes[0]], pads[axes[0] + len(dims)]], np.int64)
        inputs += [""] * (3 - len(inputs)) + [integers(case, "axes", axes)]
    case.tested(inputs)


@of("DepthToSpace", "SpaceToDepth")
def blocks(case: Case) -> None:
    block, exact = case.one(1, 2, 3), case.row.name == "DepthToSpace"
    case.exact = True
    dtype = typed(case, T.FLOAT, T.DOUBLE)
    depth, height, width = (case.one(0, 1, 2, 3) for _ in range(3))
    dims = [case.dim(), depth, height, width]
    for axis in (1,) if exact else (2, 3):
        dims[axis] *= block**(2 if exact else 1)
    given = {"mode": case.one("DCR", "CRD")} if exact and case.opset >= 11 and case.maybe() else {}
    case.tested([case.input("x", dtype, dims)], blocksize=block, **given)


# Reductions.
REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1",
              "ReduceL2",
              "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp")


def reduction(case: Case) -> None:
    name = case.row.name
    extremum = name in ("ReduceMax", "ReduceMin")
    dtype = typed(case, *FLOATS, T.INT32, T.INT64,
                  *((T.INT8, T.UINT8) if extremum and case.opset >= 12 else ()),
                  *((T.BOOL,) if extremum and case.opset >= 20 else ()))
    case.special = dtype in FLOATS and case.maybe(0.3)
    case.exact = extremum
    dims = case.shape(0 if case.opset >= 18 else 1)
    count = int(case.rng.integers(len(dims) + 1)) if dims else 0
    axes = [int(axis) for axis in case.rng.permutation(len(dims))[:count]]
    if case.opset >= 11 and case.maybe():
        axes = [axis - len(dims) for axis in axes]
    given: dict[str, Any] = {"keepdims": int(case.maybe())} if case.maybe(0.7) else {}
    x = before(case, "x", dtype, dims)
    as_input = case.opset >= (13 if name == "ReduceSum" else 18)
    if as_input and case.maybe(0.3):
        given["noop_with_empty_axes"] = int(case.maybe())
    if as_input:
        case.tested([x, integers(case, "axes", axes)] if axes or case.maybe(0.3) else [x], **given)
    else:
        case.tested([x], **given, **({"axes": axes} if axes else {}))


for _name in REDUCTIONS:
    GENERATORS[_name] = reduction


@of("GlobalAveragePool", "GlobalMaxPool")
def pool(case: Case) -> None:
    dtype = typed(case, T.FLOAT)
    case.special = case.maybe(0.2)
    dims = [case.dim(), case.dim(), case.dim(zero=False), case.dim(zero=False)]
    case.tested([case.input("x", dtype, dims)])


@of("Softmax", "LogSoftmax")
def softmax(case: Case) -> None:
    dtype = typed(case, *FLOATS)
    case.special = case.maybe(0.3)
    dims = case.shape(1 if case.opset >= 13 else 2)
    low = -len(dims) if case.opset >= 11 else 0
    given = {"axis": int(case.rng.integers(low, len(dims)))} if case.maybe(0.8) else {}
    case.tested([before(case, "x", dtype, dims)], **given)


@of("Hardmax", "LpNormalization")
def hardmax(case: Case) -> None:
    case.exact = case.row.name == "Hardmax"
    dtype = typed(case, T.FLOAT) if case.exact else typed(case, T.FLOAT, T.DOUBLE)
    dims = [dim if isinstance(dim, str) else max(dim, 1) for dim in case.shape(2)]
    low = -len(dims) if case.opset >= 11 or not case.exact else 0
    given = {"axis": int(case.rng.integers(low, len(dims)))} if case.maybe(0.8) else {}
    if not case.exact and case.maybe():
        given["p"] = case.one(1, 2)
    case.tested([case.input("x", dtype, dims)], **given)


@of("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
def layer_normalization(case: Case) -> None:
    dtype = typed(case, T.FLOAT, T.FLOAT, T.DOUBLE)
    case.special = case.maybe(0.15)
    dims = [dim if isinstance(dim, str) else max(dim, 1) for dim in case.shape(1)]
    axis = case.axis(len(dims))
    dims[axis:] = [3 if isinstance(dim, str) else dim for dim in dims[axis:]]
    given: dict[str, Any] = {"axis": axis} if case.maybe(0.8) else {}
    if not given:
        axis, dims[-1] = -1, 3 if isinstance(dims[-1], str) else dims[-1]
    if case.maybe():
        given["epsilon"] = float(np.float32(case.one(1e-5, 1e-3, 1.0)))
    inputs = [before(case, "x", dtype, dims), case.input("scale", dtype, dims[axis:])]
    outputs = ["y"]
    if case.row.name == "LayerNormalization":
        if case.maybe():
            inputs.append(case.input("bias", dtype, dims[axis:]))
        if case.maybe(0.3) and dtype == T.FLOAT:
            outputs = ["y", "mean", "inverse"]
    case.tested(inputs, outputs, **given)


@of("BatchNormalization")
def batch_normalization(case: Case) -> None:
    dtype = typed(case, T.FLOAT, T.DOUBLE)
    dims = case.shape(2)
    if isinstance(dims[1], str):
        dims[1] = 3
    channel = dims[1:2]
    given: dict[str, Any] = {"epsilon": 1e-3} if case.maybe() else {}
    inputs = [before(case, "x", dtype, dims), case.input("scale", dtype, channel),
              case.input("b", dtype, channel), case.input("mean", dtype, channel),
              case.input("var", dtype, channel, between(0.1, 4, dtype))]
    if case.opset < 7:
        case.tested(inputs, is_test=1, **given)
        case.modern = (7, [helper.make_node("BatchNormalization", inputs, ["y"], **given)])
    else:
        case.tested(inputs, **given)


@of("InstanceNormalization")
def instance_normalization(case: Case) -> None:
    dtype = typed(case, T.FLOAT)
    dims = [case.one(1, 2), case.one(1, 3), case.one(2, 5), case.one(2, 4)][:case.one(3, 4)]
    case.tested([case.input("x", dtype, dims), case.input("scale", dtype, dims[1:2]),
                 case.input("b", dtype, dims[1:2])], **({"epsilon": 1e-3} if case.maybe() else {}))


@of("MeanVarianceNormalization")
def mean_variance(case: Case) -> None:
    dtype = typed(case, T.FLOAT)
    dims = [case.one(2, 3), case.one(1, 2), case.one(2, 5), case.one(2, 4)]
    given = {"axes": [0, 2, 3]} if case.maybe() else {"axes": [0, 1, 2, 3]} if case.maybe() else {}
    case.tested([case.input("x", dtype, dims)], **given)


COMPARISONS = ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")


# Shape arithmetic: what follows from shapes and constants, and becomes a shape or a result.
def known(case: Case) -> None:
    case.exact = True
    case.opset = int(case.rng.integers(13, 24))
    typed(case, T.FLOAT)
    name = case.row.name
    dims = [case.dim() for _ in range(3)]
    case.input("x", T.FLOAT, dims)
    case.node("Shape", ["x"], ["s"])
    KNOWN[name](case)
    (result,) = case.outputs
    if name in (*COMPARISONS, "Cast") or not case.sizes and case.maybe():
        case.node("Identity", [result], ["y"])
    else:
        case.node("ConstantOfShape", [flat(case, result)], ["y"])


def flat(case: Case, name: str) -> str:
    """As a vector of extents that are not negative."""
    integers(case, "minus_one", [-1])
    case.node("Reshape", [name, "minus_one"], ["flat"])
    integers(case, "nothing", [0])
    return case.node("Max", ["flat", "nothing"], ["extents"])


def arithmetic(case: Case) -> None:
    values = case.one([2], [2, 1, 3], 2)
    case.node(case.row.name, ["s", integers(case, "c", values)], ["k"])


def one_of_shape(case: Case) -> str:
    case.node("Gather", ["s", integers(case, "at", int(case.rng.integers(-3, 3)))], ["g"], axis=0)
    return "g"


def known_where(case: Case) -> None:
    case.node(case.one(*COMPARISONS), ["s", integers(case, "c", [1, 2, 3])], ["e"])
    case.node("Where", ["e", integers(case, "d", [7, 8, 9]), "s"], ["k"])


KNOWN: dict[str, Any] = {
    **{name: arithmetic for name in ("Add", "Sub", "Mul", "Div", "Mod", "Min", "Max",
                                     *COMPARISONS)},
    "Neg": lambda case: case.node("Neg", ["s"], ["k"]),
    "Where": known_where,
    "Cast": lambda case: case.node("Cast", ["s"], ["k"], to=case.one(T.INT64, T.INT32)),
    "Concat": lambda case: case.node("Concat", ["s", integers(case, "c", [5, 1])], ["k"], axis=0),
    "Gather": lambda case: case.node(
        "Gather", ["s", integers(case, "at", case.one([2, 0], [-1], 1))], ["k"], axis=0),
    "Slice": lambda case: case.node(
        "Slice", ["s", integers(case, "b", [int(case.rng.integers(-4, 4))]),
                  integers(case, "e", [case.one(2**31 - 1, 2, -1)])], ["k"]),
    "Squeeze": lambda case: (case.node("Gather", ["s", integers(case, "at", [1])], ["g"], axis=0),
                             case.node("Squeeze", ["g"], ["k"])),
    "Unsqueeze": lambda case: case.node(
        "Unsqueeze", [one_of_shape(case), integers(case, "a", [0])], ["k"]),
    "Reshape": lambda case: case.node("Reshape", ["s", integers(case, "c", [-1])], ["k"]),
    "ReduceProd": lambda case: case.node("ReduceProd", ["s"], ["k"], keepdims=int(case.maybe())),
}
