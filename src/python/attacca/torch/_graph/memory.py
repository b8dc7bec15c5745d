"""Which nodes of an FX graph must keep their memory as it is: a region's results are tensors of
their own, row-major."""
from __future__ import annotations

import operator
from collections import Counter

import torch

from .importer import Importer

_READS_MEMORY = {"aten.as_strided", "aten.as_strided_copy", "aten.as_strided_scatter"}
_SHARED = "the graph returns it beside a tensor of the same memory"
_READ = "an op reads its memory by strides of its own"


def bound_to_memory(graph: torch.fx.Graph) -> dict[torch.fx.Node, str]:
    """The nodes that no region may compute, and why: views that are returned beside others of the
    same memory, and what as_strided reads in other strides than row-major ones."""
    bound: dict[torch.fx.Node, str] = {}
    returned = dict.fromkeys(node for end in graph.nodes if end.op == "output"
                             for node in end.all_input_nodes)
    chains = [_chain(node) for node in returned]
    whole = {chain[-1] for chain in chains if not any(map(_is_part, chain))}
    chains = [chain if chain[-1] in whole else _part(chain) for chain in chains]
    times = Counter(node for chain in chains for node in chain)
    shared = Counter(chain[-1] for chain in chains)
    for chain in chains:
        if shared[chain[-1]] > 1:
            bound.update((node, _SHARED) for node in chain[:-1] if times[node] == 1)
    for node in graph.nodes:
        if node.op == "call_function" and Importer.op(node) in _READS_MEMORY:
            *views, source = _chain(node.all_input_nodes[0])
            bound.update(dict.fromkeys(views, _READ))
            if source.op == "call_function" and not source.meta["val"].is_contiguous():
                bound[source] = _READ
    for node in filter(_is_part, list(bound)):
        split, = node.all_input_nodes
        bound.update(dict.fromkeys([split, *split.users], bound[node]))
    return bound


def _chain(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The node, what it is a view of, and so on."""
    chain = [node]
    while (source := _viewed(chain[-1])) is not None:
        chain.append(source)
    return chain


def _is_part(node: torch.fx.Node) -> bool:
    return node.target is operator.getitem


def _part(chain: list[torch.fx.Node]) -> list[torch.fx.Node]:
    """A chain that ends at a part of a split: parts share no element."""
    end = next((i for i, node in enumerate(chain) if _is_part(node)), len(chain))
    return chain[:end + 1]


def _viewed(node: torch.fx.Node) -> torch.fx.Node | None:
    """The node whose memory a view shares."""
    of = node.args[0] if node.op == "call_function" and node.args else None
    if not isinstance(of, torch.fx.Node):
        return None
    if _is_part(node):
        return of if _viewed(of) is not None else None
    return of if getattr(node.target, "is_view", False) else None
