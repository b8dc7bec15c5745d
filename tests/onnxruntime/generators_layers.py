"""What makes a random graph of convolutions and of recurrent layers."""
from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto as T

from cases import NUMPY, Case
from generators import after, of, small, typed


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


@of("Conv")
def convolution(case: Case) -> None:
    dtype = typed(case, T.FLOAT, T.FLOAT, T.DOUBLE)
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
    dims: list[Any] = [case.dim(zero=False), groups * depth, *sizes]
    for axis in range(2, len(dims)):
        if case.maybe(0.2):
            case.sizes[f"H{axis}"] = dims[axis]
            dims[axis] = f"H{axis}"
    fill = small(dtype) if case.maybe() else None
    inputs = [case.input("x", dtype, dims, fill),
              case.input("w", dtype, [groups * filters, depth, *kernel], fill)]
    if case.maybe():
        inputs.append(case.input("b", dtype, [groups * filters], fill))
    case.tested(inputs, **given)
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
