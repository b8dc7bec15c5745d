"""Writes regions each of whose rows depends on the same row of their inputs, for any rows.

The number of rows is the symbol M: leading axes are merged, and views between merged and separate
axes are left out.
"""
from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import torch

from ..._functions.table import Refused
from .._parallel.ops import ROWS
from .importer import Importer, dtype_of
from .sizes import dim_text

RESHAPES = {"aten.view", "aten.reshape", "aten._unsafe_view"}
_TURNS = {"aten.t", "aten.transpose", "aten.permute"}
_PRODUCTS = {"aten.mm": 0, "aten.addmm": 1}  # the place of the product's left operand
_NAME = re.compile(r'"([^"]*)"')


class ByRows:
    """Nodes each of whose rows depends on the same row of what has rows, and their text.

    Args:
        lead: The leading axes of what has rows, which may also be merged.
    """

    def __init__(self, lead: Sequence[Any]):
        self._lead = [dim_text(size) for size in lead]
        self._rows = dim_text(math.prod(lead))
        self._importer = Importer()
        self._same: dict[str, str] = {}  # a view's name -> the name of what it shows
        self._has_rows: dict[torch.fx.Node, bool] = {}
        self._statements: list[str] = []

    def add(self, node: torch.fx.Node) -> None:
        """Adds a node behind the nodes that it reads.

        Raises:
            Refused: Its rows depend on other rows, or it cannot be written.
        """
        op = Importer.op(node)
        if op in RESHAPES:
            source: Any = node.args[0]
            if columns_of(source) != columns_of(node):
                raise Refused(f"{node.name} changes the columns")
            self._same[node.name] = self._same.get(source.name, source.name)
            self._mark(source, True)
            self._has_rows[node] = True
            return
        if op in _PRODUCTS:
            self._product(node, _PRODUCTS[op])
        elif op in _TURNS:
            turned: Any = node.args[0]
            self._mark(turned, False)
            self._has_rows[node] = False
        elif torch.Tag.pointwise in getattr(node.target, "tags", ()):
            self._pointwise(node)
        else:
            raise Refused(f"{op} does not keep rows apart")
        self._statements.append(self._named(self._importer.statement(node)))

    def define(self, node: torch.fx.Node, expression: str) -> None:
        """Makes a node with rows the value of an expression."""
        self._statements.append(f'"{node.name}" = {expression}')
        self._has_rows[node] = True

    def input(self, node: torch.fx.Node) -> tuple[str, bool]:
        """The type of a node that is an input, and whether it has rows."""
        shape = node.meta["val"].shape
        if self._has_rows.get(node, False):
            return f'"{node.name}": {dtype_of(node)}[{ROWS}, {columns_of(node)}]', True
        if not all(isinstance(size, int) for size in shape):
            raise Refused(f"the size of {node.name} is not a number")
        return f'"{node.name}": {self._importer.type_text(node)}', False

    def text(self, inputs: Sequence[str], output: torch.fx.Node) -> str:
        """The graph; ``inputs`` as :meth:`input` writes them."""
        if not self._has_rows.get(output, False):
            raise Refused(f"{output.name} has no rows")
        body = "; ".join([*self._statements, self._named(f'return "{output.name}"')])
        return f'graph rows({", ".join(inputs)}) {{ {body} }}'

    def _product(self, node: torch.fx.Node, left: int) -> None:
        operands: Sequence[Any] = node.args
        self._mark(operands[left], True)
        self._mark(operands[left + 1], False)
        for bias in operands[:left]:
            self._mark(bias, self._shaped_by_rows(bias))
        self._has_rows[node] = True

    def _pointwise(self, node: torch.fx.Node) -> None:
        tensors = [each for each in node.all_input_nodes
                   if isinstance(each.meta.get("val"), torch.Tensor)]
        for each in tensors:
            if each not in self._has_rows:
                self._mark(each, self._shaped_by_rows(each))
        self._has_rows[node] = any(self._has_rows[each] for each in tensors)

    def _shaped_by_rows(self, node: torch.fx.Node) -> bool:
        """Whether an operand of an elementwise op has rows, rather than one for all.

        Raises:
            Refused: It has other axes.
        """
        shape = [dim_text(size) for size in node.meta["val"].shape]
        if len(shape) < 2 or (len(shape) == 2 and shape[0] == "1" != self._rows):
            return False
        if shape[:-1] in (self._lead, [self._rows]):
            return True
        raise Refused(f"{node.name} has other rows")

    def _mark(self, node: torch.fx.Node, has_rows: bool) -> None:
        if self._has_rows.setdefault(node, has_rows) != has_rows:
            raise Refused(f"{node.name} is read by rows and whole")

    def _named(self, statement: str) -> str:
        return _NAME.sub(lambda match: f'"{self._same.get(match[1], match[1])}"', statement)


def columns_of(node: torch.fx.Node) -> int:
    """The last extent.

    Raises:
        Refused: It is not a number.
    """
    size = node.meta["val"].shape[-1]
    if not isinstance(size, int):
        raise Refused(f"the columns of {node.name} are not a number")
    return size
