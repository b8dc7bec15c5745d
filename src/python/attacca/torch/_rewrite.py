"""Decides by the policy which regions of an FX graph are fused, and replaces them."""
from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypedDict, get_args

import torch

from .. import _arguments
from .._arguments import Mode, Tuning
from .._compile import compile_plan, contract
from .._errors import Error
from .._plan import Decision, Plan, engine_of
from .._together import ranks_of
from . import _agree, _logs, _report
from ._compare import Run, Verdict, microseconds
from ._graph import kernels
from ._graph.collectives import merge_gathers
from ._graph.configurations import fastest
from ._graph.exchanges import claim
from ._graph.regions import (
    Found,
    Region,
    find,
    is_product_op,
    operations,
    reading,
    writes_in_place,
)
from ._graph.replace import moves_collectives, remove_unused, replace
from ._graph.static import hint
from ._graph.surroundings import around
from ._judge import NO_TUNING, QUICK, THOROUGH, Budget, judge, not_compared
from ._ops.region import nameless
from ._report_view import Left, Measuring

Policy = Literal["measured", "always"]
POLICIES: tuple[str, ...] = get_args(Policy)
# Without a comparison with Inductor, a fused region must take less than _MARGIN of the unfused
# path's time, and less than _MARGIN_BEFORE_MORE if Inductor could fuse the region's epilogue with
# what follows it.
_MARGIN, _MARGIN_BEFORE_MORE = 0.98, 0.9


class OptionsGiven(TypedDict, total=False):
    """The options of :class:`Options` by name."""

    policy: Policy
    compare: bool
    kernels: bool
    overlap: bool
    mode: Mode
    tuning: Tuning
    tuning_seconds: float
    measuring_seconds: float
    batch_invariant: bool
    group: Any


class Options(NamedTuple):
    """The options of ``torch.compile(..., backend="attacca", options={...})`` besides Inductor's.

    Attributes:
        policy: "measured": a region is fused if that makes the graph faster on this GPU; on the CPU
            nothing is fused. "always": every region is fused.
        compare: What "measured" compares a region with. True: Inductor. First the region is timed
            beside its products alone, which Inductor's code for it contains. If that does not
            decide, Inductor compiles the region with and without Attacca's call, together with the
            ops around it that Inductor may fuse with it. Equal regions are timed once for all
            models, at the sizes at hand, and the result is kept in Attacca's cache. False, or
            ATTACCA_TORCH_COMPARE=0 in the environment: the unfused path, which is the vendor
            library's product and one pointwise kernel.
        kernels: Whether epilogues may be fused into users' Triton kernels.
        overlap: Whether regions beside a collective become one with it, as
            :func:`all_gather_matmul` and its like are: rows travel while others are multiplied.
            These regions are not measured, so that all ranks decide alike; give all ranks the same.
        mode: "fp32" or "eager", as for :func:`attacca.compile`.
        tuning: As for :func:`attacca.compile`, for the sizes at hand while compiling. By default
            what is not in the database is measured. Calls with other sizes measure nothing: they
            use the database, which :func:`attacca.tune` fills, or the cost model.
        tuning_seconds: The time limit for measuring the kernels of one region, in seconds; 0: what
            is left of measuring_seconds and 0.6 more, at most 5. With 5 or less, only the kernels
            that the cost model ranks best are timed, and a later compilation with more seconds
            measures again.
        measuring_seconds: The time limit for measuring one graph, in seconds; 0: 0.4 of the
            time that Inductor alone is expected to take, at least 1. When it is over, the regions
            that are not decided yet get the kernels that the cost model chooses: these are timed
            beside the region's products alone, and what that does not decide is left to Inductor.
            Later compilations take over such a verdict, unless they have twice the time or the
            tuning database has changed.
        batch_invariant: As for :func:`attacca.compile`: every product that Attacca can compute is
            computed by it, also one without an epilogue, on every device, and nothing is measured.
            The report names the products that are left, which may depend on the number of rows as
            may reductions by Inductor (docs/numerics.md). Inductor's ``shape_padding`` and
            ``coordinate_descent_tuning``, which change products by their shapes, are off.
        group: A process group of ``torch.distributed`` whose ranks compile the same graphs in the
            same order: rank 0 measures and decides for all, and its choices of kernels for the
            sizes at hand go to every rank's tuning database. Where ranks have different regions,
            none is fused. Inductor's cache is not used, since a rank that finds a graph there does
            not wait for the others. None: each rank decides for itself.
    """

    policy: Policy = "measured"
    compare: bool = os.environ.get("ATTACCA_TORCH_COMPARE", "1") != "0"
    kernels: bool = True
    overlap: bool = False
    mode: Mode = "fp32"
    tuning: Tuning = "measure"
    tuning_seconds: float = 0.0
    measuring_seconds: float = 0.0
    batch_invariant: bool = False
    group: Any = None

    @classmethod
    def of(cls, given: dict[str, Any]) -> Options:
        """The options given by name, and the defaults of the others.

        Raises:
            Error: A value is unknown, out of range, or has no effect together with the others.
        """
        if given.get("batch_invariant") and "policy" not in given:
            given = {**given, "policy": "always"}
        options = cls(**given).check()
        for name, cause in _without_effect(options):
            if name in given:
                raise Error(f"{name}={given[name]!r} has no effect with {cause}", name,
                            "leave one of them out")
        return options

    def check(self) -> Options:
        """Checks the values; returns the options.

        Raises:
            Error: A value is unknown or out of range; the group is none, or this process is not in
                it.
        """
        _arguments.choice(self.policy, POLICIES, "policy")
        for name, value in (("compare", self.compare), ("kernels", self.kernels),
                            ("overlap", self.overlap), ("batch_invariant", self.batch_invariant)):
            if not isinstance(value, bool):
                raise Error(f"{name} is {value!r}", name, "give True or False")
        _arguments.choice(self.mode, _arguments.MODES, "mode")
        _arguments.choice(self.tuning, _arguments.TUNINGS, "tuning")
        if self.batch_invariant and self.policy != "always":
            raise Error("policy='measured' chooses by the number of rows", "policy",
                        "leave it out with batch_invariant=True")
        if self.batch_invariant and self.overlap:
            raise Error("products that overlap with collectives are not batch-invariant",
                        "overlap", "leave out one of overlap and batch_invariant")
        if self.group is not None:
            ranks_of(self.group)
        return self._replace(
            tuning_seconds=_arguments.seconds(self.tuning_seconds, "tuning_seconds"),
            measuring_seconds=_arguments.seconds(self.measuring_seconds, "measuring_seconds"))


def _without_effect(options: Options) -> Iterator[tuple[str, str]]:
    """Options whose values have no effect, each with the option that causes it."""
    measures = options.tuning in ("measure", "always")
    if options.policy == "always":
        if options.compare:
            yield "compare", "policy='always', which compares nothing"
        if measures:
            yield "tuning", "policy='always', which measures nothing"
        for name in ("tuning_seconds", "measuring_seconds"):
            if getattr(options, name):
                yield name, "policy='always', which measures nothing"
        if options.group is not None:
            yield "group", "policy='always', which measures nothing"
    else:
        if options.tuning_seconds and not measures:
            yield "tuning_seconds", f"tuning={options.tuning!r}, which measures nothing"
        if options.measuring_seconds and not options.compare:
            yield "measuring_seconds", "compare=False, which times nothing beside Inductor"


_QUICK = 5.0  # seconds in which kernels of one region are timed: tune/options.hpp says which
_NO_EPILOGUE = "a product without an epilogue"


def rewrite(graph: torch.fx.Graph, options: Options, begun: float | None = None) -> int:
    """Replaces regions by calls of the custom op, and adds to the report.

    Args:
        graph: A graph of ATen's ops.
        options: The options.
        begun: When Inductor began to compile, by time.monotonic(); None: it is not known.

    Returns:
        The number of regions replaced.
    """
    if not writes_in_place(graph):
        merge_gathers(graph)
    choose = fastest if options.policy == "measured" else kernels.first
    stand_ins, unused = kernels.stand_in(graph, choose) if options.kernels else ([], [])
    found = find(graph)
    fused: list[_report.Entry] = []
    if options.overlap:
        found = _overlap(graph, found, options, fused)
    verdicts, measuring = _judge_on_all(graph, found.regions, options, begun)
    left = [Left(each.node, "triton kernel", each.reason) for each in unused]
    products = {node.name: node for node in graph.nodes if is_product_op(node)}
    left += [Left(*each, operations=operations(products[each.node])
                  if each.node in products else 0.0) for each in found.left]
    replaced: dict[torch.fx.Node, torch.fx.Node] = {}
    for region, verdict in zip(found.regions, verdicts):
        if verdict.keep:
            region = reading(region, replaced)
        if verdict.keep and moves_collectives(region):
            left.append(Left(region.outputs[0].name, "region",
                             "its call would move a collective behind another"))
        elif verdict.keep:
            fused.append(_report.Entry(tuple(n.name for n in region.covers),
                                        tuple(n.name for n in region.outputs),
                                        str(region.outputs[0].meta["val"].device), verdict.reason,
                                        verdict.seconds, verdict.other_seconds,
                                        verdict.unfused_seconds, verdict.against, region.graph))
            replaced.update(replace(graph, region, *_while_running(options)))
        else:
            kind = "product" if verdict.reason == _NO_EPILOGUE else "region"
            left.append(Left(region.outputs[0].name, kind, verdict.reason, verdict.other_seconds,
                             verdict.seconds,
                             sum(operations(n) for n in region.covers if is_product_op(n)),
                             verdict.unfused_seconds, verdict.against))
    if options.batch_invariant:
        left = _naming_variant(left, products, {name for entry in fused for name in entry.nodes})
    _logs.decided([(entry.outputs[0], entry.reason) for entry in fused],
                  [(each.node, each.reason) for each in left],
                  f"{len(fused)} of {len(found.regions)} regions fused; {measuring}")
    alone = not fused and _left_by_policy(found.regions, options)
    _report.add(fused, left, measuring, "", _report.CPU_POLICY if alone else "")
    if fused:
        remove_unused(graph, {node for region, verdict in zip(found.regions, verdicts)
                              if verdict.keep for node in region.covers})
    kernels.restore(graph, stand_ins)
    return len(fused)


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


def _judge_on_all(graph: torch.fx.Graph, regions: Sequence[Region], options: Options,
                  begun: float | None) -> tuple[list[Verdict], Measuring]:
    """:func:`_judge_all`, by rank 0 if the options name a group."""
    def alone() -> tuple[list[Verdict], Measuring]:
        return _judge_all(graph, regions, options, begun)

    def sizes_of(region: Region) -> dict[str, int]:
        plan = compile_plan(nameless(region.graph), "cpu", options.mode, "known", 0, 1, None)
        return sizes_at_hand(region, plan)
    if options.group is None:
        return alone()
    return _agree.decide(options.group, regions, alone, options.mode, sizes_of)


def _judge_all(graph: torch.fx.Graph, regions: Sequence[Region], options: Options,
               begun: float | None) -> tuple[list[Verdict], Measuring]:
    """A verdict for each region, and what measuring took."""
    verdicts = [_judge_by_policy(region, options) for region in regions]
    open_ = [i for i, verdict in enumerate(verdicts) if verdict is None]
    measuring = Measuring()
    if open_ and options.compare:
        try:
            compared, measuring = judge(
                graph, [regions[i] for i in open_], _while_running(options),
                lambda region, seconds: _decisions(region, _within(options, seconds)),
                Budget(_budget(options, begun)),
                _effort(options), options.tuning == "always")
        except Exception as failure:  # noqa: BLE001  such as a size that is unknown: not fused
            compared = [not_compared(failure)] * len(open_)
    else:
        compared = [_judge_alone(regions[i], options) for i in open_]
    for i, verdict in zip(open_, compared):
        verdicts[i] = verdict
    return [verdict for verdict in verdicts if verdict is not None], measuring


def _effort(options: Options) -> int:
    if options.tuning not in ("measure", "always"):
        return NO_TUNING
    return THOROUGH if options.tuning_seconds > _QUICK else QUICK


def _within(options: Options, seconds: float) -> Options:
    """The options for a region, for whose tuning so much time is left."""
    if options.tuning not in ("measure", "always"):
        return options
    if not seconds:
        return options._replace(tuning="known")
    return options._replace(tuning_seconds=options.tuning_seconds or min(seconds, _QUICK))


def _budget(options: Options, begun: float | None) -> float:
    """The seconds for measuring a graph."""
    if options.measuring_seconds:
        return options.measuring_seconds
    from torch._inductor import config

    # Before this pass, Inductor has done about a quarter of its work.
    expected = 4 * (time.monotonic() - begun) if begun is not None else 0.0
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
        return Verdict(True, "the policy is always")
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
                        options.tuning_seconds or _QUICK, 0, None)
    return plan.prepare(**sizes_at_hand(region, plan)).decisions


def sizes_at_hand(region: Region, plan: Plan) -> dict[str, int]:
    """The values that the symbols of a region's plan have in its graph.

    Raises:
        Error: One of them is unknown.
    """
    sizes: dict[str, int] = {}
    for layout, node in zip(engine_of(plan).signature.inputs, region.inputs):
        for dim, size in zip(layout.shape, node.meta["val"].shape):
            linear = dim.linear()
            if linear is not None and linear[1:] == (1, 0):
                sizes[linear[0]] = hint(size)
    if missing := set(plan.symbols) - set(sizes):
        raise Error(f"size {sorted(missing)[0]} is unknown while compiling")
    return sizes


def _while_running(options: Options) -> Run:
    """How calls choose kernels: from the database or by the model; no call measures."""
    return Run(contract(options.mode, options.batch_invariant),
               options.tuning if options.tuning in ("unfused", "model") else "known")
