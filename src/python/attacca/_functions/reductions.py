"""Rows of functions that reduce or normalise whole axes."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .pointwise import pointwise
from .table import Call, Made, Refused, register, writes
from .values import FLOATS, axis_of, cast, known_dtype, list_text, number


def _axes(call: Call, tensor: Any, dim: Any) -> list[int]:
    rank = len(call.sizes(tensor))
    if dim is None or (dim in ((), []) and call.framework == "torch"):
        return list(range(rank))
    axes = [axis_of(call, tensor, d) for d in (dim if isinstance(dim, (tuple, list)) else [dim])]
    if len(set(axes)) < len(axes):
        raise Refused(f"the argument dim={dim} names an axis twice")
    return axes if rank else []


def reduced(call: Call, op: str, tensor: Any, dim: Any, keepdim: Any, dtype: str) -> Made:
    axes = _axes(call, tensor, dim)
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
        dtype, extents = call.dtype(self), call.sizes(self)
        if any(type(e) is int and e == 0 for e in (extents[a] for a in _axes(call, self, dim))):
            raise Refused("the extreme of an axis without elements")
        if dtype in (*FLOATS, "s32", "s64"):
            return reduced(call, op, self, dim, keepdim, dtype)
        made = reduced(call, op, self, dim, keepdim, "s32")
        return Made(f"cast({made.text}, {dtype})", made.sizes)
    return write


register("amax", "amax max", _extreme("reduce_max"), ("self", "dim", "keepdim"))
register("amin", "amin min", _extreme("reduce_min"), ("self", "dim", "keepdim"))


def _extreme_or_pair(op: str, template: str) -> Callable[..., Made]:
    def write(call: Call, self: Any, other: Any = None, dim: Any = None,
              keepdim: Any = False) -> Made:
        if dim is not None:
            raise Refused(f"the argument dim={dim} gives indices too: use a{op[-3:]}")
        if other is not None:
            return pointwise(call, template, {"self": self, "other": other}, "number")
        return _extreme(op)(call, self)
    return write


writes("max", "")(_extreme_or_pair("reduce_max", "max({self}, {other})"))
writes("min", "")(_extreme_or_pair("reduce_min", "min({self}, {other})"))


@writes("softmax _softmax special_softmax", "")
def _softmax(call: Call, self: Any, dim: Any, dtype: Any = None,
             half_to_float: bool = False) -> Made:
    if call.result not in FLOATS:
        raise Refused(f"a result of dtype {call.result}")
    if dim is None:  # the default of torch.nn.functional
        dim = 0 if len(call.sizes(self)) in (0, 1, 3) else 1
    axis = axis_of(call, self, dim)
    rank = len(call.sizes(self))
    text = cast(call, self, call.result)
    if not rank:
        return Made(f"reshape(softmax(reshape({text}, [1]), axis=0), [])", list)
    return Made(f"softmax({text}, axis={axis - rank})", lambda: call.sizes(self))


@writes("log_softmax _log_softmax special_log_softmax", "")
def _log_softmax(call: Call, self: Any, dim: Any, dtype: Any = None,
                 half_to_float: bool = False) -> Made:
    text = _softmax(call, self, dim, dtype, half_to_float).text  # checks the arguments
    if not call.sizes(self):
        return Made(f"{text} * 0", list)
    x, axes = _wide(cast(call, self, call.result), call), text.rpartition("axis=")[2].rstrip(")")
    less = f"({x} - reduce_max({x}, axes=[{axes}], keepdims=true))"
    return _narrow(Made(f"{less} - log(sum(exp({less}), axes=[{axes}], keepdims=true))",
                        lambda: call.sizes(self)), call)


def _wide(text: str, call: Call) -> str:
    """A value of the result's dtype in f32 where that is wider: sums between would be rounded."""
    return f"cast({text}, f32)" if call.result in ("f16", "bf16") else text


def _narrow(made: Made, call: Call) -> Made:
    return made._replace(text=f"cast({made.text}, {call.result})") \
        if call.result in ("f16", "bf16") else made


@writes("softmin", "")
def _softmin(call: Call, self: Any, dim: Any = None, dtype: Any = None) -> Made:
    made = _softmax(call, self, dim, dtype)
    x = cast(call, self, call.result)
    return made._replace(text=made.text.replace(f"({x},", f"(-{x},", 1))


@writes("logsumexp special_logsumexp", "")
def _logsumexp(call: Call, self: Any, dim: Any, keepdim: Any = False) -> Made:
    if call.dtype(self) not in FLOATS:
        raise Refused(f"an operand of dtype {call.dtype(self)}")
    whole = reduced(call, "reduce_max", self, dim, True, call.result).text
    kept = reduced(call, "reduce_max", self, dim, keepdim, call.result)
    if "reduce_max" not in whole:  # a scalar
        return kept
    # An infinity is the result itself, and must not be subtracted from itself.
    shift = f"where(abs({whole}) == inf, 0, {whole})"
    total = reduced(call, "sum", self, dim, keepdim, call.result)
    x = _wide(call.text(self), call)
    less = total.text.replace(f"sum({call.text(self)}", f"sum(exp({x} - {shift})", 1)
    return _narrow(Made(f"log({less}) + where(abs({kept.text}) == inf, 0, {kept.text})",
                        total.sizes), call)


def _normalized(call: Call, op: str, self: Any, normalized_shape: Any, weight: Any, bias: Any,
                eps: float) -> Made:
    """A norm over the last axes, which are merged into one."""
    shape, rank = tuple(normalized_shape), len(call.sizes(self))
    axes, have = len(shape), call.sizes(self)
    last = tuple(have[rank - axes:]) if 0 < axes <= rank else None
    if last is None or any(type(e) is int and isinstance(s, int) and e != s
                           for e, s in zip(last, shape)):
        raise Refused(f"the argument normalized_shape={shape} of a tensor of shape {tuple(have)}")
    if call.dtype(self) not in FLOATS:
        raise Refused(f"an operand of dtype {call.dtype(self)}")
    for name, each in (("weight", weight), ("bias", bias)):
        if each is not None and len(call.sizes(each)) != axes:
            raise Refused(f"the argument {name} of shape {tuple(call.sizes(each))}")
        if each is not None and call.dtype(each) != call.dtype(self):
            raise Refused(
                f"the argument {name} of dtype {call.dtype(each)} beside {call.dtype(self)}")
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
def _rms_norm(call: Call, self: Any, normalized_shape: Any, weight: Any = None,
              eps: Any = None) -> Made:
    if eps is None:  # torch: the epsilon of the dtype in which it computes
        eps = 2.0**-52 if call.dtype(self) == "f64" else 2.0**-23
    return _normalized(call, "rmsnorm", self, normalized_shape, weight, None, eps)
