"""Compares regions with Inductor's code for the same nodes, and the graph with regions with
Inductor's own.

A region's kernel may be faster than Inductor's code for the region, and the graph slower with it:
Inductor can no longer fuse across the region's border. So both are timed on this GPU, and the
result is kept in Attacca's cache.
"""
from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from .. import __version__, _core
from . import _timing
from ._graph import static
from ._graph.kernels import ORIGINALS, is_stand_in
from ._graph.regions import Region
from ._graph.replace import remove_unused, replace
from ._kept import keep, recall
from ._ops.region import uncounted
from ._timing import NoMemory, Seconds

# Fused code is kept if its time is below _MARGIN of Inductor's, with the host's time or without it,
# and if neither time is above Inductor's by more than noise.
_MARGIN, _NOISE, _HOST_NOISE = 0.99, 1.002, 1.01
_MOST_NODES = 2000  # the largest graph that is compiled several times
_MOST_TRIES = 4  # sets of regions that are tried for a graph


class Verdict(NamedTuple):
    """Whether a region is kept, and why."""

    keep: bool
    reason: str
    seconds: float = 0.0
    other_seconds: float = 0.0


class Verdicts(NamedTuple):
    """The verdicts on a graph's regions, in their order, and a note on the whole graph's times."""

    regions: list[Verdict]
    note: str


class Run(NamedTuple):
    """How the custom op is called."""

    mode: str
    tuning: str


def microseconds(seconds: float) -> str:
    """A time for messages: "12.3 us"."""
    return f"{seconds * 1e6:.1f} us"


def compare(graph: torch.fx.Graph, regions: Sequence[Region], run: Run) -> Verdicts:
    """Decides which regions to keep; the graph is not changed.

    Raises:
        Error: A size is unknown, or a kernel fails.
    """
    key = _key(graph, regions, run)
    known = _remembered(key)
    if known is None:
        with _as_if_nothing_ran(regions[0].outputs[0].meta["val"].device):
            known = _compare(graph, regions, run)
        keep(_file(key), known)
    return known


@contextlib.contextmanager
def _as_if_nothing_ran(device: torch.device) -> Iterator[None]:
    """Restores gradient mode, counters and random numbers afterwards, and frees cached memory."""
    cuda = [device] if device.type == "cuda" else []
    with torch.no_grad(), torch.utils._python_dispatch._disable_current_modes(), uncounted(), \
            torch.random.fork_rng(devices=cuda):
        try:
            yield
        finally:
            if cuda:
                torch.cuda.empty_cache()


def _compare(graph: torch.fx.Graph, regions: Sequence[Region], run: Run) -> Verdicts:
    root = graph.owning_module
    assert root is not None
    groups: dict[str, list[int]] = {}
    for i, region in enumerate(regions):
        groups.setdefault(canonical(region), []).append(i)
    verdicts: dict[str, Verdict] = {}
    for text, members in groups.items():
        try:
            verdicts[text] = _alone(root, regions[members[0]], run)
        except NoMemory as reason:
            verdicts[text] = Verdict(False, f"not timed: {reason}")
    wanted = {text: members for text, members in groups.items() if verdicts[text].keep}
    note = ""
    if wanted and (why := _not_to_be_run(graph)):
        note = f"regions alone were timed: {why}"
    elif wanted:
        try:
            note = _whole(root, graph, regions, run, wanted, verdicts)
        except NoMemory as reason:
            note = f"regions alone were timed: {reason}"
    by_region = {i: verdicts[text] for text, members in groups.items() for i in members}
    return Verdicts([by_region[i] for i in range(len(regions))], note)


# ---- One region


def _alone(root: torch.nn.Module, region: Region, run: Run) -> Verdict:
    theirs = static.copy(root, region.inputs, region.covers, region.outputs)
    ours = static.copy(root, region.inputs, region.covers, region.outputs)
    _put(ours, [region], run)
    sets = _timing.input_sets(theirs.inputs)
    own, inductor = _timing.compete([static.compiled(ours), static.compiled(theirs)], sets)
    times = _times(own, inductor, "Inductor's own")
    keep = _is_faster(own, inductor)
    gain = max(own.captured / inductor.captured, own.direct / inductor.direct) - 1
    reason = f"it took {times}" if keep else f"Inductor won by {100 * gain:.1f} %: {times}"
    return Verdict(keep, reason, own.captured, inductor.captured)


def _times(own: Seconds, other: Seconds, whose: str) -> str:
    return (f"{microseconds(own.captured)}, {whose} {microseconds(other.captured)} (with the "
            f"host's part {microseconds(own.direct)} and {microseconds(other.direct)})")


# ---- The whole graph

_RUN = {"aten", "prims", "inductor", "inductor_prims", "prim", "attacca", "_quantized", "quantized"}
_RUN_TOO = {"triton_kernel_wrapper_functional", "flex_attention"}


def _not_to_be_run(graph: torch.fx.Graph) -> str:
    """Why a graph cannot be run on made-up inputs, or "".

    Ops may have side effects, wait for other processes, or stop at unexpected values.
    """
    if len(graph.nodes) > _MOST_NODES:
        return f"the graph has {len(graph.nodes)} nodes"
    for node in graph.nodes:
        if node.op == "call_module" or (node.op == "call_function"
                                        and "_assert" in str(node.target)):
            return f"{node.name} may stop it"
        if isinstance(node.target, torch._ops.OpOverload) and node.target.namespace not in _RUN:
            return f"{node.target} may do more than compute"
        if isinstance(node.target,
                      torch._ops.HigherOrderOperator) and node.target.name() not in _RUN_TOO:
            return f"{node.target.name()} may do more than compute"
    return ""


def _whole(root: torch.nn.Module, graph: torch.fx.Graph, regions: Sequence[Region], run: Run,
           wanted: dict[str, list[int]], verdicts: dict[str, Verdict]) -> str:
    """Drops regions, those that gain least first, until the graph is faster than Inductor's;
    returns the note."""
    alone = static.copy_all(root, graph)
    sets = _timing.input_sets(alone.inputs)
    inductor = static.compiled(alone)
    kept = sorted(wanted, key=lambda text: -_gain(verdicts[text], wanted[text]))
    tried: list[str] = []
    while kept:
        chosen = [regions[i] for text in kept for i in wanted[text]]
        own, base = _timing.compete([static.compiled(_rewritten(root, graph, chosen, run)),
                                     inductor], sets)
        times = _whole_times(len(chosen), own, base)
        tried.append(times)
        if _is_faster(own, base):
            return times
        gone = kept if len(tried) == _MOST_TRIES else kept[-1:]
        for text in gone:
            verdicts[text] = verdicts[text]._replace(keep=False,
                                                     reason=f"Inductor's whole graph won: {times}")
        kept = kept[:-len(gone)]
    return f"left to Inductor: {tried[0]}"


def _gain(verdict: Verdict, members: Sequence[int]) -> float:
    return (verdict.other_seconds - verdict.seconds) * len(members)


def _is_faster(own: Seconds, base: Seconds) -> bool:
    from torch._inductor import config

    captured, direct = own.captured / base.captured, own.direct / base.direct
    if config.triton.cudagraphs:
        return captured < _MARGIN
    return captured < _NOISE and direct < _HOST_NOISE and min(captured, direct) < _MARGIN


def _whole_times(count: int, own: Seconds, base: Seconds) -> str:
    return f"with {count} regions {_times(own, base, 'by Inductor alone')}"


def _rewritten(root: torch.nn.Module, graph: torch.fx.Graph, regions: Sequence[Region],
               run: Run) -> static.Static:
    copied = static.copy_all(root, graph)
    _put(copied, regions, run)
    return copied


def _put(into: static.Static, regions: Sequence[Region], run: Run) -> None:
    """Replaces the regions in a copy of their graph."""
    replaced: dict[torch.fx.Node, torch.fx.Node] = {}
    covers: set[torch.fx.Node] = set()
    for region in regions:
        covered = [each for node in region.covers
                   for each in (node.meta[ORIGINALS] if is_stand_in(node) else [node])]
        inputs, outputs, nodes = ([into.made[node] for node in each if node in into.made]
                                  for each in (region.inputs, region.outputs, covered))
        here = Region(region.graph, [replaced.get(node, node) for node in inputs], outputs, nodes)
        replaced.update(replace(into.module.graph, here, run.mode, run.tuning))
        covers |= set(nodes)
    remove_unused(into.module.graph, covers)


# ---- What is remembered


def canonical(region: Region) -> str:
    """The region's text with its names numbered, and the sizes at hand: equal for equal regions."""
    names: dict[str, str] = {}

    def short(match: re.Match[str]) -> str:
        return match[0] if match[1].endswith(
            ".ptx") else f'"{names.setdefault(match[1], str(len(names)))}"'
    sizes = [[static.hint(size) for size in node.meta["val"].shape] for node in region.inputs]
    return re.sub(r'"([^"]*)"', short, region.graph) + str(sizes)


def _types(graph: torch.fx.Graph) -> list[str]:
    found = []
    for node in graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" and isinstance(value, torch.Tensor):
            found.append(
                f"{value.dtype}{[static.hint(s) for s in (*value.shape, *value.stride())]}")
    return found


def _key(graph: torch.fx.Graph, regions: Sequence[Region], run: Run) -> str:
    from torch._inductor import config

    device = regions[0].outputs[0].meta["val"].device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    settings = [config.max_autotune, config.max_autotune_gemm, config.max_autotune_pointwise,
                config.coordinate_descent_tuning, config.triton.cudagraphs]
    parts = [__version__, templates_stamp(), torch.__version__, name, settings, run, str(graph),
             _types(graph),
             [region.graph for region in regions]]
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()


def templates_stamp() -> str:
    """A text that changes when the kernel templates do."""
    try:
        directory = _core.template_directory()
        return f"{directory} {os.stat(directory).st_mtime}"
    except Exception:  # noqa: BLE001  none are installed
        return "none"


def _file(key: str) -> pathlib.Path:
    return pathlib.Path(_core.cache_directory()) / "torch" / f"{key}.json"


def _remembered(key: str) -> Verdicts | None:
    try:
        regions, note = recall(_file(key))
        return Verdicts([Verdict(*each) for each in regions], note)
    except (ValueError, TypeError):  # no file, or one of another format
        return None
