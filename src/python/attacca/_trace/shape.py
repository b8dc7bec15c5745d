"""Shapes of stand-ins, whose sizes may be symbols."""
from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from .._errors import Error


class Shape(tuple[int, ...]):
    """A shape whose symbolic sizes cannot be read: a number that is computed from one would hold
    for one call alone. Whatever a tuple can do with its elements goes through :meth:`__iter__` or
    returns another shape."""

    def __iter__(self) -> Iterator[int]:
        return map(_known, tuple.__iter__(self))

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return Shape(found) if isinstance(index, slice) else _known(found)

    def __eq__(self, other: object) -> bool:
        return tuple(self) == (tuple(other) if isinstance(other, Shape) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, tuple):
            return NotImplemented
        return Shape([*tuple.__iter__(self), *tuple.__iter__(other)])

    def __radd__(self, other: Any) -> Any:
        if not isinstance(other, tuple):
            return NotImplemented
        return Shape([*other, *tuple.__iter__(self)])

    def __mul__(self, times: Any) -> Shape:
        return Shape(tuple.__mul__(self, times))

    __rmul__ = __mul__

    def numel(self) -> int:
        """As torch.Size has it."""
        return math.prod(self)


def _by_elements(name: str) -> Callable[..., Any]:
    of_tuple = getattr(tuple, name)
    return lambda self, *others: of_tuple(
        tuple(self), *(tuple(other) if isinstance(other, Shape) else other for other in others))


for _name in ("__contains__", "__lt__", "__le__", "__gt__", "__ge__", "count", "index"):
    setattr(Shape, _name, _by_elements(_name))


def _known(size: int) -> int:
    if type(size) is not int:
        text = getattr(size, "text", None)
        name = "of an axis" if text in (None, "-1") else text
        raise Error(f"the function reads the size {name}, which is symbolic", "shape",
                    "write -1 where a shape is given, or leave the size out of the annotation")
    return size
