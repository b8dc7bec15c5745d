"""What makes a random graph of each op that reads or writes elements at indices."""
from __future__ import annotations

from typing import Any

from onnx import TensorProto as T

from cases import Case, integers_between
from generators import of, typed
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
