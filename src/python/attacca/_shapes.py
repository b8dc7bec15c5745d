"""Rows of functions that move, reduce or multiply whole axes. See ``_functions``."""
from __future__ import annotations

import math
import operator
from typing import Any, Callable, Sequence

from ._functions import (Call, FLOATS, INTEGERS, Made, Refused, broadcast, cast, is_number, known_dtype, literal,
                         number, pointwise, promoted, writes)


class Extent(int):
    """A size that differs from call to call: its value in this one, and its text where it has one."""

    text: "str | None"

    def __new__(cls, value: int, text: "str | None" = None) -> "Extent":
        extent = super().__new__(cls, value)
        extent.text = text
        return extent


def fixed(extent: Any, why: str) -> int:
    """A size that is the same in every call."""
    if type(extent) is not int:
        raise Refused(f"{why} of an axis whose size is symbolic")
    return extent


def axis_of(call: Call, tensor: Any, dim: Any, name: str = "dim") -> int:
    """A non-negative axis. Of a scalar, torch takes 0 and -1."""
    rank = len(call.sizes(tensor))
    bound = max(rank, 1) if call.framework == "torch" else rank
    try:
        dim = operator.index(dim)
    except TypeError:
        raise Refused(f"the argument {name}={dim!r}") from None
    if not -bound <= dim < bound:
        raise Refused(f"the argument {name}={dim} of a tensor with {rank} axes")
    return dim % bound if bound else 0


def list_text(values: Sequence[Any]) -> str:
    return "[" + ", ".join(map(str, values)) + "]"


def integers(values: Any, name: str) -> list[int]:
    try:
        return [operator.index(v) for v in (values if isinstance(values, (tuple, list)) else [values])]
    except TypeError:
        raise Refused(f"the argument {name}={values!r}") from None


# ---- Views


def permuted(call: Call, tensor: Any, axes: Sequence[int]) -> Made:
    rank = len(call.sizes(tensor))
    if sorted(axes) != list(range(rank)):
        raise Refused(f"the axes {tuple(axes)} of a tensor with {rank} axes")
    def sizes() -> Sequence[int]:
        return [call.sizes(tensor)[axis] for axis in axes]
    text = call.text(tensor)
    if list(axes) == list(range(rank)):
        return Made(text, sizes)
    if list(axes) == [*range(rank - 2), rank - 1, rank - 2]:
        return Made(f"transpose({text})", sizes)
    return Made(f"permute({text}, {list_text(axes)})", sizes)


def swapped(call: Call, tensor: Any, one: Any, other: Any) -> Made:
    first, second = axis_of(call, tensor, one, "dim0"), axis_of(call, tensor, other, "dim1")
    axes = list(range(len(call.sizes(tensor))))
    if axes:
        axes[first], axes[second] = axes[second], axes[first]
    return permuted(call, tensor, axes)


@writes("transpose swapaxes swapdims", "swapaxes")
def _transpose(call: Call, self: Any, dim0: int, dim1: int) -> Made:
    return swapped(call, self, dim0, dim1)


@writes("t", "")
def _t(call: Call, self: Any) -> Made:
    if len(call.sizes(self)) > 2:
        raise Refused("t of a tensor with more than two axes")
    return permuted(call, self, range(len(call.sizes(self)))[::-1])


@writes("permute", "transpose permute_dims")
def _permute(call: Call, self: Any, dims: Any = None) -> Made:
    axes = range(len(call.sizes(self)))[::-1] if dims is None else [axis_of(call, self, d, "dims") for d in dims]
    return permuted(call, self, list(axes))


@writes("adjoint mT", "matrix_transpose mT")
def _matrix_transpose(call: Call, self: Any) -> Made:
    rank = len(call.sizes(self))
    if rank < 2 and not (rank == 0 and call.framework == "torch"):
        raise Refused("a transpose of a tensor with less than two axes")
    return swapped(call, self, -1, -2) if rank else permuted(call, self, [])


@writes("numpy_T", "T")
def _reversed(call: Call, self: Any) -> Made:
    return permuted(call, self, range(len(call.sizes(self)))[::-1])


@writes("view reshape _unsafe_view", "reshape")
def _reshape(call: Call, self: Any, size: Any, order: str = "C") -> Made:
    if order != "C":
        raise Refused(f"the argument order={order!r}")
    def sizes() -> Sequence[int]:
        wanted = integers(size, "size")
        have, given = call.sizes(self), [s for s in wanted if s != -1]
        if len(given) + 1 < len(wanted):
            raise Refused(f"the argument size={size} has two -1")
        if len(given) == len(wanted):
            return wanted
        count = math.prod(given)
        if count == 0 or math.prod(have) % count:
            raise Refused(f"the argument size={size} for {math.prod(have)} elements")
        rest = math.prod(have) // count
        symbolic = any(type(extent) is not int for extent in [*have, *given])
        return [(Extent(rest, "-1") if symbolic else rest) if s == -1 else s for s in wanted]
    return call.reshape(call.text(self), sizes)


@writes("unsqueeze", "")
def _unsqueeze(call: Call, self: Any, dim: int) -> Made:
    rank = len(call.sizes(self)) + 1
    if not -rank <= dim < rank:
        raise Refused(f"the argument dim={dim} of a tensor with {rank - 1} axes")
    def sizes() -> Sequence[int]:
        have = list(call.sizes(self))
        have.insert(dim % rank, 1)
        return have
    return call.reshape(call.text(self), sizes)


@writes("", "expand_dims")
def _expand_dims(call: Call, self: Any, dim: int) -> Made:
    if not isinstance(dim, int):
        raise Refused(f"the argument axis={dim!r}")
    return _unsqueeze(call, self, dim)


@writes("squeeze", "squeeze")
def _squeeze(call: Call, self: Any, dim: Any = None) -> Made:
    chosen = None if dim is None else {axis_of(call, self, d) for d in (dim if isinstance(dim, (tuple, list)) else [dim])}
    def sizes() -> Sequence[int]:
        kept = []
        for i, extent in enumerate(call.sizes(self)):
            if chosen is not None and i not in chosen:
                kept.append(extent)
            elif fixed(extent, "a squeeze") != 1:
                if chosen is not None and call.framework == "numpy":
                    raise Refused(f"the argument axis={dim}: an axis of {extent} elements")
                kept.append(extent)
        return kept
    return call.reshape(call.text(self), sizes)


@writes("flatten", "")
def _flatten(call: Call, self: Any, start_dim: int = 0, end_dim: int = -1) -> Made:
    start, end = axis_of(call, self, start_dim, "start_dim"), axis_of(call, self, end_dim, "end_dim")
    if start > end:
        raise Refused(f"the argument start_dim={start_dim} lies behind end_dim")
    def sizes() -> Sequence[int]:
        have = list(call.sizes(self))
        merged = math.prod(have[start:end + 1])
        symbolic = any(type(extent) is not int for extent in have[start:end + 1])
        return [*have[:start], Extent(merged, "-1") if symbolic else merged, *have[end + 1:]]
    return call.reshape(call.text(self), sizes)


@writes("ravel", "ravel flatten")
def _ravel(call: Call, self: Any, order: str = "C") -> Made:
    if order != "C":
        raise Refused(f"the argument order={order!r}")
    return _flatten(call, self) if call.sizes(self) else call.reshape(call.text(self), lambda: [1])


@writes("unflatten", "")
def _unflatten(call: Call, self: Any, dim: int, sizes: Any) -> Made:
    axis = axis_of(call, self, dim)
    def result() -> Sequence[int]:
        have, wanted = list(call.sizes(self)), [operator.index(s) for s in sizes]
        extent = fixed(have[axis], "unflatten")
        if -1 in wanted:
            rest = math.prod(s for s in wanted if s != -1)
            wanted[wanted.index(-1)] = extent // rest if rest else 0
        if math.prod(wanted) != extent or any(s < 0 for s in wanted):
            raise Refused(f"the argument sizes={sizes} for an axis of {extent}")
        return [*have[:axis], *wanted, *have[axis + 1:]]
    return call.reshape(call.text(self), result)


@writes("expand", "")
def _expand(call: Call, self: Any, size: Any) -> Made:
    def sizes() -> Sequence[int]:
        wanted, have = integers(size, "size"), list(call.sizes(self))
        new = len(wanted) - len(have)
        have = [1] * new + have
        if new < 0 or -1 in wanted[:new] or any(w != e and w != -1 and e != 1 for w, e in zip(wanted, have)):
            raise Refused(f"the argument size={size} of a tensor of shape {tuple(have)}")
        return [e if w == -1 else w for w, e in zip(wanted, have)]
    return call.broadcast_to(self, sizes)


@writes("cat concat concatenate", "concatenate concat")
def _cat(call: Call, tensors: Any, dim: Any = 0) -> Made:
    tensors = list(tensors)
    if dim is None:
        raise Refused("the argument axis=None")
    if any(len(call.sizes(t)) != len(call.sizes(tensors[0])) for t in tensors):
        raise Refused("the argument tensors: their ranks differ")
    if not call.sizes(tensors[0]):
        raise Refused("the argument tensors: scalars")
    axis, dtype = axis_of(call, tensors[0], dim), call.result
    def sizes() -> Sequence[int]:
        found = list(call.sizes(tensors[0]))
        extents = [call.sizes(t)[axis] for t in tensors]
        total = sum(int(e) for e in extents)
        found[axis] = total if all(type(e) is int for e in extents) else Extent(total)
        return found
    return Made(f"concat({', '.join(cast(call, t, dtype) for t in tensors)}, axis={axis})", sizes)


# ---- Parts


def sliced(call: Call, tensor: Any, dim: int, begin: Any, end: Any, step: int = 1) -> str:
    if not all(b is None or isinstance(b, int) for b in (begin, end, step)):
        raise Refused("a slice with bounds that are not known")
    rank = len(call.sizes(tensor))
    ranges = [":"] * rank
    ranges[dim] = f"{begin or ''}:{'' if end is None else end}" + (f":{step}" if step != 1 else "")
    return f"{call.text(tensor)}[{', '.join(ranges)}]"


def slice_size(extent: int, begin: Any, end: Any, step: int) -> int:
    size = len(range(*slice(begin, end, step).indices(int(extent))))
    if type(extent) is int:
        return size
    whole = begin in (None, 0) and end is None and step == 1
    return extent if whole else Extent(size)


@writes("slice", "")
def _slice(call: Call, self: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Made:
    axis = axis_of(call, self, dim)
    if not call.sizes(self):
        raise Refused("a slice of a scalar")
    extent = call.sizes(self)[axis]
    if type(extent) is int and all(b is None or isinstance(b, int) for b in (start, end)):
        start, end, _ = slice(start, end).indices(extent)
        end = None if end == extent and start <= end else max(start, end)
    elif isinstance(end, int) and end >= 2**62:
        end = None
    def sizes() -> Sequence[int]:
        found = list(call.sizes(self))
        found[axis] = slice_size(found[axis], start, end, step)
        return found
    return Made(sliced(call, self, axis, start, end, step), sizes)


@writes("select", "")
def _select(call: Call, self: Any, dim: int, index: Any) -> Made:
    axis = axis_of(call, self, dim)
    if not isinstance(index, int):
        raise Refused("the argument index is not known")
    text = sliced(call, self, axis, index, index + 1 if index != -1 else None)
    return call.reshape(text, lambda: [e for i, e in enumerate(call.sizes(self)) if i != axis])


@writes("chunk", "")
def _chunk(call: Call, self: Any, chunks: int, dim: int = 0) -> list[Made]:
    axis = axis_of(call, self, dim)
    def sizes() -> "Sequence[int] | int":
        extent = call.sizes(self)[axis]
        if type(extent) is not int or extent % chunks == 0 and extent:
            return chunks
        return _equal_sizes(extent, -(-extent // chunks))
    return call.parts(self, axis, sizes)


def _equal_sizes(extent: int, size: int) -> list[int]:
    if size <= 0:
        raise Refused("parts of no elements")
    return [min(size, extent - i) for i in range(0, extent, size)]


@writes("split split_with_sizes", "")
def _split(call: Call, self: Any, split_size: Any, dim: int = 0) -> list[Made]:
    axis = axis_of(call, self, dim)
    def sizes() -> Sequence[int]:
        extent = call.sizes(self)[axis]
        if isinstance(split_size, int):
            return _equal_sizes(fixed(extent, "a split into parts of one size"), split_size)
        found = [operator.index(s) for s in split_size]
        if any(s < 0 for s in found) or type(extent) is int and sum(found) != extent:
            raise Refused(f"the argument split_size={split_size} for an axis of {extent}")
        return found
    return call.parts(self, axis, sizes)


@writes("tensor_split", "array_split split")
def _split_at(call: Call, self: Any, indices_or_sections: Any, dim: int = 0) -> list[Made]:
    axis = axis_of(call, self, dim)
    def sizes() -> "Sequence[int] | int":
        extent = call.sizes(self)[axis]
        if isinstance(indices_or_sections, int):
            sections = indices_or_sections
            if sections < 1:
                raise Refused(f"the argument indices_or_sections={sections}")
            if type(extent) is not int:
                return sections
            if extent % sections and call.name == "split":
                raise Refused(f"the argument indices_or_sections={sections} for an axis of {extent}")
            return [extent // sections + (i < extent % sections) for i in range(sections)]
        extent = fixed(extent, "a split at indices")
        bounds = [0, *(slice(None, operator.index(i)).indices(extent)[1] for i in indices_or_sections), extent]
        return [max(end - begin, 0) for begin, end in zip(bounds, bounds[1:])] if bounds == sorted(bounds) else \
            _unsorted(indices_or_sections)
    return call.parts(self, axis, sizes)


def _unsorted(indices: Any) -> Sequence[int]:
    raise Refused(f"the argument indices_or_sections={indices}: it does not ascend")


@writes("unbind", "")
def _unbind(call: Call, self: Any, dim: int = 0) -> list[Made]:
    axis = axis_of(call, self, dim)
    return [_select(call, self, axis, i) for i in range(fixed(call.sizes(self)[axis], "unbind"))]


@writes("glu")
def _glu(call: Call, self: Any, dim: int = -1) -> Made:
    if not call.sizes(self):
        raise Refused("glu of a scalar")
    value, gate = call.parts(self, axis_of(call, self, dim), lambda: 2)
    if call.dtype(self) not in FLOATS:
        raise Refused(f"an operand of dtype {call.dtype(self)}")
    return Made(f"{value.text} * sigmoid({gate.text})", value.sizes)


# ---- Reductions


def _axes(call: Call, tensor: Any, dim: Any) -> list[int]:
    rank = len(call.sizes(tensor))
    if dim is None or (dim in ((), []) and call.framework == "torch"):
        return list(range(rank))
    axes = [axis_of(call, tensor, d) for d in (dim if isinstance(dim, (tuple, list)) else [dim])]
    if len(set(axes)) < len(axes):
        raise Refused(f"the argument dim={dim} names an axis twice")
    return axes if rank else []


def reduced(call: Call, op: str, tensor: Any, dim: Any, keepdim: Any, dtype: str) -> Made:
    axes, rank = _axes(call, tensor, dim), len(call.sizes(tensor))
    if not isinstance(keepdim, bool):
        raise Refused(f"the argument keepdim={keepdim!r}")
    known_dtype(call, tensor)
    def sizes() -> Sequence[int]:
        kept = [1 if i in axes else e for i, e in enumerate(call.sizes(tensor))]
        return kept if keepdim else [e for i, e in enumerate(kept) if i not in axes]
    text = cast(call, tensor, dtype)
    if not axes:
        return Made(text, sizes)
    given = "" if dim is None else f", axes={list_text(axes)}"
    return Made(f"{op}({text}{given}{', keepdims=true' if keepdim else ''})", sizes)


@writes("sum", "sum")
def _sum(call: Call, self: Any, dim: Any = None, keepdim: Any = False, dtype: Any = None) -> Made:
    if call.result not in (*FLOATS, "s32", "s64"):
        raise Refused(f"a result of dtype {call.result}")
    return reduced(call, "sum", self, dim, keepdim, call.result)


@writes("mean", "mean")
def _mean(call: Call, self: Any, dim: Any = None, keepdim: Any = False, dtype: Any = None) -> Made:
    if call.result not in FLOATS:
        raise Refused(f"a result of dtype {call.result}")
    return reduced(call, "mean", self, dim, keepdim, call.result)


def _extreme(op: str) -> Callable[..., Made]:
    def write(call: Call, self: Any, dim: Any = None, keepdim: Any = False) -> Made:
        dtype = call.dtype(self)
        if dtype in (*FLOATS, "s32", "s64"):
            return reduced(call, op, self, dim, keepdim, dtype)
        made = reduced(call, op, self, dim, keepdim, "s32")
        return Made(f"cast({made.text}, {dtype})", made.sizes)
    return write


def _extremes() -> None:
    from ._functions import register

    for op, names in (("reduce_max", "amax"), ("reduce_min", "amin")):
        register(names, f"{names} {names[1:]}", _extreme(op), ("self", "dim", "keepdim"))


_extremes()


def _extreme_or_pair(op: str, template: str) -> Callable[..., Made]:
    def write(call: Call, self: Any, other: Any = None, dim: Any = None, keepdim: Any = False) -> Made:
        if dim is not None:
            raise Refused(f"the argument dim={dim} gives indices too: use a{op[-3:]}")
        if other is not None:
            return pointwise(call, template, {"self": self, "other": other}, "number")
        return _extreme(op)(call, self)
    return write


writes("max", "")(_extreme_or_pair("reduce_max", "max({self}, {other})"))
writes("min", "")(_extreme_or_pair("reduce_min", "min({self}, {other})"))


@writes("softmax _softmax special_softmax", "")
def _softmax(call: Call, self: Any, dim: Any, dtype: Any = None, half_to_float: bool = False) -> Made:
    if call.result not in FLOATS:
        raise Refused(f"a result of dtype {call.result}")
    if dim is None:  # torch.nn.functional's old choice
        dim = 0 if len(call.sizes(self)) in (0, 1, 3) else 1
    axis = axis_of(call, self, dim)
    rank = len(call.sizes(self))
    text = cast(call, self, call.result)
    if not rank:
        return Made(f"reshape(softmax(reshape({text}, [1]), axis=0), [])", lambda: [])
    return Made(f"softmax({text}, axis={axis - rank})", lambda: call.sizes(self))


def _normalized(call: Call, op: str, self: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> Made:
    """A norm over the last axes, which become one."""
    shape, rank = tuple(normalized_shape), len(call.sizes(self))
    axes, have = len(shape), call.sizes(self)
    last = tuple(have[rank - axes:]) if 0 < axes <= rank else None
    if last is None or any(type(e) is int and isinstance(s, int) and e != s for e, s in zip(last, shape)):
        raise Refused(f"the argument normalized_shape={shape} of a tensor of shape {tuple(have)}")
    if call.dtype(self) not in FLOATS:
        raise Refused(f"an operand of dtype {call.dtype(self)}")
    for name, each in (("weight", weight), ("bias", bias)):
        if each is not None and len(call.sizes(each)) != axes:
            raise Refused(f"the argument {name} of shape {tuple(call.sizes(each))}")
        if each is not None and call.dtype(each) != call.dtype(self):
            raise Refused(f"the argument {name} of dtype {call.dtype(each)} beside {call.dtype(self)}")
    if axes > 1 and not all(type(s) is int for s in shape):
        raise Refused(f"the argument normalized_shape={shape} is symbolic")
    def flat(tensor: Any, lead: Sequence[int]) -> str:
        return call.text(tensor) if axes == 1 else \
            f"reshape({call.text(tensor)}, {list_text([*lead, math.prod(shape)])})"
    operands = [flat(self, [-1])]
    given = [flat(w, []) for w in (weight, bias) if w is not None]
    whole = op == "rmsnorm" or len(given) != 1
    text = f"{op}({', '.join(operands + (given if whole else []))}, eps={number(float(eps))})"
    if not whole:
        text = f"({text} {'*' if bias is None else '+'} {given[0]})"
    if axes > 1:
        text = f"reshape({text}, {list_text([call.extent_text(e) for e in have])})"
    return Made(text, lambda: have)


@writes("layer_norm", "")
def _layer_norm(call: Call, self: Any, normalized_shape: Any, weight: Any = None, bias: Any = None,
                eps: float = 1e-5) -> Made:
    return _normalized(call, "layernorm", self, normalized_shape, weight, bias, eps)




@writes("rms_norm", "")
def _rms_norm(call: Call, self: Any, normalized_shape: Any, weight: Any = None, eps: Any = None) -> Made:
    if eps is None:  # torch: of the dtype in which it computes
        eps = 2.0**-52 if call.dtype(self) == "f64" else 2.0**-23
    return _normalized(call, "rmsnorm", self, normalized_shape, weight, None, eps)


# ---- Products


def product_sizes(call: Call, a: Any, b: Any, transposed: bool = False) -> Callable[[], Sequence[int]]:
    def sizes() -> Sequence[int]:
        one, other = list(call.sizes(a)), list(call.sizes(b))
        if transposed:
            other[-2:] = other[:-3:-1]
        if one[-1] != other[-2]:
            raise Refused(f"a product of {tuple(one)} with {tuple(other)}")
        lead = broadcast(_Sizes(call), [one[:-2], other[:-2]])()  # type: ignore[arg-type]
        return [*lead, one[-2], other[-1]]
    return sizes


class _Sizes:
    """Shapes in place of tensors."""

    def __init__(self, call: Call):
        self.sizes = tuple


def matrices(call: Call, *tensors: Any) -> None:
    if any(len(call.sizes(t)) < 2 for t in tensors):
        raise Refused("a product with a vector")


def _operands(call: Call, a: Any, b: Any) -> str:
    """Both in the dtype of the result."""
    matrices(call, a, b)
    return f"{cast(call, a, call.result)}, {cast(call, b, call.result)}"


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
    """With the accumulator as it is: what follows in the same op adds before it rounds."""
    return f"matmul({a}, {b}{', out=f32' if call.result in ('f16', 'bf16') else ''})"


def rounded_result(call: Call, text: str) -> str:
    """An f32 or f64 expression, or an integer one, in the result's dtype."""
    return f"cast({text}, {call.result})" if call.result in ("f16", "bf16") else text


@writes("addmm baddbmm", "")
def _addmm(call: Call, self: Any, mat1: Any, mat2: Any, beta: Any = 1, alpha: Any = 1) -> Made:
    _same_dtype(call, self, mat1, mat2)
    for name, value in (("beta", beta), ("alpha", alpha)):
        if not is_number(value):
            raise Refused(f"the argument {name}={value!r}")
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
    return Made(rounded_result(call, f"{_accumulated(call, call.text(self), transposed)} + {call.text(bias)}"), sizes)
