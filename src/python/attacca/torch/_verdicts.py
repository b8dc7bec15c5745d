"""Verdicts that are kept in Attacca's cache for later processes."""
from __future__ import annotations

import functools
import hashlib
import os
import pathlib
from typing import NamedTuple

import torch

from .. import __version__, _core
from ._compare import Run, Verdict
from ._graph.region import Region
from ._kept import keep, recall


def file_of(key: str, region: Region, run: Run, effort: int) -> pathlib.Path:
    """The file of a region's verdict. ``key``: describes the region."""
    from torch._inductor import config

    device = region.outputs[0].meta["val"].device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    products = torch.backends.cuda.matmul
    # The older getter raises where the newer one is used.
    precision = getattr(products, "fp32_precision", None) or torch.get_float32_matmul_precision()
    # What changes Inductor's code for the region.
    settings = [config.max_autotune, config.max_autotune_gemm, config.max_autotune_pointwise,
                config.max_autotune_gemm_backends, config.epilogue_fusion,
                config.coordinate_descent_tuning, config.triton.cudagraphs,
                precision,
                products.allow_fp16_reduced_precision_reduction,
                products.allow_bf16_reduced_precision_reduction]
    parts = [__version__, core_stamp(), torch.__version__, name, settings, run, effort,
             key]
    text = "\n".join(map(str, parts))
    return (pathlib.Path(_core.cache_directory()) / "torch"
            / f"{hashlib.sha256(text.encode()).hexdigest()}.json")


class _Unsettled(NamedTuple):
    """When a verdict that came for want of time is used again."""

    seconds: float  # of the budget: where it is over twice as large, the region is measured
    database: list[int]  # its state: where it is another, there may be another choice of kernels


def _database_state() -> list[int]:
    try:
        info = os.stat(pathlib.Path(_core.cache_directory()) / "tuned.sqlite")
    except OSError:
        return []
    return [info.st_mtime_ns, info.st_size]


def keep_verdict(path: pathlib.Path, verdict: Verdict, unsettled: bool, seconds: float) -> None:
    """Keeps a verdict. ``unsettled``: it may change with more time than these seconds, or with
    another choice of kernels."""
    keep(path, [verdict, _Unsettled(seconds, _database_state()) if unsettled else None])


def recall_verdict(path: pathlib.Path, budget: float) -> Verdict | None:
    """The verdict that was kept; None: there is none, or it is to be found again with a budget of
    so many seconds."""
    try:
        verdict, unsettled = recall(path)
        if unsettled:
            seconds, database = _Unsettled(*unsettled)
            if budget > 2 * seconds or database != _database_state():
                return None
        return Verdict(*verdict)
    except (ValueError, TypeError):  # no file, or one of another format
        return None


def core_stamp() -> str:
    """A text that changes when the core may decide otherwise: with its cost model, the kernel
    templates and the choices that come with it."""
    return _stamp_with(_core.template_directory())


@functools.lru_cache
def _stamp_with(templates: str) -> str:
    return f"{templates} {_core.decision_stamp()}"
