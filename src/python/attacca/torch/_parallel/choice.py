"""Which way ranks exchange rows: the fastest, measured once for like calls, alike on all ranks."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist

from ..._errors import Error
from .._logs import log
from .._ops.region import uncounted
from .clock import Seconds, compete
from .exchange import PIECES, WHOLE
from .ranks import ranks_of

# Another way must take less than this part of the unfused path's time.
_MARGIN = 0.97
# Without a measurement, pieces from so many rows on: docs/benchmarks/tensor-parallel.md.
_PIECES_FROM = {"all_gather_matmul": 2048, "matmul_reduce_scatter": 1024,
                "matmul_all_reduce": 2048}


class Call(NamedTuple):
    """What decides how long a call takes, but for the ways; the same on all ranks."""

    function: str
    rows: int  # of all ranks
    cut: bool  # whether the ranks' number divides them
    texts: tuple[str, ...]
    tensors: tuple[tuple[torch.dtype, tuple[int, ...]], ...]  # dtypes, and shapes without rows

    def like(self) -> Call:
        """The call that decides for this one: with the number of rows rounded down to three
        binary digits, at most a fifth less."""
        step = 1 << max(self.rows.bit_length() - 3, 0)
        return self._replace(rows=self.rows // step * step)


class Choice(NamedTuple):
    """The ways of like calls, and what was measured for the first of them."""

    captured: str  # in CUDA graphs
    direct: str
    rows: int
    seconds: Mapping[str, Seconds]


_known: WeakKeyDictionary[dist.ProcessGroup,
                          dict[tuple[torch.device, Call], Choice]] = WeakKeyDictionary()


def choices(group: dist.ProcessGroup) -> Mapping[tuple[torch.device, Call], Choice]:
    """What was chosen so far."""
    return _known.get(group, {})


def by_rule(call: Call, ways: Mapping[str, Any]) -> str:
    """A way that no clock chooses."""
    return PIECES if PIECES in ways and call.rows >= _PIECES_FROM[call.function] else WHOLE


def choose(group: dist.ProcessGroup, device: torch.device, call: Call,
           ways: Mapping[str, Callable[[], object]], usable: Callable[[str], bool]) -> str:
    """The name of the way. If it is not known, this measures, together with all ranks; while a CUDA
    graph is captured it cannot, and the number of rows decides.

    Args:
        group: The group, all of whose ranks make the same call, and all or none while capturing.
        device: Where this rank's tensors are.
        call: The call.
        ways: What computes it, by name.
        usable: Whether a way, by its name, is to be measured; the ranks may differ.

    Raises:
        Error: The ranks' calls differ; a rank ended, or did not answer.
    """
    if len(ways) == 1 or call.rows == 0:
        return WHOLE
    capturing = is_capturing(device)
    of_group, key = _known.setdefault(group, {}), (device, call.like())
    known = of_group.get(key)
    if known is None:
        if capturing:
            return by_rule(call, ways)
        known = of_group[key] = _measure(group, device, call,
                                         {name: ways[name] for name in ways if usable(name)})
    return known.captured if capturing else known.direct


def is_capturing(device: torch.device) -> bool:
    """Whether a CUDA graph is captured on the current stream."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def _measure(group: dist.ProcessGroup, device: torch.device, call: Call,
             ways: Mapping[str, Callable[[], object]]) -> Choice:
    ranks = ranks_of(group)
    every = ranks.gather((call, list(ways)))
    for rank, (other, _) in enumerate(every):
        if other != call:
            raise Error(f"rank {rank} calls {other.function} with {other.rows} rows, this rank "
                        f"{call.function} with {call.rows}, or with other tensors or options",
                        "group", "make the same calls on all ranks, in the same order")
    common = {name: ways[name] for name in ways if all(name in theirs for _, theirs in every)}
    with uncounted():
        seconds = compete(ranks, common, device.type == "cuda")
    direct = _fastest({name: each.direct for name, each in seconds.items()})
    captured = {name: each.captured for name, each in seconds.items() if each.captured is not None}
    choice = Choice(_fastest(captured) if captured else direct, direct, call.rows, seconds)
    log.info("%s of %d rows: %s, in CUDA graphs %s; %s", call.function, call.rows, choice.direct,
             choice.captured, ", ".join(f"{name} {_text(each)}" for name, each in seconds.items()))
    return choice


def _fastest(seconds: Mapping[str, float]) -> str:
    best = min(seconds, key=lambda name: seconds[name])
    return best if seconds[best] < _MARGIN * seconds[WHOLE] else WHOLE


def _text(seconds: Seconds) -> str:
    inside = "" if seconds.captured is None else f"{seconds.captured * 1e6:.1f} us captured, "
    return f"{inside}{seconds.direct * 1e6:.1f} us"
