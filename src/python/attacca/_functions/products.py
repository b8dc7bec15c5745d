"""Rows of matrix products."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .table import Call, Made, Refused, writes
from .values import FLOATS, broadcast_shapes, cast, is_number, known_dtype, literal, promoted


def product_sizes(call: Call, a: Any, b: Any, transposed: bool = False) -> Callable[[],
                                                                                    Sequence[int]]:
    def sizes() -> Sequence[int]:
        one, other = list(call.sizes(a)), list(call.sizes(b))
        if transposed:
            other[-2:] = other[:-3:-1]
        if one[-1] != other[-2]:
            raise Refused(f"a product of {tuple(one)} with {tuple(other)}")
        return [*broadcast_shapes([one[:-2], other[:-2]]), one[-2], other[-1]]
    return sizes


def matrices(call: Call, *tensors: Any) -> None:
    if any(len(call.sizes(t)) < 2 for t in tensors):
        raise Refused("a product with a vector")


@writes("mm bmm matmul", "matmul")
def _matmul(call: Call, self: Any, mat2: Any, out_dtype: Any = None) -> Made:
    matrices(call, self, mat2)
    sizes, dtype = product_sizes(call, self, mat2), call.result
    own = {known_dtype(call, self), known_dtype(call, mat2)}
    if own == {dtype} and dtype not in ("s8", "u8", "bool"):
        return Made(f"{call.text(self)} @ {call.text(mat2)}", sizes)
    if dtype in ("s8", "u8", "bool"):
        raise Refused(f"a product of dtype {dtype}")
    if own <= set(FLOATS) and promoted([*own, dtype]) == dtype and promoted(own) != dtype:
        return Made(f"matmul({call.text(self)}, {call.text(mat2)}, out={dtype})", sizes)
    return Made(f"{cast(call, self, dtype)} @ {cast(call, mat2, dtype)}", sizes)


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
    if len(call.sizes(weight)) != 2 or len(call.sizes(self)) < 2:
        raise Refused("a product with a vector")
    sizes, transposed = product_sizes(call, self, weight, True), f"transpose({call.text(weight)})"
    if bias is None:
        return Made(f"{call.text(self)} @ {transposed}", sizes)
    return Made(rounded_result(
        call, f"{_accumulated(call, call.text(self), transposed)} + {call.text(bias)}"), sizes)
