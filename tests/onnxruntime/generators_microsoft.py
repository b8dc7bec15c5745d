"""What makes a random graph of each of ONNX Runtime's own quantised products and attentions."""
from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto as T

from cases import Case, Fill
from generators import of, small, typed

BYTES = (T.UINT8, T.INT8)


def scale(low: float = 0.01, high: float = 0.1) -> Fill:
    return lambda rng, shape: rng.uniform(low, high, shape).astype(np.float32)


@of("MatMulNBits")
def mat_mul_n_bits(case: Case) -> None:
    dtype = typed(case, T.FLOAT, T.FLOAT, T.FLOAT16)
    numpy = np.float16 if dtype == T.FLOAT16 else np.float32
    bits, block = case.one(4, 4, 8), case.one(16, 32, 64, 128, 256)
    n, k = case.one(1, 3, 16, 33), case.one(1, 15, 16, 31, 64, 100, 130, 256, 300)
    blocks = -(-k // block)
    rng = case.rng
    case.constant("b", rng.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8))
    flat = case.maybe()
    case.constant("s", rng.uniform(0.01, 0.1, n * blocks if flat else (n, blocks)).astype(numpy))
    inputs = [case.input("a", dtype, [*case.shape(0, 1), case.dim(), k], small(dtype)), "b", "s"]
    zeros = case.one("", "codes", "floats") if bits == 4 else case.one("", "codes")
    if zeros == "codes":
        width = -(-blocks * bits // 8)
        packed = rng.integers(0, 256, (n, width)).astype(np.uint8)
        inputs.append(case.constant("z", packed.reshape(-1) if flat else packed))
    elif zeros:
        inputs.append(case.constant("z", rng.uniform(0, 15, (n, blocks)).astype(numpy)))
    # With g_idx, ONNX Runtime does not read packed zero points as such.
    if bits == 4 and zeros != "codes" and case.maybe(0.3):
        order = rng.integers(0, blocks, blocks * block).astype(np.int32)
        inputs += [""] * (4 - len(inputs)) + [case.constant("g", order)]
    if case.maybe(0.3):
        inputs += [""] * (5 - len(inputs)) + [case.input("c", dtype, [n])]
    case.tested(inputs, N=n, K=k, bits=bits, block_size=block)


def operands(case: Case, signed: bool = True) -> tuple[int, int, list[Any], int, Any]:
    """The dtypes of A and B, A's shape, B's number of columns, and K."""
    a = case.one(*BYTES) if signed else T.UINT8
    k, n = case.one(1, 3, 16, 40), case.one(1, 4, 17)
    return a, case.one(*BYTES) if a == T.UINT8 else T.INT8, [*case.shape(0, 1), case.dim(), k], n, k


@of("DynamicQuantizeMatMul")
def dynamic_quantize_mat_mul(case: Case) -> None:
    typed(case, T.FLOAT)
    _, b, dims, n, k = operands(case, signed=False)
    wide = case.one([], [n])
    inputs = [case.input("a", T.FLOAT, dims, far_from_halves),
              case.input("b", b, [k, n], constant=True), case.input("sb", T.FLOAT, wide, scale())]
    inputs.append(case.input("zb", b, wide) if case.maybe() else "")
    if case.maybe():
        inputs.append(case.input("c", T.FLOAT, [n]))
    case.tested(inputs)


def far_from_halves(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Multiples of a step for which the zero point and the quotients are far from halves."""
    values = rng.integers(-100, 156, shape).astype(np.float32)
    if values.size > 1:
        values.reshape(-1)[:2] = (-100, 155)
    return values


@of("MatMulIntegerToFloat")
def mat_mul_integer_to_float(case: Case) -> None:
    typed(case, T.FLOAT)
    a, b, dims, n, k = operands(case)
    wide = case.one([], [n])
    inputs = [case.input("a", a, dims), case.input("b", b, [k, n]),
              case.input("sa", T.FLOAT, [], scale()), case.input("sb", T.FLOAT, wide, scale())]
    inputs.append(case.input("za", a, []) if case.maybe() else "")
    inputs.append(case.input("zb", b, wide) if case.maybe() else "")
    if case.maybe():
        inputs.append(case.input("c", T.FLOAT, [n]))
    case.tested(inputs)


@of("QGemm")
def q_gemm(case: Case) -> None:
    typed(case, T.FLOAT)
    a, b, (*_, m, k), n, _ = operands(case)
    wide = case.one([], [n])
    given: dict[str, Any] = {name: int(case.maybe()) for name in ("transA", "transB")}
    if case.maybe():
        given["alpha"] = case.one(0.5, 2.0)
    inputs = [case.input("a", a, [k, m] if given["transA"] else [m, k]),
              case.input("sa", T.FLOAT, [], scale()), case.input("za", a, []),
              case.input("b", b, [n, k] if given["transB"] else [k, n]),
              case.input("sb", T.FLOAT, wide, scale()), case.input("zb", b, wide)]
    quantised = case.maybe()
    if quantised or case.maybe():
        inputs.append(case.input("c", T.INT32, [n]) if case.maybe() else "")
    if quantised:
        inputs += [case.input("sy", T.FLOAT, [], scale(1, 9)), case.input("zy", a, [])]
    case.tested(inputs, **given)
