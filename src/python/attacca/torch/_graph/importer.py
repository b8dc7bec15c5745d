"""Writes the nodes of FX graphs in the text form, or says why a node cannot be written."""
from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..._frameworks import Torch
from ..._functions.binding import understood
from ..._functions.parts import sliced
from ..._functions.table import Call, Made, Refused, Row
from .sizes import Sizes
from .table import UNKNOWN, row_of

_DTYPES = Torch.names()


def dtype_of(node: torch.fx.Node) -> str:
    """A tensor's dtype as in the text form.

    Raises:
        Refused: It has no name there.
    """
    dtype = node.meta["val"].dtype
    if dtype not in _DTYPES:
        raise Refused(f"dtype {dtype}")
    return _DTYPES[dtype]


def _shape_text(node: torch.fx.Node, sizes: Sizes) -> str:
    return "[" + ", ".join(map(sizes.text, node.meta["val"].shape)) + "]"


class NodeCall(Call):
    """A node as the table's writers see it."""

    def __init__(self, node: torch.fx.Node, name: str, written_sizes: Sizes):
        self.node, self.name, self._written_sizes = node, name, written_sizes

    def is_tensor(self, value: Any) -> bool:
        if isinstance(value, torch.fx.Node) and not isinstance(value.meta.get("val"), torch.Tensor):
            raise Refused("an unknown number")
        return isinstance(value, torch.fx.Node)

    def text(self, tensor: Any) -> str:
        if not self.is_tensor(tensor):
            raise Refused(f"an argument {tensor!r}")
        return f'"{tensor.name}"'

    def dtype(self, tensor: Any) -> str:
        return dtype_of(tensor)

    def sizes(self, tensor: Any) -> Sequence[Any]:
        shape: torch.Size = tensor.meta["val"].shape
        return shape

    @functools.cached_property
    def result(self) -> str:
        value = self.node.meta["val"]
        return _DTYPES.get((value[0] if isinstance(value, (tuple, list)) else value).dtype,
                           "another")

    @property
    def shape(self) -> str:
        """The result's."""
        return _shape_text(self.node, self._written_sizes)

    @property
    def device(self) -> Any:
        return self.node.meta["val"].device

    def common(self, operands: Sequence[Any]) -> str:
        values = [o.meta["val"] if self.is_tensor(o) else o for o in operands]
        dtype = torch.result_type(*values)
        if dtype not in _DTYPES:
            raise Refused(f"operands that meet in dtype {dtype}")
        return _DTYPES[dtype]

    def extent_text(self, extent: Any) -> str:
        return self._written_sizes.text(extent)

    def reshape(self, text: str, sizes: Callable[[], Sequence[int]]) -> Made:
        if not isinstance(self.node.meta["val"], torch.Tensor):
            return Made(text, sizes)  # a part: the node that reads it has its shape
        return Made(f"reshape({text}, {self.shape})", sizes)

    def broadcast_to(self, tensor: Any, sizes: Callable[[], Sequence[int]]) -> Made:
        return Made(f"broadcast({self.text(tensor)}, {self.shape})", sizes)

    def parts(self, tensor: Any, dim: int, sizes: Callable[[], Sequence[int] | int]) -> list[Made]:
        if not self.sizes(tensor):
            raise Refused("parts of a scalar")
        extent = self.sizes(tensor)[dim]
        value = self.node.meta["val"]
        if isinstance(value, torch.Tensor):  # glu: two halves that have no nodes
            if not isinstance(extent, int) or extent % 2:
                raise Refused("parts of unknown sizes")
            found = [extent // 2] * 2
        else:
            found = [v.shape[dim] for v in value]
        if not all(isinstance(s, int) for s in [extent, *found]):
            raise Refused("parts of unknown sizes")
        begins = [sum(found[:i]) for i in range(len(found))]
        return [Made(sliced(self, tensor, dim, b, b + s if b + s < extent else None), list)
                for b, s in zip(begins, found)]


@functools.cache
def _op(target: Any) -> str:
    if isinstance(target, torch._ops.OpOverload):
        return f"{target.namespace}.{target._schema.name.split('::')[-1]}"
    return str(getattr(target, "__name__", target))


class Importer:
    """Translates the nodes of one graph, each once.

    Attributes:
        sizes: How sizes are written.
    """

    def __init__(self, sizes: Sizes | None = None) -> None:
        self.sizes = sizes or Sizes()
        self._statements: dict[torch.fx.Node, str | Refused] = {}

    def writing(self, sizes: Sizes) -> Importer:
        """An importer that writes sizes in another way, for nodes that this one has translated."""
        other = Importer(sizes)
        other._statements = {node: text for node, text in self._statements.items() if not text}
        return other

    def statement(self, node: torch.fx.Node) -> str:
        """The statement that computes the node from the names of others; "" if others need none.

        Raises:
            Refused: It has none.
        """
        known = self._statements.get(node)
        if known is None:
            try:
                known = self._translate(node)
            except Refused as reason:
                known = reason
            self._statements[node] = known
        if isinstance(known, Refused):
            raise known
        return known

    def type_text(self, node: torch.fx.Node) -> str:
        """The node as an input: "bf16[M, 64]", with its strides where it is not row-major."""
        value = node.meta["val"]
        shape = [self.sizes.text(size) for size in value.shape]
        dtype = self.dtype(node)
        strides = [self.sizes.text(stride) for stride in value.stride()]
        step, dense = 1, []
        for size in reversed(value.shape):
            dense.append(step)
            step = step * size
        expected = [self.sizes.text(stride) for stride in reversed(dense)]
        places = [i for i, size in enumerate(value.shape)
                  if not (isinstance(size, int) and size == 1)]
        if "0" in strides or all(strides[i] == expected[i] for i in places):
            return f"{dtype}[{', '.join(shape)}]"
        return f"{dtype}[{', '.join(shape)}; {', '.join(strides)}]"

    # ---- For the regions

    @staticmethod
    def dtype(node: torch.fx.Node) -> str:
        return dtype_of(node)

    @staticmethod
    def op(node: torch.fx.Node) -> str:
        """"aten.add" of aten.add.Tensor."""
        return _op(node.target)

    # ---- Nodes

    def _translate(self, node: torch.fx.Node) -> str:
        if node.op != "call_function":
            raise Refused("not an op")
        if "attacca_text" in node.meta:  # a user's kernel: kernels.py
            return f'"{node.name}" = {node.meta["attacca_text"]}'
        if node.target is operator.getitem:
            return f'"{node.name}" = {self._part(node)}'
        written = self._written(node)
        if isinstance(written, list):
            return ""  # no statement: the nodes that read its parts have them
        if not isinstance(node.meta.get("val"), torch.Tensor):
            raise Refused("its result is not a tensor")
        dtype_of(node)
        return f'{written.first}"{node.name}" = {written.text}'

    def _part(self, node: torch.fx.Node) -> str:
        parts, index = node.args
        if not isinstance(parts, torch.fx.Node) or isinstance(
            self._statements.get(parts, Refused()), Refused):
            raise Refused("part of an op that is not translated")
        written = self._written(parts)
        if not isinstance(written, list):
            raise Refused("part of an op that is not translated")
        text = written[index].text  # type: ignore[index]
        if self.op(parts) != "aten.unbind":
            return text
        return f"reshape({text}, {_shape_text(node, self.sizes)})"

    def _written(self, node: torch.fx.Node) -> Made | list[Made]:
        name = self.op(node)
        if name.endswith("_") or (isinstance(node.target, torch._ops.OpOverload)
                                  and node.target._schema.is_mutable):
            raise Refused("it writes in place")
        row = row_of(name)
        if row is None:
            raise Refused(UNKNOWN.get(name, f"{name} is not in the table of functions"))
        for operand in node.all_input_nodes:
            if isinstance(operand.meta.get("val"), torch.Tensor):
                dtype_of(operand)
        call = NodeCall(node, name, self.sizes)
        written: Made | list[Made] = row.write(call, **self._bound(row, node))
        return written

    @staticmethod
    def _bound(row: Row, node: torch.fx.Node) -> dict[str, Any]:
        """Arguments as the row names them, by the op's schema."""
        schema = node.target._schema.arguments  # type: ignore[union-attr]
        given = {argument.name: value for argument, value in zip(schema, node.args)}
        given.update(node.kwargs)
        return understood(row, str(node.target), [
            (a.name, given.get(a.name, a.default_value),
             a.default_value if a.has_default_value() else Refused)
            for a in schema])
