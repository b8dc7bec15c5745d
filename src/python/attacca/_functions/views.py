"""Rows of functions that move or repeat elements without computing."""
from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from .table import Call, Made, Refused, writes
from .values import Extent, axis_of, cast, fixed, integers, list_text


def permuted(call: Call, tensor: Any, axes: Sequence[int]) -> Made:
    rank = len(call.sizes(tensor))
    if sorted(axes) != list(range(rank)):
        raise Refused(f"the axes {tuple(axes)} of a tensor with {rank} axes")
    def sizes() -> Sequence[int]:
        return [call.sizes(tensor)[axis] for axis in axes]
    text = call.text(tensor)
    if list(axes) == list(range(rank)):
        return Made(text, sizes)
    if list(axes) == [*range(rank - 2), rank - 1, rank - 2]:
        return Made(f"transpose({text})", sizes)
    return Made(f"permute({text}, {list_text(axes)})", sizes)


def swapped(call: Call, tensor: Any, one: Any, other: Any) -> Made:
    first, second = axis_of(call, tensor, one, "dim0"), axis_of(call, tensor, other, "dim1")
    axes = list(range(len(call.sizes(tensor))))
    if axes:
        axes[first], axes[second] = axes[second], axes[first]
    return permuted(call, tensor, axes)


@writes("transpose swapaxes swapdims", "swapaxes")
def _transpose(call: Call, self: Any, dim0: int, dim1: int) -> Made:
    return swapped(call, self, dim0, dim1)


@writes("t", "")
def _t(call: Call, self: Any) -> Made:
    if len(call.sizes(self)) > 2:
        raise Refused("t of a tensor with more than two axes")
    return permuted(call, self, range(len(call.sizes(self)))[::-1])


@writes("permute", "transpose permute_dims")
def _permute(call: Call, self: Any, dims: Any = None) -> Made:
    axes = range(len(call.sizes(self)))[::-1] if dims is None else [axis_of(call, self, d, "dims")
                                                                    for d in dims]
    return permuted(call, self, list(axes))


@writes("adjoint mT", "matrix_transpose mT")
def _matrix_transpose(call: Call, self: Any) -> Made:
    rank = len(call.sizes(self))
    if rank < 2 and not (rank == 0 and call.framework == "torch"):
        raise Refused("a transpose of a tensor with less than two axes")
    return swapped(call, self, -1, -2) if rank else permuted(call, self, [])


@writes("numpy_T", "T")
def _reversed(call: Call, self: Any) -> Made:
    return permuted(call, self, range(len(call.sizes(self)))[::-1])


@writes("view reshape _unsafe_view", "reshape")
def _reshape(call: Call, self: Any, size: Any, order: str = "C") -> Made:
    if order != "C":
        raise Refused(f"the argument order={order!r}")
    def sizes() -> Sequence[int]:
        wanted = integers(size, "size")
        have, given = call.sizes(self), [s for s in wanted if s != -1]
        if len(given) + 1 < len(wanted):
            raise Refused(f"the argument size={size} has two -1")
        if len(given) == len(wanted):
            return wanted
        count = math.prod(given)
        if count == 0 or math.prod(have) % count:
            raise Refused(f"the argument size={size} for {math.prod(have)} elements")
        rest = math.prod(have) // count
        symbolic = any(type(extent) is not int for extent in [*have, *given])
        return [(Extent(rest, "-1") if symbolic else rest) if s == -1 else s for s in wanted]
    return call.reshape(call.text(self), sizes)


@writes("unsqueeze", "")
def _unsqueeze(call: Call, self: Any, dim: int) -> Made:
    rank = len(call.sizes(self)) + 1
    if not -rank <= dim < rank:
        raise Refused(f"the argument dim={dim} of a tensor with {rank - 1} axes")
    def sizes() -> Sequence[int]:
        have = list(call.sizes(self))
        have.insert(dim % rank, 1)
        return have
    return call.reshape(call.text(self), sizes)


@writes("", "expand_dims")
def _expand_dims(call: Call, self: Any, dim: int) -> Made:
    if not isinstance(dim, int):
        raise Refused(f"the argument axis={dim!r}")
    return _unsqueeze(call, self, dim)


@writes("squeeze", "squeeze")
def _squeeze(call: Call, self: Any, dim: Any = None) -> Made:
    dims = dim if isinstance(dim, (tuple, list)) else [dim]
    chosen = None if dim is None else {axis_of(call, self, d) for d in dims}
    def sizes() -> Sequence[int]:
        kept = []
        for i, extent in enumerate(call.sizes(self)):
            if chosen is not None and i not in chosen:
                kept.append(extent)
            elif fixed(extent, "a squeeze") != 1:
                if chosen is not None and call.framework == "numpy":
                    raise Refused(f"the argument axis={dim}: an axis of {extent} elements")
                kept.append(extent)
        return kept
    return call.reshape(call.text(self), sizes)


@writes("flatten", "")
def _flatten(call: Call, self: Any, start_dim: int = 0, end_dim: int = -1) -> Made:
    start, end = axis_of(call, self, start_dim, "start_dim"), axis_of(call, self, end_dim,
                                                                      "end_dim")
    if start > end:
        raise Refused(f"the argument start_dim={start_dim} is after end_dim")
    def sizes() -> Sequence[int]:
        have = list(call.sizes(self))
        merged = math.prod(have[start:end + 1])
        symbolic = any(type(extent) is not int for extent in have[start:end + 1])
        return [*have[:start], Extent(merged, "-1") if symbolic else merged, *have[end + 1:]]
    return call.reshape(call.text(self), sizes)


@writes("ravel", "ravel flatten")
def _ravel(call: Call, self: Any, order: str = "C") -> Made:
    if order != "C":
        raise Refused(f"the argument order={order!r}")
    return _flatten(call, self) if call.sizes(self) else call.reshape(call.text(self), lambda: [1])


@writes("unflatten", "")
def _unflatten(call: Call, self: Any, dim: int, sizes: Any) -> Made:
    axis = axis_of(call, self, dim)
    def result() -> Sequence[int]:
        have, wanted = list(call.sizes(self)), [operator.index(s) for s in sizes]
        extent = fixed(have[axis], "unflatten")
        if -1 in wanted:
            rest = math.prod(s for s in wanted if s != -1)
            wanted[wanted.index(-1)] = extent // rest if rest else 0
        if math.prod(wanted) != extent or any(s < 0 for s in wanted):
            raise Refused(f"the argument sizes={sizes} for an axis of {extent}")
        return [*have[:axis], *wanted, *have[axis + 1:]]
    return call.reshape(call.text(self), result)


@writes("expand", "")
def _expand(call: Call, self: Any, size: Any) -> Made:
    def sizes() -> Sequence[int]:
        wanted, have = integers(size, "size"), list(call.sizes(self))
        new = len(wanted) - len(have)
        have = [1] * new + have
        if new < 0 or -1 in wanted[:new] or any(w != e and w != -1 and e != 1
                                                for w, e in zip(wanted, have)):
            raise Refused(f"the argument size={size} of a tensor of shape {tuple(have)}")
        return [e if w == -1 else w for w, e in zip(wanted, have)]
    return call.broadcast_to(self, sizes)


def concatenated(call: Call, tensors: Sequence[Any], axis: int, dtype: str) -> Made:
    """Tensors one after another along an axis."""
    def sizes() -> Sequence[int]:
        found = list(call.sizes(tensors[0]))
        extents = [call.sizes(t)[axis] for t in tensors]
        total = sum(int(e) for e in extents)
        found[axis] = total if all(type(e) is int for e in extents) else Extent(total)
        return found
    return Made(f"concat({', '.join(cast(call, t, dtype) for t in tensors)}, axis={axis})", sizes)


@writes("cat concat concatenate", "concatenate concat")
def _cat(call: Call, tensors: Any, dim: Any = 0) -> Made:
    tensors = list(tensors)
    if dim is None:
        raise Refused("the argument axis=None")
    if any(len(call.sizes(t)) != len(call.sizes(tensors[0])) for t in tensors):
        raise Refused("the argument tensors: their ranks differ")
    if not call.sizes(tensors[0]):
        raise Refused("the argument tensors: scalars")
    return concatenated(call, tensors, axis_of(call, tensors[0], dim), call.result)
