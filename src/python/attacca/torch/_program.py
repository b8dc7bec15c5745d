"""Exported programs whose regions are fused."""
from __future__ import annotations

from collections.abc import Sequence
from numbers import Number
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from .._arguments import Mode, Tuning, shown
from .._compile import Options as PlanOptions
from .._errors import Error
from .._frameworks import Torch
from ._options import Options, Policy
from ._rewrite import rewrite


class Program:
    """An exported program whose regions are fused; other ops run one by one.

    :func:`attacca.compile` returns it for a ``torch.export.ExportedProgram``. It is called like the
    model that was exported. Sizes that were exported as dynamic may differ between calls.

    Attributes:
        module: The rewritten graph, a ``torch.fx.GraphModule``.
        regions: The number of regions that were fused.
    """

    def __init__(self, exported: Any, *, mode: Mode = "fp32", tuning: Tuning = "known",
                 tuning_seconds: float = 0.0, policy: Policy = "always",
                 batch_invariant: bool = False):
        options = Options(policy, compare=False, mode=mode, tuning=tuning,
                          tuning_seconds=tuning_seconds, batch_invariant=batch_invariant).check()
        if isinstance(exported,
                      type) or not callable(getattr(exported, "run_decompositions", None)):
            raise Error(f"{shown(exported)} is not an exported program", "exported",
                        "give a torch.export.ExportedProgram")
        try:
            self.module = exported.run_decompositions().module()
        except (RuntimeError, ValueError) as failure:
            raise Error(f"torch cannot decompose the program: {' '.join(str(failure).split())}",
                        "exported", "see whether exported.run_decompositions() works by itself; "
                        "torch.compile(model, backend=\"attacca\") needs no exported program"
                        ) from failure
        self.regions = rewrite(self.module.graph, options)
        _let_views_copy(self.module.graph)
        self.module.recompile()

    def __reduce__(self) -> Any:
        raise Error("a compiled program cannot be pickled", "attacca.compile",
                    "save the exported program with torch.export.save, and compile it again")

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Runs the program without gradients.

        Args:
            *args: The arguments of the exported model.
            **keywords: Arguments by name.

        Returns:
            What the exported model returns.

        Raises:
            Error: As :meth:`attacca.Plan.__call__`.
        """
        with torch.no_grad():
            try:
                return self.module(*args, **keywords)
            except (Error, RuntimeError, AssertionError):  # the last: of the exporter's guards
                _check_inputs(self.module.graph, args, keywords)
                raise


def _check_inputs(graph: torch.fx.Graph, args: Sequence[Any], keywords: dict[str, Any]) -> None:
    """Finds the input that a region's error is about, which names a value of the graph.

    Raises:
        Error: An argument is not what was exported.
    """
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    given = {**dict(zip((node.name for node in inputs), tree_leaves(args))), **keywords}
    for node in inputs:
        wanted, value = node.meta.get("val"), given.get(node.name)
        if node.name not in given:
            continue
        is_plain = isinstance(value, (Number, str))
        if isinstance(wanted, (Number, str)) and not (is_plain and value == wanted):
            raise Error(f"{node.name} is {shown(value)}, {shown(wanted)} is wanted", node.name,
                        "give what was exported, which is part of the program")
        if not isinstance(wanted, torch.Tensor):
            continue
        if not isinstance(value, torch.Tensor):
            raise Error(f"{node.name} is {shown(value)}", node.name, "give a torch.Tensor")
        # A dynamic size is no int.
        same = len(wanted.shape) == len(value.shape) and all(
            size == of or not isinstance(of, int) for size, of in zip(value.shape, wanted.shape))
        if not same or value.dtype != wanted.dtype:
            raise Error(f"{node.name} is {_type(value)}, {_type(wanted)} is wanted", node.name,
                        "give a tensor as it was exported")


def _type(tensor: torch.Tensor) -> str:
    dtype = Torch.names().get(tensor.dtype, str(tensor.dtype))
    return f"{dtype}[{', '.join(map(str, tensor.shape))}]"


def _let_views_copy(graph: torch.fx.Graph) -> None:
    """Makes views reshapes: a region's results are row-major, so that what is computed from them
    may have other strides than the exporter saw."""
    for node in graph.nodes:
        if node.target is torch.ops.aten.view.default:
            node.target = torch.ops.aten.reshape.default


def compile_program(exported: Any, chosen: PlanOptions, constants: Any) -> Program:
    """Compiles an exported program for :func:`attacca.compile`.

    Raises:
        Error: An option has no effect.
    """
    for name, ignored in (("device", chosen.device != "cpu"), ("threads", chosen.threads != 0),
                          ("constants", constants is not None and constants != {})):
        if ignored:
            raise Error(f"{name} has no effect on an exported program", name,
                        "leave it out: it runs where its weights and inputs are, on torch's "
                        "threads")
    return Program(exported, mode=chosen.mode, tuning=chosen.tuning,
                   tuning_seconds=chosen.tuning_seconds, batch_invariant=chosen.batch_invariant)
