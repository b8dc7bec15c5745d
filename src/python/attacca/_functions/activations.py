"""Rows of torch's activations that have parameters or cases."""
from __future__ import annotations

from typing import Any

from .pointwise import clamp, names_in, pointwise
from .table import Call, Made, Refused, writes
from .values import FLOATS, is_number, list_text, number


def _of_one(call: Call, template: str, self: Any, **numbers: Any) -> Made:
    """A formula of one tensor and of numbers."""
    for name, value in numbers.items():
        if not is_number(value):
            raise Refused(f"the argument {name}={value!r}")
    values = {"self": self, **numbers}
    return pointwise(call, template, {name: values[name] for name in names_in(template)}, "float")


@writes("softsign")
def _softsign(call: Call, self: Any) -> Made:
    if call.dtype(self) not in FLOATS:  # torch adds 1 in the integer dtype
        raise Refused(f"an operand of dtype {call.dtype(self)}")
    return pointwise(call, "{self} / (1 + abs({self}))", {"self": self}, "float")


@writes("hardtanh")
def _hardtanh(call: Call, self: Any, min_val: Any = -1.0, max_val: Any = 1.0) -> Made:
    return clamp(call, self, min_val, max_val)


@writes("gelu")
def _gelu(call: Call, self: Any, approximate: str = "none") -> Made:
    if approximate not in ("none", "tanh"):
        raise Refused(f"the argument approximate={approximate!r}")
    template = "gelu_tanh({self})" if approximate == "tanh" else "gelu({self})"
    return pointwise(call, template, {"self": self}, "float")


@writes("elu")
def _elu(call: Call, self: Any, alpha: Any = 1.0, scale: Any = 1, input_scale: Any = 1) -> Made:
    if is_number(alpha) and scale == 1 and input_scale == 1:
        return _of_one(call, f"elu({{self}}, alpha={number(float(alpha))})", self)
    return _of_one(call, "where({self} < 0, expm1({self} * {input_scale}) * {alpha} * {scale}, "
                   "{self} * {scale})", self, alpha=alpha, scale=scale, input_scale=input_scale)


@writes("celu")
def _celu(call: Call, self: Any, alpha: Any = 1.0) -> Made:
    if alpha == 0:
        raise Refused("the argument alpha=0")
    return _of_one(call, "where({self} < 0, {alpha} * expm1({self} / {alpha}), {self})", self,
                   alpha=alpha)


@writes("softplus")
def _softplus(call: Call, self: Any, beta: Any = 1, threshold: Any = 20) -> Made:
    scaled = "{self}" if beta == 1 else "({self} * {beta})"
    text = f"softplus({scaled})" + ("" if beta == 1 else " / {beta}")
    # Above the default threshold softplus(x) rounds to x in all dtypes but f64.
    if threshold != 20 or call.result == "f64":
        text = f"where({scaled} > {{threshold}}, {{self}}, {text})"
    return _of_one(call, text, self, beta=beta, threshold=threshold)


@writes("threshold _threshold")
def _threshold(call: Call, self: Any, threshold: Any, value: Any) -> Made:
    return pointwise(call, "where({self} <= {threshold}, {value}, {self})",
                     {"self": self, "threshold": threshold, "value": value}, "number")


@writes("hardshrink")
def _hardshrink(call: Call, self: Any, lambd: Any = 0.5) -> Made:
    return _of_one(call, "where(and({self} >= -{lambd}, {self} <= {lambd}), 0, {self})", self,
                   lambd=lambd)


@writes("softshrink")
def _softshrink(call: Call, self: Any, lambd: Any = 0.5) -> Made:
    if is_number(lambd) and lambd < 0:
        raise Refused(f"the argument lambd={lambd}")
    return _of_one(call, "where({self} > {lambd}, {self} - {lambd}, "
                   "where({self} < -{lambd}, {self} + {lambd}, abs({self} * 0)))", self,
                   lambd=lambd)


@writes("tanhshrink")
def _tanhshrink(call: Call, self: Any) -> Made:
    return pointwise(call, "{self} - tanh({self})", {"self": self}, "float")


@writes("rrelu")
def _rrelu(call: Call, self: Any, lower: Any = 0.125, upper: Any = 1.0 / 3,
           training: Any = False) -> Made:
    if training:
        raise Refused("the argument training=True: random numbers")
    if not is_number(lower) or not is_number(upper):
        raise Refused(f"the argument lower={lower!r}, upper={upper!r}")
    return _of_one(call, f"leaky_relu({{self}}, alpha={number((lower + upper) / 2)})", self)


@writes("prelu _prelu_kernel")
def _prelu(call: Call, self: Any, weight: Any) -> Made:
    """One slope, or one for each element of axis 1."""
    slope, have = call.text(weight), call.sizes(self)
    if len(call.sizes(weight)) == 1 and not call.name.endswith("_kernel"):
        if call.dtype(weight) != call.dtype(self):
            raise Refused(f"the argument weight of dtype {call.dtype(weight)}")
        if type(call.sizes(weight)[0]) is not int:
            raise Refused("the argument weight of a symbolic size")
        if call.sizes(weight)[0] != 1 and (len(have) < 2 or call.sizes(weight)[0] != have[1]):
            raise Refused(f"the argument weight of shape {tuple(call.sizes(weight))}")
        shape = [call.sizes(weight)[0], *[1] * max(len(have) - 2, 0)]
        slope = f"reshape({slope}, {list_text(shape)})"
    text = pointwise(call, "where({self} > 0, {self}, {self} * {weight})",
                     {"self": self, "weight": weight}, "float").text
    return Made(text.replace(call.text(weight), slope), lambda: have)


@writes("dropout")
def _dropout(call: Call, self: Any, p: Any = 0.5, training: Any = True, train: Any = None) -> Made:
    """Without training alone; ATen's argument is ``train``."""
    if p != 0 and (training if train is None else train):
        raise Refused("the argument training=True: random numbers")
    return Made(call.text(self), lambda: call.sizes(self))
