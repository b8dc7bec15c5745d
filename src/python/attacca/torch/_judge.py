"""Decides by measuring which regions of a graph are kept.

Equal regions in equal surroundings are measured once, for all layers and models, and the verdict is
kept in Attacca's cache. What is not known yet is measured within a budget of time: while kernels
are built, those that are ready are timed, and Inductor compiles what may have to be compared.

Regions that may be launched together are decided in this order:

1. The kernels of each region are chosen and tuned, which is needed in any case.
2. If a plan of all of them launches them together, its call is timed, first beside calls of each
   region, then as any region's. The plan itself tunes nothing.
3. If it is kept, its regions are not compared themselves. Otherwise they are, as other regions.

So the call is not slower than all of its regions fused one by one, nor than all of them left to
Inductor. Some fused and some left are not compared with it.
"""
from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, NamedTuple

import torch

from .._errors import Error
from .._plan import Decision
from .._problems import kept_workers
from ._compare import (
    Around,
    Run,
    Verdict,
    against_inductor,
    against_parts,
    against_products,
    inductors,
    is_atens,
)
from ._graph.nodes import is_product_op, operations
from ._graph.region import Region
from ._graph.static import Static
from ._graph.surroundings import around, described, with_surroundings
from ._graph.together import Together
from ._ops.region import uncounted
from ._report_view import Measuring
from ._timing import NoMemory
from ._verdicts import file_of, keep_verdict, recall_verdict

# Regions whose kernels are built at the same time.
_WORKERS = max(4, min(12, len(os.sched_getaffinity(0)) * 3 // 4))
_COMPILING = 0.4  # seconds in which Inductor compiles most regions on an idle machine
_NO_TIME = "not measured: the time for measuring was over"


class Budget:
    """The time that measuring one graph may take."""

    def __init__(self, seconds: float):
        self.seconds, self._begin = seconds, time.monotonic()
        self._compiling: float | None = None  # seconds that a region took last

    def spent(self) -> float:
        """The seconds since this object was made."""
        return time.monotonic() - self._begin

    def left(self) -> float:
        """The seconds that are left; at least 0."""
        return max(0.0, self.seconds - self.spent())

    def allows(self, graphs: int) -> bool:
        """Whether so many more graphs can be compiled to compare: they are expected to take as long
        as the last one did here."""
        needed = _COMPILING if self._compiling is None else max(graphs, 1) * self._compiling
        return self.left() >= needed

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """A context in which Inductor compiles a graph to compare."""
        begin = self.spent()
        try:
            yield
        finally:
            self._compiling = self.spent() - begin


class _Group:
    """Equal regions in equal surroundings, or equal groups of regions that may be launched
    together."""

    def __init__(self, around: Around):
        self.around = around
        self.members: list[int] = []  # places among what is judged
        self.regions: set[int] = set()  # places of the regions among it
        self.verdict: Verdict | None = None
        self.lasts = True  # the verdict may be kept
        self.unsettled = False  # with more time, or another choice of kernels, it may change
        self.decisions: Sequence[Decision] = ()
        self.unfused_seconds = 0.0
        self.theirs: tuple[Static, Callable[[list[Any]], Any]] | None = None

    @property
    def region(self) -> Region:
        return self.around.region

    @property
    def is_together(self) -> bool:
        return bool(self.around.parts)

    def weight(self) -> tuple[bool, float]:
        """A sort key, larger for groups that may gain more."""
        work = sum(operations(node) for node in self.region.covers if is_product_op(node))
        return not is_atens(self.region), work * len(self.members)

    def decide(self, verdict: Verdict, lasts: bool = True) -> None:
        if self.is_together and verdict.keep:
            verdict = verdict._replace(reason=f"{launches(self.decisions)}: {verdict.reason}")
        self.verdict = verdict._replace(unfused_seconds=self.unfused_seconds)
        self.lasts = lasts


class _Chosen(NamedTuple):
    """How a region's kernels were chosen."""

    decisions: Sequence[Decision]
    no_time: bool  # to tune

    def is_modelled(self) -> bool:
        """Whether the model chose what tuning, with more time, may choose otherwise."""
        return any(decision.source == "model" and (self.no_time or decision.remark)
                   for decision in self.decisions)


# Chooses and builds a region's kernels; raises Error. It may take so many seconds to tune; 0: it
# tunes nothing.
Decide = Callable[[Region, float], Sequence[Decision]]
# In less time no tuning is begun: to start a process and to build the kernels takes most of it
# (docs/benchmarks/gpu-cold.md: half a second for each kernel). One that was begun may take
# _OVERRUN longer than the budget: if it is stopped it has found nothing.
_LEAST_TUNING, _OVERRUN = 1.8, 0.6


# How thoroughly kernels are tuned. A verdict of one effort is used for lower ones, too.
NO_TUNING, QUICK, THOROUGH = range(3)


_NO_GAIN = "not timed: no kernel is expected to be faster than the unfused path"


NOT_TOGETHER = "its products are not launched together"
_ELSEWHERE = "it is launched together with others"


def launches(decisions: Sequence[Decision]) -> str:
    """By how many launches several products are computed, such as "3 products in one launch"."""
    count = round(sum(1 / decision.together for decision in decisions))
    said = "one launch" if count == 1 else f"{count} launches"
    return f"{len(decisions)} products in {said}"


def judge(graph: torch.fx.Graph, regions: Sequence[Region], together: Sequence[Together], run: Run,
          decide: Decide, budget: Budget, effort: int = QUICK,
          again: bool = False) -> tuple[list[Verdict], Measuring]:
    """Decides which regions are kept; the graph is not changed.

    Args:
        graph: The graph of the regions.
        regions: The regions.
        together: Those of them that may be launched together. A region is not kept for itself if it
            is kept in one of these.
        run: How the regions' calls choose kernels.
        decide: Chooses and builds a region's kernels. Called in several threads.
        budget: When it is over, nothing more is tuned or compiled to compare: the cost model's
            choice is timed beside the region's products alone. Such a verdict holds until there is
            twice the time, or the tuning database changes.
        effort: How thoroughly ``decide`` tunes: NO_TUNING, QUICK or THOROUGH.
        again: Whether regions that are known are measured again.

    Returns:
        A verdict for each region, then for each of ``together``, and what deciding took.
    """
    groups = _groups(graph, regions, together)
    compiled = 0
    for key, group in groups.items():
        for known in range(THOROUGH, effort - 1, -1) if not again else ():
            group.verdict = group.verdict or recall_verdict(
                file_of(key, group.region, run, known), budget.seconds)
    launched = _launched_together(groups.values())
    unknown = [group for group in groups.values()
               if group.verdict is None and not group.regions <= launched]
    unknown.sort(key=_Group.weight, reverse=True)
    if unknown:
        with _as_if_nothing_ran(unknown[0].region.outputs[0].meta["val"].device):
            compiled = _measure(unknown, launched, run, decide, budget, effort)
        for key, group in groups.items():
            if group in unknown and group.lasts and group.verdict is not None:
                keep_verdict(file_of(key, group.region, run, effort), group.verdict,
                             group.unsettled, budget.seconds)
    return _verdicts(groups.values()), Measuring(
        budget.spent(), len(groups), len(groups) - len(unknown),
        sum(any(each.source == "measured" for each in group.decisions[:1]) for group in unknown),
        compiled)


def _groups(graph: torch.fx.Graph, regions: Sequence[Region],
            together: Sequence[Together]) -> dict[str, _Group]:
    root = graph.owning_module
    assert root is not None
    taken = {node for region in regions for node in region.covers}
    alone: list[tuple[Region, Sequence[Region], Sequence[int]]] = [
        (region, (), (i,)) for i, region in enumerate(regions)]
    groups: dict[str, _Group] = {}
    for i, (region, parts, places) in enumerate([*alone, *((each.region, each.parts, each.members)
                                                           for each in together)]):
        near = [] if is_atens(region) else around(region, taken)
        key = described(with_surroundings(region, near)) + ("; together" if parts else "")
        group = groups.setdefault(key, _Group(Around(root, region, near, parts)))
        group.members.append(i)
        group.regions.update(places)
    return groups


def _launched_together(groups: Iterable[_Group]) -> set[int]:
    """The places of the regions that are kept in a group launched together."""
    return {place for group in groups if group.is_together and group.verdict is not None
            and group.verdict.keep for place in group.regions}


def _verdicts(groups: Collection[_Group]) -> list[Verdict]:
    """The verdicts on what was judged, in order."""
    found: dict[int, Verdict] = {}
    for group in groups:
        found.update(dict.fromkeys(group.members, group.verdict or Verdict(False, _NO_TIME)))
    launched = _launched_together(groups)
    return [Verdict(False, _ELSEWHERE) if place in launched else found[place]
            for place in range(len(found))]


@contextlib.contextmanager
def _as_if_nothing_ran(device: torch.device) -> Iterator[None]:
    """A context after which gradient mode, counters and random numbers are as before, and cached
    memory is freed."""
    cuda = [device] if device.type == "cuda" else []
    with torch.no_grad(), torch.utils._python_dispatch._disable_current_modes(), uncounted(), \
            torch.random.fork_rng(devices=cuda):
        try:
            yield
        finally:
            if cuda:
                torch.cuda.empty_cache()


# ---- Measuring


def _measure(groups: Sequence[_Group], launched: set[int], run: Run, decide: Decide,
             budget: Budget, effort: int) -> int:
    """Gives each group a verdict, except for regions that are launched together with others;
    ``launched``: these are known to be. Returns how many graphs were compiled in addition."""
    measured = _Measured(groups, launched, run, budget, effort)

    def choose(group: _Group) -> _Chosen:
        if group.is_together:
            wait([choices[other] for other in groups
                  if not other.is_together and other.regions & group.regions])
        left = budget.left()
        seconds = left + _OVERRUN if left >= _LEAST_TUNING else 0.0
        # Its regions are tuned by themselves, and one launch of several is not.
        return _Chosen(decide(group.region, 0.0 if group.is_together else seconds), seconds == 0)

    choices: dict[_Group, Future[_Chosen]] = {}
    # The timing processes end before the threads that started them.
    with ThreadPoolExecutor(_WORKERS) as pool, kept_workers():
        # A group that is launched together waits for others, which must not wait for its thread.
        for group in sorted(groups, key=lambda group: group.is_together):
            choices[group] = pool.submit(choose, group)
        while waiting := [group for group in choices if group not in measured.taken]:
            ready = _ready({group: choices[group] for group in waiting})
            for group in ready:
                measured.take(choices[group], group)
            if not ready and not measured.step():
                wait([choices[group] for group in waiting], return_when=FIRST_COMPLETED)
    while measured.step():
        pass
    return measured.compiled


def _ready(choices: Mapping[_Group, Future[_Chosen]]) -> list[_Group]:
    """The groups whose kernels are built."""
    return [group for group, choice in choices.items() if choice.done()]


class _Measured:
    """Decides groups, step by step, while the kernels of some are still built."""

    def __init__(self, groups: Sequence[_Group], launched: set[int], run: Run, budget: Budget,
                 effort: int):
        self.compiled = 0  # graphs
        self.taken: set[_Group] = set()  # whose kernels are chosen
        self._groups = sorted(groups, key=lambda group: not group.is_together)
        self._run, self._budget, self._effort = run, budget, effort
        self._launched = launched
        self._timed: set[_Group] = set()  # beside their products

    def take(self, choice: Future[_Chosen], group: _Group) -> None:
        """Notes how a group's kernels were chosen."""
        _take(choice, group, self._effort)
        self.taken.add(group)

    def step(self) -> bool:
        """Does one thing, if there is one that can be done now."""
        undecided = [group for group in self._groups if group.verdict is None
                     and not group.regions <= self._launched]
        together = [group for group in undecided if group.is_together]
        free = [group for group in undecided if group in self.taken and (
            group.is_together or not any(other.regions & group.regions for other in together))]
        for group in free:
            if group not in self._timed:
                self._timed.add(group)
                self._decide(group, partial(_against_products, group, self._run))
                return True
        for group in free:
            if self._budget.allows(bool(group.around.near) + (group.theirs is None)):
                self._decide(group, partial(self._against_inductor, group))
                return True
        for group in free:
            group.decide(_uncompared(group))
            group.unsettled = True
        return bool(free) or self._budget.allows(1) and self._compile_early(undecided)

    def _compile_early(self, undecided: Sequence[_Group]) -> bool:
        """Compiles with Inductor what may have to be compared, while kernels are built."""
        # The groups that the products' time rarely decides come first.
        for group in sorted(undecided, key=lambda group: not group.around.near):
            if group.theirs is None and group not in self.taken and not group.is_together \
                    and not is_atens(group.region):
                self._decide(group, partial(self._compile, group))
                return True
        return False

    def _compile(self, group: _Group) -> None:
        self.compiled += 1
        with self._budget.compiling():
            group.theirs = inductors(group.around)

    def _against_inductor(self, group: _Group) -> Verdict:
        if group.theirs is None:
            self._compile(group)
        self.compiled += bool(group.around.near)
        assert group.theirs is not None
        return against_inductor(group.around, self._run, *group.theirs)

    def _decide(self, group: _Group, compare: Callable[[], Verdict | None]) -> None:
        """Gives a group the verdict of a comparison, if it has one, or of its failure."""
        try:
            verdict = compare()
        except NoMemory as reason:
            group.decide(Verdict(False, f"not timed: {reason}"), lasts=False)
        except Exception as failure:  # noqa: BLE001  of Inductor or a kernel: not fused
            group.decide(not_compared(failure), lasts=False)
        else:
            if verdict is not None:
                group.decide(verdict)
                self._launched = self._launched | _launched_together([group])


def _against_products(group: _Group, run: Run) -> Verdict | None:
    verdict = against_parts(group.around, run) if group.is_together else None
    return verdict or against_products(group.around, run)


def _take(choice: Future[_Chosen], group: _Group, effort: int) -> None:
    """Notes how a group's kernels were chosen, or why they could not be or need not be."""
    try:
        chosen = choice.result()
    except Error as error:
        group.decide(Verdict(False, str(error)), lasts=False)
    else:
        group.decisions = chosen.decisions
        group.unfused_seconds = sum(decision.unfused_seconds for decision in chosen.decisions)
        group.unsettled = effort == QUICK and chosen.is_modelled()
        if group.is_together:
            if all(decision.together == 1 for decision in chosen.decisions):
                group.decide(Verdict(False, NOT_TOGETHER))
                group.unsettled = True  # other choices of kernels may be launched together
        elif effort == QUICK and _gains_nothing(chosen, group.region):
            group.decide(Verdict(False, _NO_GAIN))


def _uncompared(group: _Group) -> Verdict:
    """The verdict when the time is over: a region is kept whose kernels were timed before, on this
    machine or where Attacca was made, and took clearly less than the unfused path."""
    seconds = sum(decision.seconds for decision in group.decisions)
    timed = all(decision.seconds > 0 and decision.unfused_seconds > 0
                for decision in group.decisions)
    clearly_faster = timed and 0 < seconds <= _CLEAR * group.unfused_seconds
    if not clearly_faster or group.is_together or is_atens(group.region):
        return Verdict(False, _NO_TIME)
    share = seconds / group.unfused_seconds
    return Verdict(True, f"{_NO_TIME}; when tuned, {share:.2f} of the unfused path's time",
                   seconds, group.unfused_seconds, "the unfused path")


# Inductor's code may be faster than our unfused path: where its grouped product is, that one takes
# up to 1.35 times as long.
_CLEAR = 0.75


def _gains_nothing(chosen: _Chosen, region: Region) -> bool:
    """Whether the cost model chose the unfused path and Inductor's code calls the same product.

    It calls another one if the vendor library's own epilogue computes a part of the region, or if
    ATen does not take products of the dtype from that library. A product alone that was not timed,
    although there was time, is expected to gain less than noise.
    """
    modelled = all(decision.source == "model" and not decision.remark
                   for decision in chosen.decisions)
    unfused = all(_UNFUSED.fullmatch(decision.candidate) for decision in chosen.decisions)
    if is_atens(region):
        return modelled and (unfused or not chosen.no_time)
    return (modelled and unfused
            and all(node.meta["val"].dtype in _FLOATS for node in region.inputs))


_UNFUSED = re.compile(r"unfused( algorithm=\d+)?")  # nothing absorbed
_FLOATS = (torch.float16, torch.bfloat16, torch.float32)


def not_compared(failure: Exception) -> Verdict:
    """The verdict where Inductor or a kernel failed."""
    what = " ".join(str(failure).split())[:300]
    return Verdict(False, f"not compared with Inductor: {type(failure).__name__}: {what}")
