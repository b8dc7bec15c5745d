"""Chooses among the configurations of a user's kernel that Triton tunes, as Triton does: by the
time of the kernel alone."""
from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

from ..._errors import Error
from .. import _timing
from .._ops.region import Loaded
from .importer import Importer
from .kernels import Configured
from .static import hint

_Layout = tuple[tuple[int, ...], tuple[int, ...], torch.dtype]


def fastest(configurations: Sequence[Configured], result: torch.fx.Node) -> int:
    """Times the kernels on made-up inputs of the sizes at hand."""
    operands = list(dict.fromkeys(configurations[0].operands))
    device = result.meta["val"].device
    if len(configurations) == 1 or not operands or device.type != "cuda":
        return 0
    importer = Importer()
    types = ", ".join(f'"{node.name}": {importer.type_text(node)}' for node in operands)
    texts = tuple(f'graph "alone"({types}) {{ "k" = {each.text}; return "k" }}'
                  for each in configurations)
    layouts = tuple((tuple(map(hint, node.meta["val"].shape)),
                     tuple(map(hint, node.meta["val"].stride())), node.meta["val"].dtype)
                    for node in operands)
    return _fastest(texts, layouts, device)


@functools.lru_cache(maxsize=256)
def _fastest(texts: tuple[str, ...], layouts: tuple[_Layout, ...], device: torch.device) -> int:
    """The index of the fastest graph that runs; the first if none does."""
    mode = FakeTensorMode()
    with mode:
        fakes = [torch.empty_strided(shape, strides, dtype=dtype, device=device)
                 for shape, strides, dtype in layouts]
    with _disable_current_modes(), torch.no_grad(), torch.random.fork_rng([device]):
        try:
            sets = _timing.input_sets(fakes)
        except _timing.NoMemory:
            return 0
        running = {i: loaded for i, text in enumerate(texts)
                   if (loaded := _running(text, sets[0], device)) is not None}
        times = _timing.compete(list(running.values()), sets) if len(running) > 1 else []
    captured = {i: seconds.captured for i, seconds in zip(running, times)}
    return min(captured, key=captured.__getitem__) if captured else next(iter(running), 0)


def _running(text: str, inputs: list[torch.Tensor], device: torch.device) -> Loaded | None:
    """The graph, if its kernel can be launched: it may need more memory or threads than there
    are."""
    try:
        loaded = Loaded(text, "fp32", "known", 0.0, str(device))
        loaded(inputs)
    except Error:
        return None
    return loaded
