"""Rows of functions with special values: where they are undefined, infinite or a limit."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .pointwise import pointwise
from .table import Call, Made, Refused, register, writes
from .values import FLOATS, broadcast, is_number, known_dtype, number, rounded

_LARGEST = {"f16": 65504.0, "bf16": (2 - 2.0**-7) * 2.0**127, "f32": (2 - 2.0**-23) * 2.0**127,
            "f64": (2 - 2.0**-52) * 2.0**1023}


@writes("nan_to_num", "nan_to_num")
def _nan_to_num(call: Call, self: Any, nan: Any = None, posinf: Any = None, neginf: Any = None,
                copy: Any = True) -> Made:
    if copy is not True:
        raise Refused(f"the argument copy={copy!r}: it writes to the tensor")
    dtype = known_dtype(call, self)
    if dtype not in FLOATS:
        return Made(call.text(self), broadcast(call, [self]))
    values = {"self": self, "nan": 0.0 if nan is None else nan,
              "posinf": _LARGEST[dtype] if posinf is None else posinf,
              "neginf": -_LARGEST[dtype] if neginf is None else neginf}
    return pointwise(call, "where({self} != {self}, {nan}, where({self} == inf, {posinf}, "
                     "where({self} == -inf, {neginf}, {self})))", values, "float")


@writes("heaviside", "heaviside")
def _heaviside(call: Call, self: Any, values: Any) -> Made:
    if not call.is_tensor(self):
        raise Refused(f"the argument x1={self!r}: it must be a tensor")
    step = "relu({self})"  # a zero, or NaN
    if call.framework == "torch":
        step = f"where({{self}} != {{self}}, 0, {step})"
    return pointwise(call, f"where({{self}} == 0, {{values}}, where({{self}} > 0, 1, {step}))",
                     {"self": self, "values": values}, "number")


@writes("logit special_logit")
def _logit(call: Call, self: Any, eps: Any = None) -> Made:
    if eps is not None and not is_number(eps):
        raise Refused(f"the argument eps={eps!r}")
    if eps is None or eps < 0:
        return pointwise(call, "log({self} / (1 - {self}))", {"self": self}, "float")
    low = rounded(float(eps), call.result)
    high = rounded(1.0 - low, call.result)
    inside = f"clamp({{self}}, min={number(low)}, max={number(high)})"
    return pointwise(call, f"log({inside} / (1 - {inside}))", {"self": self}, "float")


def _times_log(log: str, of_number: Callable[[float], float], zero: int) -> Callable[..., Made]:
    """A writer of self times the logarithm of other, where 0 times all but NaN is 0. The logarithm
    of ``zero`` is that of nothing."""
    def write(call: Call, self: Any, other: Any) -> Made:
        text = f"where({{self}} == 0, 0, {{self}} * {log}({{other}}))"
        if is_number(other) and other != other:
            return pointwise(call, "{self} * {other}", {"self": self, "other": other}, "float")
        if not is_number(other):
            return pointwise(call, f"where({{other}} != {{other}}, {{other}}, {text})",
                             {"self": self, "other": other}, "float")
        made = of_number(other) if other > zero else -math.inf if other == zero else math.nan
        return pointwise(call, text.replace(f"{log}({{other}})", "{other}"),
                         {"self": self, "other": made}, "float")
    return write


register("xlogy special_xlogy", "", _times_log("log", math.log, 0), ("self", "other"))
register("special_xlog1py", "", _times_log("log1p", math.log1p, -1),
         ("self", "other"))
