"""What the nodes of an FX graph are: products, views, sizes, tensors."""
from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Any

import torch

from ..._errors import Error
from .importer import Importer
from .static import hint

# Ops that a region may contain although they are used outside of it too: computing them again costs
# nothing.
VIEWS = {"aten.view", "aten.reshape", "aten._unsafe_view", "aten.unsqueeze", "aten.squeeze",
         "aten.permute",
         "aten.t", "aten.transpose", "aten.expand", "aten.slice", "aten.select", "aten.full",
         "aten.scalar_tensor", "aten.split", "aten.split_with_sizes", "aten.chunk", "aten.unbind",
         "getitem"}
# Ops whose rows a region reads where they lie.
GATHERS = {"aten.index", "aten.index_select", "attacca.rows_of_groups"}


_PRODUCT_OPS = {"aten.mm", "aten.bmm", "aten.addmm", "aten.baddbmm", "aten.linear", "aten.matmul",
                "aten._int_mm", "aten._scaled_mm", "aten._grouped_mm", "aten._scaled_grouped_mm",
                "aten._scaled_grouped_mm_v2", "aten._weight_int8pack_mm",
                "aten._weight_int4pack_mm", "aten._weight_int4pack_mm_for_cpu",
                "aten._weight_int4pack_mm_with_scales_and_zeros", "attacca.quantized_linear",
                "user_kernel"}


def writes_in_place(graph: torch.fx.Graph) -> torch.fx.Node | None:
    """The first node that writes in place, except for copies of results to inputs at the graph's
    end."""
    found: torch.fx.Node | None = None
    node: torch.fx.Node
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        schema = getattr(node.target, "_schema", None)
        if schema is not None and schema.is_mutable:
            found = found or node
            into: Any = node.args[0]
            if Importer.op(node) != "aten.copy_" or into.op != "placeholder":
                return node
        elif found is not None:
            return found
    return None


def is_product_op(node: torch.fx.Node) -> bool:
    """Whether a node is a matrix product of ATen, or a stand-in for a user's kernel."""
    return node.op == "call_function" and Importer.op(node) in _PRODUCT_OPS


def operations(product: torch.fx.Node) -> float:
    """The multiplications of a product's node, about; 0: its sizes are unknown."""
    try:
        sizes = [math.prod(map(hint, node.meta["val"].shape))
                 for node in product.all_input_nodes
                 if isinstance(node.meta.get("val"), torch.Tensor)]
        result = math.prod(map(hint, product.meta["val"].shape))
    except (Error, AttributeError):
        return 0.0
    a, b = sorted([1, 1, *sizes])[-2:]
    return math.sqrt(float(result) * a * b)  # M N times M K times K N


_READS_SIZES = {"aten.sym_size", "aten.sym_stride", "aten.sym_numel", "aten.sym_storage_offset"}


def sizes_alone(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """Nodes that compute with sizes, and so do not depend on a tensor's elements."""
    found: set[torch.fx.Node] = set()
    for node in graph.nodes:
        if node.op == "call_function" and Importer.op(node) in _READS_SIZES:
            found.add(node)
        elif isinstance(node.meta.get("val"),
                        (int, float, torch.SymInt, torch.SymFloat, torch.SymBool)):
            if node.op == "placeholder" or (node.op == "call_function" and node.all_input_nodes
                                            and set(node.all_input_nodes) <= found):
                found.add(node)
    return found


def is_view(node: torch.fx.Node) -> bool:
    """Whether a node is a view of its first operand; one of a split's parts is, too."""
    if node.op != "call_function" or Importer.op(node) not in VIEWS or not node.args:
        return False
    source = node.args[0]
    return isinstance(source, torch.fx.Node) and (Importer.op(node) != "getitem"
                                                  or is_view(source))


def viewed_in(node: torch.fx.Node, nodes: Collection[torch.fx.Node]) -> torch.fx.Node:
    """The first of the nodes that a node is a view of."""
    while is_view(node) and node.all_input_nodes[0] in nodes:
        node = node.all_input_nodes[0]
    return node


def is_tensor(node: torch.fx.Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def tensors_of(nodes: Iterable[torch.fx.Node]) -> list[torch.fx.Node]:
    return [node for node in nodes if is_tensor(node)]


def operands_of(nodes: list[torch.fx.Node]) -> list[torch.fx.Node]:
    """The tensors that the nodes read and do not compute, in order. A part of a split reads what is
    split, wherever the split itself is."""
    inside = set(nodes)
    seen: dict[torch.fx.Node, None] = {}
    for node in nodes:
        for operand in node.all_input_nodes:
            read = operand.all_input_nodes \
                if isinstance(operand.meta.get("val"), (tuple, list)) else [operand]
            seen |= dict.fromkeys(each for each in tensors_of(read) if each not in inside)
    return list(seen)
