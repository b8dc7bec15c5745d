"""What was fused into what, what was left and why, and the time saved."""
from __future__ import annotations

import hashlib
import pathlib
from typing import NamedTuple

from ._kept import keep, recall
from ._ops import all_loaded


class Fused(NamedTuple):
    """A region that became one call.

    Attributes:
        nodes: The FX nodes that it computes.
        outputs: Those whose values it writes.
        epilogue: What happens to the accumulators, as explained by the core.
        reason: Why it was kept: its times, or the policy.
        seconds: Of one call, where measured, at the sizes seen at compile time; else 0.
        other_seconds: Of what Inductor makes of it, or of the unfused path where that was compared.
        calls: How often it has run; captured launches count once.
    """

    nodes: tuple[str, ...]
    outputs: tuple[str, ...]
    epilogue: str
    reason: str
    seconds: float
    other_seconds: float
    calls: int

    @property
    def saved_seconds(self) -> float:
        """Time saved so far, by the times measured."""
        return max(self.other_seconds - self.seconds, 0) * self.calls if self.seconds else 0.0


class Left(NamedTuple):
    """A node or product that was left to the rest of the compiler.

    Attributes:
        node: The FX node's name.
        op: Its op.
        reason: Why.
    """

    node: str
    op: str
    reason: str


class GraphReport(NamedTuple):
    """What became of one graph.

    Attributes:
        name: "graph 1", counted in the order of compiling.
        fused: The regions.
        left: What was left alone.
        note: Of graphs that passed through untouched: why. Of others the whole graph's time beside
            Inductor's, where they were compared.
    """

    name: str
    fused: tuple[Fused, ...]
    left: tuple[Left, ...]
    note: str


class Report(NamedTuple):
    """All graphs compiled in this process since the start or :func:`attacca.torch.reset`.

    Attributes:
        graphs: One entry a graph.
    """

    graphs: tuple[GraphReport, ...]

    @property
    def saved_seconds(self) -> float:
        """Time saved so far, by the times measured."""
        return sum(fused.saved_seconds for graph in self.graphs for fused in graph.fused)

    def __str__(self) -> str:
        lines = []
        for graph in self.graphs:
            lines.append(graph.name + (f": {graph.note}" if graph.note else ""))
            for fused in graph.fused:
                lines.append(f"  fused {', '.join(fused.nodes)}")
                lines += ["    " + line for line in fused.epilogue.splitlines()]
                times = ""
                if fused.seconds:
                    times = f"; saved {fused.saved_seconds * 1e3:.3f} ms"
                lines.append(f"    kept: {fused.reason}; ran {fused.calls} times{times}")
            lines += [f"  left {left.node} ({left.op}): {left.reason}" for left in graph.left]
        return "\n".join(lines) if lines else "nothing was compiled"

    def __repr__(self) -> str:
        return str(self)


class _Entry(NamedTuple):
    nodes: tuple[str, ...]
    outputs: tuple[str, ...]
    epilogue: str
    reason: str
    seconds: float
    other_seconds: float
    graph: str


class _Graph(NamedTuple):
    fused: list[_Entry]
    left: list[Left]
    note: str


_graphs: list[_Graph] = []


def add(fused: list[_Entry], left: list[Left], note: str = "") -> None:
    """A graph that was just decided about."""
    _graphs.append(_Graph(fused, left, note))
    for entry in fused:
        keep(_file(entry.graph), _graphs[-1])


# Inductor's cache gives compiled graphs to later processes without asking the pass again. What was
# decided lies beside it: under the hash of each region's text its graph's report.


def _file(region: str) -> pathlib.Path:
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    return pathlib.Path(cache_dir()) / "attacca" / (hashlib.sha256(region.encode()).hexdigest() + ".json")


def _kept(region: str) -> "_Graph | None":
    try:
        fused, left, note = recall(_file(region))
    except (ValueError, TypeError):  # nothing is there, or nothing of this shape
        return None
    entries = [_Entry(tuple(nodes), tuple(outputs), *rest) for nodes, outputs, *rest in fused]
    return _Graph(entries, [Left(*each) for each in left],
                  "; ".join(filter(None, [note, "from Inductor's cache"])))


def report() -> Report:
    """What was fused into what, what was left alone and why, and the time saved.

    Returns:
        A :class:`Report`; print it, or read its graphs.
    """
    calls: dict[str, int] = {}
    known = {entry.graph for graph in _graphs for entry in graph.fused}
    for each in all_loaded():
        calls[each.graph] = calls.get(each.graph, 0) + each.calls
        if each.calls and each.graph not in known and (kept := _kept(each.graph)) is not None:
            _graphs.append(kept)
            known |= {entry.graph for entry in kept.fused}
    graphs = [GraphReport(f"graph {i + 1}", tuple(Fused(*entry[:6], calls.get(entry.graph, 0))
                                                  for entry in graph.fused), tuple(graph.left), graph.note)
              for i, graph in enumerate(_graphs)]
    return Report(tuple(graphs))


def reset() -> None:
    """Forgets what was reported so far."""
    _graphs.clear()
    for each in all_loaded():
        each.calls = 0
