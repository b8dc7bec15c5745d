"""Epilogues written as Python functions of the accumulator and operands."""
from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

from .._arguments import signature, unwrapped
from .._errors import Error
from .._frameworks import View
from .traced import Recorder, Traced, frameworks_of, outputs_text, results_of

# f32 for other dtypes
_ACCUMULATORS = {"f64": "f64", "s8": "s32", "u8": "s32", "s32": "s32", "s64": "s64"}


# Parameters that take what is left over.
_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def operand_parameters(function: Callable[..., Any]) -> dict[str, bool]:
    """The parameters behind the accumulator that take one operand each, and whether it must be
    given."""
    behind = list(signature(unwrapped(function)).parameters.values())[1:]
    return {parameter.name: parameter.default is inspect.Parameter.empty for parameter in behind
            if parameter.kind not in _ANY_NUMBER}


def trace_epilogue(function: Callable[..., Any], views: dict[str, View], lead: tuple[int, ...],
                   columns: int,
                   dtype: str, tensors: Sequence[Any]) -> str:
    """The text of an epilogue that is a Python function.

    Args:
        function: Takes ``acc`` and operands by name.
        views: The operands.
        lead: a's leading extents.
        columns: The product's columns.
        dtype: a's dtype.
        tensors: All that the product is called with.

    Raises:
        Error: An operand is missing or has no role by its shape; as :func:`attacca.fuse`.
    """
    record = Recorder(frameworks_of(tensors), tensors, inline=True)
    operands: dict[str, Any] = {}
    for name, needed in operand_parameters(function).items():
        if name not in views:
            if needed:
                gate = name.startswith("acc") and name[3:].isdigit()
                raise Error(f"operand {name} is missing", name,
                            "write a gate as text, such as 'silu(acc0) * acc1'" if gate
                            else f"give {name}=")
            continue
        view = views[name]
        operands[name] = Traced(record, f"{operand_role(name, view.shape, columns, lead)}({name})",
                                view.dtype, view.shape)
    accumulator = Traced(record, "acc", _ACCUMULATORS.get(dtype, "f32"), (*lead, columns))
    try:
        given = signature(function).bind(accumulator, **operands)
    except TypeError as error:
        raise Error(f"the epilogue: {error}", "epilogue",
                    "take the accumulator first, then operands by name") from None
    results = function(*given.args, **given.kwargs)
    return ", ".join(outputs_text(record, results_of(results)))


def operand_role(name: str, shape: Sequence[int], columns: int,
                 lead: tuple[int, ...] | None = None) -> str:
    """An operand's role by its shape: "scalar", "row", "col" or "full". Dynamo traces this with
    symbolic sizes.

    Args:
        name: The operand's name.
        shape: Its extents.
        columns: The product's columns.
        lead: a's leading extents, which the operand must have too, as they are or merged; None: not
            compared.

    Raises:
        Error: No role has this shape.
    """
    rank = len(shape)
    if rank == 0:
        return "scalar"
    if rank == 1 and shape[0] == columns:
        return "row"
    rows = None if lead is None else math.prod(lead)
    if rank > 1 and (lead is None or tuple(shape[:-1]) in (lead, (rows,))):
        if shape[-1] == columns:
            return "full"
        if shape[-1] == 1:
            return "col"
    m = "M" if rows is None else rows
    raise Error(f"operand {name} has shape {tuple(shape)}", name,
                f"give it [], [{columns}], [{m}, 1] or [{m}, {columns}]")
