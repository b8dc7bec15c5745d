"""Rows of matrix products."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .table import Call, Made, Refused, writes
from .values import (
    FLOATS,
    broadcast_shapes,
    cast,
    is_number,
    known_dtype,
    list_text,
    literal,
    promoted,
)


def product_sizes(call: Call, a: Any, b: Any, transposed: bool = False) -> Callable[[],
                                                                                    Sequence[int]]:
    """Of matrices, as which vectors count: the first operand's is a row, the second's a column."""
    def sizes() -> Sequence[int]:
        one, other = as_row(call.sizes(a)), as_column(call.sizes(b))
        if transposed:
            other[-2:] = other[:-3:-1]
        if one[-1] != other[-2]:
            raise Refused(f"a product of {tuple(call.sizes(a))} with "
                          f"{tuple(other if transposed else call.sizes(b))}")
        return [*broadcast_shapes([one[:-2], other[:-2]]), one[-2], other[-1]]
    return sizes


def as_row(sizes: Sequence[int]) -> list[int]:
    return [1, *sizes] if len(sizes) == 1 else list(sizes)


def as_column(sizes: Sequence[int]) -> list[int]:
    return [*sizes, 1] if len(sizes) == 1 else list(sizes)


def as_matrices(call: Call, a: Any, b: Any, one: str, other: str) -> tuple[str, str]:
    """The expressions of two operands, where vectors are a row and a column."""
    if not (call.sizes(a) and call.sizes(b)):
        raise Refused("a product with a scalar")
    if len(call.sizes(a)) == 1:
        one = _reshaped(call, one, as_row(call.sizes(a)))
    if len(call.sizes(b)) == 1:
        other = _reshaped(call, other, as_column(call.sizes(b)))
    return one, other


def _reshaped(call: Call, text: str, sizes: Sequence[int]) -> str:
    """Of an operand: an FX node's ``call.reshape`` has the sizes of its result."""
    return f"reshape({text}, {list_text([call.extent_text(e) for e in sizes])})"


def without_vectors(call: Call, a: Any, b: Any, made: Made) -> Made:
    """A product of matrices without the axes that were added to vectors."""
    row, column = len(call.sizes(a)) == 1, len(call.sizes(b)) == 1
    if not (row or column):
        return made
    def sizes() -> Sequence[int]:
        *batches, rows, columns = made.sizes()
        return [*batches, *([] if row else [rows]), *([] if column else [columns])]
    return call.reshape(made.text, sizes)


@writes("mm bmm matmul", "matmul")
def _matmul(call: Call, self: Any, mat2: Any, out_dtype: Any = None) -> Made:
    dtype = call.result
    if dtype in ("s8", "u8", "bool"):
        raise Refused(f"a product of dtype {dtype}")
    own = {known_dtype(call, self), known_dtype(call, mat2)}
    wider = own <= set(FLOATS) and promoted([*own, dtype]) == dtype and promoted(own) != dtype
    texts = (call.text(self), call.text(mat2)) if wider else (cast(call, self, dtype),
                                                              cast(call, mat2, dtype))
    a, b = as_matrices(call, self, mat2, *texts)
    text = f"matmul({a}, {b}, out={dtype})" if wider else f"{a} @ {b}"
    return without_vectors(call, self, mat2, Made(text, product_sizes(call, self, mat2)))


def _accumulated(call: Call, a: str, b: str) -> str:
    """A product that keeps its accumulator's dtype, for an op that adds to it before it rounds."""
    return f"matmul({a}, {b}{', out=f32' if call.result in ('f16', 'bf16') else ''})"


def rounded_result(call: Call, text: str) -> str:
    """An expression of f32, f64 or an integer dtype, in the result's dtype, to which mode "eager"
    rounds it, and mode "fp32" where it is stored."""
    return f"cast({text}, {call.result}, compute=f32)" if call.result in ("f16", "bf16") else text


@writes("addmm baddbmm", "")
def _addmm(call: Call, self: Any, mat1: Any, mat2: Any, beta: Any = 1, alpha: Any = 1) -> Made:
    _same_dtype(call, self, mat1, mat2)
    for name, value in (("beta", beta), ("alpha", alpha)):
        if not is_number(value):
            raise Refused(f"the argument {name}={value!r}")
    if alpha == 0:  # addmm then reads no product, which may be infinite; baddbmm does
        raise Refused("the argument alpha=0")
    product = _accumulated(call, call.text(mat1), call.text(mat2))
    if alpha != 1:
        product += f" * {literal(alpha, call.result, 'alpha')}"
    sizes = product_sizes(call, mat1, mat2)
    if beta == 0:
        return Made(rounded_result(call, product), sizes)
    added = call.text(self) + ("" if beta == 1 else f" * {literal(beta, call.result, 'beta')}")
    return Made(rounded_result(call, f"{product} + {added}"), sizes)


def _same_dtype(call: Call, *tensors: Any) -> None:
    if {known_dtype(call, t) for t in tensors} != {call.result} or call.result not in FLOATS:
        raise Refused("operands of dtypes " + ", ".join(call.dtype(t) for t in tensors))


@writes("linear", "")
def _linear(call: Call, self: Any, weight: Any, bias: Any = None) -> Made:
    _same_dtype(call, self, weight, *([] if bias is None else [bias]))
    if len(call.sizes(weight)) != 2:
        raise Refused(f"a weight of shape {tuple(call.sizes(weight))}")
    sizes = product_sizes(call, self, weight, True)
    a, transposed = as_matrices(call, self, weight, call.text(self),
                                f"transpose({call.text(weight)})")
    text = f"{a} @ {transposed}" if bias is None else rounded_result(
        call, f"{_accumulated(call, a, transposed)} + {call.text(bias)}")
    return without_vectors(call, self, weight, Made(text, sizes))
