"""A call on stand-ins for tensors, as the writers of the tables of functions see it."""
from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Protocol

from .. import _frameworks
from .._arguments import LONG_NAMES, SHORT_NAMES
from .._functions.table import Call, Made, Refused
from .._functions.values import Extent, list_text


class Record(Protocol):
    """What calls need of :class:`.traced.Recorder`."""

    frameworks: list[str]
    foreign: bool

    @property
    def stand_in(self) -> type: ...

    def text_of(self, tensor: Any) -> str: ...

    def dtype_of(self, tensor: Any) -> str: ...

    def sizes_of(self, tensor: Any) -> tuple[int, ...]: ...

    def several(self, text: str, count: int) -> list[str]: ...

    def keep(self, text: str, dtype: str, sizes: Sequence[int]) -> Any: ...

    def mark(self) -> int: ...

    def since(self, mark: int) -> list[str]: ...

    def rewind(self, mark: int) -> None: ...

    def restore(self, statements: list[str]) -> None: ...


class TraceCall(Call):
    """A call on stand-ins by the rules of one framework.

    Attributes:
        run: The framework's own function, which is asked for the result's dtype.
    """

    def __init__(self, record: Record, framework: str, name: str, run: Callable[..., Any],
                 args: Sequence[Any],
                 keywords: dict[str, Any]):
        self.record, self.framework, self.name = record, framework, name
        self._run, self._args, self._keywords = run, args, keywords

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, self.record.stand_in)

    def text(self, tensor: Any) -> str:
        return self.record.text_of(tensor)

    def dtype(self, tensor: Any) -> str:
        return self.record.dtype_of(tensor)

    def sizes(self, tensor: Any) -> Sequence[Any]:
        return self.record.sizes_of(tensor)

    def extent_text(self, extent: Any) -> str:
        text = extent.text if isinstance(extent, Extent) else str(extent)
        if text is None:
            raise Refused("a size that has no name")
        return text

    def run_on_likes(self) -> Any:
        """What the framework's own function returns for stand-ins' likes."""
        return self._run(*map(self._like, self._args),
                         **{n: self._like(v) for n, v in self._keywords.items()})

    @cached_property
    def result(self) -> str:
        made = self.run_on_likes()
        if isinstance(made, (tuple, list)):
            raise Refused("several results")
        return self._name_of(made.dtype)

    def common(self, operands: Sequence[Any]) -> str:
        likes = [self._like(value) for value in operands]
        if self.framework == "torch":
            return self._name_of(sys.modules["torch"].result_type(*likes))
        return self._name_of(sys.modules["numpy"].add(*likes).dtype)

    def reshape(self, text: str, sizes: Callable[[], Sequence[int]]) -> Made:
        return Made(f"reshape({text}, {list_text([self.extent_text(e) for e in sizes()])})", sizes)

    def broadcast_to(self, tensor: Any, sizes: Callable[[], Sequence[int]]) -> Made:
        return Made(
            f"broadcast({self.text(tensor)}, {list_text([self.extent_text(e) for e in sizes()])})",
            sizes)

    def parts(self, tensor: Any, dim: int, sizes: Callable[[], Sequence[int] | int]) -> list[Made]:
        given, have = sizes(), list(self.sizes(tensor))
        if not have:
            raise Refused("parts of a scalar")
        if isinstance(given, int):
            if have[dim] % given:
                raise Refused(f"{given} equal parts of an axis of {have[dim]}")
            part: int = have[dim] // given
            each = [part if type(have[dim]) is int else Extent(part)] * given
        else:
            each = list(given)
        names = self.record.several(
            f"split({self.text(tensor)}, {given if isinstance(given, int) else list_text(each)}"
                                    f", axis={dim - len(have)})", len(each))
        def sized(size: int) -> Callable[[], Sequence[int]]:
            return lambda: [*have[:dim], size, *have[dim + 1:]]
        return [Made(name, sized(size)) for name, size in zip(names, each)]

    def _like(self, value: Any) -> Any:
        """A tensor of one element with a stand-in's dtype and rank, on which the framework's own
        function runs."""
        if isinstance(value, (tuple, list)):
            return type(value)(map(self._like, value))
        if not self.is_tensor(value):
            return value
        name, shape = LONG_NAMES[self.dtype(value)], (1,) * len(self.sizes(value))
        if self.framework == "torch":
            torch = sys.modules["torch"]
            return torch.ones(shape, dtype=getattr(torch, name), device="cpu")
        return sys.modules["numpy"].ones(shape, numpy_dtype(name))

    def _name_of(self, dtype: Any) -> str:
        known = _frameworks.Torch.names().get(dtype) if self.framework == "torch" \
            else SHORT_NAMES.get(dtype.name)
        if known is None:
            raise Refused(f"a result of dtype {dtype}")
        return known


def numpy_dtype(name: str) -> Any:
    """The dtype of numpy or ml_dtypes with a name.

    Raises:
        Refused: There is none.
    """
    import numpy

    if hasattr(numpy, name) or name == "bool":
        return numpy.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise Refused(f"numpy has no {name}") from None
    return numpy.dtype(getattr(ml_dtypes, name))
