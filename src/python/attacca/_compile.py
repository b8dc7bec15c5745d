"""From graphs to plans: :func:`attacca.compile`, ``load`` and ``explain``, and their options."""
from __future__ import annotations

import ctypes
import difflib
import math
import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypedDict, Union, overload

from . import _arguments, _core, _dispatch, _frameworks
from ._arguments import Device, Mode, Path, Tuning
from ._errors import Error
from ._explain import Explanation
from ._plan import Plan

if TYPE_CHECKING:
    from .torch import Program


class Options(NamedTuple):
    """Checked options, as ``_core`` takes them; :func:`attacca.compile` explains them."""

    device: str
    mode: Mode
    tuning: Tuning
    tuning_seconds: float
    threads: int
    batch_invariant: bool = False


def options(device: Any, mode: Any, tuning: Any, tuning_seconds: Any, threads: Any,
            batch_invariant: Any = False) -> Options:
    """Checks the options; the device may be a ``torch.device``.

    Raises:
        Error: The mode or tuning is unknown; a value has a wrong type or is out of range.
    """
    _arguments.choice(mode, _arguments.MODES, "mode")
    _arguments.choice(tuning, _arguments.TUNINGS, "tuning")
    return Options(_arguments.device(device), mode, tuning,
                   _arguments.seconds(tuning_seconds, "tuning_seconds"),
                   _arguments.threads(threads),
                   _arguments.flag(batch_invariant, "batch_invariant"))


_BATCH_INVARIANT = "+batch_invariant"


def contract(mode: str, batch_invariant: bool) -> str:
    """Both as one text, such as "fp32+batch_invariant": the argument ``mode`` of custom ops."""
    return mode + _BATCH_INVARIANT if batch_invariant else mode


def parted(text: str) -> tuple[str, bool]:
    """The mode in a :func:`contract`, and whether it is batch-invariant."""
    mode = text.removesuffix(_BATCH_INVARIANT)
    return mode, mode != text


class CompileOptions(TypedDict, total=False):
    """The options of :func:`attacca.compile` by name."""

    device: Device
    mode: Mode
    tuning: Tuning
    tuning_seconds: float
    threads: int
    batch_invariant: bool
    constants: Mapping[str, Any] | None


def check_options(given: Mapping[str, Any]) -> None:
    """Checks options that are passed to :func:`attacca.compile` later.

    Raises:
        Error: An option is unknown or has a wrong value.
    """
    for name in given:
        if name not in CompileOptions.__annotations__:
            near = difflib.get_close_matches(name, CompileOptions.__annotations__, 1)
            raise Error(f"unknown option {name}", name,
                        f"did you mean {near[0]}?" if near
                        else f"one of {', '.join(CompileOptions.__annotations__)}")
    options(given.get("device", "cpu"), given.get("mode", "fp32"), given.get("tuning", "known"),
            given.get("tuning_seconds", 0), given.get("threads", 0),
            given.get("batch_invariant", False))


def graph_of(source: Any, dims: Any = None) -> _core.Graph:
    """The graph of a text, of a file, or of an ONNX model in memory; ``dims`` as
    :func:`attacca.compile` takes them."""
    sizes = _sizes_of(dims)
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _core.Graph.from_onnx(bytes(source), sizes=sizes)
    if isinstance(source, os.PathLike):
        return _core.Graph.load(_arguments.path(source, "graph"), sizes)
    # onnx.ModelProto
    if callable(getattr(source, "SerializeToString", None)) and not isinstance(source, type):
        return _core.Graph.from_onnx(source.SerializeToString(), sizes=sizes)
    if isinstance(source, str):
        source = _arguments.text(source, "graph")
        # A text has braces, a file an ending.
        if re.fullmatch(r"[^{\n]*\.[A-Za-z]\w*", source) or ("{" not in source
                                                              and os.path.exists(source)):
            return _core.Graph.load(source, sizes)
    elif not isinstance(source, _core.Graph):
        raise Error(f"{_arguments.shown(source)} is not a graph", "graph",
                    "give the text form, a path to a model file, an ONNX model as bytes, or a "
                    "torch.export.ExportedProgram")
    if sizes:
        raise Error("dims of a graph that is no ONNX model", "dims",
                    "give its sizes when it is called or prepared")
    if isinstance(source, _core.Graph):
        return source
    if "{" not in source and "graph" not in source:
        raise Error(f"{_arguments.shown(source)} is neither a graph nor a file that exists",
                    "graph", "give a path to a model file, or a text that begins with "
                    "graph NAME(x: f32[M, 64]) {")
    return _core.Graph.parse(source)


def _sizes_of(dims: Any) -> list[tuple[str, int]]:
    if dims is None:
        return []
    if not isinstance(dims, Mapping):
        raise Error(f"dims is {_arguments.shown(dims)}", "dims", 'give a dict, such as {"S": 64}')
    return _arguments.sizes(dims, "dims")


class OnnxModel(Protocol):
    """An onnx.ModelProto."""

    def SerializeToString(self) -> bytes: ...


class ExportedProgram(Protocol):
    """A torch.export.ExportedProgram."""

    def run_decompositions(self, *args: Any, **keywords: Any) -> Any: ...


GraphSource = Union[str, bytes, bytearray, memoryview, "os.PathLike[str]", OnnxModel]


@overload
def compile(graph: GraphSource, *, device: Device = ..., mode: Mode = ..., tuning: Tuning = ...,
            tuning_seconds: float = ..., threads: int = ..., batch_invariant: bool = ...,
            constants: Mapping[str, Any] | None = ...,
            dims: Mapping[str, int] | None = ...) -> Plan: ...


@overload
def compile(graph: ExportedProgram, *, mode: Mode = ..., tuning: Tuning = ...,
            tuning_seconds: float = ..., batch_invariant: bool = ...) -> Program: ...


def compile(graph: Any, *, device: Device = "cpu", mode: Mode = "fp32", tuning: Tuning = "known",
            tuning_seconds: float = 0, threads: int = 0, batch_invariant: bool = False,
            constants: Mapping[str, Any] | None = None,
            dims: Mapping[str, int] | None = None) -> Any:
    """Compiles a graph to a plan that is called with tensors.

    Args:
        graph: A graph in the text form, a path to a ``.attacca`` or ``.onnx`` file, an ONNX model
            (its bytes or a ``ModelProto``), or a ``torch.export.ExportedProgram``. Initializers of
            an ONNX model are constants, also those that are listed among its inputs.
        device: "cpu", "cuda" or "cuda:1", or a ``torch.device``. ``device``, ``threads``,
            ``constants`` and ``dims`` are errors for an ExportedProgram, which runs where its
            weights and inputs are.
        mode: "fp32" rounds only where the graph casts and where a region's results are stored;
            "eager" rounds after every op, as the unfused graph does.
        tuning: How the GPU kernels for given sizes are chosen. "known": from the tuning database,
            or by the cost model if the database does not have the sizes; "measure": from the
            database, or else by timing the candidates, whose fastest is added to the database;
            "always": by timing them; "model": by the cost model, whatever the database has;
            "unfused": nothing is fused.
        tuning_seconds: The time limit for timing one region's candidates, in seconds; 0: 60. With 5
            or less, only those that the cost model ranks best are timed; a later tuning with more
            time then times all.
        threads: The number of CPU threads; 0: all cores.
        batch_invariant: Whether the bits of a row of a product must not depend on how many rows
            there are, nor on the other rows (docs/numerics.md). The CPU then multiplies a fixed
            number of rows at a time. On a GPU each product has kernels that sum in one order, which
            the cost model chooses, and the vendor library is not used.
        constants: Inputs that never change, such as weights, by name: NumPy arrays or CPU
            tensors of the input's dtype and shape. They are copied into the plan, and calls do
            not take them.
        dims: Sizes in place of symbols of an ONNX model's input shapes, such as {"S": 64}. Some ops
            need them: an LSTM is unrolled over its sequence.

    Returns:
        A :class:`Plan`; for an ExportedProgram an :class:`attacca.torch.Program`.

    Raises:
        Error: The graph cannot be read, is invalid, or has an unknown op; the device, mode or
            tuning is unknown; the device cannot be used; a number is out of range; a constant
            differs from its input in dtype or shape.
    """
    compiler = _compiler_of(type(graph))
    if compiler is not None:
        if dims is not None:
            raise Error("dims of a graph that is no ONNX model", "dims",
                        "export the program with the sizes")
        return compiler(graph, options(device, mode, tuning, tuning_seconds, threads,
                                       batch_invariant), constants)
    return compile_plan(graph, device, mode, tuning, tuning_seconds, threads, constants,
                        batch_invariant, dims)


Compiler = Callable[[Any, Options, Any], Any]
_compilers: dict[type, Compiler] = {}


def register_compiler(kind: type, compiler: Compiler) -> None:
    """Makes :func:`compile` accept graphs of another package's class, such as PyTorch's exported
    programs.

    Args:
        kind: The class; subclasses count, too.
        compiler: Called with the graph, the options and the constants.
    """
    _compilers[kind] = compiler


def _compiler_of(kind: type) -> Compiler | None:
    if any(each.__module__.startswith("torch.export") for each in kind.__mro__):
        _dispatch.custom_ops()  # importing attacca.torch registers its compiler
    return next((_compilers[each] for each in kind.__mro__ if each in _compilers), None)


def compile_plan(graph: Any, device: Any, mode: Any, tuning: Any, tuning_seconds: Any, threads: Any,
                 constants: Any, batch_invariant: Any = False, dims: Any = None) -> Plan:
    """:func:`compile` of all but exported programs."""
    chosen = options(device, mode, tuning, tuning_seconds, threads, batch_invariant)
    if constants is not None and not isinstance(constants, Mapping):
        raise Error(f"constants is {_arguments.shown(constants)}", "constants",
                    "give a dict of tensors by name")
    read = graph_of(graph, dims)
    for name, tensor in (constants or {}).items():
        name = _arguments.text(name, "constants")
        read = read.with_constant(name, *_typed_bytes(tensor, name))
    return Plan(_core.Plan.compile(read, fuse=True, **chosen._asdict()))


def _typed_bytes(tensor: Any, name: str) -> tuple[str, bytes]:
    """A constant's type, such as "f32[128, 64]", and its elements row by row."""
    view = _frameworks.of(tensor).view(tensor, name)
    if view.device != "cpu":
        raise Error(f"constant {name} is on {view.device}", name, "move it to the CPU")
    strides = _frameworks.dense_strides(view.shape)
    if 0 not in view.shape and any(e != 1 and s != w
                                   for e, s, w in zip(view.shape, view.strides, strides)):
        raise Error(f"constant {name} is not contiguous", name,
                    "call .contiguous(), or numpy.ascontiguousarray")
    count = math.prod(view.shape)
    data = ctypes.string_at(view.address, count * _frameworks.BYTES[view.dtype]) if count else b""
    return f"{view.dtype}[{', '.join(map(str, view.shape))}]", data


def load(path: Path, *, device: Device = "") -> Plan:
    """Reads a plan from a file that :meth:`Plan.save` wrote.

    Args:
        path: The file.
        device: The device to run on; "": the one that the plan was compiled for.

    Returns:
        The :class:`Plan`, with its weights and the choices made before it was saved.

    Raises:
        Error: The file cannot be read, is damaged, or its device cannot be used.
    """
    return Plan(_core.Plan.load(_arguments.path(path), _arguments.device(device)))


def explain(what: Plan | GraphSource, *, device: Device = "cpu", mode: Mode = "fp32",
            tuning: Tuning = "known", tuning_seconds: float = 0, threads: int = 0,
            batch_invariant: bool = False, constants: Mapping[str, Any] | None = None,
            dims: Mapping[str, int] | None = None) -> Explanation:
    """Which ops are fused together, and for each op left out the reason.

    Args:
        what: An :class:`attacca.Plan`, or a graph as :func:`attacca.compile` takes it, except an
            ExportedProgram.
        device: As for :func:`attacca.compile`. Values of this and the following options other than
            their defaults are errors for a plan, which is compiled already.
        mode: As for :func:`attacca.compile`.
        tuning: As for :func:`attacca.compile`.
        tuning_seconds: As for :func:`attacca.compile`.
        threads: As for :func:`attacca.compile`.
        batch_invariant: As for :func:`attacca.compile`.
        constants: As for :func:`attacca.compile`.
        dims: As for :func:`attacca.compile`.

    Returns:
        An :class:`Explanation`: ``print`` it, or make it the value of a notebook's cell to see a
        drawing.

    Raises:
        Error: As for :func:`attacca.compile`; an option is given for a plan.
    """
    given = (device, mode, tuning, tuning_seconds, threads, constants, batch_invariant, dims)
    if not isinstance(what, Plan):
        return compile_plan(what, *given).explain()
    names = ("device", "mode", "tuning", "tuning_seconds", "threads", "constants",
             "batch_invariant", "dims")
    for name, value, default in zip(names, given,
                                    ("cpu", "fp32", "known", 0, 0, None, False, None)):
        if type(value) is not type(default) or value != default:
            raise Error(f"{name} has no effect on a plan, which is compiled already", name,
                        "leave it out")
    return what.explain()
