"""Replaces regions of an FX graph by calls of the custom op."""
from __future__ import annotations

import operator

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .._ops.region import empty_results, region as region_op, signature_of
from .._ops.text_argument import written
from .importer import Importer
from .nodes import VIEWS
from .region import Region
from .static import is_size


def replace(graph: torch.fx.Graph, region: Region, mode: str,
            tuning: str) -> dict[torch.fx.Node, torch.fx.Node]:
    """Inserts the call of a region; returns the node that replaces each output."""
    text = written(region.graph)
    arguments = (list(region.inputs), text, mode, tuning, 0.0)
    fake = [node.meta["val"] for node in region.inputs]
    faking = next((value.fake_mode for value in fake if isinstance(value, FakeTensor)), None)
    _advance_views(region)
    dead = _left_dead(region)
    with graph.inserting_before(_place(region, dead)):
        call = graph.call_function(region_op, arguments)
        if faking is not None:
            with faking:
                call.meta["val"] = empty_results(signature_of(text, mode, fake[0].device),
                                                 fake, fake[0].device)
        parts = [graph.call_function(operator.getitem, (call, i))
                 for i in range(len(region.outputs))]
    for i, (part, output) in enumerate(zip(parts, region.outputs)):
        part.meta.update(output.meta)
        if "val" in call.meta:
            part.meta["val"] = call.meta["val"][i]
        # Nodes that become unused keep their operands, and their place before the call.
        output.replace_all_uses_with(part, delete_user_cb=lambda user: user not in dead)
    _read_sizes_elsewhere(region, parts)
    return dict(zip(region.outputs, parts))


def _read_sizes_elsewhere(region: Region, parts: list[torch.fx.Node]) -> None:
    """Makes nodes that read sizes of values inside the region read them from its inputs and
    outputs."""
    extents = {str(size): (node, axis) for node in [*parts, *region.inputs]
               for axis, size in enumerate(node.meta["val"].shape)}
    for node in region.covers:
        for user in list(node.users):
            if user.op == "call_function" and str(user.target) == "aten.sym_size.int":
                place = extents.get(str(user.meta["val"]))
                if place is not None:
                    user.args = place


def _left_dead(region: Region) -> set[torch.fx.Node]:
    """The nodes that become unused: all that the region covers except views that others use too."""
    covers = set(region.covers)
    stays: set[torch.fx.Node] = set()
    for node in reversed(region.covers):
        if node not in region.outputs and any(user not in covers or user in stays
                                              for user in node.users):
            stays.add(node)
    return covers - stays


def moves_collectives(region: Region) -> bool:
    """Whether collectives would come behind others if the region were replaced. Ranks that decide
    otherwise about the region would then meet in different collectives."""
    return any(node.op == "call_function" and str(node.target).startswith("_c10d_functional.")
               for node in _moved(region, _left_dead(region)))


def views_behind(node: torch.fx.Node, first: torch.fx.Node) -> list[torch.fx.Node] | None:
    """The nodes, behind another, by which a node is a view of values before it, such as a weight
    that is transposed late. None: it is no such view."""
    if node < first:
        return []
    if node.op != "call_function" or not (Importer.op(node) in VIEWS or is_size(node)):
        return None
    found = [node]
    for operand in node.all_input_nodes:
        behind = views_behind(operand, first)
        if behind is None:
            return None
        found += behind
    return found


def _advance_views(region: Region) -> None:
    """Moves views that the region reads before its first output, where what they are views of
    allows it: then the outputs' users need not be moved."""
    first = min(region.outputs)
    views = {view for node in region.inputs for view in views_behind(node, first) or ()}
    for view in sorted(views):
        first.prepend(view)


def _moved(region: Region, dead: set[torch.fx.Node]) -> set[torch.fx.Node]:
    """The users of the region's outputs that come before its last input, with what depends on
    them. Inputs that :func:`_advance_views` moves do not count."""
    first = min(region.outputs)
    last = max((node for node in region.inputs if not views_behind(node, first)), default=first)
    moved: set[torch.fx.Node] = set()
    pending = list(region.outputs)
    while pending:
        users = {user for user in pending.pop().users
                 if not last < user and user not in dead and user.op != "output"} - moved
        moved |= users
        pending += users
    return moved


def _place(region: Region, dead: set[torch.fx.Node]) -> torch.fx.Node:
    """The place for the call, right after the last input; users of its outputs are moved after
    it."""
    last = max(region.inputs)
    after = last
    for node in sorted(_moved(region, dead)):
        after.append(node)
        after = node
    place = last.next
    while place.op == "placeholder":
        place = place.next
    return place


def remove_unused(graph: torch.fx.Graph, covers: set[torch.fx.Node]) -> None:
    """Erases the nodes of ``covers`` that are no longer used."""
    for node in reversed(list(graph.nodes)):
        if node in covers and not node.users:
            graph.erase_node(node)
    graph.lint()
