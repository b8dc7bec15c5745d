"""The table of functions of numpy and torch that have a text: its rows, and what a writer sees of a call.

A row names the ATen ops (torch's functions and methods share their names), the functions of numpy, and the
writer of the text. Arguments arrive by the names in ATen's schema, bound by :mod:`.binding`; ``input`` is called
``self``. A writer asks a :class:`Call` for dtypes and sizes, and does not know whether the tracer or the FX
importer calls it.
"""
from __future__ import annotations

import inspect
from typing import Any, Callable, NamedTuple, Sequence, TypeVar


class Refused(Exception):
    """Why a call has no text."""


class Made(NamedTuple):
    """What a writer returns: an expression, and its sizes, which are computed where they are needed."""

    text: str
    sizes: Callable[[], Sequence[int]]


class Row(NamedTuple):
    """How the calls of one function are written.

    Attributes:
        aten: Names of ATen ops without "aten."; functions and methods of torch have them too.
        numpy: Names of numpy's functions, ufuncs and methods.
        write: Called with a :class:`Call` and the arguments; returns :class:`Made`, or a list of them.
        parameters: The names of the arguments that ``write`` understands.
    """

    aten: tuple[str, ...]
    numpy: tuple[str, ...]
    write: Callable[..., Any]
    parameters: tuple[str, ...]


TABLE: list[Row] = []
BY_ATEN: dict[str, Row] = {}
BY_NUMPY: dict[str, Row] = {}


def register(aten: str, numpy: str, write: Callable[..., Any], parameters: Sequence[str]) -> None:
    row = Row(tuple(aten.split()), tuple(numpy.split()), write, tuple(parameters))
    TABLE.append(row)
    BY_ATEN.update(dict.fromkeys(row.aten, row))
    BY_NUMPY.update(dict.fromkeys(row.numpy, row))


Writer = TypeVar("Writer", bound=Callable[..., Any])


def writes(aten: str, numpy: str = "") -> Callable[[Writer], Writer]:
    """Registers a writer; its parameters after the call are the arguments that it understands."""
    def decorate(write: Writer) -> Writer:
        register(aten, numpy, write, list(inspect.signature(write).parameters)[1:])
        return write
    return decorate


class Call:
    """One call as a writer sees it. The tracer and the FX importer each have one."""

    framework = "torch"  # whose rules hold: "torch" or "numpy"
    name = ""  # the function's

    def is_tensor(self, value: Any) -> bool:
        raise NotImplementedError

    def text(self, tensor: Any) -> str:
        """A tensor's name."""
        raise NotImplementedError

    def dtype(self, tensor: Any) -> str:
        raise NotImplementedError

    def sizes(self, tensor: Any) -> Sequence[Any]:
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
        """The same elements in other sizes."""
        raise NotImplementedError

    def broadcast_to(self, tensor: Any, sizes: Callable[[], Sequence[int]]) -> Made:
        raise NotImplementedError

    def parts(self, tensor: Any, dim: int, sizes: Callable[[], "Sequence[int] | int"]) -> list[Made]:
        """Consecutive parts of an axis: of these sizes, or so many equal ones."""
        raise NotImplementedError
