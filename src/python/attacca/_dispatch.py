"""Decides whether a call goes through torch's dispatcher as a custom op or reads its tensors'
memory directly.

It must go through the dispatcher wherever torch records or transforms operations: while Dynamo,
make_fx, torch.export or torch.jit trace, inside transforms such as vmap and jvp, under forward-mode
derivatives, and for tensors that dispatch in Python, such as FakeTensor. :mod:`attacca.torch`
registers its custom ops here; if it was not imported, :func:`custom_ops` imports it.
"""
from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from ._errors import Error

# .inside: this thread runs the kernel of a custom op, which was dispatched already
_here = threading.local()
_dispatches: dict[type, bool] = {}  # tensor type -> whether it dispatches in Python
_watched: Callable[[Iterable[Any]], bool] | None = None


def traced() -> bool:
    """Whether Dynamo traces the caller."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_dynamo_compiling()


def wanted(tensors: Iterable[Any]) -> bool:
    """Whether a call with these tensors must be dispatched."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    if torch.compiler.is_dynamo_compiling():  # Dynamo does not trace the rest
        return True
    global _watched
    if _watched is None:
        _watched = _watch(torch)
    return _watched(tensors)


class CustomOps(Protocol):
    """The functions that :mod:`attacca.torch` registers; each calls a custom op."""

    def matmul(self, a: Any, b: Any, epilogue: Any, out: Any, chosen: Sequence[Any],
               operands: dict[str, Any]) -> Any: ...

    def plan(self, engine: Any, inputs: Sequence[Any], named: dict[str, Any], out: Any) -> Any: ...

    def fused(self, called: Any, inputs: Sequence[Any], named: dict[str, Any], out: Any) -> Any: ...

    def plan_argument(self, engine: Any) -> str: ...


_custom_ops: Any = None


def register(ops: CustomOps) -> None:
    """Sets what :func:`custom_ops` returns."""
    global _custom_ops
    _custom_ops = ops


def custom_ops() -> CustomOps:
    """The custom ops of :mod:`attacca.torch`. Dynamo traces this function."""
    from . import torch  # noqa: F401  registers them

    ops: CustomOps = _custom_ops
    return ops


class Watch(NamedTuple):
    """A way to find out whether torch records or transforms operations: if it does not,
    ``function(argument)`` returns ``calm``. An ``argument`` of None is left out."""

    function: Callable[..., Any]
    argument: Any
    calm: Any


def watches(torch: Any) -> list[Watch]:
    """What :func:`wanted` and :class:`_core.CallCache` check before every call outside of
    Dynamo."""
    core, forward_ad = torch._C, torch.autograd.forward_ad
    return [Watch(core._len_torch_dispatch_stack, None, 0),
            Watch(core._functorch.peek_interpreter_stack, None, None),
            Watch(functools.partial(getattr, forward_ad, "_current_level"), None, -1),
            Watch(core._get_tracing_state, None, None),
            Watch(core._dispatch_tls_is_dispatch_key_included, core.DispatchKey.PreDispatch, False)]


def _watch(torch: Any) -> Callable[[Iterable[Any]], bool]:
    """The check that every call outside of Dynamo makes; torch's functions are looked up once."""
    all_watches = watches(torch)
    by_type = _dispatches.get

    def watched(tensors: Iterable[Any]) -> bool:
        for function, argument, calm in all_watches:
            if (function() if argument is None else function(argument)) != calm:
                return not _inside() and any(isinstance(tensor, torch.Tensor) for tensor in tensors)
        for tensor in tensors:
            dispatches = by_type(type(tensor))
            if dispatches is None:
                dispatches = _dispatches[type(tensor)] = _dispatches_in_python(torch, type(tensor))
            if dispatches:
                return not _inside()
        return False
    return watched


def _dispatches_in_python(torch: Any, kind: type) -> bool:
    theirs = getattr(kind, "__torch_dispatch__", None)
    return issubclass(kind, torch.Tensor) and theirs is not torch.Tensor.__torch_dispatch__


def _inside() -> bool:
    return getattr(_here, "inside", False)


@contextlib.contextmanager
def inside() -> Iterator[None]:
    """A context in which a custom op's kernel runs: its tensors have memory, and calls in it are
    not dispatched again."""
    before = _inside()
    _here.inside = True
    try:
        yield
    finally:
        _here.inside = before


@contextlib.contextmanager
def unwatched() -> Iterator[None]:
    """A context in which torch does not record operations, for those of Attacca itself."""
    if "torch" not in sys.modules:
        yield
        return
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():
        yield


def uncompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, excluded from Dynamo together with everything it calls."""
    dynamo = sys.modules.get("torch._dynamo")
    return function if dynamo is None else dynamo.disable(function)


def without_memory(tensor: Any, where: str) -> int:
    """The address to use for a tensor without memory: 0, since the call will be dispatched.

    Raises:
        Error: The call will not be dispatched.
    """
    if wanted([tensor]):
        return 0
    raise Error(f"a {type(tensor).__name__} that has no memory", where,
                "give a tensor with elements")
