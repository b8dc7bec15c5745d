"""Rows for ops of ATen and prims that occur in FX graphs alone, beside those of
:mod:`attacca._functions`.

Their writers take a :class:`attacca.torch._graph.importer.NodeCall`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._functions.pointwise import pointwise
from ..._functions.products import matrices, product_sizes, rounded_result
from ..._functions.table import BY_ATEN, Made, Refused, Row, Writer
from ..._functions.values import FLOATS, cast, is_number, number

FX: dict[str, Row] = {}


def row_of(op: str) -> Row | None:
    """The row of "aten.add" or "prims.fma"."""
    return FX.get(op) or (BY_ATEN.get(op[5:]) if op.startswith("aten.") else None)


def _writes(*ops: str) -> Callable[[Writer], Writer]:
    def register(write: Writer) -> Writer:
        parameters = write.__code__.co_varnames[1:write.__code__.co_argcount]
        FX.update({op: Row((), (), write, parameters) for op in ops})
        return write
    return register


@_writes("prims.fma")
def _fma(call: Any, self: Any, b: Any, c: Any) -> Made:
    return pointwise(call, "{self} * {b} + {c}", {"self": self, "b": b, "c": c}, "number")


@_writes("aten.full", "aten.scalar_tensor", "aten.full_like")
def _full(call: Any, fill_value: Any, self: Any = None, size: Any = None, dtype: Any = None,
          device: Any = None) -> Made:
    if not is_number(fill_value):
        raise Refused("an unknown fill value")
    if device is not None and call.device is not None and str(device) != str(call.device):
        raise Refused(f"the argument device={device}")
    value = bool(fill_value) if call.result == "bool" else fill_value
    constant = f"constant({number(value)}, {call.result})"
    sizes = call.node.meta["val"].shape
    text = f"broadcast({constant}, {call.shape})" if sizes else constant
    return Made(text, lambda: sizes)


@_writes("prims.convert_element_type", "aten._to_copy", "aten.to")
def _convert(call: Any, self: Any, dtype: Any = None, device: Any = None,
             other: Any = None) -> Made:
    if device is not None and str(device) != str(self.meta["val"].device):
        raise Refused("a copy to another device")
    return Made(cast(call, self, call.result), lambda: call.sizes(self))


@_writes("aten._int_mm")
def _int_mm(call: Any, self: Any, mat2: Any) -> Made:
    matrices(call, self, mat2)
    return Made(f"matmul({call.text(self)}, {call.text(mat2)}, out=s32)",
                product_sizes(call, self, mat2))


@_writes("aten._scaled_mm")
def _scaled_mm(call: Any, self: Any, mat2: Any, scale_a: Any, scale_b: Any, bias: Any = None,
               out_dtype: Any = None, use_fast_accum: bool = False) -> Made:
    rows, columns = call.sizes(self)[0], call.sizes(mat2)[1]
    for scale, wide in ((scale_a, [(), (1,), (1, 1), (rows, 1)]),
                        (scale_b, [(), (1,), (1, 1), (1, columns)])):
        if call.dtype(scale) != "f32" or tuple(call.sizes(scale)) not in wide:
            raise Refused("_scaled_mm with scales of blocks")
    if call.result not in FLOATS:
        raise Refused(f"_scaled_mm with a result of dtype {call.result}")
    fast = ", fast=true" if use_fast_accum else ""
    text = (f"matmul({call.text(self)}, {call.text(mat2)}, out=f32{fast}) * {call.text(scale_a)} * "
            f"{call.text(scale_b)}")
    if bias is not None:
        text += f" + {call.text(bias)}"
    return Made(rounded_result(call, text), product_sizes(call, self, mat2))
