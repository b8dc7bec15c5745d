"""Calls of ``attacca.matmul``, plans and fused functions while torch traces or transforms: they go
to the ops of :mod:`.custom`.

Dynamo traces these functions. It runs those that are marked constant while it traces, and guards
their arguments.
"""
from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ... import _arguments
from ..._errors import Error
from ..._frameworks import Torch
from ..._launch import Engine
from ..._matmul import matmul as public_matmul
from ..._trace.epilogue import operand_role, trace_epilogue
from ..._trace.fused import Fused, argument_of, kind_of, plan_of
from .custom import ops, options_text, plan_argument
from .epilogues import is_fixed, outside
from .text_argument import written

try:
    import numpy as _numpy
except ImportError:  # torch does without, too
    _numpy = None  # type: ignore[assignment]

__all__ = ["check_local", "constant", "count_of", "fused", "matmul", "plan", "plan_argument",
           "traced"]


def matmul(a: Any, b: Any, epilogue: Any, out: Any, chosen: Sequence[Any],
           operands: dict[str, Any]) -> Any:
    """:func:`attacca.matmul` by an op; ``chosen``: out_dtype, mode, tuning, tuning_seconds,
    threads, batch_invariant."""
    if torch.compiler.is_dynamo_compiling() and not is_fixed(epilogue):
        return outside(_matmul, a, b, epilogue, out, chosen, operands)
    as_array = _is_array(a)
    a, b = _tensor(a, "a"), _tensor(b, "b")
    tensors = [_tensor(tensor, name) for name, tensor in operands.items()]
    names = " ".join(operands)
    if not isinstance(epilogue, str):
        roles = [operand_role(name, tensor.shape, b.shape[-1])
                 for name, tensor in zip(operands, tensors)]
        dtypes = [a.dtype, *[tensor.dtype for tensor in tensors]]
        epilogue = traced(epilogue, names, " ".join(roles), tuple(dtypes))
    outs = _arguments.listed(out)
    if chosen[0] is None and outs is not None and len(outs) > 0:
        chosen = (_tensor(outs[0], "out").dtype, *chosen[1:])
    arguments = ([a, b, *tensors], names, _argument(epilogue), _options(*chosen))
    one = count_of(epilogue) == "1"
    if one:
        results = [ops.matmul.import_attacca_torch(*arguments)]
    else:
        results = list(ops.matmul_results.import_attacca_torch(*arguments))
    if outs is not None:
        _copy(results, outs)
        return outs[0] if one else tuple(outs)
    return _like(results[0],
                 as_array) if one else tuple([_like(result, as_array) for result in results])


def _matmul(a: Any, b: Any, epilogue: Any, out: Any, chosen: Sequence[Any],
            operands: dict[str, Any]) -> Any:
    out_dtype, mode, tuning, tuning_seconds, threads, batch_invariant = chosen
    return public_matmul(a, b, epilogue, out=out, out_dtype=out_dtype, mode=mode, tuning=tuning,
                         tuning_seconds=tuning_seconds, threads=threads,
                         batch_invariant=batch_invariant, **operands)


def plan(engine: Engine, inputs: Sequence[Any], named: dict[str, Any], out: Any) -> Any:
    """A plan's call by the op ``attacca::plan``."""
    given = list(inputs)
    if len(named) > 0 or len(given) != engine.input_count:
        order = engine.order(engine.identity, len(given), " ".join(named))
        given = given + [named[name] for name in order.split()]
    as_array = len(given) > 0 and _is_array(given[0])
    tensors = [_tensor(each, "inputs") for each in given]
    text = engine.argument(engine.identity)
    one = engine.output_count == 1
    if one:
        results = [ops.plan.import_attacca_torch(tensors, text)]
    else:
        results = list(ops.plan_results.import_attacca_torch(tensors, text))
    if out is not None:
        listed = isinstance(out, (list, tuple))
        outs = list(out) if listed else [out]
        _copy(results, outs)
        return tuple(outs) if listed else outs[0]
    return _like(results[0],
                 as_array) if one else tuple([_like(result, as_array) for result in results])


def fused(called: Fused, inputs: Sequence[Any], named: dict[str, Any], out: Any) -> Any:
    """A fused function's call by the op ``attacca::plan`` of its plan."""
    given = [*inputs, *named.values()]
    arrays = [_is_array(each) for each in given]
    tensors = [isinstance(each, torch.Tensor) for each in given]
    frameworks = " ".join((["numpy"] if any(arrays) else []) + (["torch"] if any(tensors) else []))
    as_array = next((array for array, tensor in zip(arrays, tensors) if array or tensor), False)
    values = [_tensor(each, "inputs") if array else each for each, array in zip(given, arrays)]
    identity = argument_of(called)
    results = _fused_results(identity, frameworks, " ".join(named), *values)
    if out is not None:
        listed = isinstance(out, (list, tuple))
        outs = list(out) if listed else [out]
        _copy(results, outs)
        return tuple(outs) if listed else outs[0]
    given_back = [_like(result, as_array) for result in results]
    kind = _kind_of(identity)
    if kind == "list":
        return given_back
    return given_back[0] if kind == "plan" and len(given_back) == 1 else tuple(given_back)


@torch.compiler.allow_in_graph  # type: ignore[misc]
def _fused_results(identity: str, frameworks: str, names: str, *given: Any) -> list[torch.Tensor]:
    """Dynamo's graphs call this function; what traces them further, such as AOTAutograd, sees the
    plan's op."""
    values = [_number(each) for each in given]
    count = len(values) - len(names.split())
    called, tensors = plan_of(identity, values[:count], dict(zip(names.split(), values[count:])),
                              tuple(frameworks.split()))
    results = called(*tensors)
    return list(results) if isinstance(results, tuple) else [results]


def _number(value: Any) -> Any:
    """A symbolic number of torch as its value here, which becomes a constant of the graph."""
    kinds: list[tuple[type, type]] = [(torch.SymBool, bool), (torch.SymInt, int),
                                      (torch.SymFloat, float)]
    return next((as_number(value) for kind, as_number in kinds if isinstance(value, kind)), value)


_Function = TypeVar("_Function", bound=Callable[..., Any])


def _copy(results: list[torch.Tensor], outs: list[Any]) -> None:
    if len(outs) != len(results):
        raise Error(f"out has {len(outs)} tensors for {len(results)} outputs", "out",
                    "give one each")
    for result, out in zip(results, outs):
        into = _tensor(out, "out")
        if into.dtype != result.dtype or into.shape != result.shape:
            raise Error(f"out is {into.dtype} of shape {tuple(into.shape)}", "out",
                        f"give {result.dtype} of shape {tuple(result.shape)}")
        into.copy_(result)


def _is_array(value: Any) -> bool:
    return _numpy is not None and isinstance(value, _numpy.ndarray)


def _tensor(value: Any, where: str) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        check_local(value, where)
        return value
    if _is_array(value):
        return torch.as_tensor(value)
    raise Error(f"a {type(value).__name__} in a call that torch traces", where,
                "give a torch tensor")


def check_local(tensor: torch.Tensor, where: str) -> None:
    """Raises:
        Error: It is a DTensor.
    """
    distributed = sys.modules.get("torch.distributed.tensor")
    if distributed is not None and isinstance(tensor, distributed.DTensor):
        raise Error("a DTensor, which Attacca's ops cannot shard", where,
                    "give its part, .to_local(), or the whole, .full_tensor()")


def _like(result: torch.Tensor, as_array: bool) -> Any:
    return result.numpy() if as_array else result


def constant(function: _Function) -> _Function:
    """Marks a function that Dynamo runs while it traces, as torch.compiler.assume_constant_result
    does."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@constant
def _kind_of(identity: str) -> str:
    return kind_of(identity)


@constant
def traced(function: Callable[..., Any], names: str, roles: str,
            dtypes: tuple[torch.dtype, ...]) -> str:
    """The text of an epilogue that is a function; ``dtypes``: of a, then of the operands."""
    shapes = {"scalar": (), "row": (3,), "col": (2, 1), "full": (2, 3)}
    with _disable_current_modes():
        a, *operands = [torch.empty(shape, dtype=dtype) for shape, dtype in
                        zip([(2, 4), *[shapes[role] for role in roles.split()]], dtypes)]
        views = {name: Torch.view(tensor, name) for name, tensor in zip(names.split(), operands)}
        return trace_epilogue(function, views, (2,), 3, Torch.view(a, "a").dtype, [a, *operands])


_argument = constant(written)
_options = constant(options_text)
_BRACKETS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


@constant
def count_of(epilogue: str) -> str:
    """The number of an epilogue's results, which commas outside of brackets separate."""
    depth, count = 0, 1
    for character in re.sub(r'"[^"]*"', "", epilogue):
        depth += _BRACKETS.get(character, 0)
        count += character == "," and depth == 0
    return str(count)
