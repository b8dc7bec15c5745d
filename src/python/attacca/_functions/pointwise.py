"""Rows of functions that compute each element of the result from one element of each operand."""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .table import Call, Made, Refused, register, writes
from .values import (
    DTYPE_ORDER,
    FLOATS,
    INTEGERS,
    broadcast,
    is_number,
    known_dtype,
    number,
    operand,
    promoted,
)


def pointwise(call: Call, template: str, values: dict[str, Any], kind: str) -> Made:
    """The template with its operands, each in the dtype in which the framework computes.

    Args:
        call: The call.
        template: A formula in the text form; "{self}" stands for an operand.
        values: The operands by name.
        kind: "float", "number", "compare" or "logic", as the rows below have it.
    """
    tensors = {name: value for name, value in values.items() if call.is_tensor(value)}
    if kind == "compare":
        dtype = call.common(list(values.values()))
    elif kind == "logic":
        dtype = "bool"
    else:
        dtype = call.result
        if dtype not in DTYPE_ORDER or dtype == "bool" or (kind == "float" and dtype not in FLOATS):
            raise Refused(f"a result of dtype {dtype}")
    alone = not tensors.keys() - {"condition"} and kind != "logic"
    text = template.format(**{name: _in_place(call, template, name, value, dtype, kind, alone)
                              for name, value in values.items()})
    sizes = broadcast(call, list(tensors.values()))
    if kind in ("compare", "logic"):
        if call.result != "bool":
            raise Refused(f"a result of dtype {call.result}")
        return Made(text, sizes)
    own = {known_dtype(call, t) for n, t in tensors.items() if n != "condition"}
    wide = {d for d in own if d in FLOATS and dtype in FLOATS and promoted([d, dtype]) == d}
    return Made(text if promoted(wide | {dtype}) == dtype else f"cast({text}, {dtype})", sizes)


def _in_place(call: Call, template: str, name: str, value: Any, dtype: str, kind: str,
              alone: bool) -> str:
    if f"={{{name}}}" in template:  # an attribute of the op, not an operand
        if not is_number(value):
            raise Refused(f"the argument {name}={value!r}: it must be a number")
        return number(int(value) if isinstance(value, bool) else value)
    if kind == "logic" or name == "condition":
        return truth(call, name, value)
    text = operand(call, name, value, dtype, exactly=kind == "compare")
    return f"constant({text.strip('()')}, {dtype})" if alone else text  # no tensor gives the dtype


def truth(call: Call, name: str, value: Any) -> str:
    """Whether a tensor or number is not zero."""
    if not call.is_tensor(value):
        if not is_number(value):
            raise Refused(f"the argument {name}={value!r}")
        return number(bool(value))
    text = call.text(value)
    return text if known_dtype(call, value) == "bool" else f"({text} != 0)"


def names_in(template: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"{(\w+)}", template)))


def _rows(kind: str, text: str) -> None:
    """Registers the rows of a table, one a line: "ATen names | NumPy names | formula", then, if
    they differ, "| formula for integer results | formula for bool results". A row goes on after a
    line that ends with "|" or ","."""
    for line in text.replace("|\n", "|").replace(",\n", ", ").strip().splitlines():
        aten, numpy, template, *others = (part.strip() for part in line.split("|"))
        register(aten, numpy, _pointwise_writer(kind, template, *others), names_in(template))


def _pointwise_writer(kind: str, template: str, integer: str = "",
                      logic: str = "") -> Callable[..., Made]:
    def write(call: Call, **values: Any) -> Made:
        chosen, how = template, kind
        if integer and call.result in INTEGERS:
            chosen, how = integer, "number"
        elif logic and call.result == "bool":
            chosen, how = logic, "logic"
        return pointwise(call, chosen, {n: values[n] for n in names_in(chosen)}, how)
    return write


# The rows, by kind. "float": computes in the result's float dtype. "number": in the result's dtype,
# which may be an integer. "compare": compares in the operands' common dtype. "logic": reads
# operands as bools.

_rows("float", """
    reciprocal                   | reciprocal               | reciprocal({self})
    sqrt                         | sqrt                     | sqrt({self})
    rsqrt                        |                          | rsqrt({self})
    exp                          | exp                      | exp({self})
    expm1 special_expm1          | expm1                    | expm1({self})
    log                          | log                      | log({self})
    log1p special_log1p          | log1p                    | log1p({self})
    sin                          | sin                      | sin({self})
    cos                          | cos                      | cos({self})
    exp2 special_exp2            | exp2                     | pow(2, {self})
    log2                         | log2                     | log({self}) * 1.4426950408889634
    log10                        | log10                    | log({self}) * 0.4342944819032518
    tan                          | tan                      | tan({self})
    asin arcsin                  | arcsin                   | asin({self})
    acos arccos                  | arccos                   | acos({self})
    atan arctan                  | arctan                   | atan({self})
    atan2 arctan2                | arctan2                  | atan2({self}, {other})
    sinh                         | sinh                     | sinh({self})
    cosh                         | cosh                     | cosh({self})
    asinh arcsinh                | arcsinh                  | asinh({self})
    acosh arccosh                | arccosh                  | acosh({self})
    atanh arctanh                | arctanh                  | atanh({self})
    sinc special_sinc            |                          |
        where({self} == 0, 1, sin({self} * 3.141592653589793) / ({self} * 3.141592653589793))
    hypot                        |                          |
        where(or(abs({self}) == inf, abs({other}) == inf), inf,
        where(and({self} == 0, {other} == 0), 0,
        max(abs({self}), abs({other})) * sqrt(1 + square(min(abs({self}),
        abs({other})) / max(abs({self}), abs({other}))))))
    deg2rad                      | deg2rad radians          | {self} * 0.017453292519943295
    rad2deg                      | rad2deg degrees          | {self} * 57.29577951308232
    special_entr                 |                          |
        where({self} > 0, -{self} * log({self}), where({self} < 0, -inf, abs({self})))
    special_ndtr                 |                          |
        0.5 * erfc({self} * -0.7071067811865476)
    logaddexp                    | logaddexp                |
        where(and({self} == {other}, abs({self}) == inf), {self},
        max({self}, {other}) + log1p(exp(-abs({self} - {other}))))
    logaddexp2                   | logaddexp2               |
        where(and({self} == {other}, abs({self}) == inf), {self},
        max({self}, {other}) + 1.4426950408889634 * log1p(pow(2, -abs({self} - {other}))))
    erf special_erf              | erf                      | erf({self})
    erfc special_erfc            | erfc                     | erfc({self})
    tanh                         | tanh                     | tanh({self})
    floor                        | floor                    | floor({self})   | {self}
    ceil                         | ceil                     | ceil({self})    | {self}
                                 | rint                     | round({self})
    sigmoid special_expit        | expit                    | sigmoid({self})
    silu                         |                          | silu({self})
    mish                         |                          | mish({self})
    hardswish                    |                          | hardswish({self})
    hardsigmoid                  |                          | hardsigmoid({self})
    selu                         |                          | selu({self})
    log_sigmoid                  |                          | -softplus(-{self})
    leaky_relu                   |                          |
        leaky_relu({self}, alpha={negative_slope})
""")
_rows("number", """
    neg negative                 | negative                 | -{self}
    abs absolute                 | absolute fabs            | abs({self})     | abs({self}) | {self}
                                 | sign                     | sign({self})
    square                       | square                   | {self} * {self} | {self} * {self}
    relu                         |                          | relu({self})
    relu6                        |                          | clamp({self}, min=0, max=6)
    positive                     | positive                 | {self}
    mul multiply                 | multiply                 |
        {self} * {other} | {self} * {other} | and({self}, {other})
    maximum                      | maximum                  |
        max({self}, {other}) | max({self}, {other}) | or({self}, {other})
    minimum                      | minimum                  |
        min({self}, {other}) | min({self}, {other}) | and({self}, {other})
    clamp_min                    |                          | max({self}, {min})
    clamp_max                    |                          | min({self}, {max})
    fmax                         | fmax                     |
        where({self} != {self}, {other}, where({other} != {other}, {self}, max({self}, {other}))) |
        max({self}, {other}) | or({self}, {other})
    fmin                         | fmin                     |
        where({self} != {self}, {other}, where({other} != {other}, {self}, min({self}, {other}))) |
        min({self}, {other}) | and({self}, {other})
    sign sgn                     |                          |
        where({self} != {self}, 0, sign({self})) | sign({self}) | {self}
""")
_rows("compare", """
    lt less                      | less                     | {self} < {other}
    le less_equal                | less_equal               | {self} <= {other}
    gt greater                   | greater                  | {self} > {other}
    ge greater_equal             | greater_equal            | {self} >= {other}
    eq                           | equal                    | {self} == {other}
    ne not_equal                 | not_equal                | {self} != {other}
""")
_rows("logic", """
    logical_not                  | logical_not              | not({self})
    logical_and                  | logical_and              | and({self}, {other})
    logical_or                   | logical_or               | or({self}, {other})
    logical_xor                  | logical_xor              | xor({self}, {other})
""")


def _predicate(aten: str, numpy: str, template: str, integer: str) -> None:
    """Registers what is asked of one float; ``integer``: the formula for other dtypes."""
    def write(call: Call, self: Any) -> Made:
        if call.result != "bool":
            raise Refused(f"a result of dtype {call.result}")
        chosen = template if known_dtype(call, self) in FLOATS else integer
        return Made(chosen.format(self=call.text(self)), broadcast(call, [self]))
    register(aten, numpy, write, ("self",))


_predicate("isnan", "isnan", "({self} != {self})", "({self} != {self})")
_predicate("isinf", "isinf", "(abs({self}) == inf)", "({self} != {self})")
_predicate("isfinite", "isfinite", "(abs({self}) < inf)", "({self} == {self})")
_predicate("isposinf", "isposinf", "({self} == inf)", "({self} != {self})")
_predicate("isneginf", "isneginf", "({self} == -inf)", "({self} != {self})")


def _bitwise(aten: str, numpy: str, template: str) -> None:
    def write(call: Call, **values: Any) -> Made:
        for name, value in values.items():
            if (known_dtype(call, value) != "bool" if call.is_tensor(value)
                    else not isinstance(value, bool)):
                raise Refused(f"the argument {name}: bitwise functions take only bools")
        return pointwise(call, template, values, "logic")
    register(aten, numpy, write, names_in(template))


_bitwise("bitwise_not", "invert", "not({self})")
_bitwise("bitwise_and", "bitwise_and", "and({self}, {other})")
_bitwise("bitwise_or", "bitwise_or", "or({self}, {other})")
_bitwise("bitwise_xor", "bitwise_xor", "xor({self}, {other})")


@writes("add", "add")
def _add(call: Call, self: Any, other: Any, alpha: Any = 1) -> Made:
    if call.result == "bool" and alpha == 1:
        return pointwise(call, "or({self}, {other})", {"self": self, "other": other}, "logic")
    return _scaled_sum(call, "{self} + {other}", self, other, "other", alpha)


@writes("sub subtract", "subtract")
def _sub(call: Call, self: Any, other: Any, alpha: Any = 1) -> Made:
    return _scaled_sum(call, "{self} - {other}", self, other, "other", alpha)


@writes("rsub")
def _rsub(call: Call, self: Any, other: Any, alpha: Any = 1) -> Made:
    return _scaled_sum(call, "{other} - {self}", self, other, "self", alpha)


def _scaled_sum(call: Call, template: str, self: Any, other: Any, scaled: str, alpha: Any) -> Made:
    """A sum in which the operand named ``scaled`` is multiplied by ``alpha``."""
    values = {"self": self, "other": other}
    if alpha == 1 and not isinstance(alpha, bool):
        return pointwise(call, template, values, "number")
    if not is_number(alpha):
        raise Refused(f"the argument alpha={alpha!r}")
    if not call.is_tensor(values[scaled]):
        values[scaled] = values[scaled] * alpha
        return pointwise(call, template, values, "number")
    return pointwise(call, template.replace(f"{{{scaled}}}", f"{{{scaled}}} * {{alpha}}"),
                     {**values, "alpha": alpha}, "number")


@writes("pow float_power", "power float_power")
def _pow(call: Call, self: Any, exponent: Any) -> Made:
    integer = call.result in INTEGERS
    if integer and not call.is_tensor(exponent) and exponent < 0:
        raise Refused(f"the argument exponent={exponent}: an integer to a negative power")
    if integer and call.is_tensor(exponent) and call.dtype(exponent) not in ("u8", "bool"):
        raise Refused("the argument exponent: integers to powers that may be negative")
    if call.framework == "torch" and is_number(exponent) and abs(exponent) == 0.5 \
            and call.result in ("bf16", "f32", "f64"):  # pow differs from sqrt at -inf and -0.0
        root = "sqrt({self})" if exponent > 0 else "rsqrt({self})"
        return pointwise(call, root, {"self": self}, "float")
    values = {"self": self, "exponent": exponent}
    return pointwise(call, "pow({self}, {exponent})", values, "number")


@writes("lerp")
def _lerp(call: Call, self: Any, end: Any, weight: Any) -> Made:
    """Starts from the nearer end, as torch does; the result differs at infinities."""
    low, high = "{self} + {weight} * ({end} - {self})", "{end} - ({end} - {self}) * {rest}"
    values = {"self": self, "end": end, "weight": weight}
    if is_number(weight):
        template, values["rest"] = (low if abs(weight) < 0.5 else high), 1 - weight
    else:
        high = high.replace("{rest}", "(1 - {weight})")
        template = f"where(abs({{weight}}) < 0.5, {low}, {high})"
    return pointwise(call, template, {name: values[name] for name in names_in(template)}, "float")


@writes("addcmul")
def _addcmul(call: Call, self: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Made:
    template = "{self} + {tensor1} * {tensor2}"
    values = {"self": self, "tensor1": tensor1, "tensor2": tensor2}
    if value == 1:
        return pointwise(call, template, values, "number")
    return pointwise(call, template + " * {value}", {**values, "value": value}, "number")


@writes("round", "round around")
def _round(call: Call, self: Any, decimals: int = 0) -> Made:
    if decimals != 0:
        raise Refused(f"the argument decimals={decimals}")
    if call.result in INTEGERS:
        return pointwise(call, "{self}", {"self": self}, "number")
    return pointwise(call, "round({self})", {"self": self}, "float")


@writes("clamp clip", "clip")
def clamp(call: Call, self: Any, min: Any = None, max: Any = None) -> Made:
    if min is None and max is None and call.framework == "torch":
        raise Refused("clamp needs the argument min or max")
    for name, bound in (("min", min), ("max", max)):
        if call.framework == "torch" and isinstance(bound, float) and bound != bound:
            raise Refused(f"the argument {name}={bound}")
    if call.result in FLOATS and all(bound is None or is_number(bound) and bound == bound
                                     for bound in (min, max)):
        bounds = [f"{n}={number(b)}" for n, b in (("min", min), ("max", max)) if b is not None]
        return pointwise(call, f"clamp({', '.join(['{self}', *bounds])})", {"self": self}, "number")
    values = {n: v for n, v in (("self", self), ("min", min), ("max", max)) if v is not None}
    template = "{self}" if min is None else "max({self}, {min})"
    if max is not None:
        template = f"min({template}, {{max}})"
    return pointwise(call, template, values, "number")


@writes("addcdiv")
def _addcdiv(call: Call, self: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Made:
    values = {"self": self, "tensor1": tensor1, "tensor2": tensor2}
    if value == 1:
        return pointwise(call, "{self} + {tensor1} / {tensor2}", values, "float")
    return pointwise(call, "{self} + {value} * {tensor1} / {tensor2}", {**values, "value": value},
                     "float")


@writes("where", "where")
def _where(call: Call, condition: Any, self: Any = None, other: Any = None) -> Made:
    if self is None or other is None:
        raise Refused("where without the arguments self and other gives indices")
    if call.framework == "torch" and known_dtype(call, condition) not in ("bool", "u8"):
        raise Refused("the argument condition is not bool")
    values = {"condition": condition, "self": self, "other": other}
    if call.result == "bool":
        template = "or(and({condition}, {self}), and(not({condition}), {other}))"
        return pointwise(call, template, values, "logic")
    return pointwise(call, "where({condition}, {self}, {other})", values, "number")


@writes("masked_fill", "")
def _masked_fill(call: Call, self: Any, mask: Any, value: Any) -> Made:
    return _where(call, mask, value, self)


@writes("clone contiguous detach alias lift_fresh_copy", "copy")
def _same(call: Call, self: Any) -> Made:
    return Made(call.text(self), lambda: call.sizes(self))
