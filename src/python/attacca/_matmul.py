"""``attacca.matmul``: one product and its epilogue."""
from __future__ import annotations

import contextlib
import difflib
import inspect
import math
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from . import _arguments, _core, _dispatch, _frameworks
from ._arguments import DType, Mode, Tuning
from ._compile import Options, options
from ._errors import Error
from ._frameworks import View
from ._launch import Engine
from ._layout import Tensor
from ._trace.epilogue import operand_parameters, trace_epilogue

# An operand with its role, and its dtype if the text names one.
_OPERAND = re.compile(r"\b(row|col|full|scalar)\s*\(\s*([A-Za-z_]\w*)\s*(:\s*\w+\s*)?\)")
# The inputs of the core's graph of a product, besides the operands.
_FACTORS = ("a", "b", "b1", "offsets")


@lru_cache(maxsize=1024)
def engine_of(dtype: str, layout: str, epilogue: str, out_dtype: str, chosen: Options) -> Engine:
    """The engine of a product and its epilogue; arguments are those of
    :meth:`_core.Plan.matmul`."""
    return Engine(_core.Plan.matmul(dtype, layout, epilogue, out_dtype, **chosen._asdict()))


@lru_cache(maxsize=1024)
def _batched(axes: int, *form: Any) -> Engine:
    """The graph of :func:`engine_of` with ``axes`` more axes before M in every tensor that has
    rows."""
    flat = engine_of(*form)
    batch = [f"L{i}" for i in range(axes)]
    shapes = [[*batch, *info.shape] if _has_rows(info) else info.shape for info in _inputs(flat)]
    inputs = ", ".join(f"\"{info.name}\": {info.dtype}[{', '.join(shape)}]"
                       for info, shape in zip(_inputs(flat), shapes))
    _, _, body = flat.core.graph_text().partition("{")
    chosen: Options = form[-1]
    graph = _core.Graph.parse(f"graph gemm({inputs}) {{{body}")
    return Engine(_core.Plan.compile(graph, fuse=True, **chosen._asdict()))


def graph_of(dtype: str, layout: str, epilogue: str, operands: tuple[tuple[str, str], ...],
             out_dtype: str) -> tuple[str, list[str]]:
    """The graph of a product and its epilogue in the symbols M, N and K, and the names of its
    inputs.

    Args:
        dtype: a's and b's.
        layout: Of b: "kn" or "nk"; "two": b and b1 are [N, K], for an epilogue of acc0 and acc1.
        epilogue: The text form.
        operands: The operands' names, each with its dtype.
        out_dtype: The result's dtype.

    Raises:
        Error: As :func:`matmul`, except for errors about shapes.
    """
    engine = engine_of(dtype, layout, typed(epilogue, operands), out_dtype,
                       Options("cpu", "fp32", "known", 0.0, 1))
    return engine.core.graph_text(), [info.name for info in _inputs(engine)]


def _inputs(engine: Engine) -> list[Tensor]:
    return [layout.info for layout in engine.signature.inputs]


def _has_rows(info: Tensor) -> bool:
    return info.shape[:1] == ("M",)


def with_operands(epilogue: str, replace: Callable[[str, str, str], str]) -> str:
    """The text with each operand replaced: ``replace`` gets its role, its name, and its dtype or
    ""."""
    return _OPERAND.sub(lambda match: replace(match[1], match[2], (match[3] or "").strip(" :")),
                        epilogue)


def roles(epilogue: str) -> dict[str, str]:
    """The role of each operand that an epilogue's text names: {"bias": "row"}."""
    return {match.group(2): match.group(1) for match in _OPERAND.finditer(epilogue)}


def input_name(operand: str) -> str:
    """An operand's name among the inputs of the core's graph."""
    return f"{_PREFIX}{operand}" if operand in _FACTORS else operand


_PREFIX = "operand."


@contextlib.contextmanager
def operands_named() -> Iterator[None]:
    """A context whose errors call operands what the caller does, not :func:`input_name`."""
    try:
        yield
    except Error as error:
        if not error.where.startswith(_PREFIX):
            raise
        raise Error(error.what.replace(error.where, error.where[len(_PREFIX):]),
                    error.where[len(_PREFIX):], error.fix) from None


@lru_cache(maxsize=64)
def _keywords(function: Callable[..., Any]) -> frozenset[str]:
    """The parameters that can be given by name."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return frozenset([name for name, parameter in inspect.signature(function).parameters.items()
                      if parameter.kind in named])


def check_free(function: Callable[..., Any], epilogue: Any) -> None:
    """Checks that no operand of an epilogue, a text or a function, has the name of one of
    ``function``'s own parameters.

    Raises:
        Error: One has, so that it cannot be given.
    """
    if isinstance(epilogue, str):
        names = list(roles(epilogue))
    elif callable(epilogue):
        given = operand_parameters(_arguments.function(epilogue, "epilogue"))
        names = [name for name, needed in given.items() if needed]
    else:
        return
    for name in names:
        if name in _keywords(function):
            raise Error(f"operand {name} has the name of a parameter of {function.__name__}", name,
                        f"rename the operand, such as to {name}_")


@lru_cache(maxsize=1024)
def typed(epilogue: str, operands: tuple[tuple[str, str], ...]) -> str:
    """The text with each operand's dtype added, and with the names of the core's graph:
    row(bias) -> row(bias: f32), row(a) -> row("operand.a": f32).

    Raises:
        Error: An operand in the text is not given, or an operand given is not in the text.
    """
    dtypes = dict(operands)
    _check_names(epilogue, dtypes)

    def write(match: re.Match[str]) -> str:
        role, name, named = match.groups()
        quoted = f'"{input_name(name)}"' if name in _FACTORS else name
        return f"{role}({quoted}{named or f': {dtypes[name]}'})"

    return _OPERAND.sub(write, epilogue)


def _layout(view: View) -> str:
    """How b, of shape [K, N], is stored: row by row ("kn") or column by column ("nk")."""
    rows, columns = view.shape
    row, column = view.strides
    by_rows = column == 1 or columns == 1 and row != 1
    return "kn" if by_rows or row != 1 and rows != 1 else "nk"


def matmul(a: Any, b: Any, /, epilogue: str | Callable[..., Any] = "acc", *, out: Any = None,
           out_dtype: DType | None = None, mode: Mode = "fp32", tuning: Tuning = "known",
           tuning_seconds: float = 0, threads: int = 0, batch_invariant: bool = False,
           **operands: Any) -> Any:
    """Computes ``epilogue(a @ b)`` in one kernel.

    Args:
        a: A tensor ``[M, K]``, or ``[..., K]``: the leading axes count as rows. If the rows of a,
            of an operand or of out are not evenly spaced in memory, as in ``x[:, :7]`` of a tensor
            with three axes, a kernel for batches of products is used.
        b: A tensor ``[K, N]`` of a's dtype, row-major or transposed such as ``weight.T``. The
            dtypes are float32, float16, bfloat16, float8 and int8, and float64 and int64 on the
            CPU. No tensor is copied: rows may be parts of wider rows, transposed or repeated.
        epilogue: What is computed from the product, ``acc``, and the operands. In the text form,
            for example "silu(acc + row(bias)) * full(res)": an operand is written with its role,
            which is ``row`` for shape ``[N]``, ``col`` for ``[M, 1]``, ``full`` for ``[M, N]`` and
            ``scalar`` for ``[]``. Or a Python function of ``acc`` and the operands, which is
            traced; the operands' shapes give their roles. Several results, separated by commas, are
            returned as a tuple. Under ``torch.compile`` a function breaks the graph that may read
            other numbers than its arguments: of a closure, a default, an object, or a global name
            that is not in capitals.
        out: Where to write: one tensor, or a list with one for each result; rows may be parts of
            wider rows. None: a's framework allocates the results.
        out_dtype: The result's dtype, such as "bf16", ``torch.bfloat16`` or ``numpy.float32``.
            None: out's dtype if there is an out, else int32 for int8, bfloat16 for float8, and a's
            dtype otherwise.
        mode: "fp32" or "eager", as for :func:`attacca.compile`.
        tuning: As for :func:`attacca.compile`.
        tuning_seconds: As for :func:`attacca.compile`.
        threads: As for :func:`attacca.compile`.
        batch_invariant: As for :func:`attacca.compile`.
        **operands: The epilogue's operands by name, of any dtype. Any name that is none of the
            options above.

    Returns:
        A tensor ``[M, N]``, or ``[..., N]`` if a has more axes; a tuple if there are several
        results. On a GPU the work is queued on the framework's current stream and may not be done
        yet.

    Raises:
        Error: Shapes, dtypes or devices do not fit; an op is unknown; an operand in the epilogue is
            not given, or an operand given is not in the epilogue; a stride is negative; an out is
            read-only, or overlaps an input or another out; a PyTorch tensor requires a gradient
            while gradients are enabled.
    """
    tensors = (a, b, *operands.values())
    form, cache = None, None
    if type(epilogue) is str and not _dispatch.traced():
        form = (epilogue, out_dtype, mode, tuning, tuning_seconds, type(tuning_seconds), threads,
                type(threads), batch_invariant, *operands)
        try:
            cache = _caches.get(form)
        except TypeError:  # an option that cannot be hashed, which is reported below
            form = None
    if cache is not None:
        known = cache.run(tensors, out)
        if known is not None:
            return known[0] if type(known) is tuple and len(known) == 1 else known
    if _dispatch.wanted(tensors):
        chosen_options = (out_dtype, mode, tuning, tuning_seconds, threads, batch_invariant)
        return _dispatch.custom_ops().matmul(a, b, epilogue, out, chosen_options, operands)
    check_free(matmul, epilogue)
    framework = _frameworks.of(a)
    a_view = framework.view(a, "a")
    b_view = _frameworks.of(b).view(b, "b")
    views = {name: _frameworks.of(t).view(t, name) for name, t in operands.items()}
    lead = _check(a_view, b_view)
    chosen = options(a_view.device, mode, tuning, tuning_seconds, threads, batch_invariant)
    if callable(epilogue):
        epilogue = trace_epilogue(_arguments.function(epilogue, "epilogue"), views, lead,
                                  b_view.shape[1],
                                  a_view.dtype, [a, b, *operands.values()])
    epilogue = _arguments.text(epilogue, "epilogue")
    text = typed(epilogue, tuple([(name, view.dtype) for name, view in views.items()]))
    outs = _arguments.listed(out)
    out_views = None if outs is None else [_frameworks.of(o).view(o, "out", True) for o in outs]
    result = result_dtype(out_dtype, out_views, a_view.dtype)
    layout = _layout(b_view)
    kind = (a_view.dtype, layout, text, result, chosen)
    engine = engine_of(*kind)
    given = {input_name(name): view for name, view in views.items()}
    given |= {"a": a_view, "b": b_view if layout == "kn" else _transposed(b_view)}
    if outs is not None:
        engine.signature.check_count(outs)
    if len(lead) > 1:
        engine, given, out_views = _by_axes(kind, lead, given, out_views)
    names = [info.name for info in _inputs(engine)]
    in_order = [given[name] for name in names]
    with operands_named():
        results, ready = engine.run(in_order, framework, outs, out_views)
    shapes = None
    if out is None and len(lead) > 1:
        results = tuple(r.reshape(*lead, r.shape[-1]) for r in results)
        shapes = [tuple(r.shape) for r in results]
    if form is not None:
        positions = {name: i for i, name in enumerate(("a", "b", *map(input_name, operands)))}
        engine.remember(_cache(form), tensors, out, [positions[name] for name in names], framework,
                        in_order, ready, shapes)
    return results if len(results) > 1 else results[0]


_MOST_CACHES = 1024
# By epilogue, options and the operands' names: the calls that were made before.
_caches: dict[Any, _core.CallCache] = {}


def _cache(form: Any) -> _core.CallCache:
    if len(_caches) >= _MOST_CACHES:
        _caches.clear()
    return _caches.setdefault(form, _core.CallCache())


def result_dtype(out_dtype: Any, outs: list[View] | None, dtype: str) -> str:
    """As :func:`matmul` says at ``out_dtype``; ``dtype`` is a's."""
    if out_dtype is None and outs:
        return outs[0].dtype
    return _arguments.result_dtype(out_dtype, dtype)


def _check(a: View, b: View) -> tuple[int, ...]:
    """Checks a and b; returns a's leading extents."""
    if len(a.shape) < 2:
        raise Error(f"a has shape {a.shape}, [M, K] is wanted", "a", "give it two axes or more")
    if len(b.shape) != 2:
        raise Error(f"b has shape {b.shape}, [K, N] is wanted", "b",
                    "give one matrix; batches of matrices go through attacca.compile")
    if a.shape[-1] != b.shape[0]:
        fix = "transpose b: b.T" if a.shape[-1] == b.shape[1] else "give both the same K"
        raise Error(f"a has K={a.shape[-1]} and b K={b.shape[0]}", "b", fix)
    if a.dtype != b.dtype:
        raise Error(f"a is {a.dtype} and b is {b.dtype}", "b", "convert one to the other's dtype")
    if a.device != b.device:
        raise Error(f"a is on {a.device} and b on {b.device}", "b",
                    "move one to the other's device")
    return a.shape[:-1]


def _check_names(epilogue: str, operands: dict[str, str]) -> None:
    named = roles(epilogue)
    for name in operands:
        if name not in named:
            near = difflib.get_close_matches(name, named, 1)
            raise Error(f"the epilogue names no operand {name}", name,
                        f"did you mean {near[0]}?" if near
                        else f"write row({name}) or full({name})")
    for name in sorted(named):
        if name not in operands:
            raise Error(f"operand {name} is missing", name, f"give {name}=")


def _by_axes(form: tuple[Any, ...], lead: tuple[int, ...], given: dict[str, View],
             outs: list[View] | None) -> tuple[Engine, dict[str, View], list[View] | None]:
    """The plan for an a with several leading axes, and the views of its inputs and outs, with as
    few leading axes as their strides allow."""
    engine, layout = engine_of(*form), form[1]
    columns = {"K": given["a"].shape[-1], "N": given["b"].shape[1 if layout == "kn" else 0], "1": 1}
    by_rows = [info for info in _inputs(engine) if _has_rows(info)]
    views = [_spread(given[info.name], lead, columns[info.shape[1]], info.name) for info in by_rows]
    views += [_spread(view, lead, columns["N"], "out") for view in outs or ()]
    axes = _merged(lead, views)
    merged = [view._replace(shape=(*[extent for extent, _ in axes], view.shape[-1]),
                            strides=(*[strides[i] for _, strides in axes], view.strides[-1]))
              for i, view in enumerate(views)]
    given = {**given, **{info.name: view for info, view in zip(by_rows, merged)}}
    if len(axes) > 1:
        engine = _batched(len(axes) - 1, *form)
    return engine, given, None if outs is None else merged[len(by_rows):]


def _spread(view: View, lead: tuple[int, ...], columns: int, where: str) -> View:
    """A tensor ``[..., X]`` or ``[M, X]`` as a view ``[..., X]``."""
    rows = math.prod(lead)
    if view.shape == (*lead, columns):
        return view
    if view.shape != (rows, columns):
        raise Error(f"{where} has shape {view.shape}", where, f"give it shape {(*lead, columns)}")
    steps = [view.strides[0] * step for step in _frameworks.dense_strides(lead)]
    return view._replace(shape=(*lead, columns), strides=(*steps, view.strides[1]))


def _merged(lead: tuple[int, ...], views: list[View]) -> list[tuple[int, list[int]]]:
    """The leading axes as (extent, stride in each tensor).

    Axes of extent 1 are left out. Two axes become one if in all tensors the rows are evenly spaced
    over both.
    """
    axes: list[tuple[int, list[int]]] = []
    for axis in range(len(lead)) if 0 not in lead else ():
        extent, strides = lead[axis], [view.strides[axis] for view in views]
        if extent == 1:
            continue
        if axes and axes[-1][1] == [stride * extent for stride in strides]:
            axes[-1] = (axes[-1][0] * extent, strides)
        else:
            axes.append((extent, strides))
    return axes or [(math.prod(lead), [view.shape[-1] for view in views])]


def _transposed(view: View) -> View:
    return view._replace(shape=view.shape[::-1], strides=view.strides[::-1])
