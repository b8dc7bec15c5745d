"""Epilogues that are Python functions, in calls that Dynamo traces.

Attacca's own tracing reads such a function in each call. Dynamo runs that once, while it traces,
and guards the function alone: the text would keep numbers that the function reads elsewhere. So a
call whose function may read any is left out of the graph.
"""
from __future__ import annotations

import builtins
import dis
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

import torch

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

_REASON = ("attacca reads the epilogue's function in each call, as it may read other variables "
           "than its arguments, which can change; inside of a graph give it numbers as operands, "
           "such as s=torch.tensor(2.0)")


def outside_if_varying(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """A product's public function, of which Dynamo leaves calls out of the graph if the text of
    their epilogues may change from call to call."""
    @functools.wraps(function)
    def called(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        if torch.compiler.is_dynamo_compiling():
            named = [kwargs[name] for name in ("epilogue", "after") if name in kwargs]
            if not all(is_fixed(each) for each in [*args[2:], *named]):
                result: _Result = outside(function, *args, **kwargs)
                return result
        return function(*args, **kwargs)
    return called


@torch.compiler.disable(reason=_REASON)  # type: ignore[misc]
def outside(function: Callable[..., _Result], *args: Any, **kwargs: Any) -> _Result:
    """Calls the function outside of Dynamo's graph."""
    return function(*args, **kwargs)


# Names under which functions import modules of libraries, if they do.
_MODULES = ("torch", "F", "nn", "functional", "np", "numpy", "math", "attacca")


def is_fixed(epilogue: Any) -> bool:
    """Whether an epilogue stays the same as long as Dynamo's guards hold: it is a text, or a
    function without variables of its own. Dynamo traces this."""
    if not callable(epilogue):
        return True
    if not isinstance(epilogue, types.FunctionType):
        return False
    # Of a closure's variables Dynamo tells the names alone, and fails to call a function below with
    # values that are not constant.
    if any(name not in _MODULES for name in epilogue.__code__.co_freevars):
        return False
    if epilogue.__kwdefaults__ or any(each is not None for each in epilogue.__defaults__ or ()):
        return False
    return _reads_constants(epilogue)


def _reads_constants(function: types.FunctionType) -> bool:
    """Whether all names that a function reads around it are functions, modules of libraries, or
    constants by their names: global numbers in capitals."""
    cells = function.__closure__ or ()
    return all(_is_library(cell.cell_contents) for cell in cells) and _all_constant(function, set())


_reads_constants._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _all_constant(function: types.FunctionType, seen: set[types.CodeType]) -> bool:
    if function.__code__ in seen:
        return True
    seen.add(function.__code__)
    return all(_is_constant(name, function.__globals__, seen)
               for name in _globals(function.__code__))


def _globals(code: types.CodeType) -> Iterator[str]:
    """The global names that code and the functions within read."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals(constant)


_LIBRARIES = ("torch", "numpy", "math", "attacca")


def _is_of_library(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _LIBRARIES


def _is_library(value: Any) -> bool:
    return isinstance(value, types.ModuleType) and _is_of_library(value.__name__)


def _is_constant(name: str, variables: dict[str, Any], seen: set[types.CodeType]) -> bool:
    if name not in variables:
        return hasattr(builtins, name)
    value = variables[name]
    if isinstance(value, types.BuiltinFunctionType) or _is_library(value):
        return True
    if isinstance(value, types.FunctionType):
        if _is_of_library(value.__module__):
            return True
        own = value.__closure__ or value.__defaults__ or value.__kwdefaults__
        return not own and _all_constant(value, seen)
    return name.isupper() and isinstance(value, (bool, int, float))
