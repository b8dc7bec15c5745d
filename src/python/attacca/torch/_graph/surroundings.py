"""Finds the ops around a region in its graph, and describes both in a text that is the same for
equal regions with equal surroundings."""
from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch

from .importer import Importer
from .kernels import TEXT, is_stand_in
from .nodes import GATHERS, VIEWS, is_product_op
from .region import Region
from .static import hint, is_size

_MOST = 32  # nodes around a region
_FUSED_BY_INDUCTOR = tuple(getattr(torch.Tag, name) for name in ("pointwise", "reduction")
                           if hasattr(torch.Tag, name))
_ALSO_POINTWISE = {"aten.gather", "aten.embedding"}  # without the tag


def around(region: Region, taken: Collection[torch.fx.Node]) -> list[torch.fx.Node]:
    """The ops before and after a region that Inductor may fuse with the region's own; empty if
    there are only views.

    The ops after the region read its results, directly or through each other. The search stops at
    products, at other ops that Inductor does not generate, and at the nodes ``taken``, those of all
    regions. A taken node that reads a result directly is still included, since its region may be
    left to Inductor. The ops before the region compute what only its epilogue reads.
    """
    found = dict.fromkeys(before(region))
    results = {*region.outputs}
    pending = [(node, output) for output in region.outputs for node in output.users]
    while pending and len(found) < _MOST:
        node, read = pending.pop(0)
        if node in found or node in region.covers or not _is_fused_by_inductor(node) \
                or (node in taken and read not in results):
            continue
        found[node] = None
        if Importer.op(node) in VIEWS and read in results:
            results.add(node)
        if node not in taken or node in results:
            pending += [(user, node) for user in node.users]
    return list(found) if any(Importer.op(node) not in VIEWS for node in found) else []


def before(region: Region) -> list[torch.fx.Node]:
    """The ops before a region that Inductor may compute in the kernel of its epilogue, because
    only the epilogue reads what they compute."""
    operands = set(region.inputs)  # of products: computed before the epilogue begins
    pending = [node for node in region.covers if is_product_op(node)]
    while pending:
        node = pending.pop()
        if node not in operands:
            operands.add(node)
            pending += node.all_input_nodes
    inside = {node for node in region.covers if node not in operands}
    found: list[torch.fx.Node] = []
    pending = [node for each in region.covers if each in inside for node in each.all_input_nodes]
    while pending and len(found) < _MOST:
        node = pending.pop(0)
        if node not in inside and _is_fused_by_inductor(node) and set(node.users) <= inside:
            inside.add(node)
            found.append(node)
            pending += node.all_input_nodes
    return found


def _is_fused_by_inductor(node: torch.fx.Node) -> bool:
    if node.op != "call_function":
        return False
    if Importer.op(node) in VIEWS:
        return True
    if Importer.op(node) in GATHERS | _ALSO_POINTWISE:
        # A mask in place of an index gives as many rows as it has ones.
        return all(each.meta["val"].dtype is not torch.bool for each in node.all_input_nodes[1:])
    return (isinstance(node.target, torch._ops.OpOverload) and not node.target._schema.is_mutable
            and torch.Tag.nondeterministic_seeded not in node.target.tags
            and any(tag in node.target.tags for tag in _FUSED_BY_INDUCTOR))


def with_surroundings(region: Region, near: Sequence[torch.fx.Node]) -> Region:
    """A region without a text, of the region's nodes and those near it: its inputs are what they
    read, its outputs what other nodes read of them."""
    nodes = sorted({*region.covers, *near})
    inside = set(nodes)
    inputs = dict.fromkeys(region.inputs) | dict.fromkeys(
        operand for node in nodes for operand in node.all_input_nodes
        if operand not in inside and isinstance(operand.meta.get("val"), torch.Tensor))
    outputs = [node for node in nodes if isinstance(node.meta.get("val"), torch.Tensor)
               and any(user not in inside for user in node.users)]
    return Region("", list(inputs), outputs, nodes)


def described(whole: Region) -> str:
    """The nodes as a text, numbered instead of named, with the sizes at hand."""
    names: dict[torch.fx.Node, str] = {}
    lines = []
    for node in whole.inputs:
        names[node] = f"%{len(names)}"
        value = node.meta["val"]
        lines.append(f"{value.dtype}{[*map(hint, value.shape)]}{[*map(hint, value.stride())]}"
                     f"{value.device}")

    def named(node: torch.fx.Node) -> Any:
        return hint(node.meta["val"]) if is_size(node) else names.get(node, "?")
    for node in whole.covers:
        args, kwargs = (torch.fx.node.map_arg(each, named) for each in (node.args, node.kwargs))
        text = node.meta[TEXT] if is_stand_in(node) else ""
        names[node] = f"%{len(names)}"
        lines.append(f"{node.target}{_numbers(args)}{_numbers(kwargs)}{text}")
    return "; ".join([*lines, f"return {[names[node] for node in whole.outputs]}"])


def _numbers(value: Any) -> Any:
    """Arguments with the sizes at hand instead of symbols."""
    if isinstance(value, torch.SymInt):
        return hint(value)
    if isinstance(value, (list, tuple)):
        return [_numbers(each) for each in value]
    if isinstance(value, dict):
        return {key: _numbers(each) for key, each in value.items()}
    return value
