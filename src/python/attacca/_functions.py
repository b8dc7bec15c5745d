"""The functions of numpy and torch that have a text: one row each, read by the tracer and by the FX importer.

A row names the ATen ops (whose names torch's functions and methods share), the functions of numpy, and
how the text is written. Arguments arrive by the names of ATen's schema, bound by ``_binding``; ``input``
is called ``self``. The writer asks a :class:`Call` for dtypes and sizes, and does not know who calls.
"""
from __future__ import annotations

import inspect
import math
import re
import struct
from typing import Any, Callable, Iterable, NamedTuple, Sequence, TypeVar

FLOATS = ("f16", "bf16", "f32", "f64")
INTEGERS = {"s8": (-2**7, 2**7 - 1), "u8": (0, 2**8 - 1), "s32": (-2**31, 2**31 - 1), "s64": (-2**63, 2**63 - 1)}
_ORDER = ["bool", "u8", "s8", "s32", "s64", "f16", "bf16", "f32", "f64"]


class Refused(Exception):
    """Why a call has no text."""


class Made(NamedTuple):
    """What a writer returns: an expression, and its sizes, which are computed where they are needed."""

    text: str
    sizes: Callable[[], Sequence[int]]


class Row(NamedTuple):
    """How the calls of one function are written.

    Attributes:
        aten: Names of ATen ops without "aten."; functions and methods of torch have them too.
        numpy: Names of numpy's functions, ufuncs and methods.
        write: Called with a :class:`Call` and the arguments; returns :class:`Made`, or a list of them.
        parameters: The names of the arguments that ``write`` understands.
    """

    aten: tuple[str, ...]
    numpy: tuple[str, ...]
    write: Callable[..., Any]
    parameters: tuple[str, ...]


TABLE: list[Row] = []
BY_ATEN: dict[str, Row] = {}
BY_NUMPY: dict[str, Row] = {}


def register(aten: str, numpy: str, write: Callable[..., Any], parameters: Sequence[str]) -> None:
    row = Row(tuple(aten.split()), tuple(numpy.split()), write, tuple(parameters))
    TABLE.append(row)
    BY_ATEN.update(dict.fromkeys(row.aten, row))
    BY_NUMPY.update(dict.fromkeys(row.numpy, row))


Writer = TypeVar("Writer", bound=Callable[..., Any])


def writes(aten: str, numpy: str = "") -> Callable[[Writer], Writer]:
    """Registers a writer; its parameters after the call are the arguments that it understands."""
    def decorate(write: Writer) -> Writer:
        register(aten, numpy, write, list(inspect.signature(write).parameters)[1:])
        return write
    return decorate


class Call:
    """One call as a writer sees it. The tracer and the FX importer each have one."""

    framework = "torch"  # whose rules hold: "torch" or "numpy"
    name = ""  # the function's

    def is_tensor(self, value: Any) -> bool:
        raise NotImplementedError

    def text(self, tensor: Any) -> str:
        """A tensor's name."""
        raise NotImplementedError

    def dtype(self, tensor: Any) -> str:
        raise NotImplementedError

    def sizes(self, tensor: Any) -> Sequence[Any]:
        raise NotImplementedError

    @property
    def result(self) -> str:
        """The dtype that the framework gives the call's result."""
        raise NotImplementedError

    def common(self, operands: Sequence[Any]) -> str:
        """The dtype in which the framework computes with these tensors and numbers."""
        raise NotImplementedError

    def extent_text(self, extent: Any) -> str:
        """A size as the text form writes it."""
        raise NotImplementedError

    def reshape(self, text: str, sizes: Callable[[], Sequence[int]]) -> Made:
        """The same elements in other sizes."""
        raise NotImplementedError

    def broadcast_to(self, tensor: Any, sizes: Callable[[], Sequence[int]]) -> Made:
        raise NotImplementedError

    def parts(self, tensor: Any, dim: int, sizes: Callable[[], "Sequence[int] | int"]) -> list[Made]:
        """Consecutive parts of an axis: of these sizes, or so many equal ones."""
        raise NotImplementedError


# ---- Numbers and dtypes


def number(value: Any) -> str:
    """A Python number as the text form writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(int(value)) if isinstance(value, int) else repr(float(value))


def is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float))


def rounded(value: float, dtype: str) -> float:
    """A number rounded to a float dtype, ties to even."""
    if dtype == "f64" or math.isnan(value) or math.isinf(value):
        return value
    try:
        if dtype == "bf16":
            bits = struct.unpack("<I", struct.pack("<f", value))[0]
            bits += 0x7FFF + (bits >> 16 & 1)
            return float(struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000))[0])
        return float(struct.unpack("<e" if dtype == "f16" else "<f",
                                   struct.pack("<e" if dtype == "f16" else "<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def literal(value: Any, dtype: str, name: str = "") -> str:
    """A number beside tensors of a dtype, which it must fit."""
    if dtype in FLOATS:
        text = number(float(value) if isinstance(value, bool) else value)
    elif dtype == "bool":
        text = number(bool(value))
    elif isinstance(value, float) or not INTEGERS[dtype][0] <= value <= INTEGERS[dtype][1]:
        raise Refused(f"the argument {name}={value!r} is outside {dtype}")
    else:
        text = number(int(value))
    return f"({text})" if text.startswith("-") else text


def promoted(dtypes: Iterable[str]) -> str:
    """What the text form makes of operands of these dtypes."""
    found = set(dtypes)
    if {"f16", "bf16"} <= found:
        found.add("f32")
    if {"s8", "u8"} <= found:
        found.add("s32")
    return max(found, key=_ORDER.index)


def cast(call: Call, tensor: Any, dtype: str) -> str:
    text = call.text(tensor)
    return text if call.dtype(tensor) == dtype else f"cast({text}, {dtype})"


def known_dtype(call: Call, tensor: Any) -> str:
    """A dtype with arithmetic."""
    dtype = call.dtype(tensor)
    if dtype not in _ORDER:
        raise Refused(f"an operand of dtype {dtype}")
    return dtype


def operand(call: Call, name: str, value: Any, dtype: str, exactly: bool = False) -> str:
    """A tensor or number of a computation in ``dtype``; wider floats stay as they are unless ``exactly``."""
    if call.is_tensor(value):
        own = known_dtype(call, value)
        wider = own in FLOATS and dtype in FLOATS and promoted([own, dtype]) == own
        return call.text(value) if wider and not exactly else cast(call, value, dtype)
    if not is_number(value):
        raise Refused(f"the argument {name}={value!r}")
    return literal(rounded(value, dtype) if exactly and dtype in FLOATS and isinstance(value, float) else value,
                   dtype, name)


def broadcast(call: Call, tensors: Sequence[Any]) -> Callable[[], Sequence[int]]:
    """The sizes of a pointwise result."""
    def sizes() -> Sequence[int]:
        shapes = [tuple(call.sizes(t)) for t in tensors]
        found: list[int] = [1] * max(map(len, shapes), default=0)
        for shape in shapes:
            for i, extent in enumerate(reversed(shape), 1):
                if type(found[-i]) is int and found[-i] == 1:
                    found[-i] = extent
                elif found[-i] != extent and not (type(extent) is int and extent == 1):
                    raise Refused("shapes " + " and ".join(str(list(s)) for s in shapes) + " do not broadcast")
        return found
    return sizes


def pointwise(call: Call, template: str, values: dict[str, Any], kind: str) -> Made:
    """The template filled with operands of the dtype in which the framework computes."""
    tensors = {name: value for name, value in values.items() if call.is_tensor(value)}
    if kind == "compare":
        dtype = call.common(list(values.values()))
    elif kind == "logic":
        dtype = "bool"
    else:
        dtype = call.result
        if dtype not in _ORDER or dtype == "bool" or (kind == "float" and dtype not in FLOATS):
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
    wide = {d for d in own if d in FLOATS and dtype in FLOATS and promoted([d, dtype]) == d} | {dtype}
    return Made(text if promoted(wide) == dtype else f"cast({text}, {dtype})", sizes)


def _in_place(call: Call, template: str, name: str, value: Any, dtype: str, kind: str, alone: bool) -> str:
    if f"={{{name}}}" in template:  # a parameter of the op
        if not is_number(value):
            raise Refused(f"the argument {name}={value!r}: it must be a number")
        return number(int(value) if isinstance(value, bool) else value)
    if kind == "logic" or name == "condition":
        return truth(call, name, value)
    text = operand(call, name, value, dtype, exactly=kind == "compare")
    return f"constant({text.strip('()')}, {dtype})" if alone else text  # numbers without a tensor beside them


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
    """Rows of "ATen names | numpy names | formula [| formula where the result is an integer | is bool]"."""
    for line in text.strip().splitlines():
        aten, numpy, template, *others = (part.strip() for part in line.split("|"))
        register(aten, numpy, _pointwise_writer(kind, template, *others), names_in(template))


def _pointwise_writer(kind: str, template: str, integer: str = "", logic: str = "") -> Callable[..., Made]:
    def write(call: Call, **values: Any) -> Made:
        chosen, how = template, kind
        if integer and call.result in INTEGERS:
            chosen, how = integer, "number"
        elif logic and call.result == "bool":
            chosen, how = logic, "logic"
        return pointwise(call, chosen, {n: values[n] for n in names_in(chosen)}, how)
    return write


# ---- Pointwise functions. "float": computed as the framework's float result. "number": integers too.
# ---- "compare": computed in the common dtype, gives bool. "logic": operands are read as bools.

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
    leaky_relu                   |                          | leaky_relu({self}, alpha={negative_slope})
    div divide true_divide       | divide                   | {self} / {other}
                                 | float_power              | pow({self}, {other})
""")
_rows("number", """
    neg negative                 | negative                 | -{self}
    abs absolute                 | absolute fabs            | abs({self})     | abs({self})       | {self}
                                 | sign                     | sign({self})
    square                       | square                   | {self} * {self} | {self} * {self}
    relu                         |                          | relu({self})
    relu6                        |                          | clamp({self}, min=0, max=6)
    positive                     | positive                 | {self}
    mul multiply                 | multiply                 | {self} * {other} | {self} * {other}     | and({self}, {other})
    maximum                      | maximum                  | max({self}, {other}) | max({self}, {other}) | or({self}, {other})
    minimum                      | minimum                  | min({self}, {other}) | min({self}, {other}) | and({self}, {other})
    clamp_min                    |                          | max({self}, {min})
    clamp_max                    |                          | min({self}, {max})
    fmax                         | fmax                     | where({self} != {self}, {other}, where({other} != {other}, {self}, max({self}, {other}))) | max({self}, {other}) | or({self}, {other})
    fmin                         | fmin                     | where({self} != {self}, {other}, where({other} != {other}, {self}, min({self}, {other}))) | min({self}, {other}) | and({self}, {other})
    sign                         |                          | where({self} != {self}, 0, sign({self})) | sign({self}) | {self}
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


def _bitwise(aten: str, numpy: str, template: str) -> None:
    def write(call: Call, **values: Any) -> Made:
        for name, value in values.items():
            if (known_dtype(call, value) != "bool" if call.is_tensor(value) else not isinstance(value, bool)):
                raise Refused(f"the argument {name}: bitwise functions take bool alone")
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
    """With ``alpha`` times the operand named ``scaled``; a number's product is a number again."""
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


@writes("pow", "power")
def _pow(call: Call, self: Any, exponent: Any) -> Made:
    integer = call.result in INTEGERS
    if integer and not call.is_tensor(exponent) and exponent < 0:
        raise Refused(f"the argument exponent={exponent}: an integer to a negative power")
    if integer and call.is_tensor(exponent) and call.dtype(exponent) not in ("u8", "bool"):
        raise Refused("the argument exponent: integers to powers that may be negative")
    if call.framework == "torch" and is_number(exponent) and abs(exponent) == 0.5 \
            and call.result in ("bf16", "f32", "f64"):  # they differ at -inf and -0.0
        return pointwise(call, "sqrt({self})" if exponent > 0 else "rsqrt({self})", {"self": self}, "float")
    return pointwise(call, "pow({self}, {exponent})", {"self": self, "exponent": exponent}, "number")


@writes("softsign")
def _softsign(call: Call, self: Any) -> Made:
    if call.dtype(self) not in FLOATS:  # torch adds 1 in the integer's dtype
        raise Refused(f"an operand of dtype {call.dtype(self)}")
    return pointwise(call, "{self} / (1 + abs({self}))", {"self": self}, "float")


@writes("lerp")
def _lerp(call: Call, self: Any, end: Any, weight: Any) -> Made:
    """From the nearer end, as torch does: it matters at infinities."""
    low, high = "{self} + {weight} * ({end} - {self})", "{end} - ({end} - {self}) * {rest}"
    values = {"self": self, "end": end, "weight": weight}
    if is_number(weight):
        template, values["rest"] = (low if abs(weight) < 0.5 else high), 1 - weight
    else:
        template = f"where(abs({{weight}}) < 0.5, {low}, {high.replace('{rest}', '(1 - {weight})')})"
    return pointwise(call, template, {name: values[name] for name in names_in(template)}, "float")


@writes("addcmul")
def _addcmul(call: Call, self: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Made:
    values = {"self": self, "tensor1": tensor1, "tensor2": tensor2}
    if value == 1:
        return pointwise(call, "{self} + {tensor1} * {tensor2}", values, "number")
    return pointwise(call, "{self} + {tensor1} * {tensor2} * {value}", {**values, "value": value}, "number")


@writes("round", "round around")
def _round(call: Call, self: Any, decimals: int = 0) -> Made:
    if decimals != 0:
        raise Refused(f"the argument decimals={decimals}")
    if call.result in INTEGERS:
        return pointwise(call, "{self}", {"self": self}, "number")
    return pointwise(call, "round({self})", {"self": self}, "float")


@writes("clamp clip", "clip")
def _clamp(call: Call, self: Any, min: Any = None, max: Any = None) -> Made:
    if min is None and max is None and call.framework == "torch":
        raise Refused("clamp needs the argument min or max")
    for name, bound in (("min", min), ("max", max)):
        if call.framework == "torch" and isinstance(bound, float) and bound != bound:
            raise Refused(f"the argument {name}={bound}")
    if all(bound is None or is_number(bound) and bound == bound for bound in (min, max)) and call.result in FLOATS:
        bounds = [f"{n}={number(b)}" for n, b in (("min", min), ("max", max)) if b is not None]
        return pointwise(call, f"clamp({', '.join(['{self}', *bounds])})", {"self": self}, "number")
    values = {n: v for n, v in (("self", self), ("min", min), ("max", max)) if v is not None}
    template = "{self}" if min is None else "max({self}, {min})"
    return pointwise(call, template if max is None else f"min({template}, {{max}})", values, "number")


@writes("hardtanh")
def _hardtanh(call: Call, self: Any, min_val: Any = -1.0, max_val: Any = 1.0) -> Made:
    return _clamp(call, self, min_val, max_val)


@writes("gelu")
def _gelu(call: Call, self: Any, approximate: str = "none") -> Made:
    if approximate not in ("none", "tanh"):
        raise Refused(f"the argument approximate={approximate!r}")
    return pointwise(call, "gelu_tanh({self})" if approximate == "tanh" else "gelu({self})", {"self": self}, "float")


@writes("elu")
def _elu(call: Call, self: Any, alpha: Any = 1.0, scale: Any = 1, input_scale: Any = 1) -> Made:
    for name, value in (("scale", scale), ("input_scale", input_scale)):
        if value != 1:
            raise Refused(f"the argument {name}={value}")
    return pointwise(call, f"elu({{self}}, alpha={number(float(alpha))})", {"self": self}, "float")


@writes("softplus")
def _softplus(call: Call, self: Any, beta: Any = 1, threshold: Any = 20) -> Made:
    scaled = "{self}" if beta == 1 else "({self} * {beta})"
    text = f"softplus({scaled})" + ("" if beta == 1 else " / {beta}")
    # From the default threshold on, narrow floats do not tell softplus(x) from x.
    if threshold != 20 or call.result == "f64":
        text = f"where({scaled} > {{threshold}}, {{self}}, {text})"
    values = {"self": self, "beta": beta, "threshold": threshold}
    return pointwise(call, text, {name: values[name] for name in names_in(text)}, "float")


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


@writes("clone contiguous detach alias lift_fresh_copy", "copy")
def _same(call: Call, self: Any) -> Made:
    return Made(call.text(self), lambda: call.sizes(self))
