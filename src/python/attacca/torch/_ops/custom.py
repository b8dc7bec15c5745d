"""``attacca.matmul``, plans and fused functions as custom ops: what torch traces and transforms instead of looking inside.

An op carries all that its call needs as text, so that graphs that hold it can be saved, and run by
another process that imports :mod:`attacca.torch`. A plan travels as its file,
and a fused function as the plan of the call's types.

    attacca::matmul(Tensor[] tensors, str names, str epilogue, str options) -> Tensor     a, b, operands by name
    attacca::matmul_results(...) -> Tensor[]                    several results
    attacca::plan(Tensor[] inputs, str plan) -> Tensor          and likewise plan_results

Each is the overload ``import_attacca_torch``, as those of :mod:`.region`. None writes to its arguments: with out= the results are copied. None has a derivative: tensors that need one are refused.
"""
from __future__ import annotations

import base64
import weakref
import zlib
from functools import lru_cache
from typing import Any, Callable, Sequence

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ... import _arguments, _core, _dispatch
from ..._errors import Error
from ..._launch import Engine
from ..._matmul import matmul, roles
from .region import OVERLOAD, TAGS, as_torch_dtype, empty_results, library
from .text_argument import plain
from .transforms import vmap_one_by_one, vmap_rows, without_derivatives

ops = torch.ops.attacca

# ---- Arguments


def options_text(out_dtype: Any, mode: str, tuning: str, tuning_seconds: float, threads: int) -> str:
    """The options of :func:`attacca.matmul` as an op's argument."""
    named = "-" if out_dtype is None else _arguments.dtype(out_dtype, "out_dtype")
    return f"{named} {mode} {tuning} {tuning_seconds} {threads}"


def _keywords(options: str) -> dict[str, Any]:
    out_dtype, mode, tuning, seconds, threads = options.split()
    return {"out_dtype": None if out_dtype == "-" else out_dtype, "mode": mode, "tuning": tuning,
            "tuning_seconds": float(seconds), "threads": int(threads)}


def plan_argument(engine: Engine) -> str:
    """A plan as an op's argument."""
    text = base64.b64encode(zlib.compress(engine.core.serialize())).decode()
    _traced[text] = engine
    return text


_traced: "weakref.WeakValueDictionary[str, Engine]" = weakref.WeakValueDictionary()


def _engine(text: str) -> Engine:
    known = _traced.get(text)
    return _read(text) if known is None else known


@lru_cache(maxsize=256)
def _read(text: str) -> Engine:
    return Engine(_core.Plan.deserialize(zlib.decompress(base64.b64decode(text))))


# ---- Kernels


def _run_matmul(tensors: Sequence[torch.Tensor], names: str, epilogue: str, options: str) -> list[torch.Tensor]:
    a, b, *operands = tensors
    with _dispatch.inside():
        results = matmul(a, b, plain(epilogue), **_keywords(options), **dict(zip(names.split(), operands)))
    return list(results) if isinstance(results, tuple) else [results]


def _run_plan(inputs: Sequence[torch.Tensor], text: str) -> list[torch.Tensor]:
    with _dispatch.inside():
        results = _engine(text).call(inputs, {}, None)
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
    named = roles(epilogue)
    ranks = {"scalar": 0, "row": 1}
    with _disable_current_modes(), torch.no_grad():
        given = [torch.empty([1] * ranks.get(named.get(name, ""), 2), dtype=dtype)
                 for name, dtype in zip(["", "", *names.split()], dtypes)]
        results = _run_matmul(given, names, epilogue, options)
    return tuple(result.dtype for result in results)


def _fake_plan(inputs: Sequence[torch.Tensor], text: str) -> list[torch.Tensor]:
    signature = _engine(text).signature
    for layout, tensor in zip(signature.inputs, inputs):
        if tensor.dtype != as_torch_dtype(layout.info.dtype) or tensor.dim() != len(layout.shape):
            raise Error(f"{layout.info.name} is {tensor.dtype} of {tensor.dim()} axes, {layout.info.type} is wanted",
                        layout.info.name, f"convert it to {layout.info.dtype}")
    sizes = signature.sizes_of([tensor.shape for tensor in inputs])
    for layout, tensor in zip(signature.inputs, inputs):
        for dim, size in zip(layout.shape, tensor.shape):
            torch._check(dim.value(sizes) == size,
                         lambda: f"{layout.info.name} has shape {tuple(tensor.shape)}, {layout.info.type} is wanted")
    return empty_results(signature, inputs, inputs[0].device if inputs else torch.device(signature.device))


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
        op = getattr(getattr(ops, name + suffix), OVERLOAD)
        for key in ("CPU", "CUDA"):
            library.impl(full, wrap(run), key)
        library.impl(full, without_derivatives(op), "Autograd")
        torch.library.register_fake(f"attacca::{full}", wrap(fake), lib=library)
        torch.library.register_vmap(f"attacca::{full}", vmap(op), lib=library)


# AOTInductor passes None for an empty list: a and b stand in one with the operands.
_define("matmul", "Tensor[] tensors, str names, str epilogue, str options", _run_matmul, _fake_matmul, vmap_rows)
_define("plan", "Tensor[] inputs, str plan", _run_plan, _fake_plan, vmap_one_by_one)
