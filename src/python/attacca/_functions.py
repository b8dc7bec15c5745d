"""Functions of numpy and torch as the text form writes them, by their name there.

``FUNCTIONS`` maps a function's, method's or ufunc's name to a writer: called with the recorder and
the function's own arguments, it records calls and returns values. An unknown name is the user's
error, and says what is known.
"""
from __future__ import annotations

from typing import Any, Callable

from ._errors import Error

Writer = Callable[..., Any]
FUNCTIONS: dict[str, Writer] = {}

# The same op under the same formula: names in numpy or torch -> text.
_PATTERNS = {
    "neg negative": "-{0}", "abs absolute fabs": "abs({0})", "sign sgn": "sign({0})",
    "reciprocal": "reciprocal({0})", "square": "square({0})", "sqrt": "sqrt({0})",
    "rsqrt": "rsqrt({0})", "exp": "exp({0})", "expm1": "expm1({0})", "log": "log({0})",
    "log1p": "log1p({0})", "sin": "sin({0})", "cos": "cos({0})", "erf": "erf({0})",
    "erfc": "erfc({0})", "tanh": "tanh({0})", "floor": "floor({0})", "ceil": "ceil({0})",
    "rint round": "round({0})", "logical_not": "not({0})", "sigmoid expit": "sigmoid({0})",
    "relu": "relu({0})", "relu6": "relu6({0})", "silu swish": "silu({0})", "mish": "mish({0})",
    "softsign": "{0} / (1 + abs({0}))", "hardswish": "hardswish({0})",
    "hardsigmoid": "hardsigmoid({0})", "selu": "selu({0})", "positive": "{0}",
    "logsigmoid": "-softplus(-{0})",
    "maximum fmax": "max({0}, {1})", "minimum fmin": "min({0}, {1})",
    "pow power float_power __pow__": "pow({0}, {1})", "multiply mul __mul__ __rmul__": "{0} * {1}",
    "divide true_divide div __truediv__": "{0} / {1}", "less lt __lt__": "{0} < {1}",
    "less_equal le __le__": "{0} <= {1}", "greater gt __gt__": "{0} > {1}",
    "greater_equal ge __ge__": "{0} >= {1}", "equal eq": "{0} == {1}",
    "not_equal ne": "{0} != {1}", "logical_and": "and({0}, {1})", "logical_or": "or({0}, {1})",
    "logical_xor": "xor({0}, {1})", "where": "where({0}, {1}, {2})",
    "matmul mm bmm __matmul__": "{0} @ {1}", "__rsub__": "{1} - {0}", "__rtruediv__": "{1} / {0}",
    "__rmatmul__": "{1} @ {0}", "__rpow__": "pow({1}, {0})",
    "t": "transpose({0})", "addcmul": "{0} + {1} * {2}", "lerp": "{0} + ({1} - {0}) * {2}",
}


def _define_patterns() -> None:
    def writer(pattern: str) -> Writer:
        def write(record: Any, *operands: Any) -> Any:
            return record(pattern, *operands)
        return write

    for names, pattern in _PATTERNS.items():
        for name in names.split():
            FUNCTIONS[name] = writer(pattern)


_define_patterns()


def _writes(*names: str) -> Callable[[Writer], Writer]:
    def register(writer: Writer) -> Writer:
        for name in names:
            FUNCTIONS[name] = writer
        return writer
    return register


def number(value: Any) -> str:
    """A Python number as the text form writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(int(value)) if isinstance(value, int) else repr(float(value))


def axes_text(axes: Any) -> str:
    return "[" + ", ".join(str(int(a)) for a in (axes if isinstance(axes, (tuple, list)) else [axes])) + "]"


@_writes("add", "__add__", "__radd__")
def _add(record: Any, x: Any, y: Any, *, alpha: Any = 1) -> Any:
    return record("{0} + {1}", x, y) if alpha == 1 else record("{0} + {1} * {2}", x, y, alpha)


@_writes("sub", "subtract", "__sub__")
def _sub(record: Any, x: Any, y: Any, *, alpha: Any = 1) -> Any:
    return record("{0} - {1}", x, y) if alpha == 1 else record("{0} - {1} * {2}", x, y, alpha)


@_writes("gelu")
def _gelu(record: Any, x: Any, approximate: str = "none") -> Any:
    return record("gelu_tanh({0})" if approximate == "tanh" else "gelu({0})", x)


@_writes("softplus")
def _softplus(record: Any, x: Any, beta: float = 1, threshold: float = 20) -> Any:
    return record("softplus({0})", x) if beta == 1 else record("softplus({0} * {1}) / {1}", x, beta)


@_writes("leaky_relu")
def _leaky_relu(record: Any, x: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    return record(f"leaky_relu({{0}}, alpha={number(negative_slope)})", x)


@_writes("elu")
def _elu(record: Any, x: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    return record(f"elu({{0}}, alpha={number(alpha)})", x)


@_writes("clip", "clamp")
def _clamp(record: Any, x: Any, min: Any = None, max: Any = None, *, a_min: Any = None,
           a_max: Any = None) -> Any:
    low, high = (min if a_min is None else a_min), (max if a_max is None else a_max)
    if all(bound is None or isinstance(bound, (int, float)) for bound in (low, high)):
        bounds = [f"{name}={number(b)}" for name, b in (("min", low), ("max", high)) if b is not None]
        return record(f"clamp({', '.join(['{0}', *bounds])})", x)
    if low is not None:
        x = record("max({0}, {1})", x, low)
    return x if high is None else record("min({0}, {1})", x, high)


@_writes("clamp_min")
def _clamp_min(record: Any, x: Any, min: Any) -> Any:
    return _clamp(record, x, min)


@_writes("clamp_max")
def _clamp_max(record: Any, x: Any, max: Any) -> Any:
    return _clamp(record, x, None, max)


@_writes("hardtanh")
def _hardtanh(record: Any, x: Any, min_val: float = -1.0, max_val: float = 1.0,
              inplace: bool = False) -> Any:
    return _clamp(record, x, min_val, max_val)


@_writes("linear")
def _linear(record: Any, x: Any, weight: Any, bias: Any = None) -> Any:
    product = record("{0} @ transpose({1})", x, weight)
    return product if bias is None else record("{0} + {1}", product, bias)


@_writes("addmm", "baddbmm")
def _addmm(record: Any, c: Any, a: Any, b: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    product = record("{0} @ {1}", a, b)
    if alpha != 1:
        product = record("{0} * {1}", product, alpha)
    if beta != 1:
        c = record("{0} * {1}", c, beta)
    return record("{0} + {1}", c, product)


@_writes("softmax")
def _softmax(record: Any, x: Any, dim: int = -1, *, axis: "int | None" = None, **_: Any) -> Any:
    return record(f"softmax({{0}}, axis={dim if axis is None else axis})", x)


@_writes("layer_norm")
def _layer_norm(record: Any, x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None,
                eps: float = 1e-5) -> Any:
    if len(normalized_shape) != 1 or (weight is None) != (bias is None):
        raise Error("layer_norm over more than the last axis, or with a weight or bias alone",
                    "layer_norm", "write it out")
    operands = [x] if weight is None else [x, weight, bias]
    places = ", ".join(f"{{{i}}}" for i in range(len(operands)))
    return record(f"layernorm({places}, eps={number(float(eps))})", *operands)


@_writes("rms_norm")
def _rms_norm(record: Any, x: Any, normalized_shape: Any, weight: Any = None, eps: Any = None) -> Any:
    operands = [x] if weight is None else [x, weight]
    places = ", ".join(f"{{{i}}}" for i in range(len(operands)))
    return record(f"rmsnorm({places}, eps={number(float(1e-6 if eps is None else eps))})", *operands)


def _reduction(op: str, numpy_names: str) -> None:
    def write(record: Any, x: Any, dim: Any = None, keepdim: bool = False, *, axis: Any = None,
              keepdims: bool = False, **_: Any) -> Any:
        axes = dim if axis is None else axis
        kept = ", keepdims=true" if keepdim or keepdims else ""
        over = "" if axes is None else f", axes={axes_text(axes)}"
        return record(f"{op}({{0}}{over}{kept})", x)
    _writes(*numpy_names.split())(write)


for _op, _names in [("sum", "sum"), ("mean", "mean"), ("reduce_max", "amax max"),
                    ("reduce_min", "amin min")]:
    _reduction(_op, _names)


@_writes("transpose", "swapaxes")
def _transpose(record: Any, x: Any, *axes: Any) -> Any:
    flat = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
    if not flat or sorted(a if a >= 0 else a + 2 for a in flat) == [0, 1] and flat[0] != flat[1] \
            and set(flat) & {-1, -2} or tuple(flat) in {(0, 1), (1, 0)}:
        return record("transpose({0})", x)
    if len(flat) > 2:
        return record(f"permute({{0}}, {axes_text(flat)})", x)
    raise Error(f"transpose of the axes {tuple(flat)}", "transpose", "use permute with all axes")


@_writes("permute")
def _permute(record: Any, x: Any, *axes: Any) -> Any:
    return record(f"permute({{0}}, {axes_text(axes[0] if isinstance(axes[0], (tuple, list)) else axes)})", x)


@_writes("reshape", "view")
def _reshape(record: Any, x: Any, *shape: Any, **_: Any) -> Any:
    return record(f"reshape({{0}}, {axes_text(shape[0] if isinstance(shape[0], (tuple, list)) else shape)})", x)


@_writes("concatenate", "concat", "cat")
def _concat(record: Any, tensors: Any, dim: int = 0, *, axis: "int | None" = None) -> Any:
    places = ", ".join(f"{{{i}}}" for i in range(len(tensors)))
    return record(f"concat({places}, axis={dim if axis is None else axis})", *tensors)


@_writes("chunk")
def _chunk(record: Any, x: Any, chunks: int, dim: int = 0) -> Any:
    return record.several(f"split({{0}}, {chunks}, axis={dim})", chunks, x)


@_writes("split", "array_split")
def _split(record: Any, x: Any, sizes: Any, dim: int = 0, *, axis: "int | None" = None) -> Any:
    over = dim if axis is None else axis
    if isinstance(sizes, int):
        raise Error("a split into parts of one size, whose count is not known while tracing", "split",
                    "use chunk, or give the list of sizes")
    return record.several(f"split({{0}}, {axes_text(sizes)}, axis={over})", len(sizes), x)


@_writes("contiguous", "ascontiguousarray", "copy", "clone", "detach")
def _same(record: Any, x: Any, **_: Any) -> Any:
    return x


@_writes("glu")
def _glu(record: Any, x: Any, dim: int = -1) -> Any:
    value, gate = _chunk(record, x, 2, dim)
    return record("{0} * sigmoid({1})", value, gate)
