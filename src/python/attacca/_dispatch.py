"""Whether a call must go through torch's dispatcher, as a custom op, rather than straight to memory.

It must where torch watches or rewrites operations: while Dynamo, make_fx, torch.export or torch.jit
trace, inside transforms such as vmap and jvp, under forward-mode derivatives, and for tensors that
dispatch in Python, such as FakeTensor. torch is never imported here.
"""
from __future__ import annotations

import contextlib
import sys
import threading
from typing import Any, Iterable, Iterator, NamedTuple

from ._errors import Error

_here = threading.local()  # .inside: this thread runs a custom op's kernel, for which dispatch is over
_dispatches: dict[type, bool] = {}  # by a tensor's type: whether it dispatches in Python


def wanted(tensors: Iterable[Any]) -> bool:
    """Whether a call with these tensors must be dispatched."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    if torch.compiler.is_dynamo_compiling():  # Dynamo reads no further
        return True
    core = torch._C
    if (core._len_torch_dispatch_stack() or core._functorch.peek_interpreter_stack() is not None
            or torch.autograd.forward_ad._current_level >= 0 or core._get_tracing_state() is not None
            or core._dispatch_tls_is_dispatch_key_included(core.DispatchKey.PreDispatch)):
        return not _inside() and any(isinstance(tensor, torch.Tensor) for tensor in tensors)
    for tensor in tensors:
        kind = type(tensor)
        dispatches = _dispatches.get(kind)
        if dispatches is None:
            dispatches = _dispatches[kind] = _dispatches_in_python(torch, kind)
        if dispatches:
            return not _inside()
    return False


def _dispatches_in_python(torch: Any, kind: type) -> bool:
    return issubclass(kind, torch.Tensor) and kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__


def _inside() -> bool:
    return getattr(_here, "inside", False)


@contextlib.contextmanager
def inside() -> Iterator[None]:
    """While a custom op's kernel runs: its tensors have memory, and nothing is dispatched again."""
    before = _inside()
    _here.inside = True
    try:
        yield
    finally:
        _here.inside = before


def without_memory(tensor: Any, where: str) -> int:
    """The address of a tensor that has none: 0 where the call will be dispatched.

    Raises:
        Error: The call will not be.
    """
    if wanted([tensor]):
        return 0
    raise Error(f"a {type(tensor).__name__} that has no memory", where, "give a tensor with elements")


class Shaped(NamedTuple):
    """What tracing a callable epilogue reads of an operand."""

    shape: tuple[int, ...]
