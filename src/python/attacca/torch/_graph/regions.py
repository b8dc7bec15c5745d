"""Finds the regions of an FX graph: its nodes are written in the text form, which the core folds
and cuts.

Nodes that can be written are grouped into levels; nodes that cannot lie between levels. Everything
that a region reads is computed before its level, so that no region depends on itself.
"""
from __future__ import annotations

import functools
import graphlib
import json
import re
from collections.abc import Collection
from typing import Any, NamedTuple

import torch

from ... import _core
from ..._errors import Error
from ..._functions.table import Refused
from .._ops.region import has_kernel
from .collectives import overlapped
from .group_rows import reads
from .importer import Importer
from .kernels import is_stand_in
from .memory import bound_to_memory
from .nodes import (
    GATHERS,
    VIEWS,
    is_product_op,
    is_tensor,
    is_view,
    operands_of,
    sizes_alone,
    tensors_of,
    writes_in_place,
)
from .region import Region, region_of, text_of
from .sizes import dim_text

_CORE_VIEWS = {"transpose", "permute", "reshape", "slice", "broadcast"}


class Left(NamedTuple):
    """A node that is left unchanged, and why."""

    node: str
    op: str
    reason: str


class Found(NamedTuple):
    """The regions of one graph, and what is left."""

    regions: list[Region]
    left: list[Left]


def find(graph: torch.fx.Graph) -> Found:
    """Finds the regions of a graph, which is not changed, and the reasons why other products are in
    none."""
    if writer := writes_in_place(graph):
        return Found([], [Left(writer.name, Importer.op(writer),
                               "it writes in place: the order of ops matters")])
    importer = Importer()
    translated: set[torch.fx.Node] = set()
    left: list[Left] = []
    bound = bound_to_memory(graph)
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        try:
            if node in bound:
                raise Refused(bound[node])
            if is_product_op(node) and (collective := overlapped(node)):
                raise Refused(f"Inductor overlaps it with {collective}")
            importer.statement(node)
            translated.add(node)
        except Refused as reason:
            if is_product_op(node):
                left.append(Left(node.name, Importer.op(node), str(reason)))
    if not any(is_product_op(node) for node in translated):
        return Found([], left)
    sizes = sizes_alone(graph)
    levels = _levels(graph, translated, sizes)
    regions: list[Region] = []
    by_level: dict[int, list[torch.fx.Node]] = {}
    for node in graph.nodes:
        if node in levels:
            by_level.setdefault(levels[node], []).append(node)
    for _, nodes in sorted(by_level.items()):
        if any(is_product_op(node) for node in nodes):
            _find_in_level(importer, nodes, sizes, regions, left)
    return Found(regions, left)


def _levels(graph: torch.fx.Graph, translated: set[torch.fx.Node],
            sizes: set[torch.fx.Node]) -> dict[torch.fx.Node, int]:
    """The level of each translated node: the latest that its users allow, so that it is near
    them."""
    after: dict[torch.fx.Node, int] = {}
    for node in graph.nodes:
        before = max((after[n] for n in node.all_input_nodes if n not in sizes), default=0)
        if node in sizes:
            before = 0
        free = node in translated or node in sizes or node.op in ("placeholder", "get_attr")
        after[node] = before if free else before + 1
    latest: dict[torch.fx.Node, int] = {}
    for node in reversed(graph.nodes):
        if node not in translated:
            continue
        bounds = [latest[user] if user in translated else after[user] - 1
                  for user in node.users if user.op != "output" and user not in sizes]
        # A node that only the graph's outputs use stays at its earliest level.
        latest[node] = max(min(bounds), after[node]) if bounds else after[node]
    return latest


def explained(text: str, device: Any) -> _core.Plan:
    """The plan of a text, to be explained: cut as for ``device``; where that cannot be opened, as
    for the CPU, unless the text launches a user's kernel."""
    def compiled(where: str) -> _core.Plan:
        return _core.Plan.compile(_core.Graph.parse(text), device=where, mode="fp32",
                                  tuning="known", tuning_seconds=0.0, threads=1,
                                  batch_invariant=False, fuse=True)
    where = str(device)
    try:
        return compiled(where if where.startswith("cuda") else "cpu")
    except Error:
        if has_kernel(text):
            raise
        return compiled("cpu")


def _explanation(text: str, device: str) -> Any:
    """The core's explanation of a graph, from JSON; equal graphs are folded and cut once.

    Raises:
        Error: The core refuses the graph.
    """
    if has_kernel(text):
        return json.loads(explained(text, device).explain_json())
    names: dict[str, int] = {}
    numbered = _QUOTED.sub(lambda name: f'"@{names.setdefault(name[1], len(names))}"', text)
    known = list(names)
    try:
        explanation = _explained_json(numbered, device)
    except Error as error:
        raise Error(*(_NUMBER.sub(lambda number: known[int(number[1])], part)
                      for part in (error.what, error.where, error.fix))) from None
    return json.loads(_NUMBER.sub(lambda number: known[int(number[1])], explanation))


_QUOTED, _NUMBER = re.compile('"([^"]*)"'), re.compile("@([0-9]+)")


@functools.lru_cache(maxsize=256)
def _explained_json(text: str, device: str) -> str:
    return explained(text, device).explain_json()


def _find_in_level(importer: Importer, nodes: list[torch.fx.Node], sizes: set[torch.fx.Node],
                   regions: list[Region], left: list[Left], plain: bool = False) -> None:
    """Finds the regions of a level; ``plain``: leaves out what has sizes that are no sums of
    products."""
    given = operands_of(nodes)
    inputs, nodes = _readable(importer, given, nodes, left, plain)
    inside = set(nodes) | sizes
    outputs = [n for n in tensors_of(nodes) if any(user not in inside for user in n.users)]
    if not outputs:
        return
    try:
        found = _explanation(text_of(importer, "level", inputs, nodes, outputs),
                             str(outputs[0].meta["val"].device))
    except Error as error:
        kernels = [node for node in nodes if is_stand_in(node)]
        if not plain and any(_unreadable(importer, node, True) for node in [*given, *nodes]):
            # torch may know that such a size equals another one, which the text does not say.
            _find_in_level(importer, nodes, sizes, regions, left, True)
            return
        left += [Left(n.name, Importer.op(n), str(error)) for n in kernels or nodes
                 if is_product_op(n)]
        if kernels:  # the other nodes may make regions without them
            _find_in_level(importer, [node for node in nodes if node not in kernels], sizes,
                           regions, left, plain)
        return
    by_name = {node.name: node for node in [*inputs, *nodes]}
    computed = {by_name[name] for region in found["regions"] for name in region["outputs"]
                if name in by_name}
    made: list[Region] = []
    widened: list[tuple[Region, str]] = []  # with results that the core's regions do not have
    for region in found["regions"]:
        if region["kind"] not in ("gemm", "gated gemm", "user kernel"):
            continue
        product = region["gemms"][0]["node"] if region["gemms"] else region["kernel"]["node"]
        try:
            made.append(_region(importer, region, by_name, set(inputs), computed, sizes))
            if not {node.name for node in made[-1].outputs} <= set(region["outputs"]):
                widened.append((made[-1], product))
        except Refused as reason:
            left.append(Left(product, "product", str(reason)))
    while widened and _depend_on_each_other(made):
        dropped, product = widened.pop()
        made.remove(dropped)
        left.append(Left(product, "product", "a region of it would depend on itself"))
    regions += made
    # The core's nodes that are parts of an FX node have no name in the graph.
    left += [Left(r["node"], r["op"], r["reason"]) for r in found["not_fused"]
             if r["node"] in by_name]


def _depend_on_each_other(regions: list[Region]) -> bool:
    """Whether a region's call would read what is computed from its own results."""
    place = {node: i for i, region in enumerate(regions) for node in region.outputs}
    reads: dict[int, set[int]] = {}
    for i, region in enumerate(regions):
        seen, pending = set(region.inputs), list(region.inputs)
        while pending:
            node = pending.pop()
            if node not in place:
                new = set(node.all_input_nodes) - seen
                seen |= new
                pending += new
        reads[i] = {place[node] for node in seen if node in place}
    try:
        graphlib.TopologicalSorter(reads).prepare()
    except graphlib.CycleError:
        return True
    return False


def _unreadable(importer: Importer, node: torch.fx.Node, plain: bool) -> str:
    """Why a tensor cannot be written as an input; "": it can be, or is a tuple of tensors."""
    if not is_tensor(node):
        return ""
    try:
        importer.type_text(node)
        for size in node.meta["val"].shape if plain else ():
            dim_text(size)
    except Refused as reason:
        return str(reason)
    return ""


def _readable(importer: Importer, inputs: list[torch.fx.Node], nodes: list[torch.fx.Node],
              left: list[Left], plain: bool) -> tuple[list[torch.fx.Node], list[torch.fx.Node]]:
    """The inputs and nodes without the inputs whose type cannot be written, and without what
    depends on them."""
    dropped = {node: f"its operand {node.name}: {reason}" for node in inputs
               if (reason := _unreadable(importer, node, plain))}
    kept = []
    for node in nodes:
        reason = next((dropped[each] for each in node.all_input_nodes if each in dropped), "")
        if plain and not reason:
            reason = _unreadable(importer, node, plain)
        if reason:
            dropped[node] = reason
            if is_product_op(node) or not set(node.all_input_nodes).isdisjoint(inputs):
                left.append(Left(node.name, Importer.op(node), reason))
        else:
            kept.append(node)
    return operands_of(kept), kept


def _region(importer: Importer, region: dict[str, Any],
            by_name: dict[str, torch.fx.Node], given: set[torch.fx.Node],
            computed: set[torch.fx.Node], sizes: set[torch.fx.Node]) -> Region:
    """The region of the core as a region of the graph.

    Raises:
        Refused: It cannot be one.
    """
    outputs = _stored_once(_results(region, by_name, sizes))
    stop = given | {by_name[name] for name in region["inputs"] if name in by_name}
    if any(name not in by_name for name in region["inputs"]):
        # Values between nodes, such as sums of quantised weights: this region computes them, from
        # what other regions give.
        stop |= computed - set(outputs)
    covers: dict[torch.fx.Node, None] = {}
    pending = list(outputs)
    while pending:
        node = pending.pop()
        if node in covers:
            continue
        covers[node] = None
        pending += [n for n in reads(node) if n not in stop and by_name.get(n.name) is n]
    nodes = [node for node in by_name.values() if node in covers and node not in sizes]
    # The core may have made readers read another value, such as the same in f32.
    outputs = _stored_once([*outputs, *(
        node for node in nodes if node not in outputs and Importer.op(node) not in VIEWS | GATHERS
        and not all(user in covers or user in sizes for user in node.users))])
    more = [node for node in outputs if node.name not in region["outputs"]]
    own = {op["name"] for op in region["ops"]}
    if more and (not computed.isdisjoint(more) or any(
            is_product_op(node) and node.name not in own for node in nodes)):
        raise Refused(f"{more[0].name} is also used outside")
    return region_of(importer, nodes, outputs, _is_bare(region, by_name))


def _results(region: dict[str, Any], by_name: dict[str, torch.fx.Node],
             sizes: set[torch.fx.Node]) -> list[torch.fx.Node]:
    """The nodes whose values a region of the core gives. Where it gives a value that is no node,
    such as a sum's operand in the sum's dtype, these are the nodes that others read.

    Raises:
        Refused: There are none.
    """
    outputs = [by_name[name] for name in region["outputs"] if name in by_name]
    if len(outputs) < len(region["outputs"]):
        inside = [by_name[op["name"]] for op in region["ops"] if op["name"] in by_name]
        outputs += [node for node in inside if node not in outputs and any(
            user not in inside and user not in sizes for user in node.users)]
    if not outputs:
        raise Refused("its result is not a node of the graph")
    return outputs


def _stored_once(outputs: list[torch.fx.Node]) -> list[torch.fx.Node]:
    """The outputs that are not views of others: those are left to Inductor, which copies
    nothing."""
    def is_of_another(node: torch.fx.Node) -> bool:
        while is_view(node):
            node = node.all_input_nodes[0]
            if node in outputs:
                return True
        return False
    return [node for node in outputs if not is_of_another(node)]


def _is_bare(region: dict[str, Any], by_name: Collection[str]) -> bool:
    if any(gemm["a"]["dtype"] != gemm["b"]["dtype"] for gemm in region["gemms"]):
        return False  # a copy of the bytes in the other operand's dtype is not made
    left_out = {name for name in region["outputs"] if name not in by_name}
    computed = [op["op"] for op in region["ops"]
                if op["op"] not in _CORE_VIEWS and op["name"] not in left_out]
    return computed in (["matmul"], ["grouped_matmul"])
