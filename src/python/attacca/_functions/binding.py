"""Binds arguments to the parameters of a row by the signatures of numpy's and torch's own
functions.

Neither framework is imported here: a call of one of its functions shows that it was.
"""
from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .table import Refused, Row

# An argument's name -> the names that a row may have for it; the first that the row has is used.
_SYNONYMS = {
    "input": ("self",), "a": ("self",), "x": ("self",), "x1": ("self",), "tensor": ("self",),
    "ary": ("self",), "arr": ("self",), "array": ("self",), "A": ("self",), "m": ("self",),
    "x2": ("other",), "y": ("other",), "other": ("mat2", "tensor"),
    "batch1": ("mat1",), "batch2": ("mat2",),
    "axis": ("dim", "dims"), "axes": ("dims",), "axis0": ("dim0",), "axis1": ("dim1",),
    "keepdims": ("keepdim",), "a_min": ("min",), "a_max": ("max",), "p": ("ord",),
    "k": ("diagonal",), "shape": ("size",), "reps": ("dims",), "shift": ("shifts",),
    "split_sizes": ("split_size",), "split_size_or_sections": ("split_size",),
    "sections": ("indices_or_sections",), "indices": ("indices_or_sections",),
    "arrays": ("tensors",), "tup": ("tensors",), "matrices": ("tensors",), "args": ("operands",),
}
_NUMPY_SYNONYMS = {"axis1": ("dim0",), "axis2": ("dim1",), "x": ("self",), "b": ("vec2", "other")}
# Arguments that change neither values nor dtype.
_HARMLESS = {"memory_format", "layout", "pin_memory", "non_blocking", "_stacklevel", "subok",
             "copy", "cudnn_enable", "cudnn_enabled", "momentum", "padding_idx",
             "scale_grad_by_freq", "sparse", "optimize"}
_NOTHING = object()


def _signature(function: Any) -> inspect.Signature:
    return inspect.signature(function)


# Signatures of numpy's C functions and methods, which inspect cannot read, from numpy's
# documentation.
_NUMPY_FUNCTIONS = {name: _signature(signature) for name, signature in {
    "concatenate": lambda arrays, axis=0, out=None, *, dtype=None, casting="same_kind": 0,
    "where": lambda condition, x=None, y=None, /: 0,
    **dict.fromkeys(("dot", "inner"), lambda a, b, out=None: 0),
    "vdot": lambda a, b: 0,
}.items()}
_NUMPY_METHODS = {name: _signature(signature) for name, signature in {
    "sum": lambda self, axis=None, dtype=None, out=None, keepdims=False, initial=0, where=True: 0,
    "mean": lambda self, axis=None, dtype=None, out=None, keepdims=False, *, where=True: 0,
    "max": lambda self, axis=None, out=None, keepdims=False, initial=None, where=True: 0,
    "min": lambda self, axis=None, out=None, keepdims=False, initial=None, where=True: 0,
    "clip": lambda self, min=None, max=None, out=None, **ufunc: 0,
    "round": lambda self, decimals=0, out=None: 0,
    "reshape": lambda self, *shape, order="C", copy=None: 0,
    "transpose": lambda self, *axes: 0,
    "swapaxes": lambda self, axis1, axis2, /: 0,
    "squeeze": lambda self, axis=None: 0,
    "ravel": lambda self, order="C": 0,
    "flatten": lambda self, order="C": 0,
    "copy": lambda self, order="C": 0,
    "dot": lambda self, b, out=None: 0,
    **dict.fromkeys(("var", "std"), lambda self, axis=None, dtype=None, out=None, ddof=0,
                    keepdims=False, *, where=True, mean=None: 0),
    **dict.fromkeys(("any", "all"), lambda self, axis=None, out=None, keepdims=False, *,
                    where=True: 0),
    "repeat": lambda self, repeats, axis=None: 0,
    "take": lambda self, indices, axis=None, out=None, mode="raise": 0,
    **dict.fromkeys(("argmax", "argmin"), lambda self, axis=None, out=None, *, keepdims=False: 0),
    "prod": lambda self, axis=None, dtype=None, out=None, keepdims=False, initial=1, where=True: 0,
    **dict.fromkeys(("cumsum", "cumprod"), lambda self, axis=None, dtype=None, out=None: 0),
}.items()}
_UFUNC_DEFAULTS = {"out": None, "where": True, "casting": "same_kind", "order": "K", "dtype": None,
                   "subok": True,
                   "signature": None, "sig": None, "axes": None, "axis": None, "keepdims": False}


def understood(row: Row, name: str, values: Iterable[tuple[str, Any, Any]],
               numpy: bool = False) -> dict[str, Any]:
    """Arguments by the names of the row's parameters.

    Args:
        row: The row.
        name: The function's name.
        values: (name, value, default) of each argument.
        numpy: Whether the function is numpy's.

    Raises:
        Refused: An argument that the row does not take differs from its default.
    """
    bound = {}
    for given, value, default in values:
        known = given if given in row.parameters else next(
            (other for other in (_NUMPY_SYNONYMS.get(given, ()) if numpy else ())
             + _SYNONYMS.get(given, ())
             if other in row.parameters), None)
        if type(value).__name__ == "_NoValueType":
            continue
        if known is not None:
            bound[known] = value
        elif not (value is None or same(value, default) or given in _HARMLESS
                  or (given == "order" and value in ("C", "K"))):
            raise Refused(f"the argument {given}={value!r}")
    missing = [p for p in row.parameters[:1] if p not in bound]
    if missing:
        raise Refused(f"the argument {missing[0]} is missing")
    return bound


def same(value: Any, default: Any) -> bool:
    return value is default or (type(value) in (bool, int, float, str)
                                and type(value) is type(default)
                                and value == default)


def _bound(signature: inspect.Signature, args: Sequence[Any],
           keywords: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    try:
        bound = signature.bind(*args, **keywords)
    except TypeError as error:
        raise Refused(str(error)) from None
    bound.apply_defaults()
    found: list[tuple[str, Any, Any]] = []
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            found += [(each, given, _UFUNC_DEFAULTS.get(each, _NOTHING))
                      for each, given in value.items()]
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            if value:
                found.append((name, value[0] if len(value) == 1 and not isinstance(value[0], int)
                              else value, ()))
        else:
            found.append((name, value, signature.parameters[name].default))
    return found


# ---- numpy


def numpy_arguments(row: Row, function: Any, args: Sequence[Any],
                    keywords: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a ufunc or function of numpy, or of a method of its arrays, which is given
    by name."""
    if isinstance(function, str):
        signature = _NUMPY_METHODS.get(function)
        if signature is None:
            raise Refused("it is not in the table of functions")
        return understood(row, function, _bound(signature, args, keywords), numpy=True)
    count = getattr(function, "nin", None)
    if count is None:
        signature = _NUMPY_FUNCTIONS.get(function.__name__) or inspect.signature(function)
        return understood(row, function.__name__, _bound(signature, args, keywords), numpy=True)
    names = [*row.parameters[:count], "out"]
    if not count <= len(args) <= len(names):
        raise Refused(f"{len(args)} arguments of {count}")
    values = list(zip(names, args, [None] * len(names)))
    return understood(row, function.__name__, values + [(n, v, _UFUNC_DEFAULTS.get(n, _NOTHING))
                                                        for n, v in keywords.items()], numpy=True)


# ---- torch


def torch_arguments(row: Row, name: str, function: Any, args: Sequence[Any],
                    keywords: dict[str, Any],
                    is_tensor: Callable[[Any], bool]) -> dict[str, Any]:
    """The arguments of a function of torch, or of a method of its tensors (``args[0]`` is the
    tensor)."""
    if inspect.isfunction(function):  # written in Python
        return understood(row, name, _bound(inspect.signature(function), args, keywords))
    packet = getattr(sys.modules["torch"].ops.aten, name, None)
    if packet is None:
        raise Refused("it is not an op of ATen")
    reasons = []
    for overload in packet.overloads():
        schema = getattr(packet, overload)._schema
        if schema.is_mutable or any(a.is_out for a in schema.arguments):
            continue
        try:
            return understood(row, name, _by_schema(schema.arguments, args, keywords, is_tensor))
        except Refused as reason:
            reasons.append(reason)
    # Prefer a reason that names an argument over one that rejects an overload.
    raise next((r for r in reasons if "the argument" in str(r)),
               reasons[0] if reasons else Refused("it has no schema"))


def _by_schema(schema: Any, args: Sequence[Any], keywords: dict[str, Any],
               is_tensor: Callable[[Any], bool]) -> list[tuple[str, Any, Any]]:
    positional = [a for a in schema if not a.kwarg_only]
    if len(args) > len(positional) == 2 and str(positional[1].type) == "List[int]" \
            and all(isinstance(a, int) for a in args[1:]):
        args = [args[0], tuple(args[1:])]  # x.permute(0, 2, 1)
    if len(args) > len(positional):
        raise Refused(f"{len(args)} positional arguments where {len(positional)} are taken")
    given = {a.name: value for a, value in zip(positional, args)}
    names = {a.name for a in schema}
    for name, value in keywords.items():
        known = name if name in names else next((n for n in _SYNONYMS.get(name, ()) if n in names),
                                                name)
        if known not in names:
            raise Refused(f"unexpected keyword {name}: the argument {name}={value!r}")
        if known in given:
            raise Refused(f"{name} is given twice")
        given[known] = value
    values = []
    for argument in schema:
        default = argument.default_value if argument.has_default_value() else _NOTHING
        if argument.name in given:
            if not _fits(str(argument.type), given[argument.name], is_tensor):
                raise Refused(
                    f"{argument.name}={given[argument.name]!r} where {argument.type} is taken")
            values.append((argument.name, given[argument.name], default))
        elif default is _NOTHING:
            raise Refused(f"{argument.name} is missing")
        else:
            values.append((argument.name, default, default))
    return values


def _fits(kind: str, value: Any, is_tensor: Callable[[Any], bool]) -> bool:
    """Whether a value could be an argument of a type in a schema; torch checks the rest."""
    if kind.startswith("Optional["):
        return value is None or _fits(kind[9:-1], value, is_tensor)
    if value is None:
        return False
    if kind.startswith(("List[Tensor", "List[Optional[Tensor")):
        return isinstance(value, (tuple, list)) and all(is_tensor(v) or v is None for v in value)
    if kind.startswith("List["):
        several = isinstance(value, (tuple, list))
        return isinstance(value, int) or several and not any(map(is_tensor, value))
    if kind == "Tensor":
        return is_tensor(value)
    if kind in ("str", "bool"):
        return isinstance(value, {"str": str, "bool": bool}[kind])
    return not is_tensor(value) and not isinstance(value, str)
