"""Rows of functions along an axis: where extremes are, elements by an index for each, products,
running sums and running products."""
from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

from ..._functions.table import Refused
from ..._functions.values import FLOATS, INTEGERS, fixed, integers, literal
from ..._functions.views import concatenated
from .table import Composer, composes

_NOWHERE = 1 << 62  # a place that no tensor has: behind all others, and an error of gather

# ---- Extremes


def _extreme_with_place(call: Composer, x: Any, axis: int, op: str,
                        keepdim: Any) -> tuple[Any, Any]:
    """The extreme of an axis, and the first place that has it. A NaN counts as the extreme."""
    dtype, extent = call.dtype(x), call.sizes(x)[axis]
    if extent == 0:
        raise Refused("the extreme of an axis without elements")
    if dtype not in FLOATS:  # reductions have no bool
        x = call.cast(x, "s64" if dtype == "s64" else "s32")
    best = call.reduce(op, x, axis, True)
    found = x == best
    if dtype in FLOATS:
        found = found | (x != x)
    counting = _counting(call, x, axis)
    text = f"where({call.text(found)}, {call.text(counting)}, {_NOWHERE})"
    places = call.reduce("reduce_min", call.keep(text, "s64", call.sizes(x)), axis, keepdim)
    return call.cast(call.reshaped(best, list(call.sizes(places))), dtype), places


def _counting(call: Composer, x: Any, axis: int) -> Any:
    """0, 1, 2, ... along an axis of ``x``; the other axes have one element."""
    sizes: list[int] = [1] * len(call.sizes(x))
    sizes[axis] = call.sizes(x)[axis]
    extent = call.extent_text(sizes[axis])
    if extent == "-1":  # several axes as one
        raise Refused("places within axes whose sizes are symbolic")
    return call.reshaped(call.keep(f"arange([0, {extent}])", "s64", [sizes[axis]]), sizes)


@composes("argmax argmin", "argmax argmin")
def _arg_extreme(call: Composer, self: Any, dim: Any = None, keepdim: Any = False) -> Any:
    if call.framework == "torch" and call.dtype(self) == "bool":
        raise Refused("an operand of dtype bool")
    op, rank = f"reduce_{call.name[-3:]}", len(call.sizes(self))
    axis = 0 if dim is None else call.axis(self, dim)
    x = call.flat(self) if dim is None or not rank else self
    _, places = _extreme_with_place(call, x, axis, op, keepdim and bool(rank) and dim is not None)
    if dim is None and keepdim:
        return call.reshaped(places, [1] * rank)
    return places if rank else call.reshaped(places, [])


@composes("max.dim min.dim", "")
def _extreme_of_axis(call: Composer, self: Any, dim: Any, keepdim: Any = False) -> Any:
    kind = getattr(sys.modules["torch"].return_types, call.name)
    axis, op = call.axis(self, dim), f"reduce_{call.name}"
    if not call.sizes(self):
        return kind((self, call.constant(0, "s64", [])))
    return kind(_extreme_with_place(call, self, axis, op, keepdim))


# ---- Elements by an index for each


@composes("gather", "")
def _gather(call: Composer, self: Any, dim: Any, index: Any, sparse_grad: Any = False) -> Any:
    axis = call.axis(self, dim)
    x, at = (each if call.sizes(each) else call.flat(each) for each in (self, index))
    return call.reshaped(_taken_along(call, x, axis, at), list(call.sizes(index)))


@composes("take_along_dim", "take_along_axis")
def _take_along(call: Composer, self: Any, indices: Any, dim: Any = None) -> Any:
    if dim is None:
        return _taken_along(call, call.flat(self), 0, call.flat(indices))
    axis, sizes = call.axis(self, dim), (list(call.sizes(self)), list(call.sizes(indices)))
    if not sizes[0] or len(sizes[0]) != len(sizes[1]):
        raise Refused(f"shapes {tuple(sizes[0])} and {tuple(sizes[1])}")
    for i, (mine, its) in enumerate(zip(*sizes)):
        if i != axis and mine != its:
            if 1 not in (mine, its):
                raise Refused(f"axis {i} of {mine} and {its} elements")
            sizes[0][i] = sizes[1][i] = its if mine == 1 else mine
    return _taken_along(call, call.broadcasted(self, sizes[0]), axis,
                        call.broadcasted(indices, sizes[1]))


def _taken_along(call: Composer, x: Any, axis: int, index: Any) -> Any:
    """An element of ``axis`` for each index; the other axes of the index are as long as those of
    ``x``, or shorter."""
    if call.dtype(index) not in (INTEGERS if call.framework == "numpy" else ("s32", "s64")):
        raise Refused(f"an index of dtype {call.dtype(index)}")
    sizes, shape = call.sizes(x), call.sizes(index)
    extent, index = fixed(sizes[axis], "an index"), call.cast(index, "s64")
    if call.framework == "numpy":  # a negative index counts from the end
        at = call.text(index)
        index = call.keep(f"where({at} < 0, {at} + {extent}, {at})", "s64", shape)
    flat = index
    for other in range(len(sizes)):
        steps = math.prod(fixed(e, f"{call.name} beside it") for e in sizes[other + 1:])
        step = (index if other == axis else _counting(call, index, other)) * steps
        flat = step if other == 0 else flat + step
    at = call.text(index)
    place = call.keep(f"where(and({at} >= 0, {at} < {extent}), {call.text(flat)}, {_NOWHERE})",
                      "s64", shape)
    return call.keep(f"gather({call.text(call.flat(x))}, {call.text(place)}, axis=0)",
                     call.dtype(x), shape)


# ---- Products, running sums and running products


def _wide_of_result(call: Composer, x: Any) -> Any:
    """The tensor in the dtype in which the framework computes sums and products of it."""
    return call.wide(call.cast(x, call.result)) if call.result in FLOATS else call.cast(
        x, call.result)


@composes("prod", "prod")
def _prod(call: Composer, self: Any, dim: Any = None, keepdim: Any = False,
          dtype: Any = None) -> Any:
    axes, x = call.axes(self, dim), _wide_of_result(call, self)
    if len(set(axes)) < len(axes):
        raise Refused(f"the argument dim={dim} names an axis twice")
    for axis in axes:
        x = _product(call, x, axis)
    left = [1 if i in axes else e for i, e in enumerate(call.sizes(self)) if keepdim
            or i not in axes]
    return call.cast(call.reshaped(x, left), call.result)


def _product(call: Composer, x: Any, axis: int) -> Any:
    """The product along an axis, of which one element stays: halves are multiplied."""
    extent = fixed(call.sizes(x)[axis], "a product")
    if extent == 0:
        sizes = list(call.sizes(x))
        sizes[axis] = 1
        return call.constant(literal(1, call.dtype(x)), call.dtype(x), sizes)
    odd = []
    while extent > 1:
        half = extent // 2
        if extent % 2:
            odd.append(call.range(x, axis, extent - 1, extent))
        x = call.range(x, axis, 0, half) * call.range(x, axis, half, 2 * half)
        extent = half
    return math.prod(odd, start=x)


@composes("cumsum", "cumsum")
def _cumsum(call: Composer, self: Any, dim: Any = None, dtype: Any = None) -> Any:
    return _running(call, self, dim, lambda a, b: a + b)


@composes("cumprod", "cumprod")
def _cumprod(call: Composer, self: Any, dim: Any = None, dtype: Any = None) -> Any:
    return _running(call, self, dim, lambda a, b: a * b)


def _running(call: Composer, x: Any, dim: Any,
             combine: Callable[[Any, Any], Any]) -> Any:
    """Each element combined with all before it, in steps: with the one before, the two before
    those, the four before those, ..."""
    x = _wide_of_result(call, call.flat(x) if dim is None else x)
    axis = 0 if dim is None else call.axis(x, dim)
    if call.sizes(x):
        extent, step = fixed(call.sizes(x)[axis], call.name), 1
        while step < extent:
            later = combine(call.range(x, axis, step, extent),
                            call.range(x, axis, 0, extent - step))
            x = call.made(concatenated(call, [call.range(x, axis, 0, step), later], axis,
                                       call.dtype(x)), call.dtype(x))
            step *= 2
    return call.cast(x, call.result)


@composes("diff", "diff")
def _diff(call: Composer, self: Any, n: Any = 1, dim: Any = -1) -> Any:
    (times,) = integers(n, "n")
    if not call.sizes(self) or times < 0:
        raise Refused(f"the {n}th difference of a tensor of shape {tuple(call.sizes(self))}")
    axis = call.axis(self, dim)
    for _ in range(times):
        extent = fixed(call.sizes(self)[axis], "a difference")
        after = call.range(self, axis, min(1, extent), extent)
        before = call.range(self, axis, 0, max(extent - 1, 0))
        self = after != before if call.dtype(self) == "bool" else after - before
    return self
