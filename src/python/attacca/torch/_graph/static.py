"""Copies parts of a graph to graphs with the sizes at hand, and compiles them with Inductor."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from ..._errors import Error
from .._ops.rows_of_groups import rows_of_groups
from .group_rows import as_index
from .kernels import ORIGINALS, is_stand_in


class Static(NamedTuple):
    """A graph whose sizes are numbers."""

    mode: FakeTensorMode  # of its values
    module: torch.fx.GraphModule
    made: dict[torch.fx.Node, torch.fx.Node]  # node that was copied -> its copy
    inputs: list[torch.Tensor]  # fake
    ends: dict[int, int]  # inputs that hold where groups of rows end -> the number of rows
    named: dict[int, int]  # inputs that name rows -> the number of rows among which they choose


def hint(size: Any) -> int:
    """The value that an extent has in this compilation.

    Raises:
        Error: It is unknown.
    """
    if isinstance(size, int):
        return size
    if not size.node.has_hint():
        raise Error(f"size {size} is unknown while compiling")
    return int(size.node.hint)


def is_size(node: torch.fx.Node) -> bool:
    """Whether a node's value is an integer."""
    return isinstance(node.meta.get("val"), (int, torch.SymInt))


def copy(root: torch.nn.Module, inputs: Sequence[torch.fx.Node], nodes: Sequence[torch.fx.Node],
         outputs: Sequence[torch.fx.Node]) -> Static:
    """Copies nodes that read the inputs, each other and sizes.

    Raises:
        Error: A size is unknown.
    """
    graph = torch.fx.Graph()
    made: dict[torch.fx.Node, torch.fx.Node] = {}
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fakes: list[torch.Tensor] = []

    def mapped(node: torch.fx.Node) -> Any:
        return hint(node.meta["val"]) if node not in made and is_size(node) else made[node]
    for node in inputs:
        made[node] = graph.placeholder(node.name)
        value = node.meta["val"]
        with mode:
            fakes.append(torch.empty_strided([hint(size) for size in value.shape],
                                             [hint(step) for step in value.stride()],
                                             dtype=value.dtype, device=value.device))
    for node in nodes:
        for each in node.meta[ORIGINALS] if is_stand_in(node) else [node]:
            if not is_size(each) and each not in made:
                made[each] = graph.node_copy(each, mapped)
                as_index(made[each])
        if is_stand_in(node):
            made[node] = made[node.meta[ORIGINALS][-1]]
    graph.output(tuple(made[node] for node in outputs))
    module = torch.fx.GraphModule(root, graph)
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp

    with torch.no_grad():
        FakeTensorProp(module, mode).propagate_dont_convert_inputs(*fakes)
    return Static(mode, module, made, fakes, _ends_of_groups(graph),
                  named_rows(inputs, nodes))


# The ops with an argument that says where groups end, and its place.
_PLACES_OF_ENDS: dict[Any, int] = {torch.ops.aten._grouped_mm.default: 2,
                                   torch.ops.aten._scaled_grouped_mm.default: 4,
                                   torch.ops.aten._scaled_grouped_mm_v2.default: 8}


def _ends_of_groups(graph: torch.fx.Graph) -> dict[int, int]:
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    found: dict[int, int] = {}
    for node in graph.nodes:
        place = _PLACES_OF_ENDS.get(node.target)
        if place is None:
            continue
        rows, columns = (operand.meta["val"] for operand in node.args[:2])
        offsets = [*node.args[place:place + 1], node.kwargs.get("offs")][0]
        if offsets in inputs:  # groups are parts of the axis that has no matrix for each
            found[inputs.index(offsets)] = (rows.shape[0] if columns.dim() == 3 else
                                            columns.shape[-1 if rows.dim() == 3 else 0])
    return found


def named_rows(inputs: Sequence[torch.fx.Node],
               nodes: Sequence[torch.fx.Node]) -> dict[int, int]:
    """As :attr:`Static.named`, of the inputs of some nodes."""
    found: dict[int, int] = {}
    source: Any
    indices: Any
    for node in nodes:
        if node.target is torch.ops.aten.index.Tensor:
            source, indices = node.args
        elif node.target in (torch.ops.aten.index_select.default, rows_of_groups):
            source, indices = node.args[0], [node.args[2]]
        else:
            continue
        if len(indices) == 1 and indices[0] in inputs:
            place, rows = inputs.index(indices[0]), hint(source.meta["val"].shape[0])
            found[place] = min(rows, found.get(place, rows))
    return found


def compiled(static: Static) -> Callable[[list[Any]], Any]:
    """The graph compiled by Inductor with its present settings, but without Attacca's pass and
    without CUDA graphs.

    It may be called while Inductor compiles another graph.
    """
    from torch._guards import TracingContext, tracing
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.utils import BoxedBool

    static.module.recompile()
    with tracing(TracingContext(static.mode)), config.patch({
            "post_grad_custom_pre_pass": None, "fx_graph_cache": False,
            "bundle_triton_into_fx_graph_cache": False, "triton.cudagraphs": False}):
        function: Any = compile_fx_inner(static.module, static.inputs, is_inference=True,
                                         cudagraphs=BoxedBool(False))
    return function  # type: ignore[no-any-return]
