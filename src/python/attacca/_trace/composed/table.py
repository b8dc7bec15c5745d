"""The table of composed functions, and what their writers are given.

A row is as one of :mod:`attacca._functions.table`, but its writer returns stand-ins: it records
statements, and applies operators to stand-ins, by the rules of the framework whose function is
called. Only functions that are traced have such rows: where torch.compile traces, PyTorch has
decomposed these functions already.
"""
from __future__ import annotations

import inspect
import math
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar

from ..._arguments import LONG_NAMES
from ..._functions.parts import slice_size, sliced
from ..._functions.reductions import reduced
from ..._functions.table import Made, Refused, Row
from ..._functions.values import FLOATS, Extent, axis_of, known_dtype
from ..._functions.views import permuted
from ..trace_call import TraceCall

BY_TORCH: dict[str, Row] = {}
BY_NUMPY: dict[str, Row] = {}

Writer = TypeVar("Writer", bound=Callable[..., Any])


def composes(torch: str, numpy: str = "") -> Callable[[Writer], Writer]:
    """Registers the decorated function as a writer; ``torch`` and ``numpy`` are names separated by
    spaces, such as ``max.dim`` for an overload that takes the place of another row's function. Its
    first parameter is the :class:`Composer`, the others are the arguments that it takes."""
    def decorate(write: Writer) -> Writer:
        row = Row(tuple(torch.split()), tuple(numpy.split()), write,
                  tuple(inspect.signature(write).parameters)[1:])
        BY_TORCH.update(dict.fromkeys(row.aten, row))
        BY_NUMPY.update(dict.fromkeys(row.numpy, row))
        return write
    return decorate


class Composer(TraceCall):
    """A call of a composed function. ``result`` is the dtype that the framework gives it."""

    def keep(self, text: str, dtype: str, sizes: Sequence[int]) -> Any:
        """Records an expression; returns its stand-in."""
        return self.record.keep(text, dtype, sizes)

    def cast(self, x: Any, dtype: str) -> Any:
        return x if self.dtype(x) == dtype else self.keep(f"cast({self.text(x)}, {dtype})", dtype,
                                                          self.sizes(x))

    def wide(self, x: Any) -> Any:
        """A float tensor in the dtype in which frameworks compute with it: at least f32."""
        if known_dtype(self, x) not in FLOATS:
            raise Refused(f"an operand of dtype {self.dtype(x)}")
        return self.cast(x, "f64" if self.dtype(x) == "f64" else "f32")

    def unary(self, op: str, x: Any) -> Any:
        return self.keep(f"{op}({self.text(x)})", self.dtype(x), self.sizes(x))

    def permute(self, x: Any, axes: Sequence[int]) -> Any:
        return self.made(permuted(self, x, axes), self.dtype(x))

    def reshaped(self, x: Any, sizes: Sequence[int]) -> Any:
        """The tensor with other sizes; one of them may be an :class:`Extent` with the text -1."""
        if same_sizes(sizes, self.sizes(x)):
            return x
        return self.made(self.reshape(self.text(x), lambda: sizes), self.dtype(x))

    def flat(self, x: Any) -> Any:
        """The tensor as one axis."""
        sizes = self.sizes(x)
        return self.reshaped(x, [merged(sizes)] if len(sizes) else [1])

    def range(self, x: Any, axis: int, begin: int, end: int) -> Any:
        """The elements of an axis from ``begin`` up to ``end``."""
        sizes = list(self.sizes(x))
        sizes[axis] = slice_size(sizes[axis], begin, end, 1)
        return self.keep(sliced(self, x, axis, begin, end), self.dtype(x), sizes)

    def broadcasted(self, x: Any, sizes: Sequence[int]) -> Any:
        if same_sizes(sizes, self.sizes(x)):
            return x
        return self.made(self.broadcast_to(x, lambda: sizes), self.dtype(x))

    def with_axis(self, x: Any, axis: int) -> Any:
        """The tensor with a new axis of one element."""
        sizes = list(self.sizes(x))
        return self.reshaped(x, [*sizes[:axis], 1, *sizes[axis:]])

    def reduce(self, op: str, x: Any, dim: Any, keepdim: Any) -> Any:
        """A reduction in the tensor's own dtype; ``dim`` as the framework has it, None for all."""
        return self.made(reduced(self, op, x, dim, keepdim, self.dtype(x)), self.dtype(x))

    def constant(self, value: Any, dtype: str, sizes: Sequence[int]) -> Any:
        one = self.keep(f"constant({value}, {dtype})", dtype, [])
        return self.broadcasted(one, sizes)

    def axis(self, x: Any, dim: Any, name: str = "dim") -> int:
        return axis_of(self, x, dim, name)

    def axes(self, x: Any, dim: Any) -> list[int]:
        """The axes that ``dim`` names; None or (): all."""
        if dim is None or dim in ((), []):
            return list(range(len(self.sizes(x))))
        axes = [self.axis(x, d) for d in (dim if isinstance(dim, (tuple, list)) else [dim])]
        return axes if self.sizes(x) else []

    def made(self, made: Made, dtype: str) -> Any:
        """Records what a writer of the other table returns."""
        return self.keep(made.text, dtype, made.sizes())

    @cached_property
    def frameworks_result(self) -> Any:
        """What the framework's own function returns: of torch without elements, on tensors of the
        stand-ins' sizes; of numpy on arrays of one element. What it refuses is refused."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.run_on_likes()

    @cached_property
    def result(self) -> str:
        made = self.frameworks_result
        return self._name_of((made[0] if isinstance(made, (tuple, list)) else made).dtype)

    def check(self, made: Any) -> None:
        """Our own bug if the stand-ins have other sizes or dtypes than torch's results."""
        if self.framework != "torch":
            return
        wanted = self.frameworks_result
        results = made if isinstance(made, tuple) else (made,)
        for result, want in zip(results, wanted if isinstance(wanted, tuple) else (wanted,),
                                strict=True):
            got = self.dtype(result), [int(extent) for extent in self.sizes(result)]
            assert got == (self._name_of(want.dtype), list(want.shape)), (self.name, got, want)

    def _like(self, value: Any) -> Any:
        if self.framework != "torch" or not self.is_tensor(value):
            return super()._like(value)
        torch = sys.modules["torch"]
        return torch.empty([int(extent) for extent in self.sizes(value)], device="meta",
                           dtype=getattr(torch, LONG_NAMES[self.dtype(value)]))


def same_sizes(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether sizes are equal in every call. A symbol that happens to be 1 is not 1."""
    def same(a: int, b: int) -> bool:
        named = a == b and getattr(a, "text", "") == getattr(b, "text", "")
        return a is b or named and getattr(a, "text", "") is not None
    return len(one) == len(other) and all(map(same, one, other))


def merged(extents: Sequence[int]) -> int:
    """The extent of axes that are merged into one."""
    product = math.prod(int(extent) for extent in extents)
    if len(extents) == 1:
        return extents[0]
    return product if all(type(extent) is int for extent in extents) else Extent(product, "-1")
