"""Numbers, dtypes, axes and sizes of a call as the text form writes them."""
from __future__ import annotations

import math
import operator
import struct
from typing import Any, Callable, Iterable, Sequence

from .table import Call, Refused

FLOATS = ("f16", "bf16", "f32", "f64")
INTEGERS = {"s8": (-2**7, 2**7 - 1), "u8": (0, 2**8 - 1), "s32": (-2**31, 2**31 - 1), "s64": (-2**63, 2**63 - 1)}
DTYPE_ORDER = ["bool", "u8", "s8", "s32", "s64", "f16", "bf16", "f32", "f64"]


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
    return max(found, key=DTYPE_ORDER.index)


def cast(call: Call, tensor: Any, dtype: str) -> str:
    text = call.text(tensor)
    return text if call.dtype(tensor) == dtype else f"cast({text}, {dtype})"


def known_dtype(call: Call, tensor: Any) -> str:
    """A dtype with arithmetic."""
    dtype = call.dtype(tensor)
    if dtype not in DTYPE_ORDER:
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


# ---- Axes and sizes


class Extent(int):
    """A size that differs from call to call: its value in this one, and its text where it has one."""

    text: "str | None"

    def __new__(cls, value: int, text: "str | None" = None) -> "Extent":
        extent = super().__new__(cls, value)
        extent.text = text
        return extent


def fixed(extent: Any, why: str) -> int:
    """A size that is the same in every call."""
    if type(extent) is not int:
        raise Refused(f"{why} of an axis whose size is symbolic")
    return extent


def axis_of(call: Call, tensor: Any, dim: Any, name: str = "dim") -> int:
    """A non-negative axis. Of a scalar, torch takes 0 and -1."""
    rank = len(call.sizes(tensor))
    bound = max(rank, 1) if call.framework == "torch" else rank
    try:
        dim = operator.index(dim)
    except TypeError:
        raise Refused(f"the argument {name}={dim!r}") from None
    if not -bound <= dim < bound:
        raise Refused(f"the argument {name}={dim} of a tensor with {rank} axes")
    return dim % bound if bound else 0


def list_text(values: Sequence[Any]) -> str:
    return "[" + ", ".join(map(str, values)) + "]"


def integers(values: Any, name: str) -> list[int]:
    try:
        return [operator.index(v) for v in (values if isinstance(values, (tuple, list)) else [values])]
    except TypeError:
        raise Refused(f"the argument {name}={values!r}") from None
