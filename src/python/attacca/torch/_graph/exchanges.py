"""Regions beside a collective that become one op with it: :mod:`.._parallel.ops`.

What is taken depends on the graph alone, so that all ranks take the same.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ..._functions.table import Refused
from .._ops.text_argument import written
from .._parallel import ops
from .collectives import GATHER, REDUCE, SCATTER, WAIT
from .importer import Importer, dtype_of
from .region import Region
from .regions import Left
from .replace import remove_unused
from .rows import RESHAPES, ByRows, columns_of
from .sizes import dim_text

_ELSEWHERE = "the gathered rows are read elsewhere, too"


class Claimed(NamedTuple):
    """A region that is one with a collective."""

    region: Region  # its text is the one with the symbol M
    collective: str
    result: torch.fx.Node  # what replaces its output, or what follows the collective


class Claims(NamedTuple):
    """What became one with a collective, and what did not."""

    claimed: list[Claimed]
    others: list[Region]
    left: list[Left]  # those of the others that are beside a collective
    replaced: dict[torch.fx.Node, torch.fx.Node]


def claim(graph: torch.fx.Graph, regions: Sequence[Region], mode: str, tuning: str) -> Claims:
    """Makes regions one with the collectives beside them."""
    options = ops.Options(mode, tuning).text()
    claims = Claims([], [], [], {})
    unused: set[torch.fx.Node] = set()
    covered = {node for region in regions for node in region.covers}
    for original in regions:
        inputs = [claims.replaced.get(node, node) for node in original.inputs]
        region = original._replace(inputs=inputs)
        try:
            found = _gather_before(region) or _reduction_behind(region, covered)
            if found is None:
                claims.others.append(original)
                continue
            text, result = found.replace(graph, region, options)
        except Refused as reason:
            claims.left.append(Left(region.outputs[0].name, "region",
                                    f"not one with the collective beside it: {reason}"))
            claims.others.append(original)
            continue
        claims.replaced[found.last] = result
        found.last.replace_all_uses_with(result)
        unused |= {*region.covers, *found.nodes}
        claims.claimed.append(Claimed(region._replace(graph=text), found.collective, result))
    remove_unused(graph, unused)
    return claims


# ---- Calls


def _call(graph: torch.fx.Graph, target: Any, *arguments: Any) -> torch.fx.Node:
    """A call's node, and its value's shape."""
    node = graph.call_function(target, arguments)
    values = torch.fx.node.map_arg(arguments, lambda each: each.meta["val"])
    with _fake_mode(node):
        node.meta["val"] = target(*values)
    return node


def _fake_mode(node: torch.fx.Node) -> Any:
    """The mode of the fake tensors that a node reads.

    Raises:
        Refused: They are not fake.
    """
    modes = [getattr(each.meta["val"], "fake_mode", None) for each in node.all_input_nodes]
    mode = next(filter(None, modes), None)
    if mode is None:
        raise Refused("its tensors are not fake")
    return mode


def _merged(graph: torch.fx.Graph, node: torch.fx.Node, has_rows: bool) -> torch.fx.Node:
    """A value with its leading axes as one."""
    if not has_rows or node.meta["val"].dim() == 2:
        return node
    return _call(graph, torch.ops.aten.reshape.default, node, [-1, columns_of(node)])


def _shaped(graph: torch.fx.Graph, node: torch.fx.Node, like: torch.fx.Node) -> torch.fx.Node:
    """A value with rows in the shape of another.

    Raises:
        Refused: More than one extent is unknown.
    """
    shape = [size if isinstance(size, int) else -1 for size in like.meta["val"].shape]
    if shape.count(-1) > 1:
        raise Refused("several sizes are unknown")
    if len(shape) == 2:
        return node
    return _call(graph, torch.ops.aten.reshape.default, node, shape)


# ---- all_gather


class _Gather(NamedTuple):
    """The gather whose rows a region reads."""

    rows: torch.fx.Node  # the region's input
    node: torch.fx.Node  # of the collective
    nodes: list[torch.fx.Node]
    last: torch.fx.Node
    collective: str = "all_gather"

    def replace(self, graph: torch.fx.Graph, region: Region,
                options: str) -> tuple[str, torch.fx.Node]:
        """Adds the call; returns its text and its result."""
        by_rows = ByRows(self.rows.meta["val"].shape[:-1])
        for node in region.covers:
            by_rows.add(node)
        inputs = [self.rows, *[node for node in region.inputs if node is not self.rows]]
        typed = [by_rows.input(node) for node in inputs]
        if not typed[0][1]:
            raise Refused("the gathered rows are not a product's left operand")
        text = by_rows.text([each for each, _ in typed], self.last)
        mine: Any = self.node.args[0]
        group = str(self.node.args[2])
        with graph.inserting_before(self.last):
            given = [_merged(graph, node, has_rows)
                     for node, (_, has_rows) in zip([mine, *inputs[1:]], typed)]
            call = _call(graph, ops.all_gather_matmul, given, written(text), options,
                         ops.ranks_of(group), group)
            return text, _shaped(graph, call, self.last)


def _gather_before(region: Region) -> _Gather | None:
    """The gather of rows that the region reads.

    Raises:
        Refused: There is one, and the region cannot be one with it.
    """
    for rows in region.inputs:
        nodes = _gathering(rows)
        if nodes is None:
            continue
        inside = {*nodes, *region.covers}
        if any(user not in inside for node in nodes for user in node.users):
            raise Refused(_ELSEWHERE)
        if len(region.outputs) != 1:
            raise Refused("the region has several results")
        return _Gather(rows, nodes[-1], nodes, region.outputs[0])
    return None


def _gathering(rows: torch.fx.Node) -> list[torch.fx.Node] | None:
    """From a gathered value back to its collective; None: it is not one.

    The parts of a gather along the first axis, which is 1, may stand beside each other along the
    second: then they are as many rows in the same order.
    """
    found: list[torch.fx.Node] = []
    node: Any = rows
    if node.op == "call_function" and Importer.op(node) == "aten.cat":
        parts: Any = node.args[0]
        split = _one_source(parts)
        if split is None or Importer.op(split) != "aten.split" or _axis(node, 1) != 1 \
                or _axis(split, 2) != 0 or split.args[1] != 1 \
                or [part.args[1] for part in parts] != list(range(len(split.meta["val"]))):
            return None
        found += [node, *parts, split]
        node = split.args[0]
    if node.op != "call_function" or Importer.op(node) != WAIT \
            or Importer.op(node.args[0]) != GATHER:
        return None
    return [*found, node, node.args[0]]


def _one_source(parts: Any) -> torch.fx.Node | None:
    """The node that all parts are of."""
    sources = {part.args[0] for part in parts
               if part.op == "call_function" and Importer.op(part) == "getitem"}
    return sources.pop() if len(sources) == 1 and all(
        part.op == "call_function" and Importer.op(part) == "getitem" for part in parts) else None


def _axis(node: torch.fx.Node, place: int) -> Any:
    """The axis that a call of cat or split names."""
    return node.args[place] if len(node.args) > place else node.kwargs.get("dim", 0)


# ---- reduce_scatter and all_reduce


class _Reduction(NamedTuple):
    """The reduction of a region's result, and what follows it."""

    output: torch.fx.Node  # the region's
    node: torch.fx.Node  # of the collective
    wait: torch.fx.Node
    nodes: list[torch.fx.Node]
    tail: torch.fx.Node | None
    collective: str

    @property
    def last(self) -> torch.fx.Node:
        return self.tail or self.wait

    def replace(self, graph: torch.fx.Graph, region: Region,
                options: str) -> tuple[str, torch.fx.Node]:
        """Adds the call; returns the text of the product and the result."""
        product = ByRows(self._lead(self.node.args[0]))
        for node in region.covers:
            product.add(node)
        # The first input has rows.
        inputs = sorted(region.inputs, key=lambda node: not product.input(node)[1])
        typed = [product.input(node) for node in inputs]
        text = product.text([each for each, _ in typed], self.output)
        group = str(self.node.args[-1])
        ranks = ops.ranks_of(group)
        tail, others = self._following([f"part{rank}" for rank in range(ranks)])
        after = written(self._following(["part0"])[0]) if self.tail is not None else ""
        with graph.inserting_before(self.last):
            given = [_merged(graph, node, has_rows)
                     for node, (_, has_rows) in zip(inputs, typed)]
            beside = [_merged(graph, node, has_rows) for node, has_rows in others]
            op = ops.matmul_all_reduce if self.collective == "all_reduce" else \
                ops.matmul_reduce_scatter
            call = _call(graph, op, [*given, *beside], len(given), written(text), written(tail),
                         after, options, ranks, group)
            return text, _shaped(graph, call, self.last)

    def _following(self, parts: Sequence[str]) -> tuple[str, list[tuple[torch.fx.Node, bool]]]:
        """The text of the parts' sum and what follows it, and the other inputs."""
        rows = ByRows(self._lead(self.wait))
        dtype, columns = dtype_of(self.wait), columns_of(self.wait)
        rows.define(self.wait, " + ".join(f'"{part}"' for part in parts))
        typed = [f'"{part}": {dtype}[{ops.ROWS}, {columns}]' for part in parts]
        others: list[tuple[torch.fx.Node, bool]] = []
        if self.tail is not None:
            rows.add(self.tail)
            for node in self.tail.all_input_nodes:
                if node is not self.wait:
                    text, has_rows = rows.input(node)
                    typed.append(text)
                    others.append((node, has_rows))
        return rows.text(typed, self.last), others

    @staticmethod
    def _lead(node: Any) -> Sequence[Any]:
        lead: Sequence[Any] = node.meta["val"].shape[:-1]
        return lead


def _reduction_behind(region: Region, covered: set[torch.fx.Node]) -> _Reduction | None:
    """The reduction of the region's result.

    Raises:
        Refused: There is one, and the region cannot be one with it.
    """
    output = region.outputs[0]
    nodes: list[torch.fx.Node] = []
    node: Any = output
    while len(node.users) == 1 and Importer.op(next(iter(node.users))) in RESHAPES:
        node = next(iter(node.users))
        nodes.append(node)
        if columns_of(node) != columns_of(output):
            return None
    node = _parts_below(node, nodes)
    if len(region.outputs) != 1 or len(node.users) != 1:
        return None
    collective = next(iter(node.users))
    if collective.op != "call_function" or Importer.op(collective) not in (REDUCE, SCATTER):
        return None
    if collective.args[1] != "sum":
        raise Refused(f"the ranks' results are reduced by {collective.args[1]}")
    wait, = collective.users
    nodes += [collective, wait]
    name = "all_reduce" if Importer.op(collective) == REDUCE else "reduce_scatter"
    return _Reduction(output, collective, wait, nodes, _tail(wait, covered), name)


def _parts_below(node: torch.fx.Node, nodes: list[torch.fx.Node]) -> torch.fx.Node:
    """Behind a split of the second axis whose parts are put below each other: if the first axis is
    1, the rows are as they were."""
    split = next(iter(node.users), None)
    if split is None or split.op != "call_function" or Importer.op(split) != "aten.split" \
            or _axis(split, 2) != 1 or node.meta["val"].shape[0] != 1 or len(node.users) != 1:
        return node
    cats = {user for part in split.users for user in part.users}
    cat = cats.pop() if len(cats) == 1 else None
    if cat is None or Importer.op(cat) != "aten.cat" or _axis(cat, 1) != 0:
        return node
    parts: Any = cat.args[0]
    if _one_source(parts) is not split \
            or [part.args[1] for part in parts] != list(range(len(split.meta["val"]))):
        return node
    nodes += [split, *parts, cat]
    return cat


def _tail(wait: torch.fx.Node, covered: set[torch.fx.Node]) -> torch.fx.Node | None:
    """The elementwise op that follows a reduction, such as a residual's sum."""
    tail = next(iter(wait.users), None)
    if tail is None or len(wait.users) != 1 or tail in covered or tail.op != "call_function" \
            or torch.Tag.pointwise not in getattr(tail.target, "tags", ()):
        return None
    value = tail.meta["val"]
    like = wait.meta["val"]
    same = value.dtype == like.dtype and len(value.shape) == len(like.shape) and all(
        dim_text(a) == dim_text(b) for a, b in zip(value.shape, like.shape))
    return tail if same else None
