"""A region of an FX graph, and its text form."""
from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch

from ..._dims import Dim, sources
from ..._functions.table import Refused
from .importer import Importer
from .kernels import is_stand_in
from .nodes import is_tensor, operands_of
from .sizes import Sizes


class Region(NamedTuple):
    """A product and what follows it, which become one call."""

    graph: str  # the text form
    inputs: list[torch.fx.Node]
    outputs: list[torch.fx.Node]
    covers: list[torch.fx.Node]  # the nodes that the call replaces
    bare: bool = False  # a product without an epilogue
    sizes: Sizes | None = None  # how the text writes sizes


_dim = functools.lru_cache(maxsize=4096)(Dim)


def _name(node: torch.fx.Node) -> str:
    return f'"{node.name}"'


def _types(importer: Importer, names: list[torch.fx.Node], values: list[torch.fx.Node]) -> str:
    known = set(sources(_shapes(importer.sizes, values)))
    return ", ".join(f"{_name(name)}: {_type(importer.type_text(value), known)}"
                     for name, value in zip(names, values))


def _shapes(sizes: Sizes, values: list[torch.fx.Node]) -> list[list[Dim]]:
    return [[_dim(sizes.text(size)) for size in value.meta["val"].shape] for value in values]


def _type(text: str, known: set[str]) -> str:
    """A type without strides that have unknown symbols: the input is then taken row-major, and
    copied if it is not."""
    typed, _, strides = text.rstrip("]").partition(";")
    unknown = {symbol for stride in strides.split(",")
               for symbol in _dim(stride).symbols} - known if strides else set()
    return f"{typed}]" if unknown else text


def reading(region: Region, replaced: dict[torch.fx.Node, torch.fx.Node]) -> Region:
    """The region with some inputs replaced by other nodes, whose strides may differ."""
    inputs = [replaced.get(node, node) for node in region.inputs]
    importer = Importer(region.sizes)
    before, after = (_types(importer, region.inputs, nodes) for nodes in (region.inputs, inputs))
    return region._replace(inputs=inputs,
                           graph=region.graph.replace(f"({before}) {{", f"({after}) {{", 1))


_NONE: Mapping[torch.fx.Node, torch.fx.Node] = MappingProxyType({})


def text_of(importer: Importer, name: str, inputs: list[torch.fx.Node], nodes: list[torch.fx.Node],
            outputs: list[torch.fx.Node],
            same: Mapping[torch.fx.Node, torch.fx.Node] = _NONE) -> str:
    """The graph of this name that computes outputs by nodes. ``same``: see region_of.

    Raises:
        Refused: A node cannot be written.
    """
    types = _types(importer, inputs, inputs)
    lines = []
    for node in nodes:
        text = importer.statement(node)
        if text and same.get(node, node) is node:
            for equal, kept in same.items():
                text = text.replace(_name(equal), _name(kept))
            lines.append(text)
    # One line: Inductor writes it into comments.
    body = "; ".join([*lines, f"return {', '.join(map(_name, outputs))}"])
    return f'graph "{name}"({types}) {{ {body} }}'


def region_of(importer: Importer, nodes: list[torch.fx.Node], outputs: list[torch.fx.Node],
              bare: bool, same: Mapping[torch.fx.Node, torch.fx.Node] = _NONE) -> Region:
    """The region that computes outputs by nodes, which are in the graph's order. ``same``: equal
    nodes, of which the text has the latter.

    Raises:
        Refused: A node cannot be written, or a size is not an extent of what the nodes read.
    """
    inputs = operands_of(nodes)
    sizes = _solvable(importer.sizes, inputs, nodes)
    if sizes is not importer.sizes:
        importer = importer.writing(sizes)
    name = "_".join(node.name for node in outputs)
    return Region(text_of(importer, name, inputs, nodes, outputs, same), inputs, outputs, nodes,
                  bare, sizes)


def _solvable(sizes: Sizes, inputs: list[torch.fx.Node], nodes: list[torch.fx.Node]) -> Sizes:
    """How sizes are written, so that the inputs' extents tell all symbols: where s0 + s1 is an
    extent and s0 alone is none, the sum is a symbol.

    Raises:
        Refused: There is no such way.
    """
    while True:
        shapes = _shapes(sizes, inputs)
        wanted = {symbol for shape in
                  [*shapes, *_shapes(sizes, [node for node in nodes if is_tensor(node)])]
                  for dim in shape for symbol in dim.symbols}
        unknown = wanted - set(sources(shapes))
        if not unknown:
            return sizes
        other = None if any(map(is_stand_in, nodes)) else sizes.with_symbol_for(
            (size for node in inputs for size in node.meta["val"].shape), unknown)
        if other is None:
            raise Refused(f"size {min(unknown)} is not an extent of its inputs")
        sizes = other
