"""What FX nodes are in the text form: one row an op of ATen or prims.

A row's formula names the op's arguments as its schema does. An argument that a formula does not name
must have its default value, else the node is refused. Rows whose formula is a function take the
node's arguments and the importer.
"""
from __future__ import annotations

import math
from typing import Any, Callable, NamedTuple, Sequence

from .._functions import number


class Refused(Exception):
    """Why a node is not translated."""


class Row(NamedTuple):
    """How one op is translated."""

    formula: "str | Callable[..., str]"
    dtypes: str = "float"  # what its tensors may be: "float", "number", "bool", "any"
    result: str = "promoted"  # "promoted", "bool", or "own": the formula gives the node's dtype itself


FLOATS = {"f64", "f32", "f16", "bf16"}
ALLOWED = {"float": FLOATS, "number": FLOATS | {"s32", "s64"}, "bool": {"bool"}}


def _rows(text: str, **keywords: str) -> dict[str, Row]:
    rows = {}
    for line in text.strip().splitlines():
        op, formula = line.split(None, 1)
        rows[op] = Row(formula.strip(), **keywords)
    return rows


TABLE: dict[str, Row] = {}

TABLE |= _rows("""
    aten.reciprocal     reciprocal({self})
    aten.square         square({self})
    aten.sqrt           sqrt({self})
    aten.rsqrt          rsqrt({self})
    aten.exp            exp({self})
    aten.expm1          expm1({self})
    aten.log            log({self})
    aten.log1p          log1p({self})
    aten.sin            sin({self})
    aten.cos            cos({self})
    aten.erf            erf({self})
    aten.erfc           erfc({self})
    aten.tanh           tanh({self})
    aten.floor          floor({self})
    aten.ceil           ceil({self})
    aten.round          round({self})
    aten.sigmoid        sigmoid({self})
    aten.silu           silu({self})
    aten.mish           mish({self})
    aten.hardswish      hardswish({self})
    aten.hardsigmoid    hardsigmoid({self})
    aten.relu6          relu6({self})
    aten.div            {self} / {other}
    aten.true_divide    {self} / {other}
    aten.pow            pow({self}, {exponent})
    aten.leaky_relu     leaky_relu({self}, alpha={negative_slope})
    aten.hardtanh       clamp({self}, min={min_val}, max={max_val})
    prims.fma           {a} * {b} + {c}
""")
TABLE |= _rows("""
    aten.neg            -{self}
    aten.abs            abs({self})
    aten.sign           sign({self})
    aten.relu           relu({self})
    aten.mul            {self} * {other}
    aten.maximum        max({self}, {other})
    aten.minimum        min({self}, {other})
    aten.clamp_min      max({self}, {min})
    aten.clamp_max      min({self}, {max})
""", dtypes="number")
TABLE |= _rows("""
    aten.lt             {self} < {other}
    aten.le             {self} <= {other}
    aten.gt             {self} > {other}
    aten.ge             {self} >= {other}
    aten.eq             {self} == {other}
    aten.ne             {self} != {other}
""", dtypes="number", result="bool")
TABLE |= _rows("""
    aten.logical_not    not({self})
    aten.logical_and    and({self}, {other})
    aten.logical_or     or({self}, {other})
    aten.logical_xor    xor({self}, {other})
    aten.bitwise_not    not({self})
    aten.bitwise_and    and({self}, {other})
    aten.bitwise_or     or({self}, {other})
    aten.bitwise_xor    xor({self}, {other})
""", dtypes="bool", result="bool")
# Same elements, same order.
TABLE |= _rows("""
    aten.clone          {self}
    aten.alias          {self}
    aten.detach         {self}
    aten.contiguous     {self}
    aten.lift_fresh_copy {self}
""", dtypes="any", result="own")


def _row(*ops: str, dtypes: str = "float", result: str = "promoted") -> Callable[[Any], Any]:
    def register(formula: Callable[..., str]) -> Callable[..., str]:
        for op in ops:
            TABLE[op] = Row(formula, dtypes, result)
        return formula
    return register


# ---- Pointwise ops whose formula depends on their arguments


@_row("aten.add", dtypes="number")
def _add(im: Any, node: Any, self: Any, other: Any, alpha: Any = 1) -> str:
    return f"{im.text(self)} + " + (im.text(other) if alpha == 1 else f"{im.text(other)} * {im.text(alpha)}")


@_row("aten.sub", dtypes="number")
def _sub(im: Any, node: Any, self: Any, other: Any, alpha: Any = 1) -> str:
    return f"{im.text(self)} - " + (im.text(other) if alpha == 1 else f"{im.text(other)} * {im.text(alpha)}")


@_row("aten.rsub", dtypes="number")
def _rsub(im: Any, node: Any, self: Any, other: Any, alpha: Any = 1) -> str:
    return f"{im.text(other)} - " + (im.text(self) if alpha == 1 else f"{im.text(self)} * {im.text(alpha)}")


@_row("aten.addcmul")
def _addcmul(im: Any, node: Any, self: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> str:
    scaled = "" if value == 1 else f" * {im.text(value)}"
    return f"{im.text(self)} + {im.text(tensor1)} * {im.text(tensor2)}{scaled}"


@_row("aten.clamp", dtypes="number")
def _clamp(im: Any, node: Any, self: Any, min: Any = None, max: Any = None) -> str:
    if all(bound is None or isinstance(bound, (int, float)) for bound in (min, max)):
        bounds = [f"{n}={number(b)}" for n, b in (("min", min), ("max", max)) if b is not None]
        return f"clamp({', '.join([im.text(self), *bounds])})"
    text = im.text(self) if min is None else f"max({im.text(self)}, {im.text(min)})"
    return text if max is None else f"min({text}, {im.text(max)})"


@_row("aten.gelu")
def _gelu(im: Any, node: Any, self: Any, approximate: str = "none") -> str:
    return f"{'gelu_tanh' if approximate == 'tanh' else 'gelu'}({im.text(self)})"


@_row("aten.elu")
def _elu(im: Any, node: Any, self: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> str:
    if scale != 1 or input_scale != 1:
        raise Refused("elu with a scale")
    return f"elu({im.text(self)}, alpha={number(float(alpha))})"


@_row("aten.softplus")
def _softplus(im: Any, node: Any, self: Any, beta: Any = 1, threshold: Any = 20) -> str:
    x = im.text(self)
    return f"softplus({x})" if beta == 1 else f"softplus({x} * {im.text(beta)}) / {im.text(beta)}"


@_row("aten.where", dtypes="any")
def _where(im: Any, node: Any, condition: Any = None, self: Any = None, other: Any = None) -> str:
    if self is None or other is None:
        raise Refused("where without values gives indices")
    if im.dtype(condition) != "bool":
        raise Refused("where by a condition that is not bool")
    im.check_dtypes("number", [self, other])
    return f"where({im.text(condition)}, {im.text(self)}, {im.text(other)})"


@_row("aten.full", "aten.scalar_tensor", "aten.full_like", dtypes="any", result="own")
def _full(im: Any, node: Any, *args: Any, **_: Any) -> str:
    value = args[0] if str(node.target).startswith("aten.scalar_tensor") else args[1]
    if not isinstance(value, (bool, int, float)):
        raise Refused("a fill value that is not known")
    constant = f"constant({number(value)}, {im.dtype(node)})"
    return f"broadcast({constant}, {im.shape(node)})" if im.sizes(node) else constant


# ---- Casts


@_row("prims.convert_element_type", "aten._to_copy", "aten.to", dtypes="any", result="own")
def _cast(im: Any, node: Any, *args: Any, **keywords: Any) -> str:
    if keywords.get("device") not in (None, im.device(args[0])):
        raise Refused("a copy to another device")
    if im.dtype(args[0]) == im.dtype(node):
        return im.text(args[0])
    return f"cast({im.text(args[0])}, {im.dtype(node)})"


# ---- Views


@_row("aten.view", "aten.reshape", "aten._unsafe_view", "aten.unsqueeze", "aten.squeeze",
      "aten.flatten", "aten.unflatten", dtypes="any", result="own")
def _reshape(im: Any, node: Any, self: Any, *_: Any, **__: Any) -> str:
    if im.dtype(self) != im.dtype(node):
        raise Refused("a view of another dtype")
    return f"reshape({im.text(self)}, {im.shape(node)})"


@_row("aten.permute", dtypes="any", result="own")
def _permute(im: Any, node: Any, self: Any, dims: Sequence[int]) -> str:
    axes = [d % max(len(im.sizes(self)), 1) for d in dims]
    if axes == [1, 0]:
        return f"transpose({im.text(self)})"
    return f"permute({im.text(self)}, [{', '.join(map(str, axes))}])"


@_row("aten.t", "aten.transpose", dtypes="any", result="own")
def _transpose(im: Any, node: Any, self: Any, dim0: int = 0, dim1: int = 1) -> str:
    rank = len(im.sizes(self))
    if rank < 2:
        return im.text(self)
    axes = list(range(rank))
    axes[dim0 % rank], axes[dim1 % rank] = axes[dim1 % rank], axes[dim0 % rank]
    return _permute(im, node, self, axes)


@_row("aten.expand", dtypes="any", result="own")
def _expand(im: Any, node: Any, self: Any, size: Any, implicit: bool = False) -> str:
    return f"broadcast({im.text(self)}, {im.shape(node)})"


def sliced(im: Any, self: Any, dim: int, begin: Any, end: Any, step: int = 1) -> str:
    rank = len(im.sizes(self))
    dim %= rank
    if not all(isinstance(b, int) for b in (begin, end, step)):
        raise Refused("a slice with bounds that are not known")
    stop = "" if end >= 2**62 else str(end)
    ranges = [":"] * dim + [f"{begin or ''}:{stop}" + (f":{step}" if step != 1 else "")]
    ranges += [":"] * (rank - dim - 1)
    return f"{im.text(self)}[{', '.join(ranges)}]"


@_row("aten.slice", dtypes="any", result="own")
def _slice(im: Any, node: Any, self: Any, dim: int = 0, start: Any = None, end: Any = None,
           step: int = 1) -> str:
    extent = im.sizes(self)[dim % len(im.sizes(self))]
    begin, stop = start or 0, 2**63 - 1 if end is None else end
    if isinstance(extent, int) and isinstance(stop, int) and stop >= extent:
        stop = 2**63 - 1
    return sliced(im, self, dim, begin, stop, step)


@_row("aten.select", dtypes="any", result="own")
def _select(im: Any, node: Any, self: Any, dim: int, index: Any) -> str:
    if not isinstance(index, int):
        raise Refused("an index that is not known")
    end = index + 1 if index != -1 else 2**63 - 1
    return f"reshape({sliced(im, self, dim, index, end)}, {im.shape(node)})"


@_row("aten.cat", dtypes="any", result="own")
def _cat(im: Any, node: Any, tensors: Any, dim: int = 0) -> str:
    if len({im.dtype(t) for t in tensors}) > 1:
        raise Refused("a concatenation of several dtypes")
    rank = len(im.sizes(node))
    return f"concat({', '.join(map(im.text, tensors))}, axis={dim % rank})"


# ---- Parts of a tensor; they are read by getitem, as slices


@_row("aten.split", "aten.split_with_sizes", "aten.chunk", "aten.unbind", dtypes="any", result="own")
def _parts(im: Any, node: Any, *_: Any, **__: Any) -> str:
    return ""  # nothing of its own


def part(im: Any, node: Any, parts: Any, index: int) -> str:
    """Part ``index`` of a split, chunk or unbind."""
    op = im.op(parts)
    bound = im.bound(parts)
    if op == "aten.unbind":
        return _select(im, node, bound["self"], bound.get("dim", 0), index)
    source, dim = bound["self"], bound.get("dim", 0)
    extent = im.sizes(source)[dim % len(im.sizes(source))]
    sizes = [v.shape[dim] for v in parts.meta["val"]]
    if not all(isinstance(s, int) for s in [extent, *sizes]):
        raise Refused("parts of sizes that are not known")
    begin = sum(sizes[:index])
    end = begin + sizes[index]
    return sliced(im, source, dim, begin, end if end < extent else 2**63 - 1)


# ---- Products


def _product(im: Any, a: Any, b: Any) -> str:
    """With the accumulator as it is: what follows in the same op adds before it rounds."""
    out = ", out=f32" if im.dtype(a) in ("f16", "bf16") else ""
    return f"matmul({im.text(a)}, {im.text(b)}{out})"


@_row("aten.mm", "aten.bmm", "aten.matmul", result="own")
def _mm(im: Any, node: Any, self: Any, mat2: Any, out_dtype: Any = None) -> str:
    if min(len(im.sizes(self)), len(im.sizes(mat2))) < 2:
        raise Refused("a product with a vector")
    if im.dtype(node) != im.dtype(self):
        return f"matmul({im.text(self)}, {im.text(mat2)}, out={im.dtype(node)})"
    return f"{im.text(self)} @ {im.text(mat2)}"


@_row("aten.addmm", "aten.baddbmm")
def _addmm(im: Any, node: Any, self: Any, mat1: Any = None, mat2: Any = None, batch1: Any = None,
           batch2: Any = None, beta: Any = 1, alpha: Any = 1) -> str:
    a, b = (mat1, mat2) if mat1 is not None else (batch1, batch2)
    product = _product(im, a, b) + ("" if alpha == 1 else f" * {im.text(alpha)}")
    if beta == 0:
        return im.rounded(product, node)
    added = im.text(self) + ("" if beta == 1 else f" * {im.text(beta)}")
    return im.rounded(f"{product} + {added}", node)


@_row("aten.linear")
def _linear(im: Any, node: Any, input: Any, weight: Any, bias: Any = None) -> str:
    if bias is None:
        return f"{im.text(input)} @ transpose({im.text(weight)})"
    out = ", out=f32" if im.dtype(input) in ("f16", "bf16") else ""
    return im.rounded(f"matmul({im.text(input)}, transpose({im.text(weight)}){out}) + {im.text(bias)}", node)


@_row("aten._int_mm", dtypes="any", result="own")
def _int_mm(im: Any, node: Any, self: Any, mat2: Any) -> str:
    return f"matmul({im.text(self)}, {im.text(mat2)}, out=s32)"


@_row("aten._scaled_mm", dtypes="any", result="own")
def _scaled_mm(im: Any, node: Any, self: Any, mat2: Any, scale_a: Any, scale_b: Any, bias: Any = None,
               scale_result: Any = None, out_dtype: Any = None, use_fast_accum: bool = False) -> str:
    if scale_result is not None:
        raise Refused("_scaled_mm with a scale of its result")
    rows, columns = im.sizes(self)[0], im.sizes(mat2)[1]
    for scale, wide in ((scale_a, [(), (1,), (1, 1), (rows, 1)]), (scale_b, [(), (1,), (1, 1), (1, columns)])):
        if im.dtype(scale) != "f32" or tuple(im.sizes(scale)) not in wide:
            raise Refused("_scaled_mm with scales of blocks")
    fast = ", fast=true" if use_fast_accum else ""
    text = f"matmul({im.text(self)}, {im.text(mat2)}, out=f32{fast}) * {im.text(scale_a)} * {im.text(scale_b)}"
    if bias is not None:
        text += f" + {im.text(bias)}"
    return im.rounded(text, node)


def literal(value: Any) -> str:
    """A number beside a tensor."""
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return number(value)
