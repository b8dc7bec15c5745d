"""The report: which ops were fused, what was left and why, and the time saved."""
from __future__ import annotations

import contextlib
import hashlib
import pathlib
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

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
        other_seconds: The time of what it was compared with: Inductor's code, or the unfused path.
        calls: The number of calls so far; a launch captured in a CUDA graph counts once.
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
        """The time saved so far, computed from the measured times."""
        return max(self.other_seconds - self.seconds, 0) * self.calls if self.seconds else 0.0


class Left(NamedTuple):
    """A node or product that was left to Inductor.

    Attributes:
        node: The FX node's name.
        op: Its op.
        reason: Why it was not fused.
    """

    node: str
    op: str
    reason: str


class GraphReport(NamedTuple):
    """The report on one graph.

    Attributes:
        name: "graph 1", numbered in the order of compiling.
        fused: The regions.
        left: What was not fused.
        note: Why the graph was not changed; or, if the whole graph was compared with Inductor's,
            both times.
    """

    name: str
    fused: tuple[Fused, ...]
    left: tuple[Left, ...]
    note: str


class Report(NamedTuple):
    """The report on all graphs compiled in this process, or since :func:`attacca.torch.reset`.

    Attributes:
        graphs: One entry for each graph.
    """

    graphs: tuple[GraphReport, ...]

    @property
    def saved_seconds(self) -> float:
        """The time saved so far, computed from the measured times."""
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


class Entry(NamedTuple):
    nodes: tuple[str, ...]
    outputs: tuple[str, ...]
    epilogue: str
    reason: str
    seconds: float
    other_seconds: float
    graph: str


class _Graph(NamedTuple):
    fused: list[Entry]
    left: list[Left]
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


def add(fused: list[Entry], left: list[Left], note: str = "", untouched: str = "") -> None:
    """Adds a graph to the report; ``untouched``: GRADIENTS or CPU_POLICY, if that is why nothing
    was fused."""
    _add(_Graph(fused, left, note, untouched))
    for entry in fused:
        keep(_file(entry.graph), _graphs[-1])


def _add(graph: _Graph) -> None:
    _graphs.append(graph)
    if graph.untouched in _UNTOUCHED and graph.untouched not in _warned:
        _warned.add(graph.untouched)
        warnings.warn(_UNTOUCHED[graph.untouched], NotFusedWarning, stacklevel=2)


# Later processes take compiled graphs from Inductor's cache without running the pass. So reports
# are kept beside that cache: a graph's report under the hash of each of its regions' texts, and
# under the identity of a graph from Dynamo the reports of the graphs that it was compiled to.


def _file(key: str) -> pathlib.Path:
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    return pathlib.Path(cache_dir()) / "attacca" / (hashlib.sha256(key.encode()).hexdigest()
                                                    + ".json")


def _from_cache(kept: Any) -> _Graph | None:
    try:
        fused, left, note, untouched = kept
        entries = [Entry(tuple(nodes), tuple(outputs), *rest) for nodes, outputs, *rest in fused]
        return _Graph(entries, [Left(*each) for each in left],
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
        keep(_file(identity), made)
    elif _cache_hits() > hits:
        kept = recall(_file(identity))
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
        if each.calls and each.graph not in known and (
            kept := _from_cache(recall(_file(each.graph)))):
            _graphs.append(kept)
            known |= {entry.graph for entry in kept.fused}
    graphs = [GraphReport(f"graph {i + 1}", tuple(Fused(*entry[:6], calls.get(entry.graph, 0))
                                                  for entry in graph.fused), tuple(graph.left),
                                                  graph.note)
              for i, graph in enumerate(_graphs)]
    if not graphs and _asked_cache:
        graphs = [GraphReport("graph 1", (), (),
                              f"{_FROM_CACHE}; what is fused is listed once it has run")]
    return Report(tuple(graphs))


def reset() -> None:
    """Clears the report."""
    global _asked_cache
    _graphs.clear()
    _asked_cache = False
    for each in all_loaded():
        each.calls = 0
