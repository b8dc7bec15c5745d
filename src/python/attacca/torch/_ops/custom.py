"""``attacca.matmul`` and plans as custom ops, which torch traces and transforms without looking
inside.

    attacca::matmul(Tensor[] tensors, str names, str epilogue, str options) -> Tensor
    attacca::matmul_results(...) -> Tensor[]
    attacca::plan(Tensor[] inputs, str plan) -> Tensor
    attacca::plan_results(...) -> Tensor[]

The tensors of a product are a, b and the operands; ``_results`` is for several results.

An op's arguments hold everything that its call needs, as text, so that a graph with it can be
saved, and run by another process that imports :mod:`attacca.torch`. A plan is passed as its file; a
fused function calls the op of its plan. Each op is the overload ``import_attacca_torch``, for the
reason that :mod:`.region` gives. No op writes to its arguments: results are copied to ``out``. No
op has a derivative: tensors that require one are errors.
"""
from __future__ import annotations

import base64
import weakref
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ... import _arguments, _core, _dispatch
from ..._errors import Error
from ..._launch import Engine
from ..._layout import Layout
from ..._matmul import matmul, roles
from .region import OVERLOAD, TAGS, as_torch_dtype, empty_results, library
from .text_argument import plain
from .transforms import vmap_one_by_one, vmap_rows, without_derivatives

ops = torch.ops.attacca

# ---- Arguments


def options_text(out_dtype: Any, mode: str, tuning: str, tuning_seconds: float,
                 threads: int, batch_invariant: bool) -> str:
    """The options of :func:`attacca.matmul` as an op's argument."""
    named = "-" if out_dtype is None else _arguments.dtype(out_dtype, "out_dtype")
    text = f"{named} {mode} {tuning} {tuning_seconds} {threads}"
    return f"{text} batch_invariant" if batch_invariant else text


def _keywords(options: str) -> dict[str, Any]:
    out_dtype, mode, tuning, seconds, threads, *more = options.split()
    return {"out_dtype": None if out_dtype == "-" else out_dtype, "mode": mode, "tuning": tuning,
            "tuning_seconds": float(seconds), "threads": int(threads),
            "batch_invariant": more == ["batch_invariant"]}


def plan_argument(engine: Engine) -> str:
    """A plan as an op's argument."""
    text = base64.b64encode(zlib.compress(engine.core.serialize())).decode()
    _traced[text] = engine
    return text


_traced: weakref.WeakValueDictionary[str, Engine] = weakref.WeakValueDictionary()


def _engine(text: str) -> Engine:
    known = _traced.get(text)
    return _read(text) if known is None else known


@lru_cache(maxsize=256)
def _read(text: str) -> Engine:
    return Engine(_core.Plan.deserialize(zlib.decompress(base64.b64decode(text))))


# ---- Kernels


def _run_matmul(tensors: Sequence[torch.Tensor], names: str, epilogue: str,
                options: str) -> list[torch.Tensor]:
    a, b, *operands = tensors
    with _dispatch.inside():
        named: dict[str, Any] = dict(zip(names.split(), operands))
        results = matmul(a, b, plain(epilogue), **_keywords(options), **named)
    return list(results) if isinstance(results, tuple) else [results]


def _run_plan(inputs: Sequence[torch.Tensor], text: str) -> list[torch.Tensor]:
    with _dispatch.inside():
        results = _engine(text).call(inputs, {}, None)
    return list(results) if isinstance(results, tuple) else [results]


# ---- Shapes and dtypes alone; sizes may be symbolic


def _fake_matmul(tensors: Sequence[torch.Tensor], names: str, epilogue: str,
                 options: str) -> list[torch.Tensor]:
    a, b = tensors[:2]
    if a.dim() < 2 or b.dim() != 2:
        raise Error(f"a has shape {tuple(a.shape)} and b {tuple(b.shape)}", "a",
                    "give [..., M, K] and [K, N]")
    torch._check(a.shape[-1] == b.shape[0], lambda: f"a has K={a.shape[-1]} and b K={b.shape[0]}")
    dtypes = _result_dtypes(tuple(tensor.dtype for tensor in tensors), names, plain(epilogue),
                            options)
    return [a.new_empty((*a.shape[:-1], b.shape[1]), dtype=dtype) for dtype in dtypes]


def _wrong_shape(layout: Layout, tensor: torch.Tensor) -> str:
    return f"{layout.info.name} has shape {tuple(tensor.shape)}, {layout.info.type} is wanted"


@lru_cache(maxsize=1024)
def _result_dtypes(dtypes: tuple[torch.dtype, ...], names: str, epilogue: str,
                   options: str) -> tuple[torch.dtype, ...]:
    """The dtypes of the results, found by a call with tensors of one element.

    Raises:
        Error: As :func:`attacca.matmul`, except for errors about shapes.
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
            raise Error(
                f"{layout.info.name} is {tensor.dtype} of {tensor.dim()} axes, {layout.info.type} "
                "is wanted",
                        layout.info.name, f"convert it to {layout.info.dtype}")
    sizes = signature.sizes_of([tensor.shape for tensor in inputs])
    for layout, tensor in zip(signature.inputs, inputs):
        for dim, size in zip(layout.shape, tensor.shape):
            torch._check(dim.value(sizes) == size, partial(_wrong_shape, layout, tensor))
    return empty_results(signature, inputs,
                         inputs[0].device if inputs else torch.device(signature.device))


# ---- The ops


def _first(run: Callable[..., list[torch.Tensor]]) -> Callable[..., torch.Tensor]:
    def one(*arguments: Any) -> torch.Tensor:
        result, = run(*arguments)
        return result
    return one


def _define(name: str, arguments: str, run: Any, fake: Any, vmap: Callable[[Any], Any]) -> None:
    """Defines the op of one result, and the op of several."""
    for suffix, returned, wrap in (("", "Tensor", _first),
                                   ("_results", "Tensor[]", lambda function: function)):
        full = f"{name}{suffix}.{OVERLOAD}"
        library.define(f"{full}({arguments}) -> {returned}", tags=TAGS)
        op = getattr(getattr(ops, name + suffix), OVERLOAD)
        for key in ("CPU", "CUDA"):
            library.impl(full, wrap(run), key)
        library.impl(full, without_derivatives(op), "Autograd")
        torch.library.register_fake(f"attacca::{full}", wrap(fake), lib=library)
        torch.library.register_vmap(f"attacca::{full}", vmap(op), lib=library)


# AOTInductor passes None for an empty list: so a and b are in one list with the operands.
_define("matmul", "Tensor[] tensors, str names, str epilogue, str options", _run_matmul,
        _fake_matmul, vmap_rows)
_define("plan", "Tensor[] inputs, str plan", _run_plan, _fake_plan, vmap_one_by_one)
