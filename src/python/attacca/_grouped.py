"""``attacca.grouped_matmul``: rows sorted by group times the matrices of their groups."""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

from . import _arguments, _dispatch, _frameworks
from ._arguments import DType, Mode, Tuning
from ._compile import options
from ._errors import Error
from ._frameworks import View
from ._matmul import check_free, engine_of, input_name, operands_named, result_dtype, typed
from ._trace.epilogue import trace_epilogue

Gate = Literal["halves", "alternate"]
_GATES = ("halves", "alternate")


def grouped_matmul(x: Any, w: Any, offsets: Any, /, epilogue: str | Callable[..., Any] = "acc", *,
                   gate: Gate = "halves", out: Any = None, out_dtype: DType | None = None,
                   mode: Mode = "fp32", tuning: Tuning = "known", tuning_seconds: float = 0,
                   threads: int = 0, **operands: Any) -> Any:
    """Computes ``epilogue(product)``, where each row of x is multiplied by the matrix of its group.

    Args:
        x: A tensor ``[R, K]`` whose rows are sorted by group, such as tokens by expert.
        w: A tensor ``[E, K, N]`` of x's dtype, a matrix for each group, row-major or transposed
            such as ``weight.mT``. For an epilogue of two products, ``acc0`` and ``acc1``: a tensor
            ``[E, K, 2 N]`` with the columns of both, or a pair of tensors ``[E, K, N]``.
        offsets: int32 ``[E]``: the row behind the last of each group. Groups may be empty. The rows
            behind the last group's end are multiplied by 0. An offset below the one before it makes
            its group empty, and one beyond R means R.
        epilogue: As for :func:`attacca.matmul`, with R in place of M. A Python function takes
            ``acc``, so that a gate is written in the text form.
        gate: Which columns of a tensor ``[E, K, 2 N]`` are acc0's: "halves", the first N;
            "alternate", every other one from the first on.
        out: As for :func:`attacca.matmul`.
        out_dtype: As for :func:`attacca.matmul`.
        mode: As for :func:`attacca.compile`.
        tuning: As for :func:`attacca.compile`.
        tuning_seconds: As for :func:`attacca.compile`.
        threads: As for :func:`attacca.compile`.
        **operands: The epilogue's operands by name, of any dtype: ``row`` is for ``[N]``, the same
            for all groups; ``full`` ``[R, N]`` has other values for each.

    Returns:
        A tensor ``[R, N]``; a tuple if there are several results. On a GPU the work is queued on
        the framework's current stream and may not be done yet.

    Raises:
        Error: As :func:`attacca.matmul`; offsets have another dtype or number than groups; torch
            traces or transforms the call, which has no custom op.
    """
    weights = w if isinstance(w, (tuple, list)) else (w,)
    if len(weights) not in (1, 2):
        raise Error(f"w is {len(weights)} tensors", "w", "give one tensor or a pair")
    tensors = (x, *weights, offsets, *operands.values())
    if _dispatch.wanted(tensors):
        raise Error("attacca.grouped_matmul has no custom op for torch to trace", "grouped_matmul",
                    'call torch._grouped_mm under torch.compile(backend="attacca")')
    check_free(grouped_matmul, epilogue)
    framework = _frameworks.of(x)
    x_view = framework.view(x, "x")
    w_views = [_frameworks.of(each).view(each, "w") for each in weights]
    ends = _frameworks.of(offsets).view(offsets, "offsets")
    views = {name: _frameworks.of(t).view(t, name) for name, t in operands.items()}
    _check(x_view, w_views, ends)
    chosen = options(x_view.device, mode, tuning, tuning_seconds, threads)
    if callable(epilogue):
        epilogue = trace_epilogue(_arguments.function(epilogue, "epilogue"), views,
                                  x_view.shape[:1], w_views[0].shape[2], x_view.dtype,
                                  [x, *weights, *operands.values()])
    epilogue = _arguments.text(epilogue, "epilogue")
    text = typed(epilogue, tuple([(name, view.dtype) for name, view in views.items()]))
    layout = _layout(epilogue, w_views, _arguments.choice(gate, _GATES, "gate"))
    outs = _arguments.listed(out)
    out_views = None if outs is None else [_frameworks.of(o).view(o, "out", True) for o in outs]
    engine = engine_of(x_view.dtype, f"groups {layout}", text,
                       result_dtype(out_dtype, out_views, x_view.dtype), chosen)
    if outs is not None:
        engine.signature.check_count(outs)
    given = {input_name(name): view for name, view in views.items()}
    given |= {"a": x_view, "offsets": ends}
    for name, view in zip(("b", "b1"), w_views):
        given[name] = view if layout == "kn" else _transposed(view)
    in_order = [given[each.info.name] for each in engine.signature.inputs]
    with operands_named():
        results, _ = engine.run(in_order, framework, outs, out_views)
    return results if len(results) > 1 else results[0]


def _check(x: View, weights: list[View], offsets: View) -> None:
    if len(x.shape) != 2:
        raise Error(f"x has shape {x.shape}, [R, K] is wanted", "x", "reshape it to rows")
    for w in weights:
        if len(w.shape) != 3:
            raise Error(f"w has shape {w.shape}, [E, K, N] is wanted", "w",
                        "give a matrix for each group")
        if w.shape[1] != x.shape[1]:
            fix = "transpose w: w.mT" if w.shape[2] == x.shape[1] else "give both the same K"
            raise Error(f"x has K={x.shape[1]} and w K={w.shape[1]}", "w", fix)
        if w.dtype != x.dtype:
            raise Error(f"x is {x.dtype} and w is {w.dtype}", "w",
                        "convert one to the other's dtype")
    if offsets.dtype != "s32" or offsets.shape != weights[0].shape[:1]:
        raise Error(f"offsets are {offsets.dtype}{[*offsets.shape]}, "
                    f"s32[{weights[0].shape[0]}] is wanted", "offsets",
                    "give the end of each group as int32")
    for name, view in (("w", weights[0]), ("w", weights[-1]), ("offsets", offsets)):
        if view.device != x.device:
            raise Error(f"x is on {x.device} and {name} on {view.device}", name,
                        "move one to the other's device")


def _layout(epilogue: str, weights: list[View], gate: str) -> str:
    """The name of the weights' layout in the core."""
    two = re.search(r"\bacc1\b", epilogue) is not None
    if len(weights) == 2:
        if weights[0].shape != weights[1].shape:
            raise Error(f"w has shapes {weights[0].shape} and {weights[1].shape}", "w",
                        "give both the same shape")
        if not two:
            raise Error("w is a pair, and the epilogue reads one product", "epilogue",
                        "write acc0 and acc1, as in silu(acc0) * acc1")
        return "two"
    if not two:
        return "kn" if weights[0].strides[2] == 1 else "nk"
    if weights[0].shape[2] % 2:
        raise Error(f"w has {weights[0].shape[2]} columns, which are not two products'", "w",
                    "give an even number, or a pair of tensors")
    return "halves" if gate == "halves" else "rows"


def _transposed(view: View) -> View:
    (e, k, n), (by_group, by_row, by_column) = view.shape, view.strides
    return view._replace(shape=(e, n, k), strides=(by_group, by_column, by_row))
