"""Compares a region's call with what Inductor makes of the same nodes, on this GPU.

Inductor calls ATen for a region's products and generates kernels for the rest. So its code takes at
least as long as the products alone, and at most as long as these and a bound for the rest. If these
two times do not decide, Inductor compiles the region with and without the call, together with the
ops around it that Inductor may fuse with it.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from . import _timing
from ._graph import static
from ._graph.importer import Importer
from ._graph.kernels import ORIGINALS, is_stand_in
from ._graph.nodes import GATHERS, VIEWS, is_product_op
from ._graph.region import Region
from ._graph.replace import remove_unused, replace
from ._graph.surroundings import before, with_surroundings
from ._ops import lowering
from ._ops.region import as_torch_dtype, loaded, signature_of
from ._ops.text_argument import written
from ._timing import Seconds

# A region is kept if its time in a CUDA graph is below _MARGIN of Inductor's and its time with the
# host's part is not above Inductor's by more than noise.
_MARGIN, _HOST_NOISE = 0.99, 1.01
_BARE_MARGIN = 0.97  # of a product without an epilogue: nothing else is gained
_LAUNCH = 1e-6  # the least time between two kernels of a CUDA graph, in seconds
_MOST_LAUNCHES = 6e-6  # the most for launching the rest's kernels
_PAPER_RATE = 5e12  # bytes a second, of devices that do not report their memory's rate


class Verdict(NamedTuple):
    """Whether a region is kept, and why, with the times of one call; 0: not known."""

    keep: bool
    reason: str
    seconds: float = 0.0
    other_seconds: float = 0.0
    against: str = ""  # whose other_seconds is
    unfused_seconds: float = 0.0


class Run(NamedTuple):
    """How the custom op is called."""

    mode: str
    tuning: str


class Around(NamedTuple):
    """A region, the nodes near it, and its module."""

    root: torch.nn.Module
    region: Region
    near: Sequence[torch.fx.Node]
    parts: Sequence[Region] = ()  # the regions that it launches together


def microseconds(seconds: float) -> str:
    """A time for messages: "12.3 us"."""
    return f"{seconds * 1e6:.1f} us"


# ---- With the products alone


def products_alone(root: torch.nn.Module, region: Region) -> static.Static | None:
    """The region's products and the views that they read; None if they read other values computed
    in the region. Rows that an index chooses for them are inputs, behind those of the region."""
    wanted: set[torch.fx.Node] = set()
    pending = [node for node in region.covers if is_product_op(node)]
    products = list(pending)
    inputs = dict.fromkeys(region.inputs)
    while pending:
        node = pending.pop()
        if node in wanted or node in inputs:
            continue
        if Importer.op(node) in GATHERS:
            inputs[node] = None
            continue
        if is_stand_in(node) or (node not in products and not static.is_size(node)
                                 and Importer.op(node) not in VIEWS):
            return None
        wanted.add(node)
        pending += node.all_input_nodes
    made = static.copy(root, list(inputs), [node for node in region.covers if node in wanted],
                       products)
    if not is_atens(region):
        _without_bias(made.module.graph)
    return made


def is_atens(region: Region) -> bool:
    """Whether the region is products of ATen's and views alone: Inductor generates no kernel for
    it."""
    rest = [node for node in region.covers
            if Importer.op(node) not in VIEWS and not static.is_size(node)]
    return bool(rest) and all(is_product_op(node) and not is_stand_in(node) for node in rest)


def _without_bias(graph: torch.fx.Graph) -> None:
    """Replaces ``addmm`` by ``mm``, as Inductor does if a generated kernel adds the bias."""
    for node in graph.nodes:
        if node.op == "call_function" and node.target is torch.ops.aten.addmm.default \
                and not node.kwargs:
            node.target, node.args = torch.ops.aten.mm.default, node.args[1:]


def against_products(around: Around, run: Run) -> Verdict | None:
    """The verdict, if the products' time decides; None if it does not."""
    root, region, near, parts = around
    alone = products_alone(root, region)
    if alone is None or _inductor_tunes_products():
        return None
    alone.module.recompile()
    sets = _timing.input_sets(alone.inputs, alone.ends,
                              static.named_rows(region.inputs, region.covers))
    call, count = called(region, run), len(region.inputs)
    own, base = _timing.compete([lambda given: call(given[:count]),
                                 lambda given: alone.module(*given)], sets)
    times = f"{microseconds(own.captured)}, its products alone {microseconds(base.captured)}"
    if is_atens(region):
        keep = _is_faster(own, base, _BARE_MARGIN)
        reason = f"it took {times}" if keep else f"no kernel is faster than ATen's: {times}"
        return Verdict(keep, reason, own.captured, base.captured, "ATen")
    rate = _memory_rate(region)
    least, most = _tail_seconds(region, rate, max(1, len(parts)))
    if near:  # Inductor may compute the rest in kernels that run anyway
        least = 0.0
    bound = Seconds(base.captured + least, base.direct + least)
    # Inductor may compute what the epilogue alone reads in its kernel; here others compute it.
    rest = _seconds_before(region, rate)
    whole = Seconds(own.captured + rest, own.direct + rest)
    if _is_faster(whole, bound, _MARGIN):
        return Verdict(True, f"it took {times}", own.captured, bound.captured,
                       "Inductor at least")
    if own.captured > base.captured + most:
        return Verdict(False, f"Inductor must win: {times}, and the rest takes less than "
                       f"{microseconds(most)}", own.captured, base.captured + most,
                       "Inductor at most")
    return None


def _inductor_tunes_products() -> bool:
    from torch._inductor import config

    return bool(config.max_autotune or config.max_autotune_gemm)


def _memory_rate(region: Region) -> float:
    """The most bytes a second that the device's memory moves."""
    device = region.outputs[0].meta["val"].device
    if device.type != "cuda":
        return _PAPER_RATE
    properties = torch.cuda.get_device_properties(device)
    clock, width = (getattr(properties, name, 0) for name in ("memory_clock_rate",
                                                              "memory_bus_width"))
    return 2 * clock * 1e3 * width / 8 or _PAPER_RATE


def _tail_seconds(region: Region, rate: float, kernels: int) -> tuple[float, float]:
    """How long kernels, at most so many, take that read the products and write the region's
    results: at least and at most.

    What a product wrote may still be in the L2 cache, which is up to twice as fast as memory.
    Strided reads take up to three times as long as others.
    """
    products = [node for node in region.covers if is_product_op(node)]
    moved = sum(map(_bytes, [*products, *region.outputs]))
    return _LAUNCH + moved / rate / 2, kernels * _MOST_LAUNCHES + 3 * moved / rate


def _seconds_before(region: Region, rate: float) -> float:
    """How long kernels take at most that compute what the epilogue alone reads."""
    ops = [node for node in before(region) if Importer.op(node) not in VIEWS]
    if not ops:
        return 0.0
    moved = sum(_bytes(node) for op in ops for node in (op, *op.all_input_nodes))
    return _MOST_LAUNCHES + 3 * moved / rate


def _bytes(node: torch.fx.Node) -> int:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return 0
    return static.hint(value.numel()) * value.element_size()


def called(region: Region, run: Run) -> Callable[[list[Any]], Any]:
    """The region's call as generated code makes it."""
    outputs = [node.meta["val"] for node in region.outputs]
    text = written(region.graph)
    if len(outputs) > 1:
        op = loaded(text, run.mode, run.tuning, 0.0, outputs[0].device)
        return op.__call__
    shape = [static.hint(size) for size in outputs[0].shape]
    dtype = as_torch_dtype(signature_of(text, run.mode, outputs[0].device).outputs[0].info.dtype)

    generated = lowering.generated_call(text, run.mode, run.tuning)

    def call(inputs: list[Any]) -> torch.Tensor:
        out = torch.empty(shape, dtype=dtype, device=outputs[0].device)
        generated(inputs, out)
        return out
    return call


# ---- With a launch for each product


def against_parts(around: Around, run: Run) -> Verdict | None:
    """The verdict on regions launched together, if calls of each of them are not slower; None if
    they are."""
    root, region, _, parts = around
    made = static.copy(root, region.inputs, region.covers, region.outputs)
    sets = _timing.input_sets(made.inputs, made.ends, made.named)
    calls = [(called(part, run), [region.inputs.index(node) for node in part.inputs])
             for part in parts]

    def one_by_one(given: list[Any]) -> Any:
        return [call([given[place] for place in places]) for call, places in calls]
    own, other = _timing.compete([called(region, run), one_by_one], sets)
    if _is_faster(own, other, _MARGIN):
        return None
    return Verdict(False, f"a launch for each product is not slower: {microseconds(own.captured)}, "
                   f"one by one {microseconds(other.captured)}", own.captured, other.captured,
                   "launches of each")


# ---- With Inductor's code


def inductors(around: Around) -> tuple[static.Static, Callable[[list[Any]], Any]]:
    """The region and what is near it, and what Inductor compiles them to."""
    whole = with_surroundings(around.region, around.near)
    made = static.copy(around.root, whole.inputs, whole.covers, whole.outputs)
    return made, static.compiled(made)


def against_inductor(around: Around, run: Run, theirs: static.Static,
                     inductor: Callable[[list[Any]], Any]) -> Verdict:
    """The verdict by the times of what :func:`inductors` made."""
    if around.near:
        whole = with_surroundings(around.region, around.near)
        ours = static.copy(around.root, whole.inputs, whole.covers, whole.outputs)
        _put(ours, around.region, run)
        function = static.compiled(ours)
    else:
        function = called(around.region, run)
    sets = _timing.input_sets(theirs.inputs, theirs.ends, theirs.named)
    own, other = _timing.compete([function, inductor], sets)
    times = (f"{microseconds(own.captured)}, Inductor's own {microseconds(other.captured)} (with "
             f"the host's part {microseconds(own.direct)} and {microseconds(other.direct)})")
    if around.near:
        times += f", with {len(around.near)} ops around it"
    keep = _is_faster(own, other, _MARGIN)
    gain = max(own.captured / other.captured, own.direct / other.direct) - 1
    reason = f"it took {times}" if keep else f"Inductor won by {100 * gain:.1f} %: {times}"
    return Verdict(keep, reason, own.captured, other.captured, "Inductor")


def _is_faster(own: Seconds, other: Seconds, margin: float) -> bool:
    from torch._inductor import config

    captured, direct = own.captured / other.captured, own.direct / other.direct
    return captured < margin and (direct < _HOST_NOISE or config.triton.cudagraphs)


def _put(into: static.Static, region: Region, run: Run) -> None:
    """Replaces the region in a copy of its graph."""
    covered = [each for node in region.covers
               for each in (node.meta[ORIGINALS] if is_stand_in(node) else [node])]
    inputs, outputs, nodes = ([into.made[node] for node in each if node in into.made]
                              for each in (region.inputs, region.outputs, covered))
    replace(into.module.graph, Region(region.graph, inputs, outputs, nodes), run.mode, run.tuning)
    remove_unused(into.module.graph, set(nodes))
