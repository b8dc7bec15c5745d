"""The report: which ops were fused, what was left and why, and the time saved."""
from __future__ import annotations

import contextlib
import functools
import hashlib
import pathlib
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ._graph.regions import explained
from ._kept import keep, recall
from ._ops.region import all_loaded


class Fused(NamedTuple):
    """A region that became one call.

    Attributes:
        nodes: The FX nodes that the call replaces.
        outputs: The nodes whose values it writes.
        epilogue: The region's explanation.
        reason: Why it was fused: its times, or the policy.
        seconds: The time of one call at the sizes seen while compiling; 0: not measured.
        other_seconds: The time of what it was compared with: Inductor's code or the least that it
            can take, or the unfused path.
        unfused_seconds: The time of the unfused path; 0: not known.
        calls: The number of calls so far; a launch captured in a CUDA graph counts once.
    """

    nodes: tuple[str, ...]
    outputs: tuple[str, ...]
    epilogue: str
    reason: str
    seconds: float
    other_seconds: float
    unfused_seconds: float
    calls: int

    @property
    def saved_seconds(self) -> float:
        """The time saved so far, computed from the measured times."""
        return max(self.other_seconds - self.seconds, 0) * self.calls if self.seconds else 0.0


class Left(NamedTuple):
    """A node or product that was left to Inductor.

    Attributes:
        node: The FX node's name.
        op: Its op.
        reason: Why it was not fused.
        seconds: The time of Inductor's code for it; 0: not measured.
        own_seconds: The time that the region's call took; 0: not measured.
        operations: The multiplications of its products, about.
    """

    node: str
    op: str
    reason: str
    seconds: float = 0.0
    own_seconds: float = 0.0
    operations: float = 0.0


class Measuring(NamedTuple):
    """What deciding about one graph took.

    Attributes:
        seconds: The time that it added to the compilation.
        regions: The number of distinct regions: equal ones are measured once.
        known: How many of these were measured before, perhaps in other models or processes.
        tuned: For how many of these kernels were built and timed.
        compiled: How many graphs Inductor compiled in addition.
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
        name: "graph 1", numbered in the order of compiling.
        fused: The regions.
        left: What was not fused.
        measuring: What deciding took.
        note: Why the graph was not changed, or where it comes from.
    """

    name: str
    fused: tuple[Fused, ...]
    left: tuple[Left, ...]
    measuring: Measuring
    note: str


class Report(NamedTuple):
    """The report on all graphs compiled in this process, or since :func:`attacca.torch.reset`.

    ``print`` it for a summary of a screen.

    Attributes:
        graphs: One entry for each graph.
    """

    graphs: tuple[GraphReport, ...]

    @property
    def saved_seconds(self) -> float:
        """The time saved so far, computed from the measured times."""
        return sum(fused.saved_seconds for graph in self.graphs for fused in graph.fused)

    def details(self) -> str:
        """Every region and every reason."""
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
    fused = [each for graph in report.graphs for each in graph.fused]
    covered = {node for each in fused for node in each.nodes}
    left = [each for graph in report.graphs for each in graph.left if each.node not in covered]
    lines = [f"{len(fused)} regions fused in {len(report.graphs)} graphs, {len(left)} ops or "
             f"regions left; saved {report.saved_seconds * 1e3:.3f} ms so far"]
    for graph in report.graphs[-_MOST_GRAPHS:]:
        said = [graph.note] if graph.note else []
        said += [str(graph.measuring)] if graph.measuring.regions else []
        lines.append(_cut(": ".join([graph.name, *said])))
    lines += _fused_lines(fused)
    lines += _left_lines(left)
    return "\n".join([*lines, "report().details() has every region and reason"])


def _fused_lines(fused: Sequence[Fused]) -> list[str]:
    kinds: dict[tuple[str, float, float], list[Fused]] = {}
    for each in fused:
        kinds.setdefault((_formula(each), each.seconds, each.other_seconds), []).append(each)
    most = sorted(kinds.items(),
                  key=lambda kind: -sum(e.other_seconds - e.seconds for e in kind[1]))
    lines = ["fused:"] if fused else []
    for (formula, seconds, other), members in most[:_MOST_KINDS]:
        times = f"{_us(seconds)} instead of {_us(other)}, " if seconds else ""
        calls = sum(each.calls for each in members)
        lines.append(_cut(f"  {len(members)}x {times}ran {calls} times: {formula}"))
    if len(most) > _MOST_KINDS:
        lines.append(f"  and {len(most) - _MOST_KINDS} other kinds")
    return lines


def _formula(fused: Fused) -> str:
    """The last line of the explanation that has an accumulator: the epilogue."""
    lines = [line.strip() for line in fused.epilogue.splitlines() if "acc" in line]
    return (lines or [""])[-1].rpartition(" = ")[2]


def _left_lines(left: Sequence[Left]) -> list[str]:
    kinds: dict[tuple[str, float], list[Left]] = {}
    for each in left:
        kinds.setdefault((each.reason, each.seconds), []).append(each)

    def time(kind: tuple[tuple[str, float], list[Left]]) -> tuple[float, float]:
        return -sum(e.seconds for e in kind[1]), -sum(e.operations for e in kind[1])
    most = [kind for kind in sorted(kinds.items(), key=time) if time(kind) != (0, 0)]
    lines = [f"largest of what was left (of {len(left)}):"] if most else []
    for (reason, seconds), members in most[:_MOST_LEFT]:
        times = f"{_us(seconds)}, " if seconds else ""
        first = members[0]
        lines.append(_cut(f"  {len(members)}x {times}{first.node} ({first.op}): {reason}"))
    return lines


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us"


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH else line[:_WIDTH - 3] + "..."


class Entry(NamedTuple):
    nodes: tuple[str, ...]
    outputs: tuple[str, ...]
    device: str
    reason: str
    seconds: float
    other_seconds: float
    unfused_seconds: float
    graph: str


class _Graph(NamedTuple):
    fused: list[Entry]
    left: list[Left]
    measuring: Measuring
    note: str
    untouched: str = ""  # a key of _UNTOUCHED


class NotFusedWarning(UserWarning):
    """A graph was left to Inductor for a reason that the caller can remove; once in a process for
    each reason."""


GRADIENTS, CPU_POLICY = "gradients", "cpu"
_UNTOUCHED = {
    GRADIENTS: "attacca fuses nothing of a graph that is compiled for gradients: call the model "
               "under torch.no_grad() or torch.inference_mode(); for training Inductor alone does "
               "the same",
    CPU_POLICY: "attacca fuses nothing on the CPU with the policy \"measured\": "
                "pass options={\"policy\": \"always\"} to fuse there too",
}
_FROM_CACHE = "from Inductor's cache"
_graphs: list[_Graph] = []
_warned: set[str] = set()
_asked_cache = False


def add(fused: list[Entry], left: list[Left], measuring: Measuring | None = None, note: str = "",
        untouched: str = "") -> None:
    """Adds a graph to the report; ``untouched``: GRADIENTS or CPU_POLICY, if that is why nothing
    was fused."""
    _add(_Graph(fused, left, measuring or Measuring(), note, untouched))
    if fused:
        keep(_folder() / "graphs" / _name("".join(entry.graph for entry in fused)), _graphs[-1])


def _add(graph: _Graph) -> None:
    _graphs.append(graph)
    if graph.untouched in _UNTOUCHED and graph.untouched not in _warned:
        _warned.add(graph.untouched)
        warnings.warn(_UNTOUCHED[graph.untouched], NotFusedWarning, stacklevel=2)


# Later processes take compiled graphs from Inductor's cache without running the pass. So reports
# are kept beside that cache: under the identity of a graph from Dynamo the reports of the graphs
# that it was compiled to, and in the folder "graphs" those of each graph, which has regions that
# run without being known.


def _folder() -> pathlib.Path:
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    return pathlib.Path(cache_dir()) / "attacca"


def _name(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest() + ".json"


def _kept_graphs() -> Iterator[_Graph]:
    for path in sorted((_folder() / "graphs").glob("*.json")):
        if graph := _from_cache(recall(path)):
            yield graph


def _from_cache(kept: Any) -> _Graph | None:
    try:
        fused, left, _, note, untouched = kept
        entries = [Entry(tuple(nodes), tuple(outputs), *rest) for nodes, outputs, *rest in fused]
        return _Graph(entries, [Left(*each) for each in left], Measuring(),
                      "; ".join(filter(None, [note, _FROM_CACHE])),
                      untouched)
    except (ValueError, TypeError):  # no file, or one of another format
        return None


def looked_up() -> None:
    """Notes that Inductor's cache was asked for a graph."""
    global _asked_cache
    _asked_cache = True


def _cache_hits() -> int:
    from torch._dynamo.utils import counters

    return int(counters["inductor"]["fxgraph_cache_hit"]
               + counters["aot_autograd"]["autograd_cache_hit"])


@contextlib.contextmanager
def compiling(identity: str) -> Iterator[None]:
    """Surrounds the compilation of a graph from Dynamo; adds its kept reports if it comes from a
    cache."""
    before, hits = len(_graphs), _cache_hits()
    yield
    if made := _graphs[before:]:
        keep(_folder() / _name(identity), made)
    elif _cache_hits() > hits:
        kept = recall(_folder() / _name(identity))
        for graph in map(_from_cache, kept if isinstance(kept, list) else []):
            if graph is not None:
                _add(graph)


def report() -> Report:
    """Which ops were fused, what was left and why, and the time saved.

    Returns:
        A :class:`Report`: print it, or read its graphs.
    """
    calls: dict[str, int] = {}
    known = {entry.graph for graph in _graphs for entry in graph.fused}
    for each in all_loaded():
        calls[each.graph] = calls.get(each.graph, 0) + each.calls
    if unknown := {graph for graph, count in calls.items() if count} - known:
        for kept in _kept_graphs():
            texts = {entry.graph for entry in kept.fused}
            if texts & unknown:
                _graphs.append(kept)
                unknown -= texts
    graphs = [GraphReport(f"graph {i + 1}", tuple(_fused(entry, calls) for entry in graph.fused),
                          tuple(graph.left), graph.measuring, graph.note)
              for i, graph in enumerate(_graphs)]
    if not graphs and _asked_cache:
        graphs = [GraphReport("graph 1", (), (), Measuring(),
                              f"{_FROM_CACHE}; what is fused is listed once it has run")]
    return Report(tuple(graphs))


def _fused(entry: Entry, calls: dict[str, int]) -> Fused:
    return Fused(entry.nodes, entry.outputs, _explained(entry.graph, entry.device), entry.reason,
                 entry.seconds, entry.other_seconds, entry.unfused_seconds,
                 calls.get(entry.graph, 0))


@functools.lru_cache(maxsize=1024)
def _explained(graph: str, device: str) -> str:
    text = explained(graph, device).explain_text()
    return text[text.index("region 1"):].strip()


def reset() -> None:
    """Clears the report."""
    global _asked_cache
    _graphs.clear()
    _asked_cache = False
    for each in all_loaded():
        each.calls = 0
