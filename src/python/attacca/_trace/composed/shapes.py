"""Rows of functions that arrange, repeat, pick or make elements."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._functions.table import Refused
from ..._functions.values import (
    FLOATS,
    INTEGERS,
    axis_of,
    fixed,
    integers,
    is_number,
    literal,
)
from ..._functions.views import concatenated
from .table import Composer, composes

# ---- Joining


def _joined(call: Composer, tensors: Sequence[Any], axis: int) -> Any:
    if len(tensors) == 1 and call.dtype(tensors[0]) == call.result:
        return tensors[0]
    sizes = call.sizes(tensors[0])
    for x in tensors[1:]:
        if [e for i, e in enumerate(call.sizes(x)) if i != axis] != [
                e for i, e in enumerate(sizes) if i != axis]:
            raise Refused("the argument tensors: their shapes differ")
    return call.made(concatenated(call, tensors, axis, call.result), call.result)


def _all_tensors(call: Composer, tensors: Any) -> list[Any]:
    if not isinstance(tensors, (tuple, list)) or not tensors or not all(
            map(call.is_tensor, tensors)):
        raise Refused("the argument tensors")
    return list(tensors)


@composes("stack", "stack")
def _stack(call: Composer, tensors: Any, dim: int = 0) -> Any:
    given = _all_tensors(call, tensors)
    rank = len(call.sizes(given[0])) + 1
    if not -rank <= dim < rank:
        raise Refused(f"the argument dim={dim} of tensors with {rank - 1} axes")
    return _joined(call, [call.with_axis(x, dim % rank) for x in given], dim % rank)


@composes("hstack", "hstack")
def _hstack(call: Composer, tensors: Any) -> Any:
    given = [_at_least(call, x, 1) for x in _all_tensors(call, tensors)]
    return _joined(call, given, 0 if len(call.sizes(given[0])) == 1 else 1)


@composes("vstack row_stack", "vstack")
def _vstack(call: Composer, tensors: Any) -> Any:
    return _joined(call, [_at_least(call, x, 2) for x in _all_tensors(call, tensors)], 0)


def _at_least(call: Composer, x: Any, rank: int) -> Any:
    sizes = list(call.sizes(x))
    return call.reshaped(x, [1] * (rank - len(sizes)) + sizes)


# ---- Repeating


@composes("repeat", "")
def _repeat(call: Composer, self: Any, repeats: Any) -> Any:
    return _tiled(call, self, integers(repeats, "repeats"))


@composes("tile", "tile")
def _tile(call: Composer, self: Any, dims: Any) -> Any:
    counts = integers(dims, "dims")
    return _tiled(call, self, [1] * (len(call.sizes(self)) - len(counts)) + counts)


def _tiled(call: Composer, x: Any, counts: Sequence[int]) -> Any:
    sizes = [1] * (len(counts) - len(call.sizes(x))) + list(call.sizes(x))
    if len(sizes) != len(counts) or any(count < 0 for count in counts):
        raise Refused(f"{tuple(counts)} repetitions of a tensor of shape "
                      f"{tuple(call.sizes(x))}")
    x = call.reshaped(x, sizes)
    for axis, count in enumerate(counts):
        if count != 1:
            x = _repeated(call, x, axis, count, axis)
    return x


def _repeated(call: Composer, x: Any, axis: int, count: int, new_axis: int) -> Any:
    """An axis repeated: behind a new axis as a whole, before one element by element."""
    sizes = list(call.sizes(x))
    extent = fixed(sizes[axis], "repeating")
    apart = call.with_axis(x, new_axis)
    wide = list(call.sizes(apart))
    wide[new_axis] = count
    sizes[axis] = extent * count
    return call.reshaped(call.broadcasted(apart, wide), sizes)


@composes("repeat_interleave", "repeat")
def _repeat_interleave(call: Composer, self: Any, repeats: Any, dim: Any = None) -> Any:
    if not isinstance(repeats, int) or repeats < 0:
        raise Refused(f"the argument repeats={repeats!r}")
    x = call.flat(self) if dim is None else self
    axis = 0 if dim is None else call.axis(self, dim)
    return _repeated(call, x, axis, repeats, axis + 1)


@composes("broadcast_to", "broadcast_to")
def _broadcast_to(call: Composer, self: Any, size: Any) -> Any:
    wanted = integers(size, "size")
    have = [1] * (len(wanted) - len(call.sizes(self))) + list(call.sizes(self))
    if len(have) != len(wanted) or any(e not in (1, w) for e, w in zip(have, wanted)):
        raise Refused(f"the argument size={size} of a tensor of shape "
                      f"{tuple(call.sizes(self))}")
    return call.broadcasted(self, wanted)


@composes("expand_as", "")
def _expand_as(call: Composer, self: Any, other: Any) -> Any:
    return call.broadcasted(self, list(call.sizes(other)))


@composes("view_as reshape_as", "")
def _view_as(call: Composer, self: Any, other: Any) -> Any:
    return call.reshaped(self, list(call.sizes(other)))


@composes("type_as", "")
def _type_as(call: Composer, self: Any, other: Any) -> Any:
    return call.cast(self, call.dtype(other))


# ---- Ordering


@composes("movedim moveaxis", "moveaxis")
def _movedim(call: Composer, self: Any, source: Any, destination: Any) -> Any:
    begin, end = ([axis_of(call, self, d, name) for d in integers(given, name)]
                  for given, name in ((source, "source"), (destination, "destination")))
    if len(begin) != len(end) or len(set(begin)) < len(begin) or len(set(end)) < len(end):
        raise Refused(f"the argument source={source} and destination={destination}")
    rest = [i for i in range(len(call.sizes(self))) if i not in begin]
    for to, axis in sorted(zip(end, begin)):
        rest.insert(to, axis)
    return call.permute(self, rest) if call.sizes(self) else self


@composes("flip", "flip")
def _flip(call: Composer, self: Any, dims: Any = None) -> Any:
    axes = call.axes(self, dims) if dims is None else [
        call.axis(self, d, "dims") for d in integers(dims, "dims")]
    if len(set(axes)) < len(axes):
        raise Refused(f"the argument dims={dims} names an axis twice")
    sizes = call.sizes(self)
    if not sizes or not axes:
        return self
    ranges = ["::-1" if i in axes else ":" for i in range(len(sizes))]
    return call.keep(f"{call.text(self)}[{', '.join(ranges)}]", call.dtype(self), sizes)


@composes("fliplr flipud", "fliplr flipud")
def _flip_one(call: Composer, self: Any) -> Any:
    return _flip(call, self, [1 if call.name == "fliplr" else 0])


@composes("roll", "roll")
def _roll(call: Composer, self: Any, shifts: Any, dims: Any = None) -> Any:
    steps = integers(shifts, "shifts")
    sizes = call.sizes(self)
    if dims is None or dims in ((), []):
        if len(steps) != 1:
            raise Refused(f"the argument shifts={shifts} without axes")
        return call.reshaped(_rolled(call, call.flat(self), 0, steps[0]), list(sizes))
    axes = [call.axis(self, d, "dims") for d in integers(dims, "dims")]
    if len(steps) == 1 and call.framework == "numpy":
        steps = steps * len(axes)
    if len(steps) != len(axes):
        raise Refused(f"the argument shifts={shifts} for dims={dims}")
    for axis, step in zip(axes, steps):
        self = _rolled(call, self, axis, step)
    return self


def _rolled(call: Composer, x: Any, axis: int, step: int) -> Any:
    extent = fixed(call.sizes(x)[axis], "a roll")
    shift = step % extent if extent else 0
    if shift == 0:
        return x
    return _joined(call, [call.range(x, axis, extent - shift, extent),
                          call.range(x, axis, 0, extent - shift)], axis)


@composes("narrow", "")
def _narrow(call: Composer, self: Any, dim: int, start: Any, length: int) -> Any:
    if not isinstance(start, int) or not isinstance(length, int):
        raise Refused(f"the argument start={start!r}")
    axis = call.axis(self, dim)
    begin = start % fixed(call.sizes(self)[axis], "narrow") if start < 0 else start
    return call.range(self, axis, begin, begin + length)


# ---- Picking


@composes("index_select", "")
def _index_select(call: Composer, self: Any, dim: int, index: Any) -> Any:
    if not call.sizes(self) or len(call.sizes(index)) > 1:
        raise Refused(f"shapes {tuple(call.sizes(self))} and {tuple(call.sizes(index))}")
    flat = index if call.sizes(index) else call.reshaped(index, [1])
    return taken(call, self, call.axis(self, dim), flat)


@composes("embedding", "")
def _embedding(call: Composer, self: Any, weight: Any) -> Any:
    return taken(call, weight, 0, self)


@composes("", "take")
def _take(call: Composer, self: Any, indices: Any, dim: Any = None) -> Any:
    if not call.is_tensor(indices):
        raise Refused(f"the argument indices={indices!r}: give an array")
    if dim is None:
        return taken(call, call.flat(self), 0, indices)
    if not call.sizes(self):
        raise Refused("an index of a scalar")
    return taken(call, self, call.axis(self, dim), indices)


def taken(call: Composer, x: Any, axis: int, index: Any) -> Any:
    """Elements of an axis by an integer index, whose axes take the axis's place."""
    kinds = INTEGERS if call.framework == "numpy" else ("s32", "s64")
    if call.dtype(index) not in kinds:
        raise Refused(f"an index of dtype {call.dtype(index)}")
    if call.dtype(index) in ("s8", "u8"):
        index = call.cast(index, "s64")
    sizes = list(call.sizes(x))
    return call.keep(f"gather({call.text(x)}, {call.text(index)}, axis={axis})", call.dtype(x),
                     [*sizes[:axis], *call.sizes(index), *sizes[axis + 1:]])


# ---- Making. The framework's own function says which dtype results.


@composes("zeros_like new_zeros", "zeros_like")
def _zeros(call: Composer, self: Any, size: Any = None, dtype: Any = None) -> Any:
    return _full(call, self, size, 0)


@composes("ones_like new_ones", "ones_like")
def _ones(call: Composer, self: Any, size: Any = None, dtype: Any = None) -> Any:
    return _full(call, self, size, 1)


@composes("full_like", "full_like")
def _full_like(call: Composer, self: Any, fill_value: Any, dtype: Any = None) -> Any:
    return _full(call, self, None, fill_value)


@composes("new_full", "")
def _new_full(call: Composer, self: Any, size: Any, fill_value: Any,
              dtype: Any = None) -> Any:
    return _full(call, self, size, fill_value)


def _full(call: Composer, x: Any, size: Any, value: Any) -> Any:
    sizes = list(call.sizes(x)) if size is None else integers(size, "size")
    return call.constant(_literal(value, call.result, "fill_value"), call.result, sizes)


def _literal(value: Any, dtype: str, name: str) -> str:
    if not is_number(value):
        raise Refused(f"the argument {name}={value!r}")
    whole = isinstance(value, float) and value.is_integer() and dtype not in FLOATS
    return literal(int(value) if whole else value, dtype, name).strip("()")


@composes("tril triu", "tril triu")
def _triangle(call: Composer, self: Any, diagonal: int = 0) -> Any:
    sizes = list(call.sizes(self))
    if len(sizes) == 1 and call.framework == "numpy":
        sizes *= 2  # a row for each row
    if len(sizes) < 2:
        raise Refused(f"{call.name} of a tensor with {len(sizes)} axes")
    rows, columns = (fixed(extent, call.name) for extent in sizes[-2:])
    row = call.keep(f"reshape(arange([0, {rows}]), [{rows}, 1])", "s64", [rows, 1])
    column = call.keep(f"arange([0, {columns}])", "s64", [columns])
    relation = "<=" if call.name == "tril" else ">="
    text = f"where({call.text(column)} {relation} {call.text(row)} + ({int(diagonal)}), " \
           f"{call.text(self)}, {literal(0, call.dtype(self))})"
    return call.keep(text, call.dtype(self), sizes)


@composes("pad constant_pad_nd", "")
def _pad(call: Composer, self: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    if mode != "constant":
        raise Refused(f"the argument mode={mode!r}")
    rank, widths = len(call.sizes(self)), integers(pad, "pad")
    if len(widths) % 2 or len(widths) > 2 * rank:
        raise Refused(f"the argument pad={pad} of a tensor with {rank} axes")
    fill = _literal(0 if value is None else value, call.dtype(self), "value")
    for i in range(len(widths) // 2):
        self = _padded(call, self, rank - 1 - i, widths[2 * i], widths[2 * i + 1], fill)
    return self


@composes("", "pad")
def _numpy_pad(call: Composer, self: Any, pad_width: Any, mode: str = "constant",
               constant_values: Any = 0) -> Any:
    if mode != "constant":
        raise Refused(f"the argument mode={mode!r}")
    fill = _literal(constant_values, call.dtype(self), "constant_values")
    each, rank = pad_width, len(call.sizes(self))
    if isinstance(each, int):
        each = [each]
    if all(isinstance(width, int) for width in each) and len(each) in (1, 2):
        each = [[each[0], each[-1]]]
    widths = [integers(pair, "pad_width") for pair in each]
    widths = widths * rank if len(widths) == 1 else widths
    if rank == 0 or len(widths) != rank or any(len(w) != 2 or min(w) < 0 for w in widths):
        raise Refused(f"the argument pad_width={pad_width} of a tensor with {rank} axes")
    for axis, (before, after) in enumerate(widths):
        self = _padded(call, self, axis, before, after, fill)
    return self


def _padded(call: Composer, x: Any, axis: int, before: int, after: int, fill: str) -> Any:
    """An axis with more elements at its ends, or, for negative numbers, fewer."""
    if before < 0 or after < 0:
        extent = fixed(call.sizes(x)[axis], "a pad")
        x = call.range(x, axis, max(-before, 0), extent - max(-after, 0))
    sizes = list(call.sizes(x))
    def margin(width: int) -> list[Any]:
        wide = [*sizes[:axis], width, *sizes[axis + 1:]]
        return [call.constant(fill, call.dtype(x), wide)] if width > 0 else []
    return _joined(call, [*margin(before), x, *margin(after)], axis)
