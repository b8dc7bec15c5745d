"""What makes a random graph of each op that reads or writes elements at indices, and of those that
stand for several."""
from __future__ import annotations

from typing import Any

from onnx import TensorProto as T

import numpy as np

from cases import Case, integers_between
from generators import of, small, typed
from generators_shape import integers, moved


def filled(case: Case, dims: list[Any]) -> list[Any]:
    """The shape without symbols, and without axes of 0."""
    return [case.sizes.get(dim, 1) or 2 if isinstance(dim, str) else max(dim, 1) for dim in dims]


@of("GatherElements")
def gather_elements(case: Case) -> None:
    dtype, dims = moved(case, 1, 3)
    dims = filled(case, dims)
    axis = case.axis(len(dims))
    chosen = [int(case.rng.integers(1, dim + 1)) for dim in dims]
    chosen[axis] = case.one(0, 1, 2, 7)
    index_type = case.one(T.INT32, T.INT64)
    index = case.input("i", index_type, chosen,
                       integers_between(-dims[axis], dims[axis] - 1, index_type),
                       constant=case.maybe())
    case.tested([case.input("x", dtype, dims), index], **({"axis": axis} if axis else {}))


@of("GatherND")
def gather_nd(case: Case) -> None:
    dtype, dims = moved(case, 1)
    dims = filled(case, dims)
    batch = int(case.rng.integers(len(dims))) if case.opset >= 12 and case.maybe() else 0
    depth = int(case.rng.integers(1, len(dims) - batch + 1))
    chosen = dims[:batch] + [case.extent() for _ in range(case.one(0, 1, 2))] + [depth]
    low = min(dims[batch:batch + depth])
    index = case.input("i", T.INT64, chosen, integers_between(-low, low - 1), constant=case.maybe())
    case.tested([case.input("x", dtype, dims), index], **({"batch_dims": batch} if batch else {}))


@of("CumSum")
def cum_sum(case: Case) -> None:
    dtype = typed(case, T.FLOAT, T.DOUBLE, T.INT32, T.INT64)
    case.exact = dtype in (T.INT32, T.INT64)
    dims = case.shape(1)
    given = {name: int(case.maybe()) for name in ("exclusive", "reverse") if case.maybe()}
    case.tested([case.input("x", dtype, dims), integers(case, "axis", case.axis(len(dims)))],
                **given)


@of("ArgMax", "ArgMin")
def arg_extremum(case: Case) -> None:
    dtype = typed(case, T.FLOAT, T.DOUBLE, T.INT32, *(() if case.opset < 13 else (T.INT8, T.UINT8)))
    case.exact = True
    dims = case.shape(1)
    axis = case.axis(len(dims)) if case.opset >= 11 else int(case.rng.integers(len(dims)))
    if not isinstance(dims[axis], str):
        dims[axis] = max(dims[axis], 1)
    else:
        dims[axis] = 4
    given: dict[str, Any] = {"keepdims": int(case.maybe())} if case.maybe() else {}
    if case.opset >= 12 and case.maybe():
        given["select_last_index"] = int(case.maybe())
    case.tested([case.input("x", dtype, dims)], **given, axis=axis)


def distinct(low: int, high: int) -> Any:
    """Numbers of which no two along any axis are equal: one element is written once."""
    def fill(rng: np.random.Generator, wanted: tuple[int, ...]) -> Any:
        count = int(np.prod(wanted, dtype=int))
        return rng.permutation(np.arange(low, high))[:count].reshape(wanted).astype(np.int64)
    return fill


def scatter_reduction(case: Case, dtype: int) -> dict[str, Any]:
    """At any places, also several times at one; max and min since opset 18."""
    if case.opset < 16 or dtype not in (T.FLOAT, T.DOUBLE, T.INT32, T.INT64) or case.maybe(0.4):
        return {}
    if dtype in (T.FLOAT, T.DOUBLE):  # the order of sums and products is open
        case.exact = case.special = False
    return {"reduction": case.one("add", "mul", *(("max", "min") if case.opset >= 18 else ()))}


@of("ScatterElements", "Scatter")
def scatter_elements(case: Case) -> None:
    dtype, dims = moved(case, 1, 3)
    dims = filled(case, dims)
    axis = case.axis(len(dims))
    if reduction := scatter_reduction(case, dtype):
        chosen = [dim if case.maybe(0.7) else int(case.rng.integers(1, dim + 1)) for dim in dims]
        chosen[axis] = case.one(0, 1, 3, 7)
        index = case.input("i", T.INT64, chosen, integers_between(-dims[axis], dims[axis] - 1),
                           constant=case.maybe())
        case.tested([case.input("x", dtype, dims), index, case.input("u", dtype, chosen)],
                    axis=axis, **reduction)
        return
    chosen = [int(case.rng.integers(1, dim + 1)) for dim in dims]
    chosen = [dim if at == axis % len(dims) else 1 for at, dim in enumerate(chosen)]
    low = -dims[axis] if case.maybe() else 0
    index = case.input("i", T.INT64, chosen, distinct(low, low + dims[axis]),
                       constant=case.maybe())
    case.tested([case.input("x", dtype, dims), index, case.input("u", dtype, chosen)],
                **({"axis": axis} if axis else {}))


@of("ScatterND")
def scatter_nd(case: Case) -> None:
    dtype, dims = moved(case, 1)
    dims = filled(case, dims)
    depth = int(case.rng.integers(1, len(dims) + 1))
    count = int(case.rng.integers(0, dims[0] + 1))
    reduction = scatter_reduction(case, dtype)

    def fill(rng: np.random.Generator, wanted: tuple[int, ...]) -> Any:
        first = rng.integers(0, dims[0], count) if reduction else rng.permutation(dims[0])[:count]
        columns = [first - (dims[0] if case.maybe() else 0)]
        columns += [rng.integers(-dim, dim, count) for dim in dims[1:depth]]
        return np.stack(columns, axis=-1).reshape(wanted).astype(np.int64)
    index = case.input("i", T.INT64, [count, depth], fill, constant=case.maybe())
    case.tested([case.input("x", dtype, dims), index,
                 case.input("u", dtype, [count, *dims[depth:]])], **reduction)


@of("TensorScatter")
def tensor_scatter(case: Case) -> None:
    dtype, dims = moved(case, 2)
    dims = filled(case, dims)
    axis = int(case.rng.integers(1, len(dims)))
    dims[axis] += 2
    written = int(case.rng.integers(1, dims[axis] + 1))
    given: dict[str, Any] = {"axis": case.one(axis, axis - len(dims))}
    last = dims[axis] - written
    if case.maybe():
        given["mode"], last = "circular", dims[axis] - 1
    inputs = [case.input("x", dtype, dims),
              case.input("u", dtype, [*dims[:axis], written, *dims[axis + 1:]])]
    if case.maybe(0.8):
        inputs.append(case.input("i", T.INT64, [dims[0]], integers_between(0, last)))
    case.tested(inputs, **given)


@of("TopK")
def top_k(case: Case) -> None:
    dtype = typed(case, T.FLOAT, T.FLOAT, T.DOUBLE,
                  *(() if case.opset < 11 else (T.INT32, T.INT64)))
    case.exact = True
    dims = case.shape(1)
    axis = case.axis(len(dims)) if case.opset >= 11 else int(case.rng.integers(len(dims)))
    dims[axis] = case.one(1, 2, 5, 9)
    count = int(case.rng.integers(1, dims[axis] + 1))
    given: dict[str, Any] = {"axis": axis}
    if case.opset >= 11 and case.maybe():
        given["largest"] = int(case.maybe())
    x = case.input("x", dtype, dims)
    if case.opset < 10:
        case.tested([x], ["y", "i"], k=count, **given)
    else:
        case.tested([x, integers(case, "k", [count])], ["y", "i"], **given)


@of("Einsum")
def einsum(case: Case) -> None:
    dtype = typed(case, T.FLOAT, T.FLOAT, T.DOUBLE)
    # No symbols: ONNX Runtime crashes where one is 0. special_test.py has them.
    extents = {label: case.one(1, 2, 3, 5) for label in "abcd"}
    batch = [case.one(1, 2)] * case.one(0, 1, 2) if case.maybe(0.3) else None
    terms, inputs = [], []
    for name in ("p", "q", "r")[:case.one(1, 2, 2, 2, 3)]:
        labels = "".join(case.rng.permutation(list("abcd"))[:case.one(0, 1, 2, 2, 3)])
        if len(labels) == 2 and case.maybe(0.1):
            labels = labels[0] * 2
        dots = batch is not None and (not terms or case.maybe())
        terms.append(("..." if dots else "") + labels)
        dims = [*(batch or [] if dots else []), *(extents[label] for label in labels)]
        inputs.append(case.input(name, dtype, dims, small(dtype)))
    equation = ",".join(terms)
    used = sorted({label for term in terms for label in term if label != "."})
    if case.maybe(0.8):
        kept = "".join(case.rng.permutation(used)[:int(case.rng.integers(0, len(used) + 1))])
        equation += case.one("->", " -> ") + ("..." if batch is not None else "") + kept
    case.tested(inputs, equation=equation)


# Ops that stand for several.
@of("FusedMatMul")
def fused_mat_mul(case: Case) -> None:
    typed(case, T.FLOAT)
    batch, m, n, k = case.shape(0, 2), case.dim(), case.dim(), case.dim(zero=False)
    given: dict[str, Any] = {name: int(case.maybe()) for name in ("transA", "transB")}
    if case.maybe():
        given["alpha"] = case.one(0.5, 0.125, -2.0)
    case.tested([case.input("a", T.FLOAT, batch + ([k, m] if given["transA"] else [m, k])),
                 case.input("b", T.FLOAT, batch + ([n, k] if given["transB"] else [k, n]))],
                **given)


@of("FusedGemm")
def fused_gemm(case: Case) -> None:
    typed(case, T.FLOAT)
    m, n, k = case.dim(), case.dim(), case.dim(zero=False)
    given: dict[str, Any] = {"activation": case.one("Relu", "Sigmoid", "Tanh", "LeakyRelu")}
    if given["activation"] == "LeakyRelu":
        given["activation_alpha"] = 0.25
    case.tested([case.input("a", T.FLOAT, [m, k], small(T.FLOAT)),
                 case.input("b", T.FLOAT, [n, k], small(T.FLOAT)),
                 case.input("c", T.FLOAT, [n])], transB=1, **given)


@of("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
def skip_layer_normalization(case: Case) -> None:
    typed(case, T.FLOAT)
    width = case.one(1, 3, 8)
    dims = [case.dim(zero=False), case.dim(zero=False), width]
    inputs = [case.input("x", T.FLOAT, dims), case.input("skip", T.FLOAT, dims),
              case.input("scale", T.FLOAT, [width])]
    plain = case.row.name == "SkipLayerNormalization"
    if plain and case.maybe():
        inputs.append(case.input("beta", T.FLOAT, [width]))
    if case.maybe():
        inputs += [""] * ((4 if plain else 3) - len(inputs)) + [case.input("b", T.FLOAT, [width])]
    outputs = ["y", "", "", "sum"] if case.maybe() else ["y"]
    case.tested(inputs, outputs, epsilon=float(np.float32(case.one(1e-5, 1e-3, 1.0))))


@of("RotaryEmbedding")
def rotary_embedding(case: Case) -> None:
    dtype = typed(case, T.FLOAT)
    batch, heads, length, size = case.dim(zero=False), case.one(1, 2, 3), case.one(1, 4), case.one(
        4, 8)
    flat = case.maybe()
    given: dict[str, Any] = {"interleaved": int(case.maybe())} if case.maybe() else {}
    width = size
    if case.maybe(0.3):
        width = given["rotary_embedding_dim"] = size // 2
    if flat or "rotary_embedding_dim" in given:
        given["num_heads"] = heads
    dims = [batch, length, heads * size] if flat else [batch, heads, length, size]
    inputs = [case.input("x", dtype, dims)]
    if case.maybe():
        inputs += [case.input(name, dtype, [9, width // 2]) for name in ("cos", "sin")]
        inputs.append(case.input("at", T.INT64, [batch, length], integers_between(0, 8)))
    else:
        inputs += [case.input(name, dtype, [batch, length, width // 2]) for name in ("cos", "sin")]
    case.tested(inputs, **given)


@of("Attention")
def attention(case: Case) -> None:
    dtype = typed(case, T.FLOAT)
    batch, queries, keys = case.dim(zero=False), case.one(1, 3, 4), case.one(1, 4, 5)
    shared, share, size, wide = case.one(1, 2), case.one(1, 1, 2), case.one(2, 4), case.one(2, 3)
    flat, past = case.maybe(), case.maybe(0.3)
    heads = shared * share
    given: dict[str, Any] = {"is_causal": int(case.maybe())} if case.maybe() else {}
    padded = case.opset >= 24 and not past and case.maybe(0.3)
    if given.get("is_causal") and not padded:
        queries = keys
    if flat:
        given |= {"q_num_heads": heads, "kv_num_heads": shared}
    for name, value in (("scale", 0.25), ("softcap", 1.5)):
        if case.maybe(0.3):
            given[name] = value

    def dims(count: int, length: int, features: int) -> list[Any]:
        return [batch, length, count * features] if flat else [batch, count, length, features]
    inputs = [case.input("q", dtype, dims(heads, queries, size)),
              case.input("k", dtype, dims(shared, keys, size)),
              case.input("v", dtype, dims(shared, keys, wide))]
    total, earlier = keys, 2 if past else 0
    total += earlier
    mask = case.one("", "bool", "float")
    if mask:
        shape = case.one([queries, total], [1, heads, queries, total])
        inputs.append(case.input("mask", T.BOOL, shape, some_seen) if mask == "bool" else
                      case.input("mask", dtype, shape, added_mask))
    outputs = ["y"]
    if past:
        inputs += [""] * (4 - len(inputs))
        inputs += [case.input("pk", dtype, [batch, shared, 2, size]),
                   case.input("pv", dtype, [batch, shared, 2, wide])]
        outputs = ["y", "new_k", "new_v"]
    if padded:
        inputs += [""] * (6 - len(inputs))
        inputs.append(case.input("ends", T.INT64, [batch], integers_between(0, keys)))
    if case.maybe():
        outputs += [""] * (3 - len(outputs)) + ["scores"]
        given["qk_matmul_output_mode"] = case.one(0, 1, 2, 3)
    case.tested(inputs, outputs, **given)


def some_seen(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """A mask that may hide all keys of a query."""
    return (rng.random(shape) < 0.5) & (rng.random((*shape[:-1], 1)) < 0.8)


def added_mask(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Numbers, and minus infinity or the lowest number for hidden keys, which may be all."""
    hidden = np.where(rng.random(shape) < 0.5, -np.inf, np.finfo(np.float32).min)
    if rng.random() < 0.3:
        return rng.normal(0, 1, shape).astype(np.float32)
    return np.where(some_seen(rng, shape), rng.normal(0, 1, shape), hidden).astype(np.float32)


def seen() -> Any:
    """A mask that lets each query see its first key."""
    def fill(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        mask = rng.random(shape) < 0.6
        mask[..., 0] = True
        return mask
    return fill
