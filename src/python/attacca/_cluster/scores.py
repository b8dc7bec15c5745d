"""How good the choices of a tuning are: what measuring gained, and what fusing gains.

Speeds are parts of the fastest candidate's, as in docs/benchmarks/ranking.md: 0.95 takes 1 / 0.95
of its time. Only times of one comparison are compared.
"""
from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .._problems import Key

_LOST = 0.93  # of the unfused path's speed
_RANGES = (1, 4, 16, 64, 128, 256, 512, 1024, 2048, 8192)  # of M, as ranking.md has them


class Score(NamedTuple):
    """One problem. None: not known.

    Attributes:
        without: The speed of what is chosen without measuring; 1 is the fastest candidate's.
        without_gain: Its speed over the unfused path's.
        gain: That of what was chosen over the unfused path's.
    """

    without: float | None
    without_gain: float | None
    gain: float | None


class Table(NamedTuple):
    """Texts of a report."""

    title: str
    head: list[str]
    rows: list[list[str]]


def score_of(row: Mapping[str, Any], found: Mapping[str, Any]) -> Score:
    """The score of a choice, a row of the database. ``found``: what the tuning found, as
    :func:`tune_problem` returns it; empty if the row was known before, and then only ``gain`` is
    known."""
    times = _comparable(found.get("trials", []))
    chosen = times.get(found.get("modelled", ""))
    unfused = min((seconds for name, seconds in times.items() if name.startswith("unfused")),
                  default=None)
    return Score(min(times.values()) / chosen if chosen else None,
                 unfused / chosen if chosen and unfused else None,
                 row["unfused_seconds"] / row["seconds"] if row["unfused_seconds"] else None)


def _comparable(trials: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The seconds of the last comparison by candidate; of the only one if there was but one."""
    timed = [trial for trial in trials if "seconds" in trial]
    last = [trial for trial in timed if trial["final"]]
    return {trial["candidate"]: trial["seconds"] for trial in last or timed}


def tables_of(scores: Mapping[Key, Score]) -> list[Table]:
    """The scores of all problems, by family, and by M."""
    if not scores:
        return []
    return [_table("Choices", "problems", scores, lambda _: (0, "all")),
            _table("Choices by family", "family", scores, lambda key: (0, family_of(key))),
            _table("Choices by M", "M", scores, lambda key: _rows_of(key))]


def _table(title: str, by: str, scores: Mapping[Key, Score],
           group_of: Callable[[Key], tuple[int, str]]) -> Table:
    groups: dict[tuple[int, str], list[Score]] = {}
    for key, score in scores.items():
        groups.setdefault(group_of(key), []).append(score)
    head = [by, "number", "without measuring / best", "worst", "its gain over unfused", "worst",
            f"below {_LOST}", "tuned: gain over unfused", "worst"]
    return Table(title, head, [[name, str(len(group)), *_cells(group)]
                               for (_, name), group in sorted(groups.items())])


def _cells(group: Sequence[Score]) -> list[str]:
    """Geometric means and the worst of each."""
    without, without_gain, gain = ([value for value in values if value is not None]
                                   for values in zip(*group))
    lost = sum(value < _LOST for value in without_gain)
    return [*_mean(without), *_mean(without_gain),
            f"{lost / len(without_gain):.1%}" if without_gain else "-", *_mean(gain)]


def _mean(values: Sequence[float]) -> list[str]:
    if not values:
        return ["-", "-"]
    mean = math.exp(sum(map(math.log, values)) / len(values))
    return [f"{mean:.3f}", f"{min(values):.3f}"]


def family_of(key: Key) -> str:
    """The kind of problem, by the names of ranking.md where it has one: "bf16", "kn", "gate"."""
    parts = key.problem.split("|")
    products = [part for part in parts[2:] if " -> " in part]
    if not products:
        return "kernel"  # a user's
    first = products[0]
    a, b = first.split()[:2]
    dtype = a.partition(":")[0]
    if len(products) > 1:
        return "gate_two"
    if len(re.findall(r"^i\d+ = acc ", parts[1], re.MULTILINE)) > 1:
        return "gate"
    if " grouped" in first:
        return "grouped"
    if " packed" in first:
        return "packed"
    if "batch=1 " not in key.shape and "batch=any" not in key.shape:
        return "batch"
    if dtype.startswith("f8"):
        return "fp8_blocks" if " blocks" in first else "fp8_fast" if " fast" in first else "fp8"
    return "kn" if dtype == "bf16" and ":r" in b else dtype


def _rows_of(key: Key) -> tuple[int, str]:
    """The range of a problem's M, by its bucket, and the range's place among all."""
    bucket = re.match(r"m<=(\d+) ", key.shape)
    if not bucket:
        return len(_RANGES) + 1, "any"
    rows, first = int(bucket[1]), 1
    for place, last in enumerate(_RANGES):
        if rows <= last:
            return place, f"{first} to {last}" if first < last else str(last)
        first = last + 1
    return len(_RANGES), f"{first} and more"


def text_of(table: Table) -> str:
    """The table as lines of text."""
    lines = [table.head, *table.rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table.head))]
    return "".join(
        "  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                  for i, (cell, width) in enumerate(zip(line, widths))) + "\n" for line in lines)
