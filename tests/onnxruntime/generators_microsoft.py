"""What makes a random graph of each of ONNX Runtime's own quantised products and attentions."""
from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto as T

from cases import NUMPY, Case, Fill, integers_between
from generators import has_sixteen_bits, of, small, through_sixteen_bits, typed
from generators_index import added_mask, seen

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


def key_mask(case: Case, batch: int, queries: int, keys: int) -> str:
    """In each form that there is; each query sees its first key."""
    kind = case.one("ends", "both", "keys", "pairs")
    if kind == "ends":
        return case.input("mask", T.INT32, [batch], integers_between(1, keys, T.INT32))
    if kind == "both":
        return case.input("mask", T.INT32, [2 * batch], lambda rng, shape: np.concatenate(
            [np.full(batch, keys), rng.integers(0, keys, batch)]).astype(np.int32))
    dims = [batch, keys] if kind == "keys" else [batch, queries, keys]
    return case.input("mask", T.INT32, dims,
                      lambda rng, shape: seen()(rng, shape).astype(np.int32))


def sizes_of_heads(case: Case) -> tuple[int, int, int, int]:
    """Batch, length, heads, size."""
    return case.one(1, 2, 3), case.one(1, 4, 5), case.one(1, 2, 3), case.one(2, 4, 8)


@of("com.microsoft.Attention")
def attention(case: Case) -> None:
    typed(case, T.FLOAT)
    batch, length, heads, size = sizes_of_heads(case)
    given: dict[str, Any] = {"num_heads": heads, "unidirectional": int(case.maybe(0.3))}
    past = case.one(0, 0, 2)
    wide = size if past or case.maybe(0.7) else size + 1
    if wide != size or case.maybe(0.2):
        given["qkv_hidden_sizes"] = [heads * size, heads * size, heads * wide]
    if case.maybe(0.3):
        given["scale"] = 0.25
    if case.maybe(0.3):
        given["mask_filter_value"] = -1000.0
    joined = heads * (2 * size + wide)
    inputs = [case.input("x", T.FLOAT, [batch, length, 6]),
              case.input("w", T.FLOAT, [6, joined], constant=True),
              case.input("b", T.FLOAT, [joined])]
    inputs.append(key_mask(case, batch, length, past + length) if case.maybe(0.6) else "")
    inputs.append(case.input("past", T.FLOAT, [2, batch, heads, past, size]) if past else "")
    if case.maybe(0.3):
        inputs.append(case.input("bias", T.FLOAT, [case.one(1, batch), case.one(1, heads), length,
                                                   past + length]))
    case.tested(inputs, ["y", "present"] if past else ["y"], **given)


@of("QAttention")
def q_attention(case: Case) -> None:
    typed(case, T.FLOAT)
    batch, length, heads, size = sizes_of_heads(case)
    past = case.one(0, 0, 2)
    joined = heads * 3 * size
    wide = case.one([], [joined])
    inputs = [case.input("x", T.UINT8, [batch, length, 6]),
              case.input("w", T.INT8, [6, joined], constant=True),
              case.input("b", T.FLOAT, [joined], constant=True),
              case.input("sx", T.FLOAT, [], scale(0.005, 0.02), constant=True),
              case.input("sw", T.FLOAT, wide, scale(0.005, 0.02), constant=True)]
    inputs.append(key_mask(case, batch, length, past + length) if case.maybe(0.6) else "")
    inputs += [case.input("zx", T.UINT8, []), case.input("zw", T.INT8, wide, constant=True)]
    if past:
        inputs.append(case.input("past", T.FLOAT, [2, batch, heads, past, size]))
    case.tested(inputs, ["y", "present"] if past else ["y"], num_heads=heads,
                unidirectional=int(case.maybe(0.3)))


@of("MultiHeadAttention")
def multi_head_attention(case: Case) -> None:
    typed(case, T.FLOAT)
    batch, queries, heads, size = sizes_of_heads(case)
    past = case.one(0, 0, 2)
    keys = queries if past else case.one(queries, 3, 7)
    wide = size if past or case.maybe(0.7) else size + 1
    by_head = not past and case.maybe(0.3)
    given: dict[str, Any] = {"num_heads": heads}
    if keys == queries and case.maybe(0.3):
        given["unidirectional"] = 1
    if case.maybe(0.3):
        given["scale"] = 0.25
    inputs = [case.input("q", T.FLOAT, [batch, queries, heads * size])]
    for name, features in (("k", size), ("v", wide)):
        inputs.append(case.input(name, T.FLOAT, [batch, heads, keys, features] if by_head else
                                 [batch, keys, heads * features]))
    biased = not by_head and case.maybe()
    inputs.append(case.input("b", T.FLOAT, [heads * (2 * size + wide)]) if biased else "")
    inputs.append(key_mask(case, batch, queries, past + keys) if case.maybe(0.4) else "")
    inputs.append(case.input("bias", T.FLOAT, [case.one(1, batch), case.one(1, heads), queries,
                                               past + keys]) if case.maybe(0.3) else "")
    if past:
        inputs += [case.input(name, T.FLOAT, [batch, heads, past, size]) for name in ("pk", "pv")]
    case.tested(inputs, ["y", "new_k", "new_v"] if past else ["y"], **given)


@of("GroupQueryAttention")
def group_query_attention(case: Case) -> None:
    dtype = typed(case, T.FLOAT, T.FLOAT, T.FLOAT16)
    batch, length, shared, size = case.one(1, 2, 3), case.one(1, 1, 4), case.one(1, 2), 16
    heads = shared * case.one(1, 2, 3)
    past = case.one(0, 3, 5)
    total = past + length
    if past and case.maybe(0.3):  # a buffer, which has room for the new keys
        past = total + case.one(0, 1, 4)
    if past and length > 1:
        batch = 1
    given: dict[str, Any] = {"num_heads": heads, "kv_num_heads": shared}
    if case.maybe():
        inputs = [case.input("q", dtype, [batch, length, (heads + 2 * shared) * size]), "", ""]
    else:
        inputs = [case.input("q", dtype, [batch, length, heads * size])]
        inputs += [case.input(name, dtype, [batch, length, shared * size]) for name in "kv"]
    earlier = [batch, shared, past, size]
    inputs += [case.input(name, dtype, earlier) for name in ("pk", "pv")] if (
        past or case.maybe()) else ["", ""]
    ends = integers_between(length - 1, total - 1, T.INT32) if past else integers_between(
        total - 1, total - 1, T.INT32)
    inputs += [case.input("lengths", T.INT32, [batch], ends),
               case.constant("total", np.int32(total))]
    if case.maybe():
        given["do_rotary"] = 1
        half = case.one(8, 8, 4)
        inputs += [case.input(name, dtype, [12, half]) for name in ("cos", "sin")]
        if case.maybe(0.3):
            given["rotary_interleaved"] = 1
    if case.maybe(0.2):
        inputs += [""] * (10 - len(inputs))
        inputs.append(case.input("bias", dtype, [case.one(1, batch), case.one(1, heads), length,
                                                   total],
                                 added_mask if dtype == T.FLOAT else None))
    if case.maybe(0.2):
        inputs += [""] * (11 - len(inputs)) + [case.input("sink", dtype, [heads])]
    elif case.maybe(0.2):
        given["smooth_softmax"] = 1
    for name, value in (("local_window_size", 2), ("softcap", 4.0), ("scale", 0.25)):
        if case.maybe(0.25):
            given[name] = value
    case.tested(inputs, ["y", "new_k", "new_v"], **given)


def distinct(dtype: int) -> Fill:
    """Rows of distinct numbers: the order of equal ones is not specified."""
    return lambda rng, shape: (rng.permuted(np.tile(np.arange(shape[1]), (shape[0], 1)), axis=1) / 2
                               + rng.uniform(0, 0.2, shape)).astype(NUMPY[dtype])


@of("MoE")
def mixture_of_experts(case: Case) -> None:
    dtype = typed(case, T.FLOAT, T.FLOAT, T.FLOAT16)
    tokens, experts = [case.one(1, 5, 9)], case.one(1, 4, 6)
    if case.maybe(0.4):
        tokens.insert(0, case.one(1, 2, 3))
    size, inner = case.one(4, 8), case.one(3, 8)
    given: dict[str, Any] = {"k": case.one(*range(1, min(experts, 3) + 1))}
    name = case.one("", "relu", "gelu", "silu", "identity", "swiglu")
    if name:
        given["activation_type"] = name
    if name == "swiglu":
        given["swiglu_fusion"] = 1  # ONNX Runtime has no other on the CPU
        for attribute, value in (("activation_alpha", 1.702), ("activation_beta", 1.0),
                                 ("swiglu_limit", 0.7)):
            if case.maybe():
                given[attribute] = value
    if case.maybe():
        given["normalize_routing_weights"] = 1
    wide = 2 * inner if name == "swiglu" else inner
    weights = {"w1": [experts, wide, size], "b1": [experts, wide], "w2": [experts, size, inner],
               "b2": [experts, size]}
    inputs = [case.input("x", dtype, [*tokens, size]),
              case.input("scores", dtype, [int(np.prod(tokens)), experts], distinct(dtype))]
    biased = case.maybe()
    inputs += [case.input(each, dtype, shape) if biased or each[0] == "w" else ""
               for each, shape in weights.items()]
    case.tested(inputs[:None if biased else -1], **given)


@of("QMoE")
def quantised_mixture_of_experts(case: Case) -> None:
    """Of 4 bits: ONNX Runtime computes those of 8 with activations of 8 bits. It normalises the
    weights of experts whatever the attribute says."""
    dtype = typed(case, T.FLOAT, T.FLOAT, T.FLOAT16)
    tokens, experts = case.one(1, 5, 9), case.one(1, 4, 6)
    size, inner, block = case.one(32, 64), case.one(32, 96), case.one(0, 16, 32)
    given: dict[str, Any] = {"k": case.one(*range(1, min(experts, 3) + 1)), "weights_prepacked": 0,
                             "normalize_routing_weights": 1,
                             "activation_type": case.one("relu", "silu", "swiglu")}
    if given["activation_type"] == "swiglu":
        given["swiglu_fusion"] = 1
    if block:
        given["block_size"] = block
    zeros: list[Any] = []
    inputs: list[Any] = [case.input("x", dtype, [tokens, size]),
                         case.input("scores", dtype, [tokens, experts], distinct(dtype))]
    for i, (rows, row) in enumerate(((inner * (1 + ("swiglu_fusion" in given)), size),
                                     (size, inner))):
        blocks = [row // block] if block else []
        inputs += [case.input(f"w{i}", T.UINT8, [experts, rows, row // 2],
                              integers_between(0, 255, T.UINT8), constant=True),
                   case.input(f"s{i}", dtype, [experts, rows, *blocks],
                              lambda rng, shape: rng.uniform(0.01, 0.05, shape).astype(
                                  NUMPY[dtype]), constant=True),
                   case.input(f"b{i}", dtype, [experts, rows]) if case.maybe() else ""]
        if block:
            zeros.append(case.input(f"z{i}", T.UINT8, [experts, rows, (blocks[0] + 1) // 2],
                                    integers_between(0, 255, T.UINT8), constant=True))
    case.tested(inputs + ["", "", "", *zeros] if zeros and case.maybe() else inputs, **given)


@of("com.microsoft.RotaryEmbedding")
def rotary_embedding(case: Case) -> None:
    typed(case, T.FLOAT)
    batch, length, heads, size = case.dim(zero=False), case.one(1, 4), case.one(1, 3), 8
    given: dict[str, Any] = {"interleaved": int(case.maybe())} if case.maybe() else {}
    half = 4
    if case.maybe(0.3):
        half, given["rotary_embedding_dim"], given["num_heads"] = 2, 4, heads
    dims = [batch, heads, length, size] if case.maybe() else [batch, length, heads * size]
    places = (case.input("at", T.INT64, [batch, length], integers_between(0, 8)) if case.maybe()
              else case.input("at", T.INT64, [1], integers_between(0, 4)))
    case.tested([case.input("x", T.FLOAT, dims), places,
                 *(case.input(name, T.FLOAT, [9, half]) for name in ("cos", "sin"))], **given)


@of("EmbedLayerNormalization")
def embed_layer_normalization(case: Case) -> None:
    typed(case, T.FLOAT)
    batch, length, width = case.dim(zero=False), case.one(1, 4), case.one(4, 8)
    segments = case.maybe()
    tokens = integers_between(0, 6, T.INT32)
    inputs = [case.input("ids", T.INT32, [batch, length], tokens)]
    inputs.append(case.input("segments", T.INT32, [batch, length],
                             integers_between(0, 1, T.INT32)) if segments else "")
    inputs += [case.input("words", T.FLOAT, [7, width]), case.input("places", T.FLOAT, [9, width])]
    inputs.append(case.input("kinds", T.FLOAT, [2, width]) if segments else "")
    inputs += [case.input("scale", T.FLOAT, [width]), case.input("beta", T.FLOAT, [width])]
    inputs.append(case.input("mask", T.INT32, [batch, length], integers_between(0, 1, T.INT32))
                  if case.maybe() else "")
    if case.maybe(0.3):
        inputs.append(case.input("at", T.INT32, [batch, length], integers_between(0, 8, T.INT32)))
    case.tested(inputs, ["y", "count", "sum"] if case.maybe() else ["y", "count"],
                epsilon=float(np.float32(case.one(1e-12, 1e-3))))


def quantised(case: Case, name: str, dtype: int, dims: list[Any]) -> list[str]:
    """A tensor, its scale and its zero point."""
    return [case.input(name, dtype, dims), case.input("s" + name, T.FLOAT, [], scale()),
            case.input("z" + name, dtype, [])]


def result(case: Case, dtype: int, low: float = 0.02) -> list[str]:
    return [case.input("sr", T.FLOAT, [], scale(low, 10 * low)), case.input("zr", dtype, [])]


@of("QLinearAdd", "QLinearMul")
def qlinear_binary(case: Case) -> None:
    dtype = typed(case, *BYTES)
    dims = case.shape(0, 3)
    other = case.one(dims, dims[1:], [1] * len(dims))
    case.tested(quantised(case, "a", dtype, dims) + quantised(case, "b", dtype, other)
                + result(case, dtype))


@of("QLinearSigmoid", "QLinearLeakyRelu")
def qlinear_unary(case: Case) -> None:
    dtype = typed(case, *BYTES)
    given = {"alpha": 0.25} if case.row.name == "QLinearLeakyRelu" else {}
    case.tested(quantised(case, "x", dtype, case.shape(0, 3)) + result(case, dtype, 0.004), **given)


@of("QLinearSoftmax")
def qlinear_softmax(case: Case) -> None:
    dtype = typed(case, *BYTES)
    dims = [max(dim, 1) if isinstance(dim, int) else dim for dim in case.shape(1, 3)]
    case.constant("sr", np.float32(1 / 256))
    case.constant("zr", np.uint8(0) if dtype == T.UINT8 else np.int8(-128))
    x = [case.input("x", dtype, dims), case.constant("sx", np.float32(case.rng.uniform(0.01, 0.1))),
         case.constant("zx", case.rng.integers(0, 100, ()).astype(case.constants["zr"].dtype))]
    case.tested([*x, "sr", "zr"], axis=case.axis(len(dims)), opset=case.one(11, 13))


@of("QLinearConcat")
def qlinear_concat(case: Case) -> None:
    dtype = typed(case, *BYTES)
    dims = case.shape(1, 3)
    at = case.axis(len(dims))
    first, last = dims[:at % len(dims)], dims[at % len(dims) + 1:]
    inputs = result(case, dtype)
    for name in ("a", "b", "c")[:case.one(1, 2, 3)]:
        inputs += quantised(case, name, dtype, [*first, case.extent(), *last])
    for each in case.inputs:  # scales and zero points are constants there
        each.constant = each.constant or len(each.name) > 1
    case.tested(inputs, axis=at)


@of("QLinearWhere")
def qlinear_where(case: Case) -> None:
    dtype = typed(case, *BYTES)
    dims = case.shape(1, 3)
    inputs = [case.input("c", T.BOOL, dims), *quantised(case, "a", dtype, dims),
              *quantised(case, "b", dtype, dims), *result(case, dtype)]
    for each in case.inputs:  # ONNX Runtime crashes where only some of them are constants
        each.constant = len(each.name) > 1
    case.tested(inputs)


@of("com.microsoft.QuantizeLinear")
def quantize_linear(case: Case) -> None:
    if has_sixteen_bits(case):
        return through_sixteen_bits(case, case.one([], [4]), axis=1)
    typed(case, T.FLOAT)
    case.exact = True
    dims, to = case.shape(1, 3), case.one(*BYTES)
    axis = case.axis(len(dims))
    per_axis = case.maybe(0.4) and not isinstance(dims[axis], str)
    spread, given = ([dims[axis]], {"axis": axis}) if per_axis else ([], {})
    inputs = [case.input("x", T.FLOAT, dims), case.input("s", T.FLOAT, spread, scale(0.01, 0.6)),
              case.input("z", to, spread)]
    case.tested(inputs, **given)


@of("com.microsoft.DequantizeLinear")
def dequantize_linear(case: Case) -> None:
    dtype = typed(case, *BYTES)
    dims = case.shape(1, 3)
    axis = case.axis(len(dims))
    per_axis = case.maybe(0.4) and not isinstance(dims[axis], str)
    spread, given = ([dims[axis]], {"axis": axis}) if per_axis else ([], {})
    inputs = [case.input("x", dtype, dims), case.input("s", T.FLOAT, spread, scale())]
    inputs += [case.input("z", dtype, spread)] if case.maybe(0.7) else []
    case.tested(inputs, **given)
