"""The backend for ``torch.compile`` and its pass for Inductor."""
from __future__ import annotations

import difflib
import hashlib
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass

from .. import __version__, _arguments
from .._compile import register_compiler
from .._errors import Error
from . import _logs, _report
from ._ops import lowering
from ._ops.region import region
from ._options import Options, OptionsGiven
from ._program import compile_program
from ._rewrite import rewrite
from ._verdicts import core_stamp

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Pass(CustomGraphPass):  # type: ignore[misc]
    """A pass for Inductor that fuses regions. It runs after Inductor's decompositions and before
    Inductor lowers the graph.

    To run it after a pass of your own: ``attacca.torch.Pass(attacca.torch.Options())(graph)``.
    """

    def __init__(self, options: Options):
        self.options = options
        self.begun: float | None = None
        lowering.install()

    def __call__(self, graph: torch.fx.Graph) -> None:
        if _is_training(graph):
            _report.add([], [], note="a training graph, untouched", untouched=_report.GRADIENTS)
            return
        rewrite(graph, self.options, self.begun)

    def uuid(self) -> Any:
        """A text for the key of Inductor's cache; another one for other options, templates or
        builds of Attacca. None, with a group: the cache is not to be used."""
        _report.looked_up()
        if self.options.group is not None:
            return None
        known = f"attacca {__version__} {region} {self.options} {core_stamp()}"
        return hashlib.sha256(known.encode()).hexdigest()


def _is_training(graph: torch.fx.Graph) -> bool:
    """Whether a graph is the forward or backward half of a training step: AOTAutograd names their
    inputs so."""
    return any(node.op == "placeholder" and node.name.startswith(("primals_", "tangents_"))
               for node in graph.nodes)


_OUR_PASS, _MODE = "post_grad_custom_pre_pass", "inductor_mode"


def _read_options(options: dict[str, Any] | None) -> tuple[Options, dict[str, Any]]:
    """The options of Attacca and those of Inductor.

    Raises:
        Error: As :func:`backend`.
    """
    # Inductor reads "-" as "_", too.
    given = {_arguments.text(name, "options").replace("-", "_"): value
             for name, value in (options or {}).items()}
    mode = given.pop(_MODE, None)
    ours = {name: given.pop(name) for name in Options._fields if name in given}
    theirs = torch._inductor.config.get_config_copy()
    for name in given:
        if name not in theirs:
            raise _unknown_option(name, [_MODE, *Options._fields, *theirs])
        usual = theirs[name]
        if type(usual) in (bool, int, float, str) and type(given[name]) is not type(usual):
            raise Error(f"{name} is {_arguments.shown(given[name])}", name,
                        f"give a value of type {type(usual).__name__}, as Inductor wants")
    if _OUR_PASS in given:
        raise Error(f"{_OUR_PASS} is given, where Attacca's own pass goes", _OUR_PASS,
                    "use post_grad_custom_post_pass, or Inductor with attacca.torch.Pass called "
                    "from yours")
    return Options.of(ours), {**_mode_options(mode), **given}


def _mode_options(mode: str | None) -> dict[str, Any]:
    """What a mode of Inductor sets.

    Raises:
        Error: There is no such mode.
    """
    if mode is None:
        return {}
    _arguments.choice(mode, tuple(torch._inductor.list_mode_options()), _MODE)
    return dict(torch._inductor.list_mode_options(mode))


def _unknown_option(name: str, known: Sequence[str]) -> Error:
    near = difflib.get_close_matches(name, Options._fields,
                                     1) or difflib.get_close_matches(name, known, 1)
    options = f"Attacca's options are {', '.join(Options._fields)}"
    return Error(f"unknown option {name}", name,
                 f"did you mean {near[0]}? {options}" if near else options)


def backend(module: torch.fx.GraphModule, example_inputs: Sequence[Any], *, mode: str | None = None,
            options: dict[str, Any] | None = None) -> Callable[..., Any]:
    """The function that ``torch.compile(model, backend="attacca", options=...)`` calls.

    Args:
        module: The graph from Dynamo.
        example_inputs: The graph's inputs.
        mode: A mode of Inductor, such as "max-autotune" or "reduce-overhead".
        options: Options of :class:`Options` by name, and options of Inductor. Since
            ``torch.compile`` does not take both a mode and options, the mode may be given here:
            ``options={"inductor_mode": "max-autotune"}``.

    Raises:
        Error: Neither Attacca nor Inductor has an option; a value is unknown, out of range, or has
            no effect together with the other options.
    """
    from torch._inductor.compile_fx import compile_fx

    ours, patches = _read_options(options)
    patches = {**_mode_options(mode), **patches, **_invariant_patches(ours)}
    _check_no_other_pass()
    our_pass = Pass(ours)
    our_pass.begun = time.monotonic()
    with _report.compiling(_identity(module, example_inputs,
                                     f"{our_pass.uuid()} {sorted(patches.items())}")):
        patches = {**patches, _OUR_PASS: our_pass}
        compiled: Callable[..., Any] = compile_fx(module, list(example_inputs),
                                                  config_patches=patches,
                                                  decompositions=_decompositions(ours))
    return compiled


def _invariant_patches(options: Options) -> dict[str, Any]:
    """Switches off what changes products by their shapes before Attacca's pass sees them: padding
    by measurements, and products of one row as sums."""
    if not options.batch_invariant:
        return {}
    return {"shape_padding": False, "coordinate_descent_tuning": False}


def _decompositions(options: Options) -> dict[Any, Callable[..., Any]] | None:
    """Inductor's decompositions without those by which products of one row become sums; None:
    Inductor's own."""
    if not options.batch_invariant:
        return None
    from torch._inductor.decomposition import select_decomp_table

    aten = torch.ops.aten
    return {op: rule for op, rule in select_decomp_table().items()
            if op not in (aten.mm.default, aten.addmm.default, aten.bmm.default)}


def _check_no_other_pass() -> None:
    other = torch._inductor.config.post_grad_custom_pre_pass
    if other is not None and not isinstance(other, Pass):
        raise Error(f"torch._inductor.config.{_OUR_PASS} is set, where Attacca's own pass goes",
                    _OUR_PASS,
                    "use post_grad_custom_post_pass, or call attacca.torch.Pass from yours")


def _identity(module: torch.fx.GraphModule, inputs: Sequence[Any], how: str) -> str:
    """A key for a graph from Dynamo that is the same in other processes."""
    types = [(str(each.dtype), str(tuple(each.shape)), str(each.stride()), str(each.device),
              each.requires_grad)
             if isinstance(each, torch.Tensor) else str(each) for each in inputs]
    text = f"{how} {torch.is_grad_enabled()} {types} {module.graph}"
    return hashlib.sha256(text.encode()).hexdigest()


def register() -> None:
    """Registers ``backend="attacca"`` with torch, and exported programs with
    :func:`attacca.compile`.

    Importing :mod:`attacca.torch` calls it.
    """
    _logs.register()
    if "attacca" not in torch._dynamo.list_backends(exclude_tags=()):
        torch._dynamo.register_backend(backend, name="attacca")
    register_compiler(torch.export.ExportedProgram, compile_program)


def enable(**options: Unpack[OptionsGiven]) -> None:
    """Makes ``torch.compile(model)`` without a backend fuse regions, until :func:`disable`.

    Args:
        **options: Options of :class:`Options`.

    Raises:
        Error: An option is unknown; a value is unknown, out of range, or has no effect together
            with the other options; Inductor has another pass in the place of Attacca's.
    """
    for name in options:
        if name not in Options._fields:
            raise _unknown_option(name, Options._fields)
    _check_no_other_pass()
    torch._inductor.config.post_grad_custom_pre_pass = Pass(Options.of(dict(options)))


def disable() -> None:
    """Reverts :func:`enable`."""
    if isinstance(torch._inductor.config.post_grad_custom_pre_pass, Pass):
        torch._inductor.config.post_grad_custom_pre_pass = None
