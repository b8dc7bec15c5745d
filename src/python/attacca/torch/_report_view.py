"""The report as values, as a summary that fits a screen, and as a page of HTML."""
from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from .. import _core


class Fused(NamedTuple):
    """A region that became one call. Times are in seconds, at the sizes seen while compiling.

    Attributes:
        nodes: The names of the FX nodes that the call replaces.
        outputs: The names of the nodes whose values it writes.
        epilogue: The region's explanation, as ``attacca explain`` prints it.
        reason: Why it was fused: its times, or the policy.
        seconds: The time of one call; 0: not measured.
        other_seconds: The time of what it was compared with.
        unfused_seconds: The time of the unfused path; 0: not known.
        calls: The number of calls so far; a launch captured in a CUDA graph counts once.
        against: What it was compared with: "Inductor", "Inductor at least" (the least time that
            Inductor's code can take), "ATen" or "unfused"; "": nothing.
        together: How many regions became this call because they are launched together; 1: it is one
            region.
    """

    nodes: tuple[str, ...]
    outputs: tuple[str, ...]
    epilogue: str
    reason: str
    seconds: float
    other_seconds: float
    unfused_seconds: float
    calls: int
    against: str = ""
    together: int = 1

    @property
    def saved_seconds(self) -> float:
        """The seconds saved so far: those of one call, as measured, times the calls."""
        return max(self.other_seconds - self.seconds, 0) * self.calls if self.seconds else 0.0


class Left(NamedTuple):
    """A node or region that was left to Inductor. Times are in seconds, as in :class:`Fused`.

    Attributes:
        node: The FX node's name.
        op: The node's op, such as "aten.mm"; "region"; or "3 products together", of regions that
            are not launched together, which may be fused one by one.
        reason: Why it was not fused.
        seconds: The time of Inductor's code for it; 0: not measured.
        own_seconds: The time that the region's call took; 0: not measured.
        operations: About how many multiplications its products have.
        unfused_seconds: The time of the unfused path; 0: not known.
        against: What took ``seconds``: "Inductor", "Inductor at most" (the most time that
            Inductor's code takes), "ATen", "unfused" or "launches of each" (calls of each of the
            products); "": nothing was timed.
    """

    node: str
    op: str
    reason: str
    seconds: float = 0.0
    own_seconds: float = 0.0
    operations: float = 0.0
    unfused_seconds: float = 0.0
    against: str = ""


class Measuring(NamedTuple):
    """What it took to decide which regions of one graph are fused.

    Attributes:
        seconds: The seconds that it added to the compilation.
        regions: The number of distinct regions, and of distinct groups of regions that may be
            launched together: equal ones are measured once.
        known: How many of them had been measured before, maybe in other models or processes.
        tuned: For how many of them kernels were built and timed.
        compiled: How many more graphs Inductor compiled, to compare with.
    """

    seconds: float = 0.0
    regions: int = 0
    known: int = 0
    tuned: int = 0
    compiled: int = 0

    def __str__(self) -> str:
        return (f"measuring took {self.seconds:.1f} s: {self.regions} distinct regions, "
                f"{self.known} known, {self.tuned} tuned, {self.compiled} graphs "
                f"compiled to compare")


class GraphReport(NamedTuple):
    """The report on one graph.

    Attributes:
        name: "graph 1" and so on, in the order of compiling.
        fused: The regions that were fused.
        left: What was left to Inductor.
        measuring: What it took to decide.
        note: Why the graph was not changed, or that it comes from a cache; may be empty.
    """

    name: str
    fused: tuple[Fused, ...]
    left: tuple[Left, ...]
    measuring: Measuring
    note: str


class Report(NamedTuple):
    """The report on all graphs compiled in this process, or since :func:`attacca.torch.reset`.

    ``print`` shows a summary that fits a screen, :meth:`details` all of it.

    Attributes:
        graphs: One entry for each graph.
    """

    graphs: tuple[GraphReport, ...]

    @property
    def saved_seconds(self) -> float:
        """The seconds saved so far by all fused regions."""
        return sum(fused.saved_seconds for graph in self.graphs for fused in graph.fused)

    def details(self) -> str:
        """Every region, and the reason for each node that was left, as text."""
        lines = []
        for graph in self.graphs:
            lines.append(graph.name + (f": {graph.note}" if graph.note else ""))
            if graph.measuring.regions:
                lines.append(f"  {graph.measuring}")
            for fused in graph.fused:
                lines.append(f"  fused {', '.join(fused.nodes)}")
                lines += ["    " + line for line in fused.epilogue.splitlines()]
                times = ""
                if fused.seconds:
                    times = f"; saved {fused.saved_seconds * 1e3:.3f} ms"
                lines.append(f"    kept: {fused.reason}; ran {fused.calls} times{times}")
            lines += [f"  left {left.node} ({left.op}): {left.reason}" for left in graph.left]
        return "\n".join(lines) if lines else _NOTHING

    def json(self) -> str:
        """The report as JSON, which `attacca report FILE --html PAGE` makes a page of."""
        return json.dumps(_page(self))

    def html(self) -> str:
        """The report as a page of HTML, without scripts or other files: a bar for each time of a
        region, what it saved, and links to the reasons why others were left.

        ``pathlib.Path("report.html").write_text(attacca.torch.report().html())``
        """
        return _core.report_page(self.json())

    def __str__(self) -> str:
        return summary(self) if self.graphs else _NOTHING

    def __repr__(self) -> str:
        return str(self)


# ---- The summary

_NOTHING = "nothing was compiled"
_MOST_GRAPHS, _MOST_KINDS, _MOST_LEFT, _WIDTH = 4, 12, 5, 100


def summary(report: Report) -> str:
    """At most about 24 lines: the graphs, what was fused, and the largest products that were
    left."""
    fused, left = _all(report)
    lines = [_cut(line) for line in _overview(report, _MOST_GRAPHS)]
    lines += _fused_lines(fused)
    lines += _left_lines(left)
    return "\n".join([*lines, "report().details() has every region and reason"])


def _all(report: Report) -> tuple[list[Fused], list[Left]]:
    """What was fused, and what was left that is no part of it."""
    fused = [each for graph in report.graphs for each in graph.fused]
    covered = {node for each in fused for node in each.nodes}
    return fused, [each for graph in report.graphs for each in graph.left
                   if each.node not in covered]


def _overview(report: Report, graphs: int) -> Iterator[str]:
    """A line for the whole, and one for each of the last graphs."""
    fused, left = _all(report)
    regions = sum(each.together for each in fused)
    yield (f"{regions} regions fused in {len(report.graphs)} graphs, {len(left)} ops or regions "
           f"left; saved {report.saved_seconds * 1e3:.3f} ms so far")
    for graph in report.graphs[-graphs:]:
        said = [graph.note] if graph.note else []
        said += [str(graph.measuring)] if graph.measuring.regions else []
        yield ": ".join([graph.name, *said])


_Each = TypeVar("_Each", Fused, Left)


def _kinds(all_: Sequence[_Each], kind: Callable[[_Each], Any],
           most: Callable[[_Each], float]) -> list[list[_Each]]:
    """Equal ones together, first those whose sum is the most."""
    found: dict[Any, list[_Each]] = {}
    for each in all_:
        found.setdefault(kind(each), []).append(each)
    return sorted(found.values(), key=lambda members: -sum(map(most, members)))


def _fused_kinds(fused: Sequence[Fused]) -> list[list[Fused]]:
    return _kinds(fused, lambda each: (_formula(each), each.seconds, each.other_seconds),
                  lambda each: each.other_seconds - each.seconds)


def _left_kinds(left: Sequence[Left]) -> list[list[Left]]:
    """First those that take the most time; where it is not known, it is taken to be in proportion
    to the operations."""
    timed = [each for each in left if each.seconds and each.operations]
    rate = (sum(each.seconds for each in timed) / sum(each.operations for each in timed)
            if timed else 1.0)
    return _kinds(left, lambda each: (each.reason, each.seconds),
                  lambda each: each.seconds or each.operations * rate)


def _fused_lines(fused: Sequence[Fused]) -> list[str]:
    kinds = _fused_kinds(fused)
    lines = ["fused:"] if fused else []
    for members in kinds[:_MOST_KINDS]:
        first, calls = members[0], sum(each.calls for each in members)
        times = f"{_us(first.seconds)} instead of {_us(first.other_seconds)}, " \
            if first.seconds else ""
        said = f"{first.together} together, the last " if first.together > 1 else ""
        lines.append(_cut(f"  {len(members)}x {times}ran {calls} times: {said}{_formula(first)}"))
    if len(kinds) > _MOST_KINDS:
        lines.append(f"  and {len(kinds) - _MOST_KINDS} other kinds")
    return lines


def _formula(fused: Fused) -> str:
    """The last line of the explanation that has an accumulator: the epilogue."""
    lines = [line.strip() for line in fused.epilogue.splitlines() if "acc" in line]
    return (lines or [""])[-1].rpartition(" = ")[2]


def _left_lines(left: Sequence[Left]) -> list[str]:
    most = [kind for kind in _left_kinds(left) if any(e.seconds or e.operations for e in kind)]
    lines = [f"largest of what was left (of {len(left)}):"] if most else []
    for members in most[:_MOST_LEFT]:
        first = members[0]
        times = f"{_us(first.seconds)}, " if first.seconds else ""
        lines.append(_cut(f"  {len(members)}x {times}{first.node} ({first.op}): {first.reason}"))
    return lines


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us"


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH else line[:_WIDTH - 3] + "..."


# ---- The page


def _page(report: Report) -> dict[str, Any]:
    """The members that src/api/report_page.hpp describes."""
    fused, left = _all(report)
    regions = [_page_of_fused(kind) for kind in _fused_kinds(fused)]
    regions += [_page_of_left(kind) for kind in _left_kinds(left)]
    return {"format": "attacca.report/1", "title": "torch.compile",
            "summary": list(_overview(report, len(report.graphs))), "regions": regions}


def _named(members: Sequence[_Each], name: str) -> str:
    return f"{len(members)}x {name}" if len(members) > 1 else name


def _page_of_fused(members: Sequence[Fused]) -> dict[str, Any]:
    first = members[0]
    calls = sum(each.calls for each in members)
    saved = sum(each.saved_seconds for each in members)
    return {"name": _named(members, ", ".join(first.outputs)), "detail": first.epilogue,
            "verdict": "fused", "times": _times(first, first.seconds, first.other_seconds),
            "saved": f"{saved * 1e3:.3f} ms in {calls} calls" if saved else "",
            "reasons": [first.reason]}


def _page_of_left(members: Sequence[Left]) -> dict[str, Any]:
    first = members[0]
    return {"name": _named(members, f"{first.node} ({first.op})"), "detail": "", "verdict": "left",
            "times": _times(first, first.own_seconds, first.seconds), "saved": "",
            "reasons": [first.reason]}


def _times(each: Fused | Left, own: float, other: float) -> list[dict[str, Any]]:
    known = {"fused": own, "unfused": each.unfused_seconds, each.against: other}
    return [{"label": label, "seconds": seconds} for label, seconds in known.items()
            if label and seconds]
