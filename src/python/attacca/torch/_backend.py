"""``torch.compile``'s backend, Inductor's pass, and exported programs."""
from __future__ import annotations

import hashlib
from typing import Any, Callable, Sequence

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass

from .. import __version__
from .._errors import Error
from . import _lowering, _report
from ._compare import templates_stamp
from ._rewrite import Options, rewrite


class Pass(CustomGraphPass):
    """Inductor's pass after its decompositions, before it lowers: fuses regions."""

    def __init__(self, options: Options):
        self.options = options
        _lowering.install()

    def __call__(self, graph: torch.fx.Graph) -> None:
        if _is_training(graph):
            _report.add([], [], "a training graph, untouched")
            return
        rewrite(graph, self.options)

    def uuid(self) -> Any:
        """What Inductor's cache distinguishes."""
        return hashlib.sha256(f"attacca {__version__} {self.options} {templates_stamp()}".encode()).hexdigest()


def _is_training(graph: torch.fx.Graph) -> bool:
    """Whether it is one half of a forward and a backward: AOTAutograd names their inputs so."""
    return any(node.op == "placeholder" and node.name.startswith(("primals_", "tangents_"))
               for node in graph.nodes)


def _read_options(options: "dict[str, Any] | None") -> tuple[Options, dict[str, Any]]:
    """Ours, and what is left for Inductor."""
    given = dict(options or {})
    ours = {name: given.pop(name) for name in Options._fields if name in given}
    return Options(**ours).check(), given


def backend(module: torch.fx.GraphModule, example_inputs: Sequence[Any], *, mode: "str | None" = None,
            options: "dict[str, Any] | None" = None) -> Callable[..., Any]:
    """``torch.compile(model, backend="attacca", options=...)`` calls this.

    Args:
        module: The graph, by Dynamo.
        example_inputs: Its inputs.
        mode: Inductor's, such as "max-autotune" or "reduce-overhead".
        options: Those of :class:`Options` by name, and Inductor's own.

    Raises:
        Error: An option of ours with a value that is not known.
    """
    from torch._inductor.compile_fx import compile_fx

    ours, patches = _read_options(options)
    if mode is not None:
        patches = {**torch._inductor.list_mode_options(mode), **patches}
    compiled: Any = compile_fx(module, list(example_inputs),
                               config_patches={**patches, "post_grad_custom_pre_pass": Pass(ours)})
    return compiled


def register() -> None:
    """Makes ``backend="attacca"`` known, and calls of plans opaque to Dynamo: graph breaks.

    Importing :mod:`attacca.torch` does it.
    """
    torch._dynamo.trace_rules.add("attacca")
    if "attacca" not in torch._dynamo.list_backends(exclude_tags=()):
        torch._dynamo.register_backend(backend, name="attacca")


def enable(**options: Any) -> None:
    """Makes plain ``torch.compile(model)`` fuse regions too, from now on.

    Args:
        **options: Those of :class:`Options`.

    Raises:
        Error: An unknown option, or a value that is not known.
    """
    unknown = set(options) - set(Options._fields)
    if unknown:
        raise Error(f"unknown option {sorted(unknown)[0]}", "options",
                    f"the options are {', '.join(Options._fields)}")
    torch._inductor.config.post_grad_custom_pre_pass = Pass(Options(**options).check())


def disable() -> None:
    """Undoes :func:`enable`."""
    if isinstance(torch._inductor.config.post_grad_custom_pre_pass, Pass):
        torch._inductor.config.post_grad_custom_pre_pass = None


class Program:
    """An exported program whose regions are fused; what is between them runs op by op.

    Made by :func:`attacca.compile` from a ``torch.export.ExportedProgram``. Called like the model
    that was exported. Sizes that were exported as dynamic may differ from call to call.
    """

    def __init__(self, exported: Any, *, mode: str = "fp32", tuning: str = "known",
                 tuning_seconds: float = 0.0, policy: str = "always"):
        options = Options(policy, compare=False, mode=mode, tuning=tuning,
                          tuning_seconds=float(tuning_seconds)).check()
        #: The rewritten graph, a ``torch.fx.GraphModule``.
        self.module = exported.run_decompositions().module()
        self.regions = rewrite(self.module.graph, options)
        self.module.recompile()

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Runs it, without gradients.

        Raises:
            Error: As :class:`attacca.Plan`'s calls.
        """
        with torch.no_grad():
            return self.module(*args, **keywords)
