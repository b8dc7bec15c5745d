"""Finds regions that a GPU may compute by one launch: products of the same rows that do not depend
on each other and have alike epilogues, such as a transformer's query, key and value.

Such regions become one region of several products. Whether its plan launches them together is
decided later.
"""
from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ..._functions.table import Refused
from .._ops.region import nameless
from .importer import Importer
from .kernels import is_stand_in
from .nodes import is_product_op, is_view, viewed_in
from .region import Region, region_of
from .replace import views_behind

MOST = 8  # products of one launch
# The products whose left operand has rows that several may share, and its place.
_LEFT = {"aten.mm": 0, "aten.addmm": 1, "aten.linear": 0, "aten.matmul": 0, "aten._int_mm": 0,
         "aten._scaled_mm": 0, "aten._weight_int8pack_mm": 0, "attacca.quantized_linear": 0}


class Together(NamedTuple):
    """Regions that may be launched together."""

    region: Region  # all of them as one, without views of its results
    members: tuple[int, ...]  # their places among the graph's regions
    parts: tuple[Region, ...]  # each alone, without views of its results


class _Part(NamedTuple):
    """A region without views of its results."""

    place: int
    region: Region
    views: tuple[torch.fx.Node, ...]  # from the product's rows back to what they are a view of

    @property
    def first(self) -> torch.fx.Node:
        return min(self.region.outputs)


def find_together(regions: Sequence[Region]) -> list[Together]:
    """The groups of regions that may be launched together, in the graph's order; a region is in one
    at most."""
    importer = Importer()
    results = {node for region in regions for node in region.outputs}
    alike: dict[Any, list[_Part]] = {}
    for place, region in enumerate(regions):
        part = _part(importer, place, region, results)
        if part is not None:
            alike.setdefault(_kind(part), []).append(part)
    found = []
    for parts in alike.values():
        for group in _at_one_place(sorted(parts, key=lambda part: part.first)):
            if len(group) > 1 and not _straddled(group, regions):
                found.append(_together(importer, group))
    return sorted(found, key=lambda each: min(each.region.outputs))


def _part(importer: Importer, place: int, region: Region,
          results: set[torch.fx.Node]) -> _Part | None:
    """The region as a member of a group; None: it cannot be one. ``results``: of all regions.

    It gives no views of its results, and of a product that is a result nothing else: so a key with
    the squares for its norm is like a value without.
    """
    products = [node for node in region.covers if is_product_op(node)]
    if len(products) != 1 or is_stand_in(products[0]):
        return None
    left_at = _LEFT.get(Importer.op(products[0]))
    if left_at is None or left_at >= len(products[0].args):
        return None
    views = _views_of(products[0].args[left_at], results)
    covers = set(region.covers)
    outputs = list(dict.fromkeys(viewed_in(node, covers) for node in region.outputs))
    if products[0] in outputs:
        outputs = products  # it is stored in any case; its readers compute the rest, too
    try:
        made = region_of(importer, _needed(outputs, region, views), outputs, region.bare)
    except Refused:
        return None
    return _Part(place, made, views)


def _views_of(rows: Any, results: set[torch.fx.Node]) -> tuple[torch.fx.Node, ...]:
    """The node and what it is a view of, back to a value that is none or that a region computes."""
    chain: list[torch.fx.Node] = [rows]
    while is_view(chain[-1]) and chain[-1] not in results:
        chain.append(chain[-1].all_input_nodes[0])
    return tuple(chain)


def _needed(outputs: Sequence[torch.fx.Node], region: Region,
            views: Sequence[torch.fx.Node]) -> list[torch.fx.Node]:
    """The region's nodes that compute the outputs, and the views by which it reads its rows."""
    inside = {*region.covers, *views[:-1]}
    needed: set[torch.fx.Node] = set()
    pending = list(outputs)
    while pending:
        node = pending.pop()
        if node in inside and node not in needed:
            needed.add(node)
            pending += node.all_input_nodes
    return sorted(needed)


# ---- Which are alike


def _kind(part: _Part) -> Any:
    """What is equal for regions that may be launched together."""
    *views, source = part.views
    return source, tuple(map(_viewed, views)), _structure(part.region.graph)


def _viewed(view: torch.fx.Node) -> str:
    """How a view is made of its first operand, with sizes instead of the nodes that compute
    them."""
    first = view.all_input_nodes[0]

    def sized(node: torch.fx.Node) -> Any:
        return "" if node is first else str(node.meta["val"])
    args, kwargs = (torch.fx.node.map_arg(each, sized) for each in (view.args, view.kwargs))
    return f"{view.target}{args}{kwargs}"


_EXTENTS = re.compile(r"\[[^\]]*\]")
_EXTENT = re.compile(r"[^\[\],; ][^\[\],;]*")


def _structure(text: str) -> str:
    """A region's text with its names numbered, and with "_" for all extents and strides but 1."""
    def without(extents: re.Match[str]) -> str:
        return _EXTENT.sub(lambda each: each[0] if each[0] == "1" else "_", extents[0])
    return _EXTENTS.sub(without, nameless(text))


# ---- Where a call of all of them has its place


def _at_one_place(parts: Sequence[_Part]) -> list[list[_Part]]:
    """Parts, in the graph's order, in groups whose inputs are all known before the group's first
    result, or are views of such values. So no member depends on another."""
    groups: list[list[_Part]] = []
    for part in parts:
        for group in groups:
            if len(group) < MOST and _reads_before(part, group[0].first):
                group.append(part)
                break
        else:
            if _reads_before(part, part.first):
                groups.append([part])
    return groups


def _reads_before(part: _Part, first: torch.fx.Node) -> bool:
    return all(views_behind(node, first) is not None for node in part.region.inputs)


def _straddled(group: Sequence[_Part], regions: Sequence[Region]) -> bool:
    """Whether another region has a result before the group's first and reads that one or a value
    from behind it: each could depend on the other, if both become calls."""
    first = group[0].first
    members = {part.place for part in group}
    return any(place not in members and min(region.outputs) < first
               and any(views_behind(node, min(region.outputs)) is None and first <= node
                       for node in region.inputs)
               for place, region in enumerate(regions))


def _together(importer: Importer, group: Sequence[_Part]) -> Together:
    """The group as one region, whose products all read the first one's rows."""
    nodes = sorted({node for part in group for node in part.region.covers})
    outputs = [node for part in group for node in part.region.outputs]
    same = {view: first for part in group for view, first in zip(part.views[:-1], group[0].views)}
    whole = region_of(importer, nodes, outputs, all(part.region.bare for part in group), same)
    return Together(whole, tuple(part.place for part in group),
                    tuple(part.region for part in group))
