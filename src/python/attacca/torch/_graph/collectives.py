"""Collectives beside products: those that Inductor overlaps with them, and those that are equal."""
from __future__ import annotations

import torch

from .importer import Importer

# Ops between a product and a collective that move elements only.
_MOVES = {"aten.cat", "aten.clone", "aten.permute", "aten.reshape", "aten.slice", "aten.split",
          "aten.squeeze", "aten.t", "aten.transpose", "aten.unsqueeze", "aten.view",
          "aten._unsafe_view", "getitem", "_c10d_functional.wait_tensor"}
GATHER = "_c10d_functional.all_gather_into_tensor"
SCATTER = "_c10d_functional.reduce_scatter_tensor"
REDUCE = "_c10d_functional.all_reduce"
WAIT = "_c10d_functional.wait_tensor"


def overlapped(product: torch.fx.Node) -> str | None:
    """The collective beside the product whose copies Inductor overlaps with it, if
    ``torch._inductor.config._micro_pipeline_tp`` asks for that: that pass runs later and finds
    ATen's products only. None: there is no such collective."""
    from torch._inductor import config

    if not config._micro_pipeline_tp:
        return None
    if any(_reaches(node, GATHER, forward=False) for node in product.all_input_nodes):
        return "all_gather"
    if any(_reaches(user, SCATTER, forward=True) for user in product.users):
        return "reduce_scatter"
    return None


def _reaches(node: torch.fx.Node, collective: str, forward: bool) -> bool:
    """Whether the collective is this node, or behind moves of elements."""
    if node.op != "call_function":
        return False
    op = Importer.op(node)
    if op == collective:
        return True
    return op in _MOVES and any(_reaches(near, collective, forward)
                                for near in (node.users if forward else node.all_input_nodes))


def merge_gathers(graph: torch.fx.Graph) -> None:
    """Makes equal all_gathers one, with the moves of elements behind them, so that products of the
    same rows can become one region.

    Layers that share an input, such as a gate's two, gather it one by one where each is
    parallelised alone. Every rank has the same graph, and so merges the same.
    """
    from torch._inductor import config

    if config._micro_pipeline_tp:  # that pass merges them itself
        return
    first: dict[tuple[str, str, str], torch.fx.Node] = {}
    behind: set[torch.fx.Node] = set()
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        op = Importer.op(node)
        if op == GATHER or (op in _MOVES and not behind.isdisjoint(node.all_input_nodes)):
            kept = first.setdefault((str(node.target), str(node.args), str(node.kwargs)), node)
            if kept is node:
                behind.add(node)
            else:
                node.replace_all_uses_with(kept)
                graph.erase_node(node)
