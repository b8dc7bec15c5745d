"""What makes a random graph of convolutions, of resized images and of recurrent layers."""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from onnx import TensorProto as T

from cases import NUMPY, Case
from generators import after, integers_between, of, scale_fill, small, small_scale, typed


def narrow(dtype: int) -> Any:
    """Numbers whose sums no activation saturates."""
    return lambda rng, shape: rng.uniform(-1, 1, shape).astype(NUMPY[dtype])


def kernel_window(case: Case) -> tuple[list[int], list[int], list[int], list[int], list[int]]:
    """Kernel, strides, dilations, pads and sizes of the axes, of which none is too short."""
    axes = case.one(1, 2, 2, 2, 3)
    kernel = [case.one(1, 1, 2, 3) for _ in range(axes)]
    if case.maybe(0.2):
        kernel = [1] * axes
    strides = [case.one(1, 1, 2, 3) for _ in range(axes)]
    if case.maybe(0.3):
        strides = list(kernel)
    dilations = [case.one(1, 1, 1, 2) for _ in range(axes)]
    pads = [case.one(0, 0, 1, 2) for _ in range(2 * axes)]
    if case.maybe(0.4):
        pads = [0] * (2 * axes)
    sizes = [(k - 1) * d + 1 + case.one(0, 1, 2, 3, 4) for k, d in zip(kernel, dilations)]
    return kernel, strides, dilations, pads, sizes


def with_names(case: Case, dims: list[Any]) -> list[Any]:
    """Some axes behind the first two as symbols."""
    for axis in range(2, len(dims)):
        if case.maybe(0.2):
            case.sizes[f"H{axis}"] = dims[axis]
            dims[axis] = f"H{axis}"
    return dims


class Window(NamedTuple):
    kernel: list[int]
    groups: int
    depth: int    # channels of a group
    filters: int  # of all groups
    dims: list[Any]  # of x
    given: dict[str, Any]


def convolved(case: Case) -> Window:
    kernel, strides, dilations, pads, sizes = kernel_window(case)
    groups, depth, filters = case.one(1, 1, 1, 2, 3), case.one(1, 2, 3), case.one(1, 2)
    given: dict[str, Any] = {"strides": strides, "dilations": dilations}
    mode = case.one("NOTSET", "NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
    if mode == "NOTSET":
        given["pads"] = pads
    else:
        given["auto_pad"] = mode
    if mode.startswith("SAME"):
        given["dilations"] = [1] * len(kernel)
    if groups > 1:
        given["group"] = groups
    if case.maybe():
        given["kernel_shape"] = kernel
    dims = with_names(case, [case.dim(zero=False), groups * depth, *sizes])
    return Window(kernel, groups, depth, groups * filters, dims, given)


@of("Conv", "FusedConv")
def convolution(case: Case) -> None:
    fused = case.row.name == "FusedConv"
    dtype = typed(case, T.FLOAT, *(() if fused else (T.FLOAT, T.DOUBLE)))
    at = convolved(case)
    if fused:
        name, params = case.one(("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.25]),
                                ("Clip", [-0.5, 2.0]), ("HardSigmoid", [0.25, 0.5]))
        at.given["activation"] = name
        if params:
            at.given["activation_params"] = params
    fill = small(dtype) if case.maybe() else None
    inputs = [case.input("x", dtype, at.dims, fill),
              case.input("w", dtype, [at.filters, at.depth, *at.kernel], fill)]
    if case.maybe():
        inputs.append(case.input("b", dtype, [at.filters], fill))
    case.tested(inputs, **at.given)
    after(case)


@of("ConvTranspose")
def conv_transpose(case: Case) -> None:
    dtype = typed(case, T.FLOAT)
    kernel, strides, dilations, _, sizes = kernel_window(case)
    groups, depth, filters = case.one(1, 1, 1, 2, 3), case.one(1, 2, 3), case.one(1, 2)
    # Pads take no more than each axis has.
    pads = [case.one(0, min(1, (k - 1) * d)) for k, d in zip(kernel, dilations)] * 2
    given: dict[str, Any] = {"strides": strides, "dilations": dilations, "pads": pads}
    if case.maybe(0.4):
        given["output_padding"] = [int(case.rng.integers(max(s, d))) for s, d in
                                   zip(strides, dilations)]
    if groups > 1:
        given["group"] = groups
    dims = with_names(case, [case.dim(zero=False), groups * depth, *sizes])
    inputs = [case.input("x", dtype, dims, small(dtype)),
              case.input("w", dtype, [groups * depth, filters, *kernel], small(dtype))]
    if case.maybe():
        inputs.append(case.input("b", dtype, [groups * filters], small(dtype)))
    case.tested(inputs, **given)
    after(case)


@of("ConvInteger")
def conv_integer(case: Case) -> None:
    typed(case, T.UINT8)  # ONNX Runtime has no other
    at = convolved(case)
    weights = case.one(T.UINT8, T.INT8)
    case.exact = True
    inputs = [case.input("x", T.UINT8, at.dims),
              case.input("w", weights, [at.filters, at.depth, *at.kernel])]
    if case.maybe(0.7):
        inputs.append(case.input("zx", T.UINT8, []))
        if case.maybe():
            inputs.append(case.input("zw", weights, []))
    case.tested(inputs, **at.given)


@of("QLinearConv")
def qlinear_conv(case: Case) -> None:
    dtype = T.UINT8 if case.maybe(0.7) else T.INT8
    typed(case, dtype)
    weights = case.one(T.UINT8, T.INT8) if dtype == T.UINT8 else T.INT8
    at = convolved(case)
    case.exact = True
    each = [at.filters] if case.maybe() else []
    zero = integers_between(120, 136, dtype) if dtype == T.UINT8 else integers_between(-5, 5, dtype)
    inputs = [case.input("x", dtype, at.dims), case.input("sx", T.FLOAT, [], small_scale(case)),
              case.input("zx", dtype, [], zero),
              case.input("w", weights, [at.filters, at.depth, *at.kernel], constant=True),
              case.input("sw", T.FLOAT, each, small_scale(case), constant=True),
              case.input("zw", weights, each, integers_between(0, 0, weights), constant=True),
              case.input("sy", T.FLOAT, [], scale_fill(case)), case.input("zy", dtype, [], zero)]
    if case.maybe():
        inputs.append(case.input("b", T.INT32, [at.filters], constant=True))
    case.tested(inputs, **at.given)


@of("MaxPool", "AveragePool")
def pool(case: Case) -> None:
    average = case.row.name == "AveragePool"
    dtype = typed(case, T.FLOAT)
    kernel, strides, dilations, _, sizes = kernel_window(case)
    given: dict[str, Any] = {"kernel_shape": kernel, "strides": strides}
    if case.opset >= (19 if average else 10) and case.maybe(0.4):
        given["dilations"] = dilations
    # Every window meets an element.
    pads = [case.one(0, 0, min(1, k - 1)) if "dilations" not in given else 0 for k in kernel]
    mode = case.one("NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
    if mode == "NOTSET":
        given["pads"] = pads * 2
        if case.opset >= 10 and case.maybe(0.4):
            given["ceil_mode"] = 1
    elif mode == "VALID" or "dilations" not in given:
        given["auto_pad"] = mode
    if average and case.opset >= 7 and case.maybe():
        given["count_include_pad"] = 1
    dims = with_names(case, [case.dim(zero=False), case.one(1, 2, 3), *sizes])
    case.exact = not average
    case.tested([case.input("x", dtype, dims)], **given)
    after(case)


def image(case: Case) -> list[Any]:
    return [case.dim(zero=False), case.one(1, 2, 3), case.one(1, 2, 3, 5, 8), case.one(1, 2, 4, 7)]


@of("Upsample")
def upsample(case: Case) -> None:
    dtype = typed(case, T.FLOAT)
    scales = [1.0, 1.0, case.one(1.0, 2.0, 2.5, 3.0), case.one(1.0, 1.5, 2.0)]
    mode = case.one("nearest", "nearest", "linear")
    case.exact = mode == "nearest"
    x = case.input("x", dtype, image(case))
    if case.opset < 9:
        case.tested([x], mode=mode, scales=scales)
    else:
        case.tested([x, case.constant("scales", np.array(scales, np.float32))], mode=mode)
    after(case)


@of("GroupNormalization")
def group_normalization(case: Case) -> None:
    dtype = typed(case, T.FLOAT)
    groups, each = case.one(1, 2, 3), case.one(1, 2, 4)
    dims = [case.one(1, 2), groups * each, case.one(2, 5), case.one(1, 4)][:case.one(3, 4)]
    scales = [groups if case.opset < 21 else groups * each]
    case.tested([case.input("x", dtype, dims), case.input("scale", dtype, scales),
                 case.input("b", dtype, scales)], num_groups=groups,
                **({"epsilon": 1e-3} if case.maybe() else {}))


# ONNX Runtime takes odd sizes only.
@of("LRN")
def local_response_normalization(case: Case) -> None:
    dtype = typed(case, T.FLOAT)
    dims = [case.one(1, 2), case.one(1, 3, 6), case.one(1, 4), case.one(1, 5)]
    given = {name: case.one(*values) for name, values in
             (("alpha", (1e-3, 0.5)), ("beta", (0.5, 1.0)), ("bias", (0.5, 2.0))) if case.maybe()}
    case.tested([case.input("x", dtype, dims)], size=case.one(1, 3, 5, 7), **given)


@of("Resize")
def resize(case: Case) -> None:
    mode = case.one("nearest", "nearest", "linear", *(["cubic"] if case.opset > 10 else []))
    types = (T.FLOAT, T.FLOAT, T.UINT8, T.INT8) if mode == "nearest" else (T.FLOAT,)
    dtype, dims, given = typed(case, *types), image(case), {"mode": mode}
    case.exact = mode == "nearest"
    scales = [1.0, 1.0, *[case.one(0.5, 0.6, 1.0, 1.25, 2.0, 2.0, 3.0) for _ in range(2)]]
    if case.opset == 10:
        case.tested([case.input("x", dtype, dims),
                     case.constant("scales", np.array(scales, np.float32))], **given)
        return
    modes = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    if case.opset >= 19:
        modes.append("half_pixel_symmetric")
    given["coordinate_transformation_mode"] = case.one(*modes)
    if mode == "nearest" and case.maybe(0.7):
        given["nearest_mode"] = case.one("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    if mode == "cubic" and case.maybe():
        given |= {"cubic_coeff_a": case.one(-0.5, -0.75), "exclude_outside": case.one(0, 1)}
    sizes = [*dims[:2], *[case.one(1, 2, 3, 4, 7, 10) for _ in range(2)]]
    by_sizes, roi = case.maybe(), case.constant("roi", np.zeros(0, np.float32))
    if case.opset >= 18 and case.maybe():
        scales, sizes, given["axes"] = scales[2:], sizes[2:], [2, 3]
    if by_sizes and all(isinstance(size, int) for size in sizes):
        if case.opset >= 18 and case.maybe(0.4):
            given["keep_aspect_ratio_policy"] = case.one("not_larger", "not_smaller")
        last = ["", case.constant("sizes", np.array(sizes, np.int64))]
    else:
        last = [case.constant("scales", np.array(scales, np.float32))]
    case.tested([case.input("x", dtype, dims), roi if case.opset < 13 else "", *last], **given)
    after(case)


GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
# With the numbers that each takes.
ACTIVATIONS = {"Relu": "", "Tanh": "", "Sigmoid": "", "Softsign": "", "Softplus": "",
               "Affine": "ab", "ScaledTanh": "ab", "HardSigmoid": "ab", "LeakyRelu": "a"}


# Gates beyond 1 make states grow without bound.
BOUNDED = ("Sigmoid", "Tanh", "Softsign", "ScaledTanh", "HardSigmoid")


def activations(case: Case, count: int, given: dict[str, Any]) -> None:
    names = [case.one(*(BOUNDED if case.row.name != "RNN" else ACTIVATIONS)) for _ in range(count)]
    given["activations"] = names
    for attribute, kind in (("activation_alpha", "a"), ("activation_beta", "b")):
        numbers = [0.5 for name in names if kind in ACTIVATIONS[name]]
        if numbers:
            given[attribute] = numbers


def lengths_up_to(steps: int) -> Any:
    return lambda rng, shape: rng.integers(1, steps + 1, shape).astype(np.int32)


@of(*GATES)
def recurrent(case: Case) -> None:
    name = case.row.name
    dtype = typed(case, T.FLOAT)
    steps, size, hidden = case.one(1, 2, 3, 5), case.one(1, 3, 4), case.one(1, 2, 5)
    # Of a batch of 0, ONNX Runtime's GRU and LSTM end the process.
    batch = case.dim(zero=False) if name == "RNN" else case.one(1, 2, 3, 7)
    direction = case.one("forward", "reverse", "bidirectional")
    both = 2 if direction == "bidirectional" else 1
    given: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    if case.maybe(0.3):
        activations(case, {"RNN": 1, "GRU": 2, "LSTM": 3}[name] * both, given)
    if case.maybe(0.2):
        given["clip"] = 0.75
    if name == "GRU" and case.maybe():
        given["linear_before_reset"] = 1
    if name == "LSTM" and case.maybe(0.2):
        given["input_forget"] = 1
    gates, fill = GATES[name], narrow(dtype)
    inputs = [case.input("x", dtype, [steps, batch, size], fill, constant=False),
              case.input("w", dtype, [both, gates * hidden, size], fill),
              case.input("r", dtype, [both, gates * hidden, hidden], fill),
              case.input("b", dtype, [both, 2 * gates * hidden], fill) if case.maybe() else ""]
    if case.maybe(0.3):
        inputs.append(case.input("lengths", T.INT32, [batch], lengths_up_to(steps)))
    else:
        inputs.append("")
    state = [both, batch, hidden]
    inputs.append(case.input("h", dtype, state, fill) if case.maybe() else "")
    if name == "LSTM":
        inputs.append(case.input("c", dtype, state, fill) if case.maybe() else "")
        inputs.append(case.input("p", dtype, [both, 3 * hidden], fill) if case.maybe(0.3) else "")
    outputs = ["y", "y_h"] + (["y_c"] if name == "LSTM" else [])
    case.tested(inputs, outputs, **given)
