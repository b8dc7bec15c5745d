"""Putting regions into an FX graph, where a policy says that they are worth it."""
from __future__ import annotations

import operator
from typing import Any, NamedTuple

import torch

from .. import _core
from .._dims import Dim
from .._errors import Error
from .._plan import Decision, Plan, compile as compile_graph
from . import _report
from ._ops import region as region_op
from ._importer import Importer
from ._regions import VIEWS, Region, find, is_product_op

POLICIES = ("measured", "always")
# A fused region must take less than this of the unfused path's time; less still where Inductor would
# make one kernel of the region's tail and what follows it, which the tuner's unfused path does not know.
_MARGIN, _MARGIN_BEFORE_MORE = 0.98, 0.9


class Options(NamedTuple):
    """What ``torch.compile(..., backend="attacca", options={...})`` takes besides Inductor's.

    Attributes:
        policy: "measured": a region is fused where its kernel took less time on this GPU than the
            unfused path, which is the vendor library's product and one pointwise kernel, as
            Inductor makes by default; on the CPU nothing is. "always": every region is fused.
        mode: "fp32" or "eager", as for :func:`attacca.compile`.
        tuning: As for :func:`attacca.compile`, while compiling and for the sizes at hand. By default
            what is not known is measured. Sizes that come later measure nothing: they take what is
            known, which :func:`attacca.tune` can prepare.
        tuning_seconds: The most that measuring one region may take; 0: 60.
    """

    policy: str = "measured"
    mode: str = "fp32"
    tuning: str = "measure"
    tuning_seconds: float = 0.0

    def check(self) -> "Options":
        if self.policy not in POLICIES:
            raise Error(f"unknown policy {self.policy}", "policy", f"one of {', '.join(POLICIES)}")
        if self.mode not in ("fp32", "eager"):
            raise Error(f"unknown mode {self.mode}", "mode", "one of fp32, eager")
        if self.tuning not in ("known", "measure", "always", "unfused"):
            raise Error(f"unknown tuning {self.tuning}", "tuning",
                        "one of known, measure, always, unfused")
        return self


class _Verdict(NamedTuple):
    keep: bool
    reason: str
    seconds: float = 0.0
    unfused_seconds: float = 0.0


def rewrite(graph: torch.fx.Graph, options: Options) -> int:
    """Replaces regions by calls of the custom op, and adds to the report. Returns how many."""
    found = find(graph)
    fused: list[_report._Entry] = []
    left = [_report.Left(*each) for each in found.left]
    replaced: dict[torch.fx.Node, torch.fx.Node] = {}
    for region in found.regions:
        region = region._replace(inputs=[replaced.get(node, node) for node in region.inputs])
        device = region.outputs[0].meta["val"].device
        verdict = _judge(region, device, options)
        if verdict.keep:
            fused.append(_report._Entry(tuple(n.name for n in region.covers),
                                        tuple(n.name for n in region.outputs),
                                        _explained(region.graph), verdict.reason, verdict.seconds,
                                        verdict.unfused_seconds, region.graph))
            replaced.update(_replace(graph, region, options))
        else:
            left.append(_report.Left(region.outputs[0].name, "region", verdict.reason))
    _report.add(fused, left)
    if fused:
        _remove_unused(graph, {node for region in found.regions for node in region.covers})
    return len(fused)


def _explained(graph: str) -> str:
    plan = _core.Plan.compile(_core.Graph.parse(graph), device="cpu", mode="fp32", tuning="known",
                              tuning_seconds=0.0, threads=1, fuse=True)
    text = plan.explain_text()
    return text[text.index("region 1"):].strip()


def _judge(region: Region, device: torch.device, options: Options) -> _Verdict:
    if options.policy == "always":
        return _Verdict(True, "the policy is always")
    if device.type != "cuda":
        return _Verdict(False, f"on {device.type} only the policy always fuses")
    if len(region.outputs) > 1:
        return _Verdict(False, "of several results, whose users Inductor may fuse")
    try:
        decisions = _decisions(region, device, options)
    except Error as error:
        return _Verdict(False, str(error))
    return judge_decisions(decisions, _MARGIN_BEFORE_MORE if _feeds_more(region) else _MARGIN)


def _feeds_more(region: Region) -> bool:
    """Whether ops that Inductor makes kernels of read the result."""
    pending, seen = list(region.outputs[0].users), set()
    while pending:
        user = pending.pop()
        if user in seen or user.op == "output":
            continue
        seen.add(user)
        if Importer.op(user) in VIEWS:
            pending += user.users
        elif not is_product_op(user) and Importer.op(user) != "attacca.region":
            return True
    return False


def judge_decisions(decisions: "tuple[Decision, ...]", margin: float = _MARGIN) -> _Verdict:
    """Whether what the tuner chose beats the unfused path by enough."""
    if any(decision.candidate.startswith("unfused") for decision in decisions):
        return _Verdict(False, "the unfused path is the fastest")
    seconds = sum(decision.seconds for decision in decisions)
    unfused = sum(decision.unfused_seconds for decision in decisions)
    if not seconds or not unfused:
        sources = ", ".join(sorted({decision.source for decision in decisions}))
        return _Verdict(True, f"chosen by {sources}, not measured")
    times = f"{seconds * 1e6:.1f} us, unfused {unfused * 1e6:.1f} us"
    if seconds < unfused * margin:
        return _Verdict(True, f"it took {times}", seconds, unfused)
    return _Verdict(False, f"it does not beat the unfused path: {times}", seconds, unfused)


def _decisions(region: Region, device: torch.device, options: Options) -> "tuple[Decision, ...]":
    """For the sizes at hand."""
    plan: Plan = compile_graph(region.graph, device=str(device), mode=options.mode, tuning=options.tuning,
                               tuning_seconds=options.tuning_seconds)
    sizes: dict[str, int] = {}
    for layout, node in zip(plan._inputs, region.inputs):
        for dim, size in zip(layout.shape, node.meta["val"].shape):
            linear = dim.linear()
            if linear is not None and linear[1:] == (1, 0):
                sizes[linear[0]] = _hint(size)
    if missing := set(plan.symbols) - set(sizes):
        raise Error(f"size {sorted(missing)[0]} is not known while compiling")
    return plan.prepare(**sizes).decisions


def _hint(size: Any) -> int:
    if isinstance(size, int):
        return size
    if not size.node.has_hint():
        raise Error(f"size {size} is not known while compiling")
    return int(size.node.hint)


def _replace(graph: torch.fx.Graph, region: Region,
             options: Options) -> dict[torch.fx.Node, torch.fx.Node]:
    """Puts the call in; returns what stands for each output now."""
    arguments = (list(region.inputs), region.graph, options.mode, *_while_running(options))
    fake = [node.meta["val"] for node in region.inputs]
    mode = torch._guards.detect_fake_mode(fake)
    dead = _left_dead(region)
    with graph.inserting_before(_place(graph, region, dead)):
        call = graph.call_function(region_op, arguments)
        if mode is not None:
            with mode:
                call.meta["val"] = region_op(fake, *arguments[1:])
        parts = [graph.call_function(operator.getitem, (call, i)) for i in range(len(region.outputs))]
    for i, (part, output) in enumerate(zip(parts, region.outputs)):
        part.meta.update(output.meta)
        if "val" in call.meta:
            part.meta["val"] = call.meta["val"][i]
        # What nobody needs any more keeps its old operands, and its place before the call.
        output.replace_all_uses_with(part, delete_user_cb=lambda user: user not in dead)
    _read_sizes_elsewhere(region, parts)
    return dict(zip(region.outputs, parts))


def _read_sizes_elsewhere(region: Region, parts: list[torch.fx.Node]) -> None:
    """Sizes that are asked of values inside the region, of its inputs and outputs instead."""
    extents = {str(size): (node, axis) for node in [*parts, *region.inputs]
               for axis, size in enumerate(node.meta["val"].shape)}
    for node in region.covers:
        for user in list(node.users):
            if user.op == "call_function" and str(user.target) == "aten.sym_size.int":
                place = extents.get(str(user.meta["val"]))
                if place is not None:
                    user.args = place


def _while_running(options: Options) -> tuple[str, float]:
    """How kernels are chosen for sizes met later: what was measured is known; no call measures."""
    return ("unfused" if options.tuning == "unfused" else "known"), 0.0


def _left_dead(region: Region) -> set[torch.fx.Node]:
    """What the region computes, but for the views that others read as well."""
    covers = set(region.covers)
    stays: set[torch.fx.Node] = set()
    for node in reversed(region.covers):
        if node not in region.outputs and any(user not in covers or user in stays for user in node.users):
            stays.add(node)
    return covers - stays


def _place(graph: torch.fx.Graph, region: Region, dead: set[torch.fx.Node]) -> torch.fx.Node:
    """Right after the last input; whatever uses an output is moved behind it."""
    order = {node: i for i, node in enumerate(graph.nodes)}
    last = max(region.inputs, key=order.__getitem__)
    late = order[last]
    # Users of outputs that stand before the last input are moved, with what depends on them.
    moved: list[torch.fx.Node] = []
    waiting = set(region.outputs)
    for node in graph.nodes:
        if order[node] > late or node in dead or node.op in ("placeholder", "output"):
            continue
        if waiting & set(node.all_input_nodes):
            waiting.add(node)
            moved.append(node)
    after = last
    for node in moved:
        after.append(node)
        after = node
    place = last.next
    while place.op == "placeholder":
        place = place.next
    return place


def _remove_unused(graph: torch.fx.Graph, covers: set[torch.fx.Node]) -> None:
    for node in reversed(list(graph.nodes)):
        if node in covers and not node.users:
            graph.erase_node(node)
    graph.lint()
