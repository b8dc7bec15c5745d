"""Collects the report: which ops were fused, what was left and why, and the time saved."""
from __future__ import annotations

import contextlib
import functools
import hashlib
import pathlib
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

from ._graph.regions import explained
from ._kept import keep, recall
from ._ops.region import all_loaded
from ._report_view import Fused, GraphReport, Left, Measuring, Report


class Entry(NamedTuple):
    nodes: tuple[str, ...]
    outputs: tuple[str, ...]
    device: str
    reason: str
    seconds: float
    other_seconds: float
    unfused_seconds: float
    against: str
    graph: str
    together: int = 1


class _Graph(NamedTuple):
    fused: list[Entry]
    left: list[Left]
    measuring: Measuring
    note: str
    untouched: str = ""  # a key of _UNTOUCHED


class NotFusedWarning(UserWarning):
    """Warns that a graph was left to Inductor for a reason that the caller can remove; each reason
    is reported once in a process."""


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
# are kept in files beside that cache. One file for each graph from Dynamo has the reports of the
# graphs that it was compiled to. The folder "graphs" has each report again, to be found by a region
# that runs although no graph with it was compiled in this process.


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
    """A context in which a graph from Dynamo is compiled. If the graph comes from a cache, its kept
    reports are added."""
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
    """What ``torch.compile`` fused in this process, what it left and why, and the time saved.

    Returns:
        A :class:`Report`: ``print`` it, or read its attributes.
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
                 calls.get(entry.graph, 0), entry.against, entry.together)


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
