"""Rows of functions that take parts of an axis: slices and splits."""
from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from .table import Call, Made, Refused, writes
from .values import FLOATS, Extent, axis_of, fixed


def sliced(call: Call, tensor: Any, dim: int, begin: Any, end: Any, step: int = 1) -> str:
    if not all(b is None or isinstance(b, int) for b in (begin, end, step)):
        raise Refused("a slice with unknown bounds")
    rank = len(call.sizes(tensor))
    ranges = [":"] * rank
    ranges[dim] = f"{begin or ''}:{'' if end is None else end}" + (f":{step}" if step != 1 else "")
    return f"{call.text(tensor)}[{', '.join(ranges)}]"


def slice_size(extent: int, begin: Any, end: Any, step: int) -> int:
    size = len(range(*slice(begin, end, step).indices(int(extent))))
    if type(extent) is int:
        return size
    whole = begin in (None, 0) and end is None and step == 1
    return extent if whole else Extent(size)


@writes("slice", "")
def _slice(call: Call, self: Any, dim: int = 0, start: Any = None, end: Any = None,
           step: int = 1) -> Made:
    axis = axis_of(call, self, dim)
    if not call.sizes(self):
        raise Refused("a slice of a scalar")
    extent = call.sizes(self)[axis]
    if type(extent) is int and all(b is None or isinstance(b, int) for b in (start, end)):
        start, end, _ = slice(start, end).indices(extent)
        end = None if end == extent and start <= end else max(start, end)
    elif isinstance(end, int) and end >= 2**62:
        end = None
    def sizes() -> Sequence[int]:
        found = list(call.sizes(self))
        found[axis] = slice_size(found[axis], start, end, step)
        return found
    return Made(sliced(call, self, axis, start, end, step), sizes)


@writes("select", "")
def _select(call: Call, self: Any, dim: int, index: Any) -> Made:
    axis = axis_of(call, self, dim)
    if not isinstance(index, int):
        raise Refused("the argument index is unknown")
    text = sliced(call, self, axis, index, index + 1 if index != -1 else None)
    return call.reshape(text, lambda: [e for i, e in enumerate(call.sizes(self)) if i != axis])


@writes("chunk", "")
def _chunk(call: Call, self: Any, chunks: int, dim: int = 0) -> list[Made]:
    axis = axis_of(call, self, dim)
    def sizes() -> Sequence[int] | int:
        extent = call.sizes(self)[axis]
        if type(extent) is not int or extent % chunks == 0 and extent:
            return chunks
        return _equal_sizes(extent, -(-extent // chunks))
    return call.parts(self, axis, sizes)


def _equal_sizes(extent: int, size: int) -> list[int]:
    if size <= 0:
        raise Refused("parts of no elements")
    return [min(size, extent - i) for i in range(0, extent, size)]


@writes("split split_with_sizes", "")
def _split(call: Call, self: Any, split_size: Any, dim: int = 0) -> list[Made]:
    axis = axis_of(call, self, dim)
    def sizes() -> Sequence[int]:
        extent = call.sizes(self)[axis]
        if isinstance(split_size, int):
            return _equal_sizes(fixed(extent, "a split into parts of one size"), split_size)
        found = [operator.index(s) for s in split_size]
        if any(s < 0 for s in found) or type(extent) is int and sum(found) != extent:
            raise Refused(f"the argument split_size={split_size} for an axis of {extent}")
        return found
    return call.parts(self, axis, sizes)


@writes("tensor_split", "array_split split")
def _split_at(call: Call, self: Any, indices_or_sections: Any, dim: int = 0) -> list[Made]:
    axis = axis_of(call, self, dim)
    def sizes() -> Sequence[int] | int:
        extent = call.sizes(self)[axis]
        if isinstance(indices_or_sections, int):
            sections = indices_or_sections
            if sections < 1:
                raise Refused(f"the argument indices_or_sections={sections}")
            if type(extent) is not int:
                return sections
            if extent % sections and call.name == "split":
                raise Refused(
                    f"the argument indices_or_sections={sections} for an axis of {extent}")
            return [extent // sections + (i < extent % sections) for i in range(sections)]
        extent = fixed(extent, "a split at indices")
        bounds = [0, *(slice(None, operator.index(i)).indices(extent)[1]
                       for i in indices_or_sections), extent]
        return [max(end - begin, 0)
                for begin, end in zip(bounds, bounds[1:])] if bounds == sorted(bounds) else \
            _unsorted(indices_or_sections)
    return call.parts(self, axis, sizes)


def _unsorted(indices: Any) -> Sequence[int]:
    raise Refused(f"the argument indices_or_sections={indices}: it does not ascend")


@writes("unbind", "")
def _unbind(call: Call, self: Any, dim: int = 0) -> list[Made]:
    axis = axis_of(call, self, dim)
    return [_select(call, self, axis, i) for i in range(fixed(call.sizes(self)[axis], "unbind"))]


@writes("glu")
def _glu(call: Call, self: Any, dim: int = -1) -> Made:
    if not call.sizes(self):
        raise Refused("glu of a scalar")
    value, gate = call.parts(self, axis_of(call, self, dim), lambda: 2)
    if call.dtype(self) not in FLOATS:
        raise Refused(f"an operand of dtype {call.dtype(self)}")
    return Made(f"{value.text} * sigmoid({gate.text})", value.sizes)
