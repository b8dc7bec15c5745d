"""``attacca.matmul``, plans and fused functions as custom ops: what torch traces and transforms instead of looking inside.

An op carries all that its call needs as text, so that graphs that hold it can be saved, and run by
another process that imports :mod:`attacca.torch`. A plan travels as its file,
and a fused function as the plan of the call's types.

    attacca::matmul(Tensor[] tensors, str names, str epilogue, str options) -> Tensor     a, b, operands by name
    attacca::matmul_results(...) -> Tensor[]                    several results
    attacca::plan(Tensor[] inputs, str plan) -> Tensor          and likewise plan_results

Each is the overload ``import_attacca_torch``, as those of :mod:`._ops`. None writes to its arguments: with out= the results are copied. None has a derivative: tensors that need one are refused.
"""
from __future__ import annotations

import base64
import re
import sys
import weakref
import zlib
from functools import lru_cache
from typing import Any, Callable, Sequence

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .. import _arguments, _dispatch, _frameworks
from .._errors import Error
from .._matmul import _ACCUMULATOR, matmul as _matmul, roles as _roles
from .._plan import Plan, _unpickle
from .._trace import Fused, _traced as _fused, trace_epilogue
from ._ops import OVERLOAD, TAGS, as_torch_dtype, library, sizes_of
from ._text_argument import plain, written

try:
    import numpy as _numpy
except ImportError:  # torch does without, too
    _numpy = None  # type: ignore[assignment]

_ops = torch.ops.attacca

# ---- What attacca.matmul and plans call. Dynamo reads these functions; those that are marked constant it
# ---- runs while it traces, with arguments that it guards.


def matmul(a: Any, b: Any, epilogue: Any, out: Any, chosen: Sequence[Any], operands: dict[str, Any]) -> Any:
    """:func:`attacca.matmul` by an op; ``chosen``: out_dtype, mode, tuning, tuning_seconds, threads."""
    as_array = _is_array(a)
    a, b = _tensor(a, "a"), _tensor(b, "b")
    tensors = [_tensor(tensor, name) for name, tensor in operands.items()]
    names = " ".join(operands)
    if not isinstance(epilogue, str):
        roles = [_role(tensor, name, b) for name, tensor in zip(operands, tensors)]
        dtypes = [a.dtype, *[tensor.dtype for tensor in tensors]]
        epilogue = _traced(epilogue, names, " ".join(roles), tuple(dtypes))
    outs = None if out is None else list(out) if isinstance(out, (list, tuple)) else [out]
    if chosen[0] is None and outs is not None and len(outs) > 0:
        chosen = (_tensor(outs[0], "out").dtype, *chosen[1:])
    arguments = ([a, b, *tensors], names, _argument(epilogue), _options(*chosen))
    one = _count(epilogue) == "1"
    results = [_ops.matmul.import_attacca_torch(*arguments)] if one else list(_ops.matmul_results.import_attacca_torch(*arguments))
    if outs is not None:
        _copy(results, outs)
        return outs[0] if one else tuple(outs)
    return _like(results[0], as_array) if one else tuple([_like(result, as_array) for result in results])


def plan(called: Plan, inputs: Sequence[Any], named: dict[str, Any], out: Any) -> Any:
    """A plan's call by an op."""
    given = list(inputs)
    if len(named) > 0 or len(given) != called._input_count:
        order = called._order(called._identity, len(given), " ".join(named))
        given = given + [named[name] for name in order.split()]
    as_array = len(given) > 0 and _is_array(given[0])
    tensors = [_tensor(each, "inputs") for each in given]
    text = called._argument(called._identity)
    one = called._output_count == 1
    results = [_ops.plan.import_attacca_torch(tensors, text)] if one else list(_ops.plan_results.import_attacca_torch(tensors, text))
    if out is not None:
        listed = isinstance(out, (list, tuple))
        outs = list(out) if listed else [out]
        _copy(results, outs)
        return tuple(outs) if listed else outs[0]
    return _like(results[0], as_array) if one else tuple([_like(result, as_array) for result in results])


def fused(called: Fused, inputs: Sequence[Any], named: dict[str, Any], out: Any) -> Any:
    """A fused function's call by the op of its plan."""
    given = [*inputs, *named.values()]
    arrays = [_is_array(each) for each in given]
    tensors = [isinstance(each, torch.Tensor) for each in given]
    frameworks = " ".join((["numpy"] if any(arrays) else []) + (["torch"] if any(tensors) else []))
    as_array = next((array for array, tensor in zip(arrays, tensors) if array or tensor), False)
    plain = [_tensor(each, "inputs") if array else each for each, array in zip(given, arrays)]
    results = _fused_results(called._argument(called._identity), frameworks, " ".join(named), *plain)
    if out is not None:
        listed = isinstance(out, (list, tuple))
        outs = list(out) if listed else [out]
        _copy(results, outs)
        return tuple(outs) if listed else outs[0]
    given_back = [_like(result, as_array) for result in results]
    return given_back[0] if len(given_back) == 1 else tuple(given_back)


@torch.compiler.allow_in_graph
def _fused_results(identity: str, frameworks: str, names: str, *given: Any) -> list[torch.Tensor]:
    """Dynamo's graphs call it; what traces them further, such as AOTAutograd, sees the plan's op."""
    values = [_number(each) for each in given]
    count = len(values) - len(names.split())
    called, tensors = _fused[identity]._plan(values[:count], dict(zip(names.split(), values[count:])),
                                             tuple(frameworks.split()))
    results = called(*tensors)
    return list(results) if isinstance(results, tuple) else [results]


def _number(value: Any) -> Any:
    """A symbolic number of torch's as the number that it is here: it becomes part of the code."""
    kinds: list[tuple[type, type]] = [(torch.SymBool, bool), (torch.SymInt, int), (torch.SymFloat, float)]
    return next((plain(value) for kind, plain in kinds if isinstance(value, kind)), value)


def _copy(results: list[torch.Tensor], outs: list[Any]) -> None:
    if len(outs) != len(results):
        raise Error(f"out is of {len(outs)}, the results are {len(results)}", "out", "give one each")
    for result, out in zip(results, outs):
        into = _tensor(out, "out")
        if into.dtype != result.dtype or into.shape != result.shape:
            raise Error(f"out is {into.dtype} of shape {tuple(into.shape)}", "out",
                        f"give {result.dtype} of shape {tuple(result.shape)}")
        into.copy_(result)


def _is_array(value: Any) -> bool:
    return _numpy is not None and isinstance(value, _numpy.ndarray)


def _tensor(value: Any, where: str) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        distributed = sys.modules.get("torch.distributed.tensor")
        if distributed is not None and isinstance(value, distributed.DTensor):
            raise Error("a DTensor, which no op of Attacca's can shard", where,
                        "give its part, .to_local(), or the whole, .full_tensor()")
        return value
    if _is_array(value):
        return torch.as_tensor(value)
    raise Error(f"a {type(value).__name__} where torch traces the call", where, "give a torch tensor")


def _like(result: torch.Tensor, as_array: bool) -> Any:
    return result.numpy() if as_array else result


def _role(tensor: torch.Tensor, name: str, b: torch.Tensor) -> str:
    """As attacca.matmul takes an operand of a function, by its shape."""
    shape, columns = list(tensor.shape), b.shape[-1]
    if len(shape) == 0:
        return "scalar"
    if len(shape) == 1 and shape[0] == columns:
        return "row"
    if shape[-1] == columns:
        return "full"
    if shape[-1] == 1:
        return "col"
    raise Error(f"operand {name} has shape {tuple(shape)}", name, f"give it [], [{columns}], [M, 1] or [M, {columns}]")


def _constant(function: Callable[..., str]) -> Callable[..., str]:
    """Dynamo runs it while tracing, instead of reading it; what torch.compiler.assume_constant_result does."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@_constant
def _traced(function: Callable[..., Any], names: str, roles: str, dtypes: "tuple[torch.dtype, ...]") -> str:
    """The text of a callable epilogue; ``dtypes``: a's, then the operands'."""
    shapes = {"scalar": (), "row": (3,), "col": (2, 1), "full": (2, 3)}
    with _disable_current_modes():
        a, *operands = [torch.empty(shape, dtype=dtype) for shape, dtype in
                        zip([(2, 4), *[shapes[role] for role in roles.split()]], dtypes)]
        views = {name: _frameworks.Torch.view(tensor, name) for name, tensor in zip(names.split(), operands)}
        accumulator = _ACCUMULATOR.get(_frameworks.Torch.view(a, "a").dtype, "f32")
        return trace_epilogue(function, views, (2,), 3, accumulator, [a, *operands])


_argument = _constant(written)
_BRACKETS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


@_constant
def _count(epilogue: str) -> str:
    """How many results an epilogue has: they are separated by commas outside of brackets."""
    depth, count = 0, 1
    for character in re.sub(r'"[^"]*"', "", epilogue):
        depth += _BRACKETS.get(character, 0)
        count += character == "," and depth == 0
    return str(count)


@_constant
def _options(out_dtype: Any, mode: str, tuning: str, tuning_seconds: float, threads: int) -> str:
    named = "-" if out_dtype is None else _arguments.dtype(out_dtype, "out_dtype")
    return f"{named} {mode} {tuning} {tuning_seconds} {threads}"


def _keywords(options: str) -> dict[str, Any]:
    out_dtype, mode, tuning, seconds, threads = options.split()
    return {"out_dtype": None if out_dtype == "-" else out_dtype, "mode": mode, "tuning": tuning,
            "tuning_seconds": float(seconds), "threads": int(threads)}


def plan_argument(called: Plan) -> str:
    """A plan as an op's argument."""
    text = base64.b64encode(zlib.compress(called._core.serialize())).decode()
    _traced_plans[text] = called
    return text


_traced_plans: "weakref.WeakValueDictionary[str, Plan]" = weakref.WeakValueDictionary()


def _plan(text: str) -> Plan:
    known = _traced_plans.get(text)
    return _read_plan(text) if known is None else known


@lru_cache(maxsize=256)
def _read_plan(text: str) -> Plan:
    return _unpickle(zlib.decompress(base64.b64decode(text)))


# ---- Kernels


def _run_matmul(tensors: Sequence[torch.Tensor], names: str, epilogue: str, options: str) -> list[torch.Tensor]:
    a, b, *operands = tensors
    with _dispatch.inside():
        results = _matmul(a, b, plain(epilogue), **_keywords(options), **dict(zip(names.split(), operands)))
    return list(results) if isinstance(results, tuple) else [results]


def _run_plan(inputs: Sequence[torch.Tensor], text: str) -> list[torch.Tensor]:
    with _dispatch.inside():
        results = _plan(text)(*inputs)
    return list(results) if isinstance(results, tuple) else [results]


# ---- Shapes and dtypes alone; sizes may be symbolic


def _fake_matmul(tensors: Sequence[torch.Tensor], names: str, epilogue: str, options: str) -> list[torch.Tensor]:
    a, b = tensors[:2]
    if a.dim() < 2 or b.dim() != 2:
        raise Error(f"a has shape {tuple(a.shape)} and b {tuple(b.shape)}", "a", "give [..., M, K] and [K, N]")
    torch._check(a.shape[-1] == b.shape[0], lambda: f"a has K={a.shape[-1]} and b K={b.shape[0]}")
    dtypes = _result_dtypes(tuple(tensor.dtype for tensor in tensors), names, plain(epilogue), options)
    return [a.new_empty((*a.shape[:-1], b.shape[1]), dtype=dtype) for dtype in dtypes]


@lru_cache(maxsize=1024)
def _result_dtypes(dtypes: tuple[torch.dtype, ...], names: str, epilogue: str,
                   options: str) -> tuple[torch.dtype, ...]:
    """Found by running it on tensors of one element.

    Raises:
        Error: As :func:`attacca.matmul`, except where it is about shapes.
    """
    roles = _roles(epilogue)
    ranks = {"scalar": 0, "row": 1}
    with _disable_current_modes(), torch.no_grad():
        given = [torch.empty([1] * ranks.get(roles.get(name, ""), 2), dtype=dtype)
                 for name, dtype in zip(["", "", *names.split()], dtypes)]
        results = _run_matmul(given, names, epilogue, options)
    return tuple(result.dtype for result in results)


def _fake_plan(inputs: Sequence[torch.Tensor], text: str) -> list[torch.Tensor]:
    called = _plan(text)
    for layout, tensor in zip(called._inputs, inputs):
        if tensor.dtype != as_torch_dtype(layout.info.dtype) or tensor.dim() != len(layout.shape):
            raise Error(f"{layout.info.name} is {tensor.dtype} of {tensor.dim()} axes, {layout.info.type} is wanted",
                        layout.info.name, f"convert it to {layout.info.dtype}")
    sizes = sizes_of([layout.shape for layout in called._inputs], [tensor.shape for tensor in inputs])
    for layout, tensor in zip(called._inputs, inputs):
        for dim, size in zip(layout.shape, tensor.shape):
            torch._check(dim.value(sizes) == size,
                         lambda: f"{layout.info.name} has shape {tuple(tensor.shape)}, {layout.info.type} is wanted")
    device = inputs[0].device if inputs else torch.device(called.device)
    return [torch.empty([dim.value(sizes) for dim in layout.shape], dtype=as_torch_dtype(layout.info.dtype),
                        device=device) for layout in called._outputs]


# ---- vmap


def _split(values: Any, dims: Any, index: int) -> Any:
    """Element ``index`` along the batch, of a tensor or a list of them; others as they are."""
    if isinstance(values, (list, tuple)):
        return [_split(value, dim, index) for value, dim in zip(values, dims)]
    if dims is None:
        return values
    part = values.select(dims, index)
    dense = part.is_contiguous() or (part.dim() > 1 and part.mT.is_contiguous())
    return part if dense else part.contiguous()


def _one_by_one(op: Any, batch: int, dims: Sequence[Any], arguments: Sequence[Any]) -> Any:
    """Results of an op of one element of the batch after the other, stacked."""
    calls = [op(*[_split(value, dim, i) for value, dim in zip(arguments, dims)]) for i in range(batch)]
    if isinstance(calls[0], torch.Tensor):
        return torch.stack(calls), 0
    return [torch.stack(parts) for parts in zip(*calls)], [0] * len(calls[0])


def _empty_batch(op: Any, dims: Sequence[Any], arguments: Sequence[Any]) -> Any:
    """An empty batch: results of the shapes that one element gives."""
    def one(values: Any, dim: Any) -> Any:
        if isinstance(values, (list, tuple)):
            return [one(value, each) for value, each in zip(values, dim)]
        return values if dim is None else values.new_zeros(values.select(dim, 0).shape if values.shape[dim] else
                                                           [n for i, n in enumerate(values.shape) if i != dim])
    results = op(*[one(value, dim) for value, dim in zip(arguments, dims)])
    if isinstance(results, torch.Tensor):
        return results.new_empty((0, *results.shape)), 0
    return [result.new_empty((0, *result.shape)) for result in results], [0] * len(results)


def _vmap_rule(op: Any) -> Callable[..., Any]:
    def rule(info: Any, dims: Sequence[Any], *arguments: Any) -> Any:
        if info.batch_size == 0:
            return _empty_batch(op, dims, arguments)
        return _one_by_one(op, info.batch_size, dims, arguments)
    return rule


def _vmap_matmul(op: Any) -> Callable[..., Any]:
    """Batches of a alone are rows of one product; others are computed one by one."""
    loop = _vmap_rule(op)

    def rule(info: Any, dims: Sequence[Any], tensors: Sequence[torch.Tensor], names: str, epilogue: str,
             options: str) -> Any:
        roles = set(_roles(plain(epilogue)).values())
        of_a, *others = dims[0]
        if any(dim is not None for dim in others) or not roles <= {"row", "scalar"}:
            return loop(info, dims, tensors, names, epilogue, options)
        a, *rest = tensors
        results = op([a.movedim(of_a, 0).contiguous(), *rest], names, epilogue, options)
        return results, 0 if isinstance(results, torch.Tensor) else [0] * len(results)
    return rule


# ---- Derivatives


def _tensors(arguments: Sequence[Any]) -> "list[torch.Tensor]":
    return [tensor for value in arguments for tensor in (value if isinstance(value, (list, tuple)) else [value])
            if isinstance(tensor, torch.Tensor)]


def _without_derivatives(op: Any) -> Callable[..., Any]:
    """Refuses tensors that need a derivative; otherwise goes on below autograd."""
    def checked(*arguments: Any) -> Any:
        given = _tensors(arguments)
        for tensor in given:
            if tensor.requires_grad and torch.is_grad_enabled():
                raise Error("the tensor requires a gradient, which nothing here computes", str(op),
                            "call .detach(), or run under torch.no_grad()")
            if torch.autograd.forward_ad._current_level >= 0 and _has_tangent(tensor):
                raise Error("the tensor has a forward-mode tangent, and nothing here computes derivatives", str(op),
                            "call torch.autograd.forward_ad.unpack_dual(x).primal, or differentiate without it")
        with torch._C._AutoDispatchBelowAutograd():
            return op(*arguments)
    return checked


def _has_tangent(tensor: torch.Tensor) -> bool:
    return torch.autograd.forward_ad.unpack_dual(tensor).tangent is not None


# ---- The ops


def _first(run: Callable[..., list[torch.Tensor]]) -> Callable[..., torch.Tensor]:
    def one(*arguments: Any) -> torch.Tensor:
        result, = run(*arguments)
        return result
    return one


def _define(name: str, arguments: str, run: Any, fake: Any, vmap: Callable[[Any], Any]) -> None:
    """The op of one result, and that of several."""
    for suffix, returned, wrap in (("", "Tensor", _first), ("_results", "Tensor[]", lambda function: function)):
        full = f"{name}{suffix}.{OVERLOAD}"
        library.define(f"{full}({arguments}) -> {returned}", tags=TAGS)
        op = getattr(getattr(_ops, name + suffix), OVERLOAD)
        for key in ("CPU", "CUDA"):
            library.impl(full, wrap(run), key)
        library.impl(full, _without_derivatives(op), "Autograd")
        torch.library.register_fake(f"attacca::{full}", wrap(fake), lib=library)
        torch.library.register_vmap(f"attacca::{full}", vmap(op), lib=library)


# AOTInductor passes None for an empty list: a and b stand in one with the operands.
_define("matmul", "Tensor[] tensors, str names, str epilogue, str options", _run_matmul, _fake_matmul, _vmap_matmul)
_define("plan", "Tensor[] inputs, str plan", _run_plan, _fake_plan, _vmap_rule)
