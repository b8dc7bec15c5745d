"""Decides by the policy which regions of an FX graph are fused, and replaces them."""
from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from .._compile import compile_plan, contract
from .._errors import Error
from .._plan import Decision, Plan, engine_of
from .._problems import QUICK_SECONDS
from . import _agree, _logs, _report
from ._compare import Run, Verdict, microseconds
from ._graph import group_rows, kernels
from ._graph.collectives import merge_gathers
from ._graph.configurations import fastest
from ._graph.exchanges import claim
from ._graph.nodes import is_product_op, operations, writes_in_place
from ._graph.region import Region, reading
from ._graph.regions import Found, find
from ._graph.replace import moves_collectives, remove_unused, replace
from ._graph.static import hint
from ._graph.surroundings import around
from ._graph.together import Together, find_together
from ._judge import (
    NO_TUNING,
    NOT_TOGETHER,
    QUICK,
    THOROUGH,
    Budget,
    judge,
    launches,
    not_compared,
)
from ._ops.region import compiled_for, nameless
from ._options import Options
from ._report_view import Left, Measuring

# Without a comparison with Inductor, a fused region must take less than _MARGIN of the unfused
# path's time, and less than _MARGIN_BEFORE_MORE if Inductor could fuse the region's epilogue with
# what follows it.
_MARGIN, _MARGIN_BEFORE_MORE = 0.98, 0.9


_NO_EPILOGUE = "a product without an epilogue"
_ALWAYS = "the policy is always"
_LAUNCHED = ("cuda",)  # devices on which fewer launches take less time


def rewrite(graph: torch.fx.Graph, options: Options, begun: float | None = None) -> int:
    """Replaces regions by calls of the custom op, and adds to the report.

    Args:
        graph: A graph of ATen's ops.
        options: The options.
        begun: When Inductor began to compile, by time.monotonic(); None: it is not known.

    Returns:
        The number of regions replaced.
    """
    writes = writes_in_place(graph)
    if not writes:
        merge_gathers(graph)
    by_groups = [] if writes else group_rows.mark(graph)
    choose = fastest if options.policy == "measured" else kernels.first
    stand_ins, unused = kernels.stand_in(graph, choose) if options.kernels else ([], [])
    found = find(graph)
    fused: list[_report.Entry] = []
    if options.overlap:
        found = _overlap(graph, found, options, fused)
    together = _together(found.regions, options)
    verdicts, measuring = _judge_on_all(graph, found.regions, together, options, begun)
    judged = _judged(found.regions, together, verdicts)
    left = [Left(each.node, "triton kernel", each.reason) for each in unused]
    products = {node.name: node for node in graph.nodes if is_product_op(node)}
    left += [Left(*each, operations=operations(products[each.node])
                  if each.node in products else 0.0) for each in found.left]
    replaced: dict[torch.fx.Node, torch.fx.Node] = {}
    for region, verdict, count in judged:
        if verdict.keep:
            region = reading(region, replaced)
        if verdict.keep and moves_collectives(region):
            left.append(Left(region.outputs[0].name, "region",
                             "its call would move a collective behind another"))
        elif verdict.keep:
            fused.append(_entry(region, verdict, count))
            replaced.update(replace(graph, region, *_while_running(options)))
        else:
            left.append(_left(region, verdict, count))
    if options.batch_invariant:
        left = _naming_variant(left, products, {name for entry in fused for name in entry.nodes})
    count = sum(entry.together for entry in fused)
    _logs.decided([(entry.outputs[0], entry.reason) for entry in fused],
                  [(each.node, each.reason) for each in left],
                  f"{count} of {len(found.regions)} regions fused; {measuring}")
    alone = not fused and _left_by_policy(found.regions, options)
    _report.add(fused, left, measuring, "", _report.CPU_POLICY if alone else "")
    if fused:
        remove_unused(graph, {node for region, verdict, _ in judged if verdict.keep
                              for node in region.covers})
    group_rows.restore(by_groups)
    kernels.restore(graph, stand_ins)
    return count


class _Judged(NamedTuple):
    """What may become a call."""

    region: Region
    verdict: Verdict
    together: int  # how many regions it computes


def _judged(regions: Sequence[Region], together: Sequence[Together],
            verdicts: Sequence[Verdict]) -> list[_Judged]:
    """The regions and the groups, in an order in which they may be replaced. A group that is kept
    has the place of its first member, and its members are left out."""
    judged: dict[int, list[_Judged]] = {
        place: [_Judged(region, verdict, 1)]
        for place, (region, verdict) in enumerate(zip(regions, verdicts))}
    for group, verdict in zip(together, verdicts[len(regions):]):
        one = _Judged(group.region, verdict, len(group.members))
        if verdict.keep:
            for place in group.members:
                judged[place] = []
        judged[group.members[0]].append(one)
    return [each for place in range(len(regions)) for each in judged[place]]


def _entry(region: Region, verdict: Verdict, together: int) -> _report.Entry:
    return _report.Entry(tuple(node.name for node in region.covers),
                         tuple(node.name for node in region.outputs),
                         str(region.outputs[0].meta["val"].device), verdict.reason,
                         verdict.seconds, verdict.other_seconds, verdict.unfused_seconds,
                         verdict.against, region.graph, together)


def _left(region: Region, verdict: Verdict, together: int) -> Left:
    if together > 1:
        return Left(region.outputs[0].name, f"{together} products together", verdict.reason,
                    verdict.other_seconds, verdict.seconds, 0.0, verdict.unfused_seconds,
                    verdict.against)
    kind = "product" if verdict.reason == _NO_EPILOGUE else "region"
    return Left(region.outputs[0].name, kind, verdict.reason, verdict.other_seconds,
                verdict.seconds, sum(operations(n) for n in region.covers if is_product_op(n)),
                verdict.unfused_seconds, verdict.against)


def _naming_variant(left: Sequence[Left], products: Mapping[str, torch.fx.Node],
                    covered: set[str]) -> list[Left]:
    """What is left, with the remark that products which no region covers may depend on the number
    of rows."""
    return [each._replace(reason=f"{each.reason}; not batch-invariant")
            if each.op == "region" or each.node in products and each.node not in covered else each
            for each in left]


def _overlap(graph: torch.fx.Graph, found: Found, options: Options,
             fused: list[_report.Entry]) -> Found:
    """Makes regions one with the collectives beside them; returns what is left."""
    claims = claim(graph, found.regions, *_while_running(options))
    for each in claims.claimed:
        region = each.region
        fused.append(_report.Entry(tuple(node.name for node in region.covers),
                                   (each.result.name,), str(each.result.meta["val"].device),
                                   f"one with {each.collective}", 0.0, 0.0, 0.0, "", region.graph))
    return Found([reading(region, claims.replaced) for region in claims.others],
                 [*found.left, *claims.left])


def _left_by_policy(regions: Sequence[Region], options: Options) -> bool:
    """Whether regions are left because they are not on a GPU."""
    return options.policy == "measured" and any(r.outputs[0].meta["val"].device.type != "cuda"
                                                for r in regions if not r.bare)


def _together(regions: Sequence[Region], options: Options) -> list[Together]:
    """The regions that may be launched together. None with batch_invariant: the number of rows
    decides whether they are; nor where no times decide."""
    if options.batch_invariant or (options.policy == "measured" and not options.compare):
        return []
    if not any(region.outputs[0].meta["val"].device.type in _LAUNCHED for region in regions):
        return []
    return [group for group in find_together(regions)
            if group.region.outputs[0].meta["val"].device.type in _LAUNCHED]


def _judge_on_all(graph: torch.fx.Graph, regions: Sequence[Region], together: Sequence[Together],
                  options: Options, begun: float | None) -> tuple[list[Verdict], Measuring]:
    """:func:`_judge_all`, by rank 0 if the options name a group."""
    def alone() -> tuple[list[Verdict], Measuring]:
        return _judge_all(graph, regions, together, options, begun)

    def sizes_of(region: Region) -> dict[str, int]:
        where = compiled_for(region.graph, region.outputs[0].meta["val"].device)
        plan = compile_plan(nameless(region.graph), where, options.mode, "known", 0, 1, None)
        return sizes_at_hand(region, plan)
    if options.group is None:
        return alone()
    return _agree.decide(options.group, [*regions, *(each.region for each in together)], alone,
                         options.mode, sizes_of)


def _judge_all(graph: torch.fx.Graph, regions: Sequence[Region], together: Sequence[Together],
               options: Options, begun: float | None) -> tuple[list[Verdict], Measuring]:
    """A verdict for each region, then for each group of them, and what measuring took."""
    verdicts = [_judge_by_policy(region, options) for region in regions]
    measuring = Measuring()
    open_ = [i for i, verdict in enumerate(verdicts) if verdict is None]
    groups = _judge_launches(together, options) if options.policy == "always" else []
    if open_ and options.compare:
        compared, measuring = _compare_all(graph, [regions[i] for i in open_],
                                           _at(together, open_), options, begun)
        groups = compared[len(open_):]
    else:
        compared = [_judge_alone(regions[i], options) for i in open_]
    for i, verdict in zip(open_, compared):
        verdicts[i] = verdict
    return [verdict for verdict in [*verdicts, *groups] if verdict is not None], measuring


def _at(together: Sequence[Together], places: Sequence[int]) -> list[Together]:
    """The groups, of which the regions are those at some places."""
    now = {place: i for i, place in enumerate(places)}
    return [group._replace(members=tuple(now[place] for place in group.members))
            for group in together]


def _compare_all(graph: torch.fx.Graph, regions: Sequence[Region], together: Sequence[Together],
                 options: Options, begun: float | None) -> tuple[list[Verdict], Measuring]:
    """The verdicts by comparing with Inductor."""
    try:
        return judge(graph, regions, together, _while_running(options),
                     lambda region, seconds: _decisions(region, _within(options, seconds)),
                     Budget(_budget(options, begun)), _effort(options), options.tuning == "always")
    except Exception as failure:  # noqa: BLE001  such as a size that is unknown: not fused
        return [not_compared(failure)] * (len(regions) + len(together)), Measuring()


def _judge_launches(together: Sequence[Together], options: Options) -> list[Verdict]:
    """The verdicts on groups for the policy "always": those are kept whose plans launch them
    together."""
    how = _without_measuring(options)
    known: dict[str, Verdict] = {}

    def verdict(region: Region) -> Verdict:
        try:
            decisions = _decisions(region, how)
        except Error as error:
            return Verdict(False, str(error))
        if decisions and all(decision.together > 1 for decision in decisions):
            return Verdict(True, f"{launches(decisions)}: {_ALWAYS}")
        return Verdict(False, NOT_TOGETHER)
    for group in together:
        text = nameless(group.region.graph)
        known[text] = known.get(text) or verdict(group.region)
    return [known[nameless(group.region.graph)] for group in together]


def _effort(options: Options) -> int:
    if options.tuning not in ("measure", "always"):
        return NO_TUNING
    return THOROUGH if options.tuning_seconds > QUICK_SECONDS else QUICK


def _within(options: Options, seconds: float) -> Options:
    """The options for a region, for whose tuning so much time is left."""
    if options.tuning not in ("measure", "always"):
        return options
    if not seconds:
        return options._replace(tuning="known")
    return options._replace(tuning_seconds=options.tuning_seconds or min(seconds, QUICK_SECONDS))


def _budget(options: Options, begun: float | None) -> float:
    """The seconds for measuring a graph."""
    if options.measuring_seconds:
        return options.measuring_seconds
    from torch._inductor import config

    # Before this pass, Inductor has done about a third of its work.
    expected = 3 * (time.monotonic() - begun) if begun is not None else 0.0
    if config.max_autotune or config.max_autotune_gemm:
        expected *= 10
    return max(1.0, 0.4 * expected)


def _judge_by_policy(region: Region, options: Options) -> Verdict | None:
    """The verdict that needs no time; None: "measured" is to decide."""
    device = region.outputs[0].meta["val"].device
    if options.batch_invariant:
        return Verdict(True, "batch_invariant")
    if region.bare and (options.policy == "always" or not options.compare
                        or device.type != "cuda"):
        return Verdict(False, _NO_EPILOGUE)
    if options.policy == "always":
        return Verdict(True, _ALWAYS)
    if device.type != "cuda":
        return Verdict(False, f"on {device.type} only the policy \"always\" fuses")
    if len(region.outputs) > 1 and not options.compare:
        return Verdict(False, "it has several results, whose users Inductor may fuse")
    return None


def _judge_alone(region: Region, options: Options) -> Verdict:
    """The verdict for "measured" without a comparison with Inductor: by the tuner's choice."""
    try:
        decisions = _decisions(region, options)
    except Error as error:
        return Verdict(False, str(error))
    return judge_decisions(decisions, _MARGIN_BEFORE_MORE if around(region, ()) else _MARGIN)


def judge_decisions(decisions: tuple[Decision, ...], margin: float = _MARGIN) -> Verdict:
    """Whether the tuner's choice is faster than the unfused path by enough."""
    if any(decision.candidate.startswith("unfused") for decision in decisions):
        return Verdict(False, "the unfused path is the fastest")
    seconds = sum(decision.seconds for decision in decisions)
    unfused = sum(decision.unfused_seconds for decision in decisions)
    if not seconds or not unfused:
        sources = ", ".join(sorted({decision.source for decision in decisions}))
        return Verdict(True, f"chosen by {sources}, not measured")
    times = f"{microseconds(seconds)}, unfused {microseconds(unfused)}"
    if seconds < unfused * margin:
        return Verdict(True, f"it took {times}", seconds, unfused, "unfused", unfused)
    return Verdict(False, f"it is not faster than the unfused path: {times}", seconds, unfused,
                   "unfused", unfused)


def _decisions(region: Region, options: Options) -> tuple[Decision, ...]:
    """The tuner's decisions for the sizes at hand."""
    device = region.outputs[0].meta["val"].device
    plan = compile_plan(nameless(region.graph), str(device), options.mode, options.tuning,
                        options.tuning_seconds or QUICK_SECONDS, 0, None)
    return plan.prepare(**sizes_at_hand(region, plan)).decisions


def sizes_at_hand(region: Region, plan: Plan) -> dict[str, int]:
    """The values that the symbols of a region's plan have in its graph.

    Raises:
        Error: One of them is unknown.
    """
    sizes: dict[str, int] = {}
    for layout, node in zip(engine_of(plan).signature.inputs, region.inputs):
        for dim, size in zip(layout.shape, node.meta["val"].shape):
            if linear := dim.linear():
                symbol, factor, offset = linear
                sizes.setdefault(symbol, (hint(size) - offset) // factor)
    if missing := set(plan.symbols) - set(sizes):
        raise Error(f"size {sorted(missing)[0]} is unknown while compiling")
    return sizes


def _without_measuring(options: Options) -> Options:
    """The options by which kernels are chosen from the database or by the model."""
    return options if options.tuning in ("unfused", "model") else options._replace(tuning="known")


def _while_running(options: Options) -> Run:
    """How calls choose kernels; no call measures."""
    return Run(contract(options.mode, options.batch_invariant), _without_measuring(options).tuning)
