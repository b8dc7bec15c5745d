"""Whether two results of one graph agree."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import TensorProto as T

from cases import Case

# By dtype: the relative error by which two correct implementations of an op may differ.
RELATIVE = {T.FLOAT: 4e-6, T.DOUBLE: 1e-11, T.FLOAT16: 4e-3, T.BFLOAT16: 3e-2}
# Smaller results may be flushed to zero or lose digits.
TINY = {T.FLOAT: 1e-37, T.DOUBLE: 1e-300, T.FLOAT16: 2e-7, T.BFLOAT16: 1e-37}
# ONNX Runtime's polynomials have an absolute error.
ABSOLUTE = {"Erf": 5e-7, "Tanh": 5e-7, "Sigmoid": 2e-7, "Gelu": 2e-6, "BiasGelu": 2e-6,
            "FastGelu": 2e-6,
            "QuickGelu": 2e-6, "Mish": 1e-6, "Softplus": 2e-7, "Swish": 1e-6, "HardSwish": 1e-6,
            "HardSigmoid": 1e-6, "Elu": 2e-7, "Selu": 4e-7, "Celu": 2e-7, "Sin": 2e-7, "Cos": 2e-7}
# Sums: an error relative to the largest terms, which cancel.
SUMS = ("MatMul", "Gemm", "ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare",
        "ReduceLogSum", "ReduceLogSumExp", "GlobalAveragePool", "LayerNormalization",
        "RMSNormalization", "BatchNormalization", "InstanceNormalization", "GroupNormalization",
        "MeanVarianceNormalization", "LRN", "Softmax", "LogSoftmax", "Sum", "Mean", "FastGelu",
        "BiasGelu", "Selu", "Swish", "DequantizeLinear",
        "Range", "CumSum", "FusedMatMul", "FusedGemm", "Einsum", "SkipLayerNormalization",
        "SkipSimplifiedLayerNormalization", "SimplifiedLayerNormalization", "RotaryEmbedding",
        "Attention", "MatMulNBits", "DynamicQuantizeMatMul", "MatMulIntegerToFloat", "QGemm",
        "QAttention", "MultiHeadAttention", "GroupQueryAttention", "MoE", "QMoE",
        "EmbedLayerNormalization", "Conv", "FusedConv", "ConvTranspose", "AveragePool", "RNN",
        "GRU", "LSTM", "Resize", "Upsample")


def same(case: Case, output: int, mine: Any, theirs: Any, values: dict[str, Any]) -> Any:
    """Element by element."""
    if mine.dtype.kind != "f":
        return mine == theirs
    dtype = case.dtype if case.dtype in RELATIVE else T.FLOAT
    with np.errstate(all="ignore"):
        a, b = mine.astype(np.float64), theirs.astype(np.float64)
        equal = (a == b) | (np.isnan(a) & np.isnan(b))
        if case.row.name not in SUMS:
            equal &= (a != 0) | (b != 0) | (np.signbit(a) == np.signbit(b))
        if case.exact:
            return equal
        allowed = RELATIVE[dtype] * np.abs(b) + TINY[dtype]
        if case.row.name in ABSOLUTE:
            allowed = allowed + ABSOLUTE[case.row.name]
        if case.row.name in SUMS:
            largest = [np.max(np.abs(each[np.isfinite(each)]), initial=0)
                       for each in (*values.values(), b) if each.dtype.kind == "f"]
            most = max(largest, default=0.0)
            allowed = allowed + RELATIVE[dtype] * min(most * max(most, 1.0) * 4, 1e300)
        return equal | (np.abs(a - b) <= allowed)


# What the operator texts name, in float64: ONNX Runtime's own float32 is less exact than this.
with np.errstate(all="ignore"):
    EXACT: dict[str, Any] = {
        "Tanh": np.tanh, "Sinh": np.sinh, "Cosh": np.cosh, "Tan": np.tan, "Asinh": np.arcsinh,
        "Acosh": np.arccosh, "Atanh": np.arctanh, "Asin": np.arcsin, "Acos": np.arccos,
        "Atan": np.arctan, "Exp": np.exp, "Log": np.log, "Sqrt": np.sqrt,
        "Sin": np.sin, "Cos": np.cos, "Reciprocal": np.reciprocal,
        "Softplus": lambda x: np.logaddexp(0, x),
        "Erf": np.vectorize(math.erf, otypes=[np.float64]),
        "Sigmoid": lambda x: np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-np.abs(x))),
    }


def inexact(case: Case, mine: Any, values: dict[str, Any]) -> str:
    """How an elementwise result of float32 is further from float64's than its last places."""
    if (case.row.name not in EXACT or case.chained or case.dtype != T.FLOAT
            or mine.dtype != np.float32):
        return ""
    (x,) = values.values()
    with np.errstate(all="ignore"):
        want = np.asarray(EXACT[case.row.name](x.astype(np.float64)))
        rounded = want.astype(np.float32)
        fine = (mine == rounded) | (np.isnan(mine) & np.isnan(want))
        fine |= np.abs(mine - want) <= 6e-7 * np.abs(want) + 1e-44
        fine &= (mine != 0) | (rounded != 0) | (np.signbit(mine) == np.signbit(rounded))
        fine |= np.abs(want) > 3.4e38
    if np.all(fine):
        return ""
    at = tuple(int(k) for k in np.argwhere(~fine)[0])
    return f"{at} is {mine[at]!r}, float64 says {want[at]!r} for {x[at]!r}"


def disagreement(case: Case, output: int, mine: Any, theirs: Any, values: dict[str, Any]) -> str:
    if not isinstance(theirs, np.ndarray):
        theirs = np.asarray(theirs)
    if mine.dtype != theirs.dtype:
        return f"is {mine.dtype}, ONNX Runtime's {theirs.dtype}"
    if mine.shape != theirs.shape:
        return f"has shape {mine.shape}, ONNX Runtime's {theirs.shape}"
    agree = same(case, output, mine, theirs, values)
    if np.all(agree):
        return ""
    at = tuple(int(k) for k in np.argwhere(~np.asarray(agree).reshape(mine.shape))[0])
    return (f"{at} is {mine[at]!r}, ONNX Runtime's {theirs[at]!r}; "
            f"{np.count_nonzero(~np.asarray(agree))} of {mine.size} differ")
