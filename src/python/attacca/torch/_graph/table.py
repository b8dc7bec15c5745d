"""Rows for ops of ATen and prims that occur in FX graphs alone, beside those of
:mod:`attacca._functions`.

Their writers take a :class:`attacca.torch._graph.importer.NodeCall`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._functions.pointwise import pointwise
from ..._functions.products import product_sizes, rounded_result
from ..._functions.table import BY_ATEN, Made, Refused, Row, Writer
from ..._functions.values import FLOATS, cast, is_number, number
from .._ops.quantized import product_text, weights_text

FX: dict[str, Row] = {}
# Ops without a row, and why.
UNKNOWN = dict.fromkeys(
    ("aten._weight_int4pack_mm", "aten._weight_int4pack_mm_for_cpu",
     "aten._weight_int4pack_mm_with_scales_and_zeros"),
    "its weights are in an order that PyTorch chooses for each device and instruction set: "
    "attacca.torch.QuantizedLinear has weights of 4 bits")


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
    return Made(f"matmul({call.text(self)}, {call.text(mat2)}, out=s32)",
                product_sizes(call, self, mat2))


@_writes("aten._grouped_mm")
def _grouped_mm(call: Any, self: Any, mat2: Any, offs: Any = None, bias: Any = None,
                out_dtype: Any = None) -> Made:
    own = {call.dtype(self), call.dtype(mat2)}
    if bias is not None or len(own) != 1 or not own <= set(FLOATS):
        raise Refused("_grouped_mm with " + ("a bias" if bias is not None else
                                             "operands of dtypes " + ", ".join(sorted(own))))
    out = "" if own == {call.result} else f", out={call.result}"
    _check_groups(call, "_grouped_mm", self, mat2, offs)

    def product(x: str, w: str) -> str:
        return f"grouped_matmul({x}, {w}, {call.text(offs)}{out})"
    return Made(*_of_groups(call, self, mat2,
                            f"matmul({call.text(self)}, {call.text(mat2)}{out})", product, product))


def _check_groups(call: Any, op: str, self: Any, mat2: Any, offs: Any) -> None:
    ranks = len(call.sizes(self)), len(call.sizes(mat2))
    if (offs is None) != (ranks == (3, 3)) or ranks not in ((3, 3), (2, 3), (3, 2), (2, 2)):
        raise Refused(f"{op} of {ranks[0]}-D by {ranks[1]}-D operands "
                      f"{'without' if offs is None else 'with'} ends of groups")
    if ranks == (2, 2):
        raise Refused(f"{op} of 2-D operands, whose groups are parts of the sums")


def _of_groups(call: Any, self: Any, mat2: Any, batched: str,
               by_rows: Callable[[str, str], str],
               by_columns: Callable[[str, str], str]) -> tuple[str, Callable[[], list[Any]]]:
    """The text and the sizes of a product of groups.

    Args:
        call: The node.
        self: The left operand.
        mat2: The right one.
        batched: The text where each group has a matrix of both.
        by_rows: The text where groups are parts of the left operand's rows.
        by_columns: That of the transposed right operand, of whose rows groups are parts, by the
            transposed left one: groups of columns.
    """
    x, w = call.sizes(self), call.sizes(mat2)
    texts = call.text(self), call.text(mat2)
    if len(x) == len(w):
        return batched, lambda: [x[0], x[1], w[2]]
    if len(x) == 2:
        return by_rows(*texts), lambda: [x[0], w[2]]
    text = by_columns(f"transpose({texts[1]})", f"transpose({texts[0]})")
    return f"transpose({text})", lambda: [x[1], w[1]]


@_writes("aten._scaled_grouped_mm")
def _scaled_grouped_mm(call: Any, self: Any, mat2: Any, scale_a: Any, scale_b: Any,
                       offs: Any = None, bias: Any = None, scale_result: Any = None,
                       out_dtype: Any = None, use_fast_accum: bool = False) -> Made:
    if scale_result is not None:
        raise Refused("_scaled_grouped_mm with a scale of the result")
    return _scaled_groups(call, "_scaled_grouped_mm", self, mat2, scale_a, scale_b, offs, bias,
                          use_fast_accum)


# torch.nn.functional.ScalingType.
_RECIPES = ("TensorWise", "RowWise", "BlockWise1x16", "BlockWise1x32", "BlockWise1x128",
            "BlockWise128x128")


@_writes("aten._scaled_grouped_mm_v2")
def _scaled_grouped_mm_v2(call: Any, self: Any, mat2: Any, scale_a: Any, recipe_a: Any,
                          swizzle_a: Any, scale_b: Any, recipe_b: Any, swizzle_b: Any,
                          offs: Any = None, bias: Any = None, out_dtype: Any = None,
                          contraction_dim: Any = (), use_fast_accum: bool = False) -> Made:
    op = "_scaled_grouped_mm_v2"
    recipes = [*recipe_a, *recipe_b]
    if recipes != [_RECIPES.index("RowWise")] * 2 or len(scale_a) != 1 or len(scale_b) != 1:
        raise Refused(f"{op} with scales by " + " and ".join(
            _RECIPES[each] if each in range(len(_RECIPES)) else str(each) for each in recipes))
    if any([*swizzle_a, *swizzle_b]):
        raise Refused(f"{op} with scales in a swizzled order")
    if len(contraction_dim) > 0:
        raise Refused(f"{op} with contraction_dim={[*contraction_dim]}")
    return _scaled_groups(call, op, self, mat2, scale_a[0], scale_b[0], offs, bias,
                          use_fast_accum)


def _scaled_groups(call: Any, op: str, self: Any, mat2: Any, scale_a: Any, scale_b: Any,
                   offs: Any, bias: Any, fast: bool) -> Made:
    """A product of groups of 8-bit floats, with a scale for each row and each column."""
    if bias is not None:
        raise Refused(f"{op} with a bias")
    _check_groups(call, op, self, mat2, offs)
    dtypes = [call.dtype(each) for each in (self, mat2, scale_a, scale_b)]
    if dtypes != ["f8e4m3", "f8e4m3", "f32", "f32"] or call.result not in FLOATS:
        raise Refused(f"{op} with operands and scales of dtypes "
                      f"{', '.join(dtypes)} and a result of dtype {call.result}")
    wanted = [[*call.sizes(self)][:-1], [*call.sizes(mat2)][:-2] + [*call.sizes(mat2)][-1:]]
    scales = [[*call.sizes(scale_a)], [*call.sizes(scale_b)]]
    if scales != wanted:
        raise Refused(f"{op} with scales of {scales[0]} and {scales[1]}")
    how = f"out=f32{', fast=true' if fast else ''}"

    def by(of_rows: Any, of_columns: Any) -> Callable[[str, str], str]:
        def product(x: str, w: str) -> str:
            count = call.extent_text(call.sizes(of_rows)[0])
            return (f"grouped_matmul({x}, {w}, {call.text(offs)}, {how}) * "
                    f"reshape({call.text(of_rows)}, [{count}, 1]) * "
                    f"gather({call.text(of_columns)}, group_ids({call.text(offs)}, [{count}]))")
        return product

    def text_of(scale: Any, place: int) -> str:
        extents = [call.extent_text(each) for each in call.sizes(scale)]
        extents.insert(place, "1")
        return f"reshape({call.text(scale)}, [{', '.join(extents)}])"
    batched = "" if offs is not None else (
        f"matmul({call.text(self)}, {call.text(mat2)}, {how}) * {text_of(scale_a, 2)} * "
        f"{text_of(scale_b, 1)}")
    text, sizes = _of_groups(call, self, mat2, batched, by(scale_a, scale_b),
                             by(scale_b, scale_a))
    return Made(rounded_result(call, text), sizes)


# ---- Rows by an index. Regions of a GPU read them and do not write them


def _rows_by(call: Any, self: Any, indices: Any, what: str) -> Any:
    """The one index of an op on the first axis."""
    given = list(indices)
    if len(given) != 1 or given[0] is None or call.dtype(given[0]) not in ("s32", "s64") or \
            not call.sizes(self):
        raise Refused(f"it {what} by other indices than one of the first axis")
    return given[0]


def _written_by(call: Any, self: Any, indices: Any, what: str) -> Any:
    if call.device.type != "cpu":
        raise Refused(f"no kernel of this device {what} by an index")
    return _rows_by(call, self, indices, what)


def _gathered(call: Any, self: Any, index: Any) -> Made:
    return Made(f"gather({call.text(self)}, {call.text(index)})",
                lambda: [*call.sizes(index), *call.sizes(self)[1:]])


@_writes("aten.index")
def _index(call: Any, self: Any, indices: Any) -> Made:
    return _gathered(call, self, _rows_by(call, self, indices, "gathers rows"))


@_writes("attacca.rows_of_groups")
def _rows_of_groups(call: Any, rows: Any, ends: Any, ids: Any) -> Made:
    count = call.extent_text(call.sizes(ids)[0])
    return Made(f"gather({call.text(rows)}, group_ids({call.text(ends)}, [{count}]))",
                lambda: [call.sizes(ids)[0], *call.sizes(rows)[1:]])


@_writes("aten.index_select")
def _index_select(call: Any, self: Any, dim: Any, index: Any) -> Made:
    chosen = _rows_by(call, self, [index], "gathers rows")
    if dim not in (0, -len(call.sizes(self))) or len(call.sizes(index)) != 1:
        raise Refused("it gathers along another axis than the first")
    return _gathered(call, self, chosen)


def _added(call: Any, self: Any, index: Any, values: Any) -> Made:
    if call.dtype(values) != call.dtype(self):
        raise Refused(f"rows of {call.dtype(values)} added to {call.dtype(self)}")
    if [*call.sizes(values)] != [*call.sizes(index), *call.sizes(self)[1:]]:
        raise Refused("rows that are broadcast to those that they are added to")
    return Made(f"scatter_add({call.text(self)}, {call.text(index)}, {call.text(values)})",
                lambda: call.sizes(self))


@_writes("aten.index_add")
def _index_add(call: Any, self: Any, dim: Any, index: Any, source: Any, alpha: Any = 1) -> Made:
    chosen = _written_by(call, self, [index], "adds rows")
    if dim not in (0, -len(call.sizes(self))) or alpha != 1:
        raise Refused("it adds along another axis than the first, or scaled")
    return _added(call, self, chosen, source)


@_writes("aten.index_put")
def _index_put(call: Any, self: Any, indices: Any, values: Any, accumulate: Any = False) -> Made:
    chosen = _written_by(call, self, indices, "writes rows")
    if accumulate:
        return _added(call, self, chosen, values)
    raise Refused("it writes rows in an order that torch leaves open")


@_writes("attacca.mxfp4")
def _mxfp4(call: Any, blocks: Any, scales: Any) -> Made:
    shape = [call.extent_text(extent) for extent in call.node.meta["val"].shape]
    codes = ", ".join([*shape[:-1], str(int(call.node.meta["val"].shape[-1]) // 2)])
    return Made(f"mxfp4(reshape({call.text(blocks)}, [{codes}]), {call.text(scales)})",
                lambda: call.node.meta["val"].shape)


_BLOCK = 128  # values of k, rows or columns that have one scale


def _blocks(extent: Any) -> Any:
    return (extent + _BLOCK - 1) // _BLOCK if isinstance(extent, int) else None


def _by_blocks(call: Any, codes: Any, scale: Any, k_axis: int) -> str | None:
    """The numbers times their scales, in f32; None: the scales are not of blocks."""
    sizes, found = call.sizes(codes), tuple(call.sizes(scale))
    other = sizes[1 - k_axis]
    for count, block in ((other, 1), (_blocks(other), _BLOCK)):
        wide = [count, count]
        wide[k_axis] = _blocks(sizes[k_axis])
        if None not in wide and found == tuple(wide):
            shape = [block, block]
            shape[k_axis] = _BLOCK
            return f"dequantize({call.text(codes)}, {call.text(scale)}, block={shape})"
    return None


def _scaled_product(call: Any, a: Any, b: Any, scale_a: Any, scale_b: Any, fast: str) -> str:
    rows, columns = call.sizes(a)[0], call.sizes(b)[1]
    one = [(), (1,), (1, 1)]
    if call.dtype(scale_a) == call.dtype(scale_b) == "f32":
        if tuple(call.sizes(scale_a)) in [*one, (rows, 1)] and \
                tuple(call.sizes(scale_b)) in [*one, (1, columns)]:
            return (f"matmul({call.text(a)}, {call.text(b)}, out=f32{fast}) * "
                    f"{call.text(scale_a)} * {call.text(scale_b)}")
        left, right = _by_blocks(call, a, scale_a, 1), _by_blocks(call, b, scale_b, 0)
        if left is not None and right is not None:
            return f"matmul({left}, {right})"
    raise Refused(f"_scaled_mm with scales of {call.dtype(scale_a)} "
                  f"{[*call.sizes(scale_a)]} and {call.dtype(scale_b)} {[*call.sizes(scale_b)]}")


@_writes("aten._scaled_mm")
def _scaled_mm(call: Any, self: Any, mat2: Any, scale_a: Any, scale_b: Any, bias: Any = None,
               out_dtype: Any = None, use_fast_accum: bool = False) -> Made:
    if call.result not in FLOATS:
        raise Refused(f"_scaled_mm with a result of dtype {call.result}")
    text = _scaled_product(call, self, mat2, scale_a, scale_b,
                           ", fast=true" if use_fast_accum else "")
    if bias is not None:
        text += f" + {call.text(bias)}"
    return Made(rounded_result(call, text), product_sizes(call, self, mat2))


@_writes("attacca.quantized_linear")
def _quantized_linear(call: Any, x: Any, weights: Any, bias: Any, form: str, n: int) -> Made:
    if call.dtype(x) not in FLOATS:
        raise Refused(f"an operand of dtype {call.dtype(x)}")
    name = f'"{call.node.name}.weights"'
    text = weights_text(form, [call.text(each) for each in weights], call.dtype(x))
    product = product_text(call.text(x), name, None if bias is None else call.text(bias),
                           call.result)
    return Made(product, lambda: [call.sizes(x)[0], n], f"{name} = {text}; ")


@_writes("aten._weight_int8pack_mm")
def _weight_int8pack_mm(call: Any, self: Any, mat2: Any, scales: Any) -> Made:
    if call.dtype(self) not in FLOATS or call.dtype(mat2) != "s8":
        raise Refused(f"operands of dtypes {call.dtype(self)}, {call.dtype(mat2)}")
    name = f'"{call.node.name}.weights"'
    product = f"matmul({call.text(self)}, transpose({name}), out=f32) * {call.text(scales)}"
    return Made(rounded_result(call, product), product_sizes(call, self, mat2, True),
                f"{name} = {cast(call, mat2, call.dtype(self))}; ")


# ---- quantized_decomposed: quantised tensors in graphs of torch.export's


def _entry(call: Any, value: Any, shape: str) -> str:
    """A scale or zero point as an operand in f32."""
    if not call.is_tensor(value):
        return f"({number(value)})"
    text = f"reshape({call.text(value)}, {shape})" if shape else call.text(value)
    return text if call.dtype(value) == "f32" else f"cast({text}, f32)"


def _dequantized(call: Any, codes: str, scale: Any, zero: Any, shape: str = "") -> str:
    if call.is_tensor(scale) and call.dtype(scale) != "f32":
        raise Refused(f"scales of dtype {call.dtype(scale)}")
    zeros = "" if zero is None else f" - {_entry(call, zero, shape)}"
    return f"({codes}{zeros}) * {_entry(call, scale, shape)}"


@_writes("quantized_decomposed.dequantize_per_tensor")
def _dequantize_per_tensor(call: Any, input: Any, scale: Any, zero_point: Any, quant_min: Any,
                           quant_max: Any, dtype: Any, out_dtype: Any = None) -> Made:
    if call.result != "f32":
        raise Refused(f"a result of dtype {call.result}")
    return Made(_dequantized(call, cast(call, input, "f32"), scale, zero_point,
                             "[]" if call.is_tensor(scale) else ""), lambda: call.sizes(input))


@_writes("quantized_decomposed.dequantize_per_channel")
def _dequantize_per_channel(call: Any, input: Any, scales: Any, zero_points: Any, axis: int,
                            quant_min: Any, quant_max: Any, dtype: Any,
                            out_dtype: Any = None) -> Made:
    sizes = call.sizes(input)
    shape = ["1"] * len(sizes)
    shape[axis] = call.extent_text(sizes[axis])
    text = _dequantized(call, cast(call, input, "f32"), scales, zero_points,
                        f"[{', '.join(shape)}]")
    return Made(text if call.result == "f32" else f"cast({text}, {call.result})", lambda: sizes)


@_writes("quantized_decomposed.dequantize_per_channel_group")
def _dequantize_per_channel_group(call: Any, w_int8: Any, scales: Any, zero_points: Any,
                                  quant_min: Any, quant_max: Any, dtype: Any, group_size: int = 128,
                                  output_dtype: Any = None) -> Made:
    n, k = call.sizes(w_int8)
    size = min(group_size, k) if call.sizes(scales)[-1] == 1 else group_size
    groups = f"[{call.extent_text(n)}, {k // size}"
    codes = f"reshape({cast(call, w_int8, 'f32')}, {groups}, {size}])"
    scaled = _dequantized(call, codes, scales, zero_points, f"{groups}, 1]")
    text = f"reshape({scaled}, {call.shape})"
    return Made(text if call.result == "f32" else f"cast({text}, {call.result})", lambda: [n, k])


@_writes("quantized_decomposed.quantize_per_tensor")
def _quantize_per_tensor(call: Any, input: Any, scale: Any, zero_point: Any, quant_min: int,
                         quant_max: int, dtype: Any) -> Made:
    if not (isinstance(quant_min, int) and isinstance(quant_max, int)):
        raise Refused("bounds that are tensors")
    inverse = f"(1 / {_entry(call, scale, '[]')})" if call.is_tensor(scale) else f"({1 / scale!r})"
    text = f"round({cast(call, input, 'f32')} * {inverse}) + {_entry(call, zero_point, '[]')}"
    return Made(f"cast(clamp({text}, min={quant_min}, max={quant_max}), {call.result})",
                lambda: call.sizes(input))
