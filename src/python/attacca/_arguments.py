"""Checks of arguments, and Attacca's names for other libraries' dtypes and devices.

Each function returns the argument in the form that the library takes, or raises :class:`Error`,
whose ``where`` is the argument's name.
"""
from __future__ import annotations

import difflib
import inspect
import math
import operator
import os
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, Union, cast, get_args

from ._errors import Error

Mode = Literal["fp32", "eager"]
Tuning = Literal["known", "measure", "always", "unfused", "model"]
DTypeName = Literal["f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "s8", "u8", "s32", "s64",
                    "bool",
                    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2",
                    "int8",
                    "uint8", "int32", "int64"]

MODES: tuple[str, ...] = get_args(Mode)
TUNINGS: tuple[str, ...] = get_args(Tuning)

# Attacca's name of a dtype -> its name in NumPy and PyTorch.
LONG_NAMES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16",
    "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "s8": "int8", "u8": "uint8",
    "s32": "int32", "s64": "int64", "bool": "bool",
}
SHORT_NAMES = {long: short for short, long in LONG_NAMES.items()}
# Of a product whose result is not of its operands' dtype.
_WIDER = {"s8": "s32", "u8": "s32", "f8e4m3": "bf16", "f8e5m2": "bf16"}


class Integer(Protocol):
    """An integer of NumPy."""

    def __index__(self) -> int: ...


class DTypeObject(Protocol):
    """A dtype of torch or NumPy."""

    @property
    def itemsize(self) -> int: ...


class DeviceObject(Protocol):
    """A torch.device."""

    @property
    def type(self) -> str: ...


# "bf16", torch.bfloat16, numpy.float32, numpy.dtype("float32").
DType = Union[DTypeName, DTypeObject, type[Any]]
# "cpu", "cuda", "cuda:1", torch.device("cuda:1").
Device = Union[str, DeviceObject]
Path = Union[str, "os.PathLike[str]"]


def shown(value: Any) -> str:
    """An argument as an error message shows it: in at most 60 characters; of an object, its type
    alone, since a tensor's repr may be slow or fail."""
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        written = repr(value)
        return written if len(written) <= 60 else written[:57] + "..."
    return f"a {type(value).__name__}"


def text(value: Any, where: str) -> str:
    """A str without NUL characters or lone surrogates."""
    if not isinstance(value, str):
        raise Error(f"{where} is {shown(value)}", where, "give a str")
    if "\0" in value:
        raise Error(f"the {where} has a NUL character", where, "take it out")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Error(f"the {where} is not valid Unicode", where,
                    "take out lone surrogates") from None
    return str(value)


def path(value: Any, where: str = "path") -> str:
    """A file's name."""
    try:
        name = os.fspath(value)
    except TypeError:
        raise Error(f"{where} is {shown(value)}", where, "give a str or an os.PathLike") from None
    return text(os.fsdecode(name) if isinstance(name, bytes) else name, where)


def choice(value: Any, known: Sequence[str], where: str) -> str:
    """One of the words ``known``."""
    if isinstance(value, str) and value in known:
        return str(value)
    near = difflib.get_close_matches(value, known, 1) if isinstance(value, str) else []
    fix = f"one of {', '.join(known)}" + (f"; did you mean {near[0]}?" if near else "")
    raise Error(f"unknown {where} {value if isinstance(value, str) else shown(value)}", where, fix)


def _integer(value: Any) -> int | None:
    """An integer of Python or NumPy; None for anything else, bools included."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def size(value: Any, symbol: str) -> int:
    """An integer of Python or NumPy that is at least 0."""
    number = _integer(value)
    if number is None:
        raise Error(f"size {symbol} is {shown(value)}", symbol, "give an integer")
    if not 0 <= number < 2**63:
        raise Error(f"size {symbol} is {number}", symbol,
                    "give 0 or more" if number < 0 else "give less")
    return number


def sizes(given: Mapping[str, Any], where: str) -> list[tuple[str, int]]:
    """Symbols and their :func:`size`."""
    return [(text(name, where), size(value, name)) for name, value in given.items()]


def threads(value: Any) -> int:
    """A number of CPU threads from 0, which means all cores, to 4096."""
    number = _integer(value)
    if number is None or not 0 <= number <= 4096:
        raise Error(f"{shown(value)} threads", "threads", "give 0, for all cores, to 4096")
    return number


def seconds(value: Any, where: str) -> float:
    """A finite number of seconds, at least 0, which means the default."""
    number = math.nan
    if isinstance(value, (int, float)) or hasattr(value, "dtype"):
        if not isinstance(value, bool):
            try:
                number = float(value)
            except (TypeError, ValueError, OverflowError, RuntimeError):
                pass
    if not 0 <= number < math.inf:
        raise Error(f"{where} is {shown(value)}", where,
                    "give finite seconds >= 0; 0 is the default")
    return number


def function(value: Any, where: str) -> Callable[..., Any]:
    """A function whose signature ``inspect`` can read."""
    if callable(value) and not isinstance(value, type):
        try:
            signature(unwrapped(value))
        except (TypeError, ValueError):
            pass
        else:
            return cast("Callable[..., Any]", value)
    raise Error(f"{where} is {shown(value)}", where,
                "give a function of tensors, written in Python")


def signature(function: Callable[..., Any]) -> inspect.Signature:
    """A function's own signature: of a wrapper, which functools.wraps made look like another
    function, what the wrapper takes."""
    try:
        return inspect.signature(function, follow_wrapped=False)
    except ValueError:  # an object in C, such as that of functools.lru_cache
        return inspect.signature(function)


def unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function whose parameters have names for what a call gives: the function itself, or what
    it wraps if it takes ``(*args, **kwargs)``, at most after that function's first parameters. Of
    an object's method it is a method of the same object."""
    if isinstance(function, types.MethodType):
        plain = unwrapped(function.__func__)
        return function if plain is function.__func__ else types.MethodType(plain,
                                                                            function.__self__)
    wrapped, own = getattr(function, "__wrapped__", None), signature(function).parameters.values()
    variadic = [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]
    if wrapped is None or [each.kind for each in [*own][-2:]] != variadic:
        return function
    inner, first = unwrapped(wrapped), [each.name for each in [*own][:-2]]
    return inner if [*signature(inner).parameters][:len(first)] == first else function


def flag(value: Any, where: str) -> bool:
    """True or False."""
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool") and hasattr(value,
                                                                                        "dtype"):
        return bool(value)
    raise Error(f"{where} is {shown(value)}", where, "give True or False")


def listed(out: Any) -> list[Any] | None:
    """An argument ``out``, which is one tensor or a list or tuple of them, as a list; None stays
    None."""
    if out is None:
        return None
    return list(out) if isinstance(out, (list, tuple)) else [out]


def device(value: Any) -> str:
    """A device's name; the library checks that the device exists."""
    if isinstance(value, str):
        return text(value, "device")
    kind = getattr(value, "type", None)
    if type(value).__module__.partition(".")[0] == "torch" and isinstance(kind, str):
        return str(value)
    raise Error(f"device is {shown(value)}", "device",
                "give \"cpu\", \"cuda\", \"cuda:1\" or a torch.device")


def dtype(value: Any, where: str) -> str:
    """Attacca's name, such as "bf16", of a dtype given by name or as a dtype of PyTorch or
    NumPy."""
    name = value if isinstance(value, str) else _name_of(value)
    if name is None:
        raise Error(f"{where} is {shown(value)}", where,
                    "give a dtype, such as \"bf16\" or torch.bfloat16")
    short = name if name in LONG_NAMES else SHORT_NAMES.get(name)
    if short is None:
        raise Error(f"unknown dtype {name}", where, f"one of {', '.join(LONG_NAMES)}")
    return short


def result_dtype(out_dtype: Any, operand: str) -> str:
    """The dtype of a product's result; None: the default for operands of this dtype."""
    return _WIDER.get(operand, operand) if out_dtype is None else dtype(out_dtype, "out_dtype")


def _name_of(value: Any) -> str | None:
    """"bfloat16" of torch.bfloat16, numpy.dtype("bfloat16") and ml_dtypes.bfloat16."""
    module = type(value).__module__.partition(".")[0]
    if module == "torch":
        return str(value).rpartition(".")[2] if type(value).__name__ == "dtype" else None
    if isinstance(value, type):  # a scalar type
        if value.__module__.partition(".")[0] in ("numpy", "ml_dtypes"):
            return "bool" if value.__name__ == "bool_" else value.__name__
        return {bool: "bool", float: "float64", int: "int64"}.get(value)
    name = getattr(value, "name", None)
    if module == "numpy" and isinstance(name, str) and getattr(value, "isnative", False):
        return name
    return None
