"""The custom op that runs a region: ``attacca::region(Tensor[] inputs, str graph, ...) ->
Tensor[]``.

The argument ``graph`` is the region in the text form, encoded by :mod:`.text_argument`, so that a
file of torch.export's contains the whole region. C++ that Inductor generates cannot call an op that
returns a list of one tensor; it calls ``attacca::region_of_one_result(...) -> Tensor`` instead.

Both are the overload ``import_attacca_torch``: if an op is not registered, torch's error prints its
full name, which says what to do.
"""
from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ... import _core
from ..._compile import compile_plan, parted
from ..._frameworks import Torch
from ..._launch import Engine
from ..._layout import Signature
from ..._plan import engine_of
from .text_argument import plain
from .transforms import vmap_one_by_one

library = torch.library.Library("attacca", "DEF")
_ARGUMENTS = "Tensor[] inputs, str graph, str mode, str tuning, float tuning_seconds"
TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides) \
    if hasattr(torch.Tag, "needs_exact_strides") else (torch.Tag.pt2_compliant_tag,)
OVERLOAD = "import_attacca_torch"
# Whether this process has loaded libattacca_torch.so, which runs both then.
IN_CPP = torch._C._dispatch_has_kernel(f"attacca::region.{OVERLOAD}")
if not IN_CPP:
    library.define(f"region.{OVERLOAD}({_ARGUMENTS}) -> Tensor[]", tags=TAGS)
    library.define(f"region_of_one_result.{OVERLOAD}({_ARGUMENTS}) -> Tensor", tags=TAGS)

region = torch.ops.attacca.region.import_attacca_torch
region_of_one_result = torch.ops.attacca.region_of_one_result.import_attacca_torch
_NAME = re.compile(r'"[^"]*"')


def nameless(graph: str) -> str:
    """The text with its names numbered, so that equal regions have equal texts.

    A graph that launches a user's kernel keeps its names: one of them is the kernel's.
    """
    if has_kernel(graph):
        return plain(graph)
    names: dict[str, str] = {}
    return _NAME.sub(lambda match: names.setdefault(match[0], f'"v{len(names)}"'), plain(graph))


@functools.lru_cache(maxsize=1024)
def _engine(graph: str, device: str, mode: str, tuning: str, seconds: float) -> Engine:
    mode, invariant = parted(mode)
    return engine_of(compile_plan(graph, device, mode, tuning, seconds, 0, None, invariant))


class Loaded:
    """A region's plan on one device, and how often it ran."""

    def __init__(self, graph: str, mode: str, tuning: str, seconds: float, device: str):
        self.graph, self.device, self.calls = graph, device, 0
        self.engine = _engine(nameless(graph), device, mode, tuning, seconds)

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        self.calls += 1
        results: Any = self.engine.cache.run(inputs, None, False)
        if results is None:
            results = self._run(self._laid_out(inputs))
        return list(results) if isinstance(results, tuple) else [results]

    def _run(self, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Checks the inputs and runs the plan.

        Raises:
            Error: As :class:`attacca.Plan`'s calls.
        """
        engine = self.engine
        views = [Torch.view(tensor, layout.info.name)
                 for tensor, layout in zip(inputs, engine.signature.inputs)]
        results, ready = engine.run(views, Torch, None, None)
        engine.remember(engine.cache, inputs, None, range(len(inputs)), Torch, views, ready)
        return results

    def _laid_out(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The inputs with the strides that the graph declares, if it launches a user's kernel,
        which takes an address alone: those whose strides another pass changed are copied. Other
        plans take any strides.
        """
        signature = self.engine.signature
        if not has_kernel(self.graph) or any(len(layout.shape) != tensor.dim()
                                             for layout, tensor in zip(signature.inputs, inputs)):
            return list(inputs)
        wanted = signature.declared_strides([tensor.shape for tensor in inputs])
        laid_out = []
        for tensor, strides in zip(inputs, wanted):
            if strides is None:
                tensor = tensor.contiguous()
            elif any(e != 1 and s != w for e, s, w in zip(tensor.shape, tensor.stride(), strides)):
                copy = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype,
                                           device=tensor.device)
                tensor = copy.copy_(tensor)
            laid_out.append(tensor)
        return laid_out


_loaded: dict[tuple[str, str, str, float, str], Loaded] = {}
_signatures: dict[str, Signature] = {}


def loaded(graph: str, mode: str, tuning: str, seconds: float, device: torch.device) -> Loaded:
    """The plan of a region, compiled once for each device. Threads that ask for it at once may each
    compile it: a child process would wait for ever for a lock that is held meanwhile."""
    key = (graph, mode, tuning, seconds, str(device))
    found = _loaded.get(key)
    if found is None:
        found = _loaded.setdefault(key, Loaded(plain(graph), mode, tuning, seconds, str(device)))
    return found


def all_loaded() -> list[Loaded]:
    """Every region loaded in this process."""
    return list(_loaded.values())


@contextlib.contextmanager
def uncounted() -> Iterator[None]:
    """Calls in this context are not counted."""
    before = {each: each.calls for each in all_loaded()}
    try:
        yield
    finally:
        for each in all_loaded():
            each.calls = before.get(each, 0)


def _run(inputs: Sequence[torch.Tensor], graph: str, mode: str, tuning: str,
         tuning_seconds: float) -> list[torch.Tensor]:
    return loaded(graph, mode, tuning, tuning_seconds, inputs[0].device)(inputs)


def _run_one(inputs: Sequence[torch.Tensor], graph: str, mode: str, tuning: str,
             tuning_seconds: float) -> torch.Tensor:
    result, = _run(inputs, graph, mode, tuning, tuning_seconds)
    return result


def has_kernel(graph: str) -> bool:
    """Whether a graph launches a user's kernel, which plans for the CPU cannot."""
    return '" = kernel("' in plain(graph)


def compiled_for(graph: str, device: torch.device) -> str:
    """The device of a plan that is asked for its inputs and outputs alone: the CPU, if it can."""
    return str(device) if has_kernel(graph) else "cpu"


def signature_of(graph: str, mode: str, device: torch.device) -> Signature:
    """A region's inputs and outputs."""
    signature = _signatures.get(graph)
    if signature is None:
        signature = _signatures[graph] = _signature(nameless(graph), mode,
                                                    compiled_for(graph, device))
    return signature


@functools.lru_cache(maxsize=1024)
def _signature(graph: str, mode: str, device: str) -> Signature:
    return Signature(_core.Plan.compile(_core.Graph.parse(graph), device=device,
                                        mode=parted(mode)[0], tuning="known", tuning_seconds=0.0,
                                        threads=1, batch_invariant=False, fuse=True))


def _fake(inputs: Sequence[torch.Tensor], graph: str, mode: str, tuning: str,
          tuning_seconds: float) -> list[torch.Tensor]:
    """Shapes and dtypes of the results; sizes may be symbolic."""
    return empty_results(signature_of(graph, mode, inputs[0].device), inputs, inputs[0].device)


def empty_results(signature: Signature, inputs: Sequence[torch.Tensor],
                  device: torch.device) -> list[torch.Tensor]:
    """Results with the right shapes and dtypes whose elements are not computed; sizes may be
    symbolic."""
    sizes = signature.sizes_of([tensor.shape for tensor in inputs])
    return [torch.empty([dim.value(sizes) for dim in layout.shape],
                        dtype=as_torch_dtype(layout.info.dtype),
                        device=device) for layout in signature.outputs]


def _fake_one(inputs: Sequence[torch.Tensor], graph: str, mode: str, tuning: str,
              tuning_seconds: float) -> torch.Tensor:
    result, = _fake(inputs, graph, mode, tuning, tuning_seconds)
    return result


_DTYPES: dict[str, torch.dtype] = {name: dtype for dtype, name in Torch.names().items()}


def as_torch_dtype(name: str) -> torch.dtype:
    """torch.bfloat16 of "bf16"."""
    return _DTYPES[name]


for _name, _kernel, _shapes in [("region", _run, _fake),
                                ("region_of_one_result", _run_one, _fake_one)]:
    for _dispatch_key in () if IN_CPP else ("CPU", "CUDA"):
        library.impl(f"{_name}.{OVERLOAD}", _kernel, _dispatch_key)
    torch.library.register_fake(f"attacca::{_name}.{OVERLOAD}", _shapes, lib=library)
    torch.library.register_vmap(f"attacca::{_name}.{OVERLOAD}",
                                vmap_one_by_one(getattr(getattr(torch.ops.attacca, _name),
                                                        OVERLOAD)), lib=library)
