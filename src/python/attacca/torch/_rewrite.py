"""Decides by the policy which regions of an FX graph are fused, and replaces them."""
from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypedDict, get_args

import torch

from .. import _arguments
from .._arguments import Mode, Tuning
from .._compile import compile_plan
from .._errors import Error
from .._plan import Decision, engine_of
from . import _report
from ._compare import Run, Verdict, Verdicts, compare, microseconds
from ._graph import kernels
from ._graph.importer import Importer
from ._graph.regions import VIEWS, Region, explained, find, is_product_op, reading
from ._graph.replace import remove_unused, replace
from ._graph.static import hint

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
    mode: Mode
    tuning: Tuning
    tuning_seconds: float


class Options(NamedTuple):
    """The options of ``torch.compile(..., backend="attacca", options={...})`` besides Inductor's.

    Attributes:
        policy: "measured": a region is fused if that makes the graph faster on this GPU; on the CPU
            nothing is fused. "always": every region is fused.
        compare: What "measured" compares with. True: Inductor. First each region is timed against
            Inductor's code for it, then the whole graph with its regions against Inductor's, and
            regions are dropped until the graph with regions is faster. The sizes are those at hand.
            The graph is compiled at least twice, but once only: the result is kept in Attacca's
            cache. False, or ATTACCA_TORCH_COMPARE=0 in the environment: the unfused path, which is
            the vendor library's product and one pointwise kernel.
        kernels: Whether epilogues may be fused into users' Triton kernels.
        mode: "fp32" or "eager", as for :func:`attacca.compile`.
        tuning: As for :func:`attacca.compile`, for the sizes at hand while compiling. By default
            what is not in the database is measured. Calls with other sizes measure nothing: they
            use the database, which :func:`attacca.tune` fills, or the cost model.
        tuning_seconds: The time limit for measuring one region, in seconds; 0: 60.
    """

    policy: Policy = "measured"
    compare: bool = os.environ.get("ATTACCA_TORCH_COMPARE", "1") != "0"
    kernels: bool = True
    mode: Mode = "fp32"
    tuning: Tuning = "measure"
    tuning_seconds: float = 0.0

    @classmethod
    def of(cls, given: dict[str, Any]) -> Options:
        """The options given by name, and the defaults of the others.

        Raises:
            Error: A value is unknown, out of range, or has no effect together with the others.
        """
        options = cls(**given).check()
        for name, cause in _without_effect(options):
            if name in given:
                raise Error(f"{name}={given[name]!r} has no effect with {cause}", name,
                            "leave one of them out")
        return options

    def check(self) -> Options:
        """Checks the values; returns the options.

        Raises:
            Error: A value is unknown or out of range.
        """
        _arguments.choice(self.policy, POLICIES, "policy")
        for name, value in (("compare", self.compare), ("kernels", self.kernels)):
            if not isinstance(value, bool):
                raise Error(f"{name} is {value!r}", name, "give True or False")
        _arguments.choice(self.mode, _arguments.MODES, "mode")
        _arguments.choice(self.tuning, _arguments.TUNINGS, "tuning")
        return self._replace(tuning_seconds=_arguments.seconds(self.tuning_seconds,
                                                               "tuning_seconds"))


def _without_effect(options: Options) -> Iterator[tuple[str, str]]:
    """Options whose values have no effect, each with the option that causes it."""
    measures = options.tuning in ("measure", "always")
    if options.policy == "always":
        if options.compare:
            yield "compare", "policy='always', which compares nothing"
        if measures:
            yield "tuning", "policy='always', which measures nothing"
        if options.tuning_seconds:
            yield "tuning_seconds", "policy='always', which measures nothing"
    elif options.tuning_seconds and not measures:
        yield "tuning_seconds", f"tuning={options.tuning!r}, which measures nothing"


def rewrite(graph: torch.fx.Graph, options: Options) -> int:
    """Replaces regions by calls of the custom op, and adds to the report. Returns the number of
    regions replaced."""
    stand_ins, unused = kernels.stand_in(graph) if options.kernels else ([], [])
    found = find(graph)
    verdicts, note = _judge_all(graph, found.regions, options)
    fused: list[_report.Entry] = []
    left = [_report.Left(each.node, "triton kernel", each.reason) for each in unused]
    left += [_report.Left(*each) for each in found.left]
    replaced: dict[torch.fx.Node, torch.fx.Node] = {}
    for region, verdict in zip(found.regions, verdicts):
        if verdict.keep:
            region = reading(region, replaced)
            fused.append(_report.Entry(tuple(n.name for n in region.covers),
                                        tuple(n.name for n in region.outputs),
                                        _explained(region), verdict.reason, verdict.seconds,
                                        verdict.other_seconds, region.graph))
            replaced.update(replace(graph, region, *_while_running(options)))
        else:
            left.append(_report.Left(region.outputs[0].name, "region", verdict.reason))
    alone = not fused and _left_by_policy(found.regions, options)
    _report.add(fused, left, note, _report.CPU_POLICY if alone else "")
    if fused:
        remove_unused(graph, {node for region in found.regions for node in region.covers})
    kernels.restore(graph, stand_ins)
    return len(fused)


def _left_by_policy(regions: Sequence[Region], options: Options) -> bool:
    """Whether regions are left because they are not on a GPU."""
    return options.policy == "measured" and any(r.outputs[0].meta["val"].device.type != "cuda"
                                                for r in regions)


def _explained(region: Region) -> str:
    text = explained(region.graph, region.outputs[0].meta["val"].device).explain_text()
    return text[text.index("region 1"):].strip()


def _judge_all(graph: torch.fx.Graph, regions: Sequence[Region],
               options: Options) -> tuple[list[Verdict], str]:
    """A verdict for each region, and a note on the whole graph."""
    verdicts = [_judge(region, options) for region in regions]
    kept = [i for i, verdict in enumerate(verdicts) if verdict.keep]
    if not kept or not options.compare or options.policy != "measured":
        return verdicts, ""
    try:
        compared = compare(graph, [regions[i] for i in kept], _while_running(options))
    except Exception as failure:  # noqa: BLE001  whatever Inductor or a kernel may raise: not fused
        said = " ".join(str(failure).split())[:300]
        reason = f"not compared with Inductor: {type(failure).__name__}: {said}"
        compared = Verdicts([Verdict(False, reason)] * len(kept), "")
    for i, verdict in zip(kept, compared.regions):
        verdicts[i] = verdict
    return verdicts, compared.note


def _judge(region: Region, options: Options) -> Verdict:
    """The verdict by the policy, and for "measured" by the tuner's choice."""
    device = region.outputs[0].meta["val"].device
    if options.policy == "always":
        return Verdict(True, "the policy is always")
    if device.type != "cuda":
        return Verdict(False, f"on {device.type} only the policy \"always\" fuses")
    if len(region.outputs) > 1 and not options.compare:
        return Verdict(False, "it has several results, whose users Inductor may fuse")
    try:
        decisions = _decisions(region, device, options)
    except Error as error:
        return Verdict(False, str(error))
    if options.compare:
        if any(decision.candidate.startswith("unfused") for decision in decisions):
            return Verdict(False, "the unfused path is the fastest")
        return Verdict(True, "")
    return judge_decisions(decisions, _MARGIN_BEFORE_MORE if _feeds_more(region) else _MARGIN)


def _feeds_more(region: Region) -> bool:
    """Whether an op that Inductor compiles to a kernel reads the result."""
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
        return Verdict(True, f"it took {times}", seconds, unfused)
    return Verdict(False, f"it is not faster than the unfused path: {times}", seconds, unfused)


def _decisions(region: Region, device: torch.device, options: Options) -> tuple[Decision, ...]:
    """The tuner's decisions for the sizes at hand."""
    plan = compile_plan(region.graph, str(device), options.mode, options.tuning,
                        options.tuning_seconds, 0, None)
    sizes: dict[str, int] = {}
    for layout, node in zip(engine_of(plan).signature.inputs, region.inputs):
        for dim, size in zip(layout.shape, node.meta["val"].shape):
            linear = dim.linear()
            if linear is not None and linear[1:] == (1, 0):
                sizes[linear[0]] = hint(size)
    if missing := set(plan.symbols) - set(sizes):
        raise Error(f"size {sorted(missing)[0]} is unknown while compiling")
    return plan.prepare(**sizes).decisions


def _while_running(options: Options) -> Run:
    """How calls choose kernels: from the database or by the model; no call measures."""
    return Run(options.mode, options.tuning if options.tuning in ("unfused", "model") else "known")
