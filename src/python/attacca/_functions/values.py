"""Numbers, dtypes, axes and sizes of a call as the text form writes them."""
from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .table import Call, Refused

FLOATS = ("f16", "bf16", "f32", "f64")
INTEGERS = {"s8": (-2**7, 2**7 - 1), "u8": (0, 2**8 - 1), "s32": (-2**31, 2**31 - 1),
            "s64": (-2**63, 2**63 - 1)}
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
    """A number as an operand beside tensors of ``dtype``.

    Raises:
        Refused: The dtype cannot represent it.
    """
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
    """The dtype in which the text form computes with operands of these dtypes."""
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
    """The dtype of a tensor.

    Raises:
        Refused: The text form has no arithmetic for it.
    """
    dtype = call.dtype(tensor)
    if dtype not in DTYPE_ORDER:
        raise Refused(f"an operand of dtype {dtype}")
    return dtype


def operand(call: Call, name: str, value: Any, dtype: str, exactly: bool = False) -> str:
    """A tensor or number as an operand of a computation in ``dtype``.

    A tensor of a wider float dtype is cast only if ``exactly`` is set.
    """
    if call.is_tensor(value):
        own = known_dtype(call, value)
        wider = own in FLOATS and dtype in FLOATS and promoted([own, dtype]) == own
        return call.text(value) if wider and not exactly else cast(call, value, dtype)
    if not is_number(value):
        raise Refused(f"the argument {name}={value!r}")
    return literal(rounded(value, dtype) if exactly and dtype in FLOATS and isinstance(value, float)
                   else value,
                   dtype, name)


def broadcast(call: Call, tensors: Sequence[Any]) -> Callable[[], Sequence[int]]:
    """A function that computes the sizes of a pointwise result."""
    return lambda: broadcast_shapes([tuple(call.sizes(tensor)) for tensor in tensors])


def broadcast_shapes(shapes: Sequence[Sequence[int]]) -> list[int]:
    """The shape to which shapes broadcast. A symbolic extent is not taken for 1.

    Raises:
        Refused: They do not broadcast.
    """
    found: list[int] = [1] * max(map(len, shapes), default=0)
    for shape in shapes:
        for i, extent in enumerate(reversed(shape), 1):
            if type(found[-i]) is int and found[-i] == 1:
                found[-i] = extent
            elif found[-i] != extent and not (type(extent) is int and extent == 1):
                raise Refused("shapes " + " and ".join(str(list(s)) for s in shapes)
                              + " do not broadcast")
    return found


# ---- Axes and sizes


class Extent(int):
    """A symbolic size: its value while tracing, and its text, if it has one."""

    text: str | None

    def __new__(cls, value: int, text: str | None = None) -> Extent:
        extent = super().__new__(cls, value)
        extent.text = text
        return extent


def fixed(extent: Any, why: str) -> int:
    """A size that is not symbolic.

    Raises:
        Refused: It is symbolic; ``why`` names the operation.
    """
    if type(extent) is not int:
        raise Refused(f"{why} of an axis whose size is symbolic")
    return extent


def axis_of(call: Call, tensor: Any, dim: Any, name: str = "dim") -> int:
    """The axis as a non-negative number. For a scalar, torch accepts 0 and -1.

    Raises:
        Refused: The tensor has no such axis.
    """
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
        return [operator.index(v)
                for v in (values if isinstance(values, (tuple, list)) else [values])]
    except TypeError:
        raise Refused(f"the argument {name}={values!r}") from None
