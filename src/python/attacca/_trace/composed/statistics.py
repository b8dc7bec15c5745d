"""Rows of variances, norms, and what normalises by them."""
from __future__ import annotations

import math
from typing import Any

from ..._functions.table import Refused
from ..._functions.values import FLOATS, fixed, is_number, literal, number
from .table import Composer, composes

# ---- Variances


def _variance(call: Composer, x: Any, dim: Any, correction: Any, keepdim: Any) -> tuple[Any, Any]:
    """The variance and the mean, computed in at least f32, in the framework's dtype."""
    if not is_number(correction):
        raise Refused(f"the argument correction={correction!r}")
    if call.result not in FLOATS:
        raise Refused(f"an operand of dtype {call.dtype(x)}")
    axes, sizes = call.axes(x, dim), call.sizes(x)
    wide = call.wide(x) if call.dtype(x) in FLOATS else call.cast(x, call.result)
    mean = call.reduce("mean", wide, axes, True) if axes else wide
    squares = call.unary("square", wide - mean)
    if correction == 0:
        made = call.reduce("mean", squares, axes, keepdim) if axes else squares
    else:
        count = math.prod(fixed(sizes[axis], "a variance") for axis in axes)
        total = call.reduce("sum", squares, axes, keepdim) if axes else squares
        degrees = number(float(max(count - correction, 0)))
        made = call.keep(f"{call.text(total)} / {degrees}", call.dtype(total), call.sizes(total))
    return made, call.reshaped(mean, list(call.sizes(made)))


def _corrected(unbiased: Any, correction: Any) -> Any:
    """torch's two arguments as one number."""
    if correction is None:
        return 1 if unbiased is None or unbiased else 0
    return correction


@composes("var std", "")
def _var(call: Composer, self: Any, dim: Any = None, unbiased: Any = None, correction: Any = None,
         keepdim: Any = False) -> Any:
    made, _ = _variance(call, self, dim, _corrected(unbiased, correction), keepdim)
    return call.cast(call.unary("sqrt", made) if call.name == "std" else made, call.result)


@composes("var_mean std_mean", "")
def _var_mean(call: Composer, self: Any, dim: Any = None, unbiased: Any = None,
              correction: Any = None, keepdim: Any = False) -> Any:
    made, mean = _variance(call, self, dim, _corrected(unbiased, correction), keepdim)
    if call.name == "std_mean":
        made = call.unary("sqrt", made)
    return call.cast(made, call.result), call.cast(mean, call.result)


@composes("", "var std")
def _numpy_var(call: Composer, self: Any, dim: Any = None, ddof: Any = 0,
               keepdim: Any = False) -> Any:
    return _var(call, self, dim, correction=ddof, keepdim=keepdim)


# ---- Norms


def _vector_norm(call: Composer, x: Any, ord: Any, dim: Any, keepdim: Any) -> Any:
    """In at least f32: the root of the sum of powers, or an extreme of magnitudes."""
    axes, wide = call.axes(x, dim), call.wide(x)
    def over(op: str, y: Any) -> Any:
        return call.reduce(op, y, axes, keepdim) if axes else y
    if ord == 2:
        return call.unary("sqrt", over("sum", call.unary("square", wide)))
    size = call.unary("abs", wide)
    if ord == 1:
        return over("sum", size)
    if ord in (math.inf, -math.inf):
        return over("reduce_max" if ord > 0 else "reduce_min", size)
    if not is_number(ord):
        raise Refused(f"the argument ord={ord!r}")
    if ord == 0:
        return over("sum", call.cast(size != 0, call.dtype(wide)))
    return over("sum", size**float(ord)) ** (1 / float(ord))


@composes("linalg_vector_norm", "")
def _linalg_vector_norm(call: Composer, self: Any, ord: Any = 2, dim: Any = None,
                        keepdim: Any = False, dtype: Any = None) -> Any:
    x = self if dtype is None else call.cast(self, call.result)
    return call.cast(_vector_norm(call, x, ord, dim, keepdim), call.result)


@composes("norm linalg_norm", "norm")
def _norm(call: Composer, self: Any, ord: Any = None, dim: Any = None, keepdim: Any = False,
          dtype: Any = None) -> Any:
    given = (len(dim) if isinstance(dim, (tuple, list)) else 1) if dim is not None else \
        len(call.sizes(self))
    if ord == "fro" and call.name != "norm" and given != 2:
        raise Refused(f"the argument ord={ord!r} over {given} axes")
    if isinstance(ord, str) and ord != "fro":
        raise Refused(f"the argument ord={ord!r}")
    of_vectors = ord in (None, "fro") or given == 1 or call.framework == "torch" \
        and call.name == "norm"
    if not of_vectors:
        raise Refused(f"the argument ord={ord!r} over {given} axes")
    x = self if dtype is None and call.dtype(self) in FLOATS else call.cast(self, call.result)
    return call.cast(_vector_norm(call, x, 2 if ord in (None, "fro") else ord, dim, keepdim),
                     call.result)


def _floored(call: Composer, norm: Any, eps: float) -> Any:
    """The norm, at least ``eps``."""
    text = f"max({call.text(norm)}, {number(float(eps))})"
    return call.keep(text, call.dtype(norm), call.sizes(norm))


@composes("normalize", "")
def _normalize(call: Composer, self: Any, p: Any = 2.0, dim: Any = 1, eps: float = 1e-12) -> Any:
    norm = _floored(call, _vector_norm(call, self, p, dim, True), eps)
    return call.cast(call.wide(self) / norm, call.result)


@composes("cosine_similarity", "")
def _cosine_similarity(call: Composer, x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    product = call.wide(x1) * call.wide(x2)
    axis = call.axis(product, dim)
    made = call.reduce("sum", product, axis, False)
    for each in (x1, x2):
        spread = call.broadcasted(call.wide(each), list(call.sizes(product)))
        made = made / _floored(call, _vector_norm(call, spread, 2, axis, False), eps)
    return call.cast(made, call.result)


# ---- Norms with parameters


def _by_channel(call: Composer, x: Any, parameter: Any) -> Any:
    """A parameter of [C] beside a tensor of [N, C, ...]."""
    after = len(call.sizes(x)) - 2
    return call.reshaped(parameter, [*call.sizes(parameter), *[1] * after])


def _scaled(call: Composer, wide: Any, x: Any, weight: Any, bias: Any) -> Any:
    if weight is not None:
        wide = wide * call.cast(_by_channel(call, x, weight), call.dtype(wide))
    if bias is not None:
        wide = wide + call.cast(_by_channel(call, x, bias), call.dtype(wide))
    return call.cast(wide, call.result)


def _of_groups(call: Composer, x: Any, groups: int, eps: float) -> Any:
    sizes = list(call.sizes(x))
    rest = [fixed(extent, "a norm") for extent in sizes[1:]]
    inner = math.prod(rest) // groups
    rows = call.reshaped(call.wide(x), [sizes[0], groups, inner])
    made = call.keep(f"layernorm({call.text(rows)}, eps={number(float(eps))})", call.dtype(rows),
                     call.sizes(rows))
    return call.reshaped(made, sizes)


@composes("group_norm", "")
def _group_norm(call: Composer, self: Any, num_groups: int, weight: Any = None, bias: Any = None,
                eps: float = 1e-5) -> Any:
    _ = call.result  # the framework checks the arguments
    return _scaled(call, _of_groups(call, self, num_groups, eps), self, weight, bias)


@composes("instance_norm", "")
def _instance_norm(call: Composer, self: Any, running_mean: Any = None, running_var: Any = None,
                   weight: Any = None, bias: Any = None, use_input_stats: bool = True,
                   eps: float = 1e-5) -> Any:
    _ = call.result
    if not use_input_stats:
        return _batch_norm(call, self, running_mean, running_var, weight, bias, False, eps)
    if running_mean is not None or running_var is not None:
        raise Refused("the argument running_mean, which the call would write")
    channels = fixed(call.sizes(self)[1], "a norm")
    return _scaled(call, _of_groups(call, self, channels, eps), self, weight, bias)


@composes("batch_norm", "")
def _batch_norm(call: Composer, self: Any, running_mean: Any, running_var: Any, weight: Any = None,
                bias: Any = None, training: bool = False, eps: float = 1e-5) -> Any:
    _ = call.result
    if training or running_mean is None or running_var is None:
        raise Refused("the argument training=True")
    wide = call.wide(self)
    mean, variance = (call.cast(_by_channel(call, self, each), call.dtype(wide))
                      for each in (running_mean, running_var))
    factor = call.unary("rsqrt", variance + float(eps))
    return _scaled(call, (wide - mean) * factor, self, weight, bias)


# ---- Tests of all elements


def _count(call: Composer, x: Any, relation: str, dim: Any, keepdim: Any) -> Any:
    """How many elements are, or are not, 0."""
    axes, text = call.axes(x, dim), call.text(x)
    counted = call.keep(f"cast({text} {relation} {literal(0, call.dtype(x))}, s64)", "s64",
                        call.sizes(x))
    return call.reduce("sum", counted, axes, keepdim) if axes else counted


@composes("any all", "any all")
def _any(call: Composer, self: Any, dim: Any = None, keepdim: Any = False) -> Any:
    relation = "!=" if call.name == "any" else "=="
    total = _count(call, self, relation, dim, keepdim)
    made = call.keep(f"{call.text(total)} {relation} 0", "bool", call.sizes(total))
    return call.cast(made, call.result)


@composes("count_nonzero", "count_nonzero")
def _count_nonzero(call: Composer, self: Any, dim: Any = None, keepdim: Any = False) -> Any:
    return _count(call, self, "!=", dim, keepdim)
