"""Times launches that other ranks make, too: how often each is called depends on no rank's clock
alone, so that all ranks make the same calls."""
from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping
from typing import NamedTuple

import torch

from .._timing import captured, once
from .exchange import Launch
from .ranks import GroupRanks

_numbers = itertools.count(1)
_comparison = 0
# Ranks begin a turn some ten microseconds apart, which must be little beside it.
_WARM_UPS, _TURNS, _TURN_SECONDS, _MOST_CALLS = 2, 7, 2e-3, 64


class Seconds(NamedTuple):
    """The times of one call: in CUDA graphs, without the host's part, and called directly. None: it
    cannot be captured."""

    captured: float | None
    direct: float


def is_timing() -> bool:
    """Whether calls are made to be timed alone: CUDA graphs of them are not replayed later."""
    return _comparison != 0


def comparison() -> int:
    """The number of the comparison that a call is made for; 0: for none."""
    return _comparison


def compete(ranks: GroupRanks, launches: Mapping[str, Launch],
            cuda: bool) -> dict[str, Seconds]:
    """The slowest rank's median time of each launch, in turns; the same on all ranks.

    Raises:
        Error: A rank ended, or did not answer.
    """
    global _comparison
    _comparison = next(_numbers)
    try:
        return _compete(ranks, launches, cuda)
    finally:
        _comparison = 0


def _compete(ranks: GroupRanks, launches: Mapping[str, Launch],
             cuda: bool) -> dict[str, Seconds]:
    for launch in launches.values():
        for _ in range(_WARM_UPS):
            launch()
    longest = _slowest(ranks, {name: once(launch, 1, cuda) for name, launch in launches.items()})
    calls = {name: max(1, min(_MOST_CALLS, int(_TURN_SECONDS / max(seconds, 1e-9))))
             for name, seconds in longest.items()}
    direct = _in_turns(ranks, launches, calls, cuda)
    if not cuda:
        return {name: Seconds(seconds, seconds) for name, seconds in direct.items()}
    graphs = {name: _captured(launch, calls[name]) for name, launch in launches.items()}
    # A rank must not replay what another rank cannot.
    if not all(ranks.gather(all(graphs.values()))):
        return {name: Seconds(None, seconds) for name, seconds in direct.items()}
    replays = {name: graph.replay for name, graph in graphs.items() if graph is not None}
    replayed = _in_turns(ranks, replays, dict.fromkeys(calls, 1), cuda)
    return {name: Seconds(replayed[name] / calls[name], seconds)
            for name, seconds in direct.items()}


def _in_turns(ranks: GroupRanks, launches: Mapping[str, Launch], calls: Mapping[str, int],
              cuda: bool) -> dict[str, float]:
    """The slowest rank's median of each launch; ``calls``: how many one after the other."""
    names = list(launches)
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(_TURNS):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            times[name].append(once(launches[name], calls[name], cuda))
    return _slowest(ranks, {name: statistics.median(each) for name, each in times.items()})


def _slowest(ranks: GroupRanks, own: dict[str, float]) -> dict[str, float]:
    """The largest of the ranks' times of each launch."""
    every = ranks.gather(own)
    return {name: max(each[name] for each in every) for name in own}


def _captured(launch: Launch, count: int) -> torch.cuda.CUDAGraph | None:
    """A CUDA graph of so many launches; None: they cannot be captured."""
    try:
        return captured(launch, count)
    except RuntimeError:  # such as a backend's whose collectives wait on the host
        return None
