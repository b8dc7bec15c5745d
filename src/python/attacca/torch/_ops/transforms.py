"""Rules of the custom ops for torch's transforms: vmap computes, derivatives are refused."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..._errors import Error
from ..._matmul import roles
from .text_argument import plain

# ---- vmap


def _split(values: Any, dims: Any, index: int) -> Any:
    """Element ``index`` along the batch, of a tensor or a list of them; others as they are."""
    if isinstance(values, (list, tuple)):
        return [_split(value, dim, index) for value, dim in zip(values, dims)]
    if dims is None:
        return values
    part = values.select(dims, index)
    dense = part.is_contiguous() or (part.dim() > 1 and part.mT.is_contiguous())
    return part if dense else part.contiguous()


def _one_by_one(op: Any, batch: int, dims: Sequence[Any], arguments: Sequence[Any]) -> Any:
    """Calls an op for each element of the batch, and stacks the results."""
    calls = [op(*[_split(value, dim, i) for value, dim in zip(arguments, dims)])
             for i in range(batch)]
    if isinstance(calls[0], torch.Tensor):
        return torch.stack(calls), 0
    return [torch.stack(parts) for parts in zip(*calls)], [0] * len(calls[0])


def _empty_batch(op: Any, dims: Sequence[Any], arguments: Sequence[Any]) -> Any:
    """An empty batch: results of the shapes that one element gives."""
    def one(values: Any, dim: Any) -> Any:
        if isinstance(values, (list, tuple)):
            return [one(value, each) for value, each in zip(values, dim)]
        return values if dim is None else values.new_zeros(values.select(dim, 0).shape
                                                           if values.shape[dim] else
                                                           [n for i, n in enumerate(values.shape)
                                                            if i != dim])
    results = op(*[one(value, dim) for value, dim in zip(arguments, dims)])
    if isinstance(results, torch.Tensor):
        return results.new_empty((0, *results.shape)), 0
    return [result.new_empty((0, *result.shape)) for result in results], [0] * len(results)


def vmap_one_by_one(op: Any) -> Callable[..., Any]:
    """The rule of an op that runs once for each element of the batch."""
    def rule(info: Any, dims: Sequence[Any], *arguments: Any) -> Any:
        if info.batch_size == 0:
            return _empty_batch(op, dims, arguments)
        return _one_by_one(op, info.batch_size, dims, arguments)
    return rule


def vmap_rows(op: Any) -> Callable[..., Any]:
    """The rule of the product's op: a batch of a alone becomes rows of one product; others are
    computed one by one."""
    loop = vmap_one_by_one(op)

    def rule(info: Any, dims: Sequence[Any], tensors: Sequence[torch.Tensor], names: str,
             epilogue: str,
             options: str) -> Any:
        of_a, *others = dims[0]
        if any(dim is not None
               for dim in others) or not set(roles(plain(epilogue)).values()) <= {"row", "scalar"}:
            return loop(info, dims, tensors, names, epilogue, options)
        a, *rest = tensors
        results = op([a.movedim(of_a, 0).contiguous(), *rest], names, epilogue, options)
        return results, 0 if isinstance(results, torch.Tensor) else [0] * len(results)
    return rule


# ---- Derivatives


def _tensors(arguments: Sequence[Any]) -> list[torch.Tensor]:
    return [tensor for value in arguments
            for tensor in (value if isinstance(value, (list, tuple)) else [value])
            if isinstance(tensor, torch.Tensor)]


def without_derivatives(op: Any) -> Callable[..., Any]:
    """The op below autograd; an error for tensors that need a derivative."""
    def checked(*arguments: Any) -> Any:
        given = _tensors(arguments)
        for tensor in given:
            if tensor.requires_grad and torch.is_grad_enabled():
                raise Error("the tensor requires a gradient, which Attacca does not compute",
                            str(op),
                            "call .detach(), or run under torch.no_grad()")
            if torch.autograd.forward_ad._current_level >= 0 and _has_tangent(tensor):
                raise Error(
                    "the tensor has a forward-mode tangent, and Attacca computes no derivatives",
                    str(op),
                            "call torch.autograd.forward_ad.unpack_dual(x).primal, or "
                            "differentiate without it")
        with torch._C._AutoDispatchBelowAutograd():
            return op(*arguments)
    return checked


def _has_tangent(tensor: torch.Tensor) -> bool:
    return torch.autograd.forward_ad.unpack_dual(tensor).tangent is not None
