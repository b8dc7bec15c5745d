"""The table of functions: what a row is, and the interface by which a row's writer sees a call.

A row has the names of ATen ops, which torch's functions and methods share, the names of numpy's
functions, and the writer, the function that writes a call in the text form. The writer's parameters
have the names of ATen's schema, where torch's ``input`` is ``self``; :mod:`.binding` finds the
argument for each. It asks a :class:`Call` for dtypes and sizes, so that the tracer and the FX
importer use the same writers.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar


class Refused(Exception):
    """The reason why a call cannot be written in the text form."""


class Made(NamedTuple):
    """What a writer returns: an expression, and a function that computes its sizes.

    For FX nodes alone, ``first`` has statements that the expression needs, each with its semicolon.
    They define names such as "node.weights", which no node has.
    """

    text: str
    sizes: Callable[[], Sequence[int]]
    first: str = ""


class Row(NamedTuple):
    """One function of the table.

    Attributes:
        aten: The names of its ATen ops without "aten."; torch's functions and methods have the same
            names.
        numpy: The names of numpy's functions, ufuncs and methods.
        write: The writer, called with a :class:`Call` and arguments; returns a :class:`Made` or a
            list of them.
        parameters: The names of the arguments that ``write`` takes.
    """

    aten: tuple[str, ...]
    numpy: tuple[str, ...]
    write: Callable[..., Any]
    parameters: tuple[str, ...]


TABLE: list[Row] = []
BY_ATEN: dict[str, Row] = {}
BY_NUMPY: dict[str, Row] = {}


def register(aten: str, numpy: str, write: Callable[..., Any], parameters: Sequence[str]) -> None:
    """Adds a :class:`Row` to the table; ``aten`` and ``numpy`` are names separated by spaces."""
    row = Row(tuple(aten.split()), tuple(numpy.split()), write, tuple(parameters))
    TABLE.append(row)
    BY_ATEN.update(dict.fromkeys(row.aten, row))
    BY_NUMPY.update(dict.fromkeys(row.numpy, row))


Writer = TypeVar("Writer", bound=Callable[..., Any])


def writes(aten: str, numpy: str = "") -> Callable[[Writer], Writer]:
    """Registers the decorated function as a writer. Its first parameter is the :class:`Call`, the
    others are the arguments that it takes."""
    def decorate(write: Writer) -> Writer:
        register(aten, numpy, write, list(inspect.signature(write).parameters)[1:])
        return write
    return decorate


class Call:
    """One call of a function, as a writer sees it; its tensors are stand-ins or FX nodes. The
    tracer and the FX importer implement it."""

    framework = "torch"  # whose rules apply: "torch" or "numpy"
    name = ""  # of the function

    def is_tensor(self, value: Any) -> bool:
        raise NotImplementedError

    def text(self, tensor: Any) -> str:
        """The name or expression of a tensor."""
        raise NotImplementedError

    def dtype(self, tensor: Any) -> str:
        """A tensor's dtype as in the text form."""
        raise NotImplementedError

    def sizes(self, tensor: Any) -> Sequence[Any]:
        """A tensor's extents, which may be symbolic."""
        raise NotImplementedError

    @property
    def result(self) -> str:
        """The dtype that the framework gives the call's result."""
        raise NotImplementedError

    def common(self, operands: Sequence[Any]) -> str:
        """The dtype in which the framework computes with these tensors and numbers."""
        raise NotImplementedError

    def extent_text(self, extent: Any) -> str:
        """A size as the text form writes it."""
        raise NotImplementedError

    def reshape(self, text: str, sizes: Callable[[], Sequence[int]]) -> Made:
        """The expression ``text`` reshaped to other sizes."""
        raise NotImplementedError

    def broadcast_to(self, tensor: Any, sizes: Callable[[], Sequence[int]]) -> Made:
        """A tensor broadcast to other sizes."""
        raise NotImplementedError

    def parts(self, tensor: Any, dim: int, sizes: Callable[[], Sequence[int] | int]) -> list[Made]:
        """Consecutive parts of an axis: of the given sizes, or a number of equal parts."""
        raise NotImplementedError
