"""Rows of divisions that round, of remainders, and of the parts of a number before and behind its
point."""
from __future__ import annotations

from typing import Any

from .pointwise import pointwise
from .table import Call, Made, Refused, writes
from .values import FLOATS, INTEGERS, is_number, rounded

_MOD = "fmod({self}, {other})"
_OTHER_SIGN = f"and({_MOD} != 0, xor({{other}} < 0, {_MOD} < 0))"
_QUOTIENT = "{self} / {other}"
# Exact multiples of the divisor divided, so that no rounding reaches the next whole number.
_WHOLE = (f"where({_OTHER_SIGN}, ({{self}} - {_MOD}) / {{other}} - 1, "
          f"({{self}} - {_MOD}) / {{other}})")
_FLOOR = (f"where({{other}} == 0, {_QUOTIENT}, where({_WHOLE} == 0, {_QUOTIENT} * 0, "
          f"where({_WHOLE} - floor({_WHOLE}) > 0.5, floor({_WHOLE}) + 1, floor({_WHOLE}))))")
_INTEGER_FLOOR = f"where({_OTHER_SIGN}, {_QUOTIENT} - 1, {_QUOTIENT})"
_REMAINDER = f"where({_OTHER_SIGN}, {_MOD} + {{other}}, {_MOD})"


def _check_divisor(call: Call, other: Any) -> None:
    """Refuses integers that torch may divide by 0: it raises an error then."""
    if call.framework == "torch" and call.result in INTEGERS and (call.is_tensor(other)
                                                                  or other == 0):
        raise Refused("the argument other: integers divided by what may be 0")


def _divided(call: Call, self: Any, other: Any, floats: str, integers: str,
             unrounded: bool = False) -> Made:
    """A quotient or remainder. ``unrounded``: the divisor is a number that torch does not round."""
    _check_divisor(call, other)
    template = integers if call.result in INTEGERS else floats
    return pointwise(call, template, {"self": _rounded(call, self),
                                      "other": other if unrounded else _rounded(call, other)},
                     "number")


def _rounded(call: Call, value: Any) -> Any:
    """A number as the frameworks divide it: rounded, which decides how often it is contained."""
    return rounded(value, call.result) if isinstance(value, float) and call.result in FLOATS \
        else value


@writes("div divide true_divide", "divide")
def _div(call: Call, self: Any, other: Any, rounding_mode: Any = None) -> Made:
    if rounding_mode is None:
        return pointwise(call, _QUOTIENT, {"self": self, "other": other}, "float")
    if rounding_mode == "floor":
        return _floor_divide(call, self, other)
    if rounding_mode != "trunc":
        raise Refused(f"the argument rounding_mode={rounding_mode!r}")
    quotient = _QUOTIENT
    if call.result in ("f16", "bf16") and not is_number(other):  # rounded, then cut off
        quotient = f"cast({_QUOTIENT}, {call.result})"
    return _divided(call, self, other, f"where({quotient} < 0, ceil({quotient}), "
                    f"floor({quotient}))", _QUOTIENT, is_number(other))


@writes("floor_divide", "floor_divide")
def _floor_divide(call: Call, self: Any, other: Any) -> Made:
    return _divided(call, self, other, _FLOOR, _INTEGER_FLOOR,
                    call.framework == "torch" and is_number(other))


@writes("fmod", "fmod")
def _fmod(call: Call, self: Any, other: Any) -> Made:
    return _divided(call, self, other, _MOD, _MOD)


@writes("remainder", "remainder")
def _remainder(call: Call, self: Any, other: Any) -> Made:
    if call.framework == "numpy" and call.result in FLOATS:  # a zero has the divisor's sign
        zero = f"where({{other}} < 0, -0.0, abs({_MOD}))"
        return _divided(call, self, other, f"where({_MOD} == 0, {zero}, {_REMAINDER})", "")
    return _divided(call, self, other, _REMAINDER, _REMAINDER)


_TRUNC = "where({self} < 0, ceil({self}), floor({self}))"


@writes("trunc fix", "trunc fix")
def _trunc(call: Call, self: Any) -> Made:
    if call.result in INTEGERS:
        return pointwise(call, "{self}", {"self": self}, "number")
    return pointwise(call, _TRUNC, {"self": self}, "float")


@writes("frac")
def _frac(call: Call, self: Any) -> Made:
    return pointwise(call, f"{{self}} - {_TRUNC}", {"self": self}, "float")
