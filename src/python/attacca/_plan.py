"""Plans: compiled graphs that are called with tensors."""
from __future__ import annotations

import difflib
import itertools
import json
import os
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Callable, Mapping, NamedTuple, Protocol, Sequence, TypedDict, Union, overload

from . import _arguments, _core, _dispatch, _frameworks
from ._arguments import Device, Mode, Path, Tuning
from ._dims import Dim, sources
from ._errors import Error
from ._explain import Explanation

if TYPE_CHECKING:
    from .torch import Program

# Instances that a plan keeps ready, the least recently used given up first.
_MOST_INSTANCES = 256
_count = itertools.count()


class Tensor(NamedTuple):
    """What a plan says of an input or output.

    Attributes:
        name: Its name in the graph.
        dtype: As in the text form: "bf16".
        type: The whole type: "bf16[M, 4096]".
        shape: An extent each: "M", "4096", "2*M".
    """

    name: str
    dtype: str
    type: str
    shape: tuple[str, ...]


class Decision(NamedTuple):
    """How one region is computed on a GPU.

    Attributes:
        candidate: The kernel and its schedule, or "unfused ...".
        source: "measured", "database", "plan", "model" or "only way".
        seconds: Its time where known, else 0.
        unfused_seconds: The unfused path's time where known, else 0.
    """

    candidate: str
    source: str
    seconds: float
    unfused_seconds: float


class _Layout:
    """A tensor of the plan with its extents ready to be evaluated."""

    def __init__(self, info: Tensor):
        self.info = info
        self.shape = [Dim(extent) for extent in info.shape]
        _, _, strides = info.type.rpartition(";")
        self.strides = [Dim(s) for s in strides.rstrip("]").split(",")] if ";" in info.type else None


class _Ready(NamedTuple):
    """An instance, and what its calls need at once."""

    instance: _core.Instance
    shapes: list[tuple[int, ...]]
    workspace_bytes: int


# The power of two, 16 at most, to which an address is aligned, by its last four bits.
_ALIGNMENTS = tuple(low & -low or 16 for low in range(16))


class Plan:
    """A graph compiled for one device; call it with tensors.

    Made by :func:`attacca.compile`, :func:`attacca.load` and :func:`attacca.fuse`. Sizes named by
    symbols may differ from call to call. Any number of threads may call a plan at the same time.
    """

    def __init__(self, core: _core.Plan):
        self._core = core
        self._inputs = [_Layout(Tensor(i.name, i.dtype, i.type, tuple(i.shape))) for i in core.inputs]
        self._outputs = [_Layout(Tensor(o.name, o.dtype, o.type, tuple(o.shape)))
                         for o in core.outputs]
        self._names = {layout.info.name: i for i, layout in enumerate(self._inputs)}
        self._sources = sources([layout.shape for layout in self._inputs])
        self._symbols = list(core.symbols)
        self._instances: OrderedDict[Any, _Ready] = OrderedDict()
        self._lock = threading.Lock()
        # For Dynamo, which guards attributes: a text that no other plan has.
        self._identity = f"plan {next(_count)}"
        self._input_count, self._output_count = len(self._inputs), len(self._outputs)

    @property
    def device(self) -> str:
        """"cpu" or "cuda:0"."""
        return self._core.device

    @property
    def mode(self) -> str:
        """"fp32" or "eager"."""
        return self._core.mode

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The inputs, in the order in which calls take them."""
        return tuple(layout.info for layout in self._inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The outputs, in the order in which calls return them."""
        return tuple(layout.info for layout in self._outputs)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Names of the sizes that may differ from call to call."""
        return tuple(self._symbols)

    def __call__(self, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """Runs the plan.

        Args:
            *inputs: Tensors of numpy, torch, cupy or anything that speaks DLPack, in the order of
                :attr:`inputs`, each of its dtype and shape, all on the plan's device. Nothing is
                copied or converted: rows may be parts of wider rows, matrices transposed,
                elements repeated, as long as no stride is negative.
            out: Where to write: a tensor, or a list of as many as there are outputs; rows may be
                parts of wider rows. None: newly allocated by the first input's framework.
            **named: Inputs by their name instead.

        Returns:
            The output, or a tuple of them. On a GPU the work is on the framework's current
            stream and may not be done yet.

        Raises:
            Error: A missing, unknown or superfluous input; a wrong dtype, shape, layout or device;
                an out that cannot be written, or that overlaps an input or another output; a torch
                tensor that requires a gradient while gradients are enabled.
        """
        if _dispatch.wanted((*inputs, *named.values()) if named else inputs):
            return _dispatch.torch_part().plan(self, inputs, named, out)
        given = list(inputs)
        if named or len(given) != len(self._inputs):
            given = self._arrange(given, named)
        frameworks = [_frameworks.of(tensor) for tensor in given]
        views = [framework.view(tensor, layout.info.name)
                 for framework, tensor, layout in zip(frameworks, given, self._inputs)]
        main = frameworks[0] if frameworks else _frameworks.Numpy
        if out is not None:
            outs = list(out) if isinstance(out, (list, tuple)) else [out]
            into = self._writable(outs)
            return self._run(views, main, outs, into, isinstance(out, (list, tuple)))
        return self._run(views, main, None, None, False)

    def prepare(self, **sizes: "int | _arguments.Integer") -> "Instance":
        """Gets the plan ready for certain sizes, so that the first call with them is fast.

        Args:
            **sizes: One of each of :attr:`symbols`.

        Raises:
            Error: A missing or unknown symbol, a negative size, a GPU's failure.
        """
        given = [(_arguments.text(name, "sizes"), _arguments.size(size, name))
                 for name, size in sizes.items()]
        return Instance(self._core.prepare(given, []))

    def explain(self) -> Explanation:
        """Regions, epilogues, and why an op was left out."""
        return Explanation(self._core)

    def save(self, path: Path) -> None:
        """Writes the plan as a file that says all about itself; :func:`attacca.load` reads it.

        Raises:
            Error: The file cannot be written.
        """
        self._core.save(_arguments.path(path))

    def __reduce__(self) -> Any:
        return _unpickle, (self._core.serialize(),)

    def __repr__(self) -> str:
        inputs = ", ".join(f"{t.name}: {t.type}" for t in self.inputs)
        outputs = ", ".join(f"{t.name}: {t.type}" for t in self.outputs)
        return f"<attacca.Plan ({inputs}) -> {outputs} on {self.device}, mode {self.mode}>"

    def _graph(self) -> str:
        """The graph in the text form, as the plan's file has it; large constants are inputs."""
        _, sizes, rest = self._core.serialize().split(b"\n", 2)
        text: str = json.loads(rest[:int(sizes.split()[0])])["graph"]
        return text

    # ---- Inputs

    # Dynamo runs what is marked constant while it traces, for the identity that it guards.
    def _argument(self, identity: str) -> str:
        """The plan as a custom op's argument."""
        argument: str = _dispatch.torch_part().plan_argument(self)
        return argument

    def _order(self, identity: str, count: int, names: str) -> str:
        """Inputs by name in the order of those that ``count`` inputs by position leave."""
        self._arrange([object()] * count, dict.fromkeys(names.split(), object()))
        return " ".join(list(self._names)[count:])

    _argument._dynamo_marked_constant = True  # type: ignore[attr-defined]
    _order._dynamo_marked_constant = True  # type: ignore[attr-defined]

    def _arrange(self, given: list[Any], named: dict[str, Any]) -> list[Any]:
        """Inputs by position and by name, in order."""
        wanted = ", ".join(self._names)
        if len(given) > len(self._inputs):
            raise Error(f"{len(given)} inputs where the plan has {len(self._inputs)}", "inputs",
                        f"give {wanted or 'none'}")
        all_given: list[Any] = given + [None] * (len(self._inputs) - len(given))
        for name, tensor in named.items():
            index = self._names.get(name)
            if index is None:
                near = difflib.get_close_matches(name, self._names, 1)
                mend = f"did you mean {near[0]}?" if near else f"the inputs are {wanted}"
                raise Error(f"the plan has no input {name}", name, mend)
            if index < len(given):
                raise Error(f"input {name} is given twice", name, "give it by position or by name")
            all_given[index] = tensor
        for layout, tensor in zip(self._inputs, all_given):
            if tensor is None:
                raise Error(f"operand {layout.info.name} is missing", layout.info.name,
                            f"give {layout.info.name}=, a {layout.info.type}")
        return all_given

    def _sizes(self, views: Sequence[_frameworks.View]) -> dict[str, int]:
        """The symbols' values, from inputs whose shapes, layouts, dtypes and devices fit."""
        for layout, view in zip(self._inputs, views):
            info = layout.info
            if view.dtype != info.dtype:
                raise Error(f"{info.name} is {view.dtype}, {info.type} is wanted", info.name,
                            f"convert it to {_frameworks._NUMPY[info.dtype]}")
            if view.device != self.device:
                raise Error(f"{info.name} is on {view.device}, the plan on {self.device}", info.name,
                            f"move it, or compile for device=\"{view.device}\"")
            if len(view.shape) != len(layout.shape):
                raise Error(f"{info.name} has shape {view.shape}, {info.type} is wanted", info.name,
                            f"give it {len(layout.shape)} dimensions")
        sizes: dict[str, int] = {}
        for symbol in self._symbols:
            source = self._sources.get(symbol)
            if source is None:
                raise Error(f"size {symbol} is no extent of an input", symbol,
                            "give an input an extent that is the symbol alone")
            extent = views[source.tensor].shape[source.axis]
            sizes[symbol] = (extent - source.offset) // source.factor
        for layout, view in zip(self._inputs, views):
            shape = tuple(dim.value(sizes) for dim in layout.shape)
            if shape != view.shape:
                known = ", ".join(f"{s}={v}" for s, v in sizes.items())
                raise Error(f"{layout.info.name} has shape {view.shape}, {layout.info.type} is "
                            f"wanted" + (f" with {known}" if known else ""), layout.info.name,
                            f"give it shape {shape}")
        return sizes

    # ---- Outputs

    def _check_count(self, outs: Sequence[Any]) -> None:
        if len(outs) != len(self._outputs):
            wanted = len(self._outputs)
            raise Error(f"out is of {len(outs)}, the results are {wanted}", "out",
                        f"give a list of {wanted} tensors" if wanted > 1 else "give one tensor")

    def _writable(self, outs: Sequence[Any]) -> list[_frameworks.View]:
        self._check_count(outs)
        return [_frameworks.of(tensor).view(tensor, "out", True) for tensor in outs]

    def _check_out(self, into: Sequence[_frameworks.View], sizes: Mapping[str, int]) -> None:
        for layout, view in zip(self._outputs, into):
            name = layout.info.name
            shape = tuple(dim.value(sizes) for dim in layout.shape)
            if view.dtype != layout.info.dtype:
                raise Error(f"out is {view.dtype}, {name} is {layout.info.dtype}", "out",
                            f"give {_frameworks._NUMPY[layout.info.dtype]}")
            if view.device != self.device:
                raise Error(f"out is on {view.device}, the plan on {self.device}", "out", "move it")
            if view.shape != shape:
                raise Error(f"out has shape {view.shape}, {name} has {shape}", "out",
                            f"give it shape {shape}")

    # ---- Running

    def _ready(self, views: Sequence[_frameworks.View], into: "Sequence[_frameworks.View] | None",
               ) -> _Ready:
        key = (tuple([(view[1:5], _ALIGNMENTS[view[0] & 15]) for view in views]),
               tuple([(view[1:5], _ALIGNMENTS[view[0] & 15]) for view in into]) if into else None)
        with self._lock:
            ready = self._instances.get(key)
            if ready is not None:
                self._instances.move_to_end(key)
                return ready
        sizes = self._sizes(views)
        alignments = [_ALIGNMENTS[view.address & 15] for view in views]
        strides: list[Sequence[int]] = [view.strides for view in views]
        if into:
            self._check_out(into, sizes)
            alignments += [_ALIGNMENTS[view.address & 15] for view in into]
            strides += [view.strides for view in into]
        else:
            alignments += [16] * len(self._outputs)
            strides += [()] * len(self._outputs)
        instance = self._core.prepare(list(sizes.items()), alignments, strides)
        shapes = [tuple(instance.output_shape(i)) for i in range(len(self._outputs))]
        ready = _Ready(instance, shapes, instance.workspace_bytes)
        with self._lock:
            self._instances[key] = ready
            if len(self._instances) > _MOST_INSTANCES:
                self._instances.popitem(last=False)
        return ready

    def _run(self, views: Sequence[_frameworks.View], framework: Any, outs: "list[Any] | None",
             into: "list[_frameworks.View] | None", listed: bool) -> Any:
        ready = self._ready(views, into)
        if outs is None:
            like = views[0] if views else _NOTHING
            outs = [framework.empty(shape, layout.info.dtype, like)
                    for shape, layout in zip(ready.shapes, self._outputs)]
            addresses = [framework.view(tensor, "out").address for tensor in outs]
        else:
            assert into is not None
            addresses = [view.address for view in into]
        inputs = [view.address for view in views]
        if self._core.device == "cpu":
            ready.instance.run(inputs, addresses)
        else:
            device = views[0].device
            memory, owner = (framework.workspace(ready.workspace_bytes, device)
                             if ready.workspace_bytes else (0, None))
            ready.instance.run(inputs, addresses, memory, ready.workspace_bytes,
                               framework.stream(device))
            del owner  # freed in the stream's order by the framework's allocator
        return outs[0] if len(outs) == 1 and not listed else tuple(outs)


_NOTHING = _frameworks.View(0, (), (), "f32", "cpu", None)


def _unpickle(data: bytes) -> Plan:
    return Plan(_core.Plan.deserialize(data))


class Instance:
    """A plan ready for certain sizes."""

    def __init__(self, core: _core.Instance):
        self._core = core

    @property
    def workspace_bytes(self) -> int:
        """Memory that a run needs on the device besides its inputs and outputs."""
        return self._core.workspace_bytes

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """How each region is computed on a GPU; empty on the CPU."""
        return tuple(Decision(d.candidate, d.source, d.seconds, d.unfused_seconds)
                     for d in self._core.decisions())


class Options(NamedTuple):
    """Checked arguments for _core; what they mean stands at :func:`attacca.compile`."""

    device: str
    mode: Mode
    tuning: Tuning
    tuning_seconds: float
    threads: int


def options(device: Any, mode: Any, tuning: Any, tuning_seconds: Any, threads: Any) -> Options:
    """The arguments checked, of other libraries too.

    Raises:
        Error: An unknown mode or tuning; a wrong type; numbers out of range.
    """
    _arguments.choice(mode, _arguments.MODES, "mode")
    _arguments.choice(tuning, _arguments.TUNINGS, "tuning")
    return Options(_arguments.device(device), mode, tuning,
                   _arguments.seconds(tuning_seconds, "tuning_seconds"), _arguments.threads(threads))


class CompileOptions(TypedDict, total=False):
    """What :func:`attacca.compile` takes by name."""

    device: Device
    mode: Mode
    tuning: Tuning
    tuning_seconds: float
    threads: int
    constants: "Mapping[str, Any] | None"


def check_options(given: "Mapping[str, Any]") -> None:
    """Whether :func:`attacca.compile` would take them.

    Raises:
        Error: One that is not known; a value that is wrong.
    """
    for name in given:
        if name not in CompileOptions.__annotations__:
            near = difflib.get_close_matches(name, CompileOptions.__annotations__, 1)
            raise Error(f"unknown option {name}", name,
                        f"did you mean {near[0]}?" if near else f"one of {', '.join(CompileOptions.__annotations__)}")
    options(given.get("device", "cpu"), given.get("mode", "fp32"), given.get("tuning", "known"),
            given.get("tuning_seconds", 0), given.get("threads", 0))


def graph_of(source: Any) -> _core.Graph:
    """The graph of a text, a file or an ONNX model in memory."""
    if isinstance(source, _core.Graph):
        return source
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _core.Graph.from_onnx(bytes(source))
    if isinstance(source, os.PathLike):
        return _core.Graph.load(_arguments.path(source, "graph"))
    if callable(getattr(source, "SerializeToString", None)) and not isinstance(source, type):  # onnx.ModelProto
        return _core.Graph.from_onnx(source.SerializeToString())
    if not isinstance(source, str):
        raise Error(f"{_arguments.shown(source)} is no graph", "graph",
                    "give the text form, a path to .attacca or .onnx, an ONNX model as bytes, or a "
                    "torch.export.ExportedProgram")
    source = _arguments.text(source, "graph")
    if source.endswith((".onnx", ".attacca")) and "{" not in source:
        return _core.Graph.load(source)
    return _core.Graph.parse(source)


class OnnxModel(Protocol):
    """An onnx.ModelProto."""

    def SerializeToString(self) -> bytes: ...


class ExportedProgram(Protocol):
    """A torch.export.ExportedProgram."""

    def run_decompositions(self, *args: Any, **keywords: Any) -> Any: ...


GraphSource = Union[str, bytes, bytearray, memoryview, "os.PathLike[str]", OnnxModel]


@overload
def compile(graph: GraphSource, *, device: Device = ..., mode: Mode = ..., tuning: Tuning = ...,
            tuning_seconds: float = ..., threads: int = ...,
            constants: "Mapping[str, Any] | None" = ...) -> Plan: ...


@overload
def compile(graph: ExportedProgram, *, mode: Mode = ..., tuning: Tuning = ...,
            tuning_seconds: float = ...) -> "Program": ...


def compile(graph: Any, *, device: Device = "cpu", mode: Mode = "fp32", tuning: Tuning = "known",
            tuning_seconds: float = 0, threads: int = 0,
            constants: "Mapping[str, Any] | None" = None) -> Any:
    """Compiles a graph to a plan that is called with tensors.

    Args:
        graph: A graph in the text form, a path to a ``.attacca`` or ``.onnx`` file, an ONNX model
            (its bytes or a ``ModelProto``), or a ``torch.export.ExportedProgram``.
        device: "cpu", "cuda" or "cuda:1", or a ``torch.device``. Not for an ExportedProgram, which
            runs where its weights and inputs are; nor are ``threads`` and ``constants``.
        mode: "fp32" rounds only where the graph casts and at the outputs; "eager" rounds where
            the unfused graph would.
        tuning: How a GPU's kernels are chosen for a shape. "known": by the database of
            measurements, else by a model; "measure": by the database, else measured and
            remembered; "always": measured; "unfused": never fused.
        tuning_seconds: The most that measuring one region may take; 0: 60.
        threads: Of the CPU; 0: all cores.
        constants: Inputs that never change, such as weights, by name: numpy arrays or CPU
            tensors of the input's dtype and shape, copied. The plan takes them no more.

    Returns:
        A :class:`Plan`; for an ExportedProgram a :class:`attacca.torch.Program`.

    Raises:
        Error: The graph cannot be read, is wrong, or has an op that is not known; an unknown
            device, mode or tuning; a device that cannot be used; a number out of range; a constant
            of another dtype or shape than its input.
    """
    compiler = _compiler_of(type(graph))
    if compiler is not None:
        return compiler(graph, options(device, mode, tuning, tuning_seconds, threads), constants)
    return compile_plan(graph, device, mode, tuning, tuning_seconds, threads, constants)


# What other packages' graphs are compiled by, called with the graph, options and constants; attacca.torch's are here.
compilers: "dict[type, Callable[[Any, Options, Any], Any]]" = {}


def _compiler_of(kind: type) -> "Callable[[Any, Options, Any], Any] | None":
    if any(each.__module__.startswith("torch.export") for each in kind.__mro__):
        _dispatch.torch_part()  # which registers its compilers
    return next((compilers[each] for each in kind.__mro__ if each in compilers), None)


def compile_plan(graph: Any, device: Any, mode: Any, tuning: Any, tuning_seconds: Any, threads: Any,
                 constants: Any) -> Plan:
    """:func:`compile` of all but exported programs."""
    chosen = options(device, mode, tuning, tuning_seconds, threads)
    if constants is not None and not isinstance(constants, Mapping):
        raise Error(f"constants is {_arguments.shown(constants)}", "constants", "give a dict of tensors by name")
    read = graph_of(graph)
    for name, tensor in (constants or {}).items():
        name = _arguments.text(name, "constants")
        read = read.with_constant(name, *_typed_bytes(tensor, name))
    return Plan(_core.Plan.compile(read, fuse=True, **chosen._asdict()))


def _typed_bytes(tensor: Any, name: str) -> tuple[str, bytes]:
    """A constant's type, such as "f32[128, 64]", and its elements row by row."""
    import ctypes

    view = _frameworks.of(tensor).view(tensor, name)
    if view.device != "cpu":
        raise Error(f"constant {name} is on {view.device}", name, "move it to the CPU")
    strides = _frameworks.dense_strides(view.shape)
    if 0 not in view.shape and any(e != 1 and s != w for e, s, w in zip(view.shape, view.strides, strides)):
        raise Error(f"constant {name} is not contiguous", name,
                    "call .contiguous(), or numpy.ascontiguousarray")
    count = 1
    for extent in view.shape:
        count *= extent
    data = ctypes.string_at(view.address, count * _frameworks.BYTES[view.dtype]) if count else b""
    return f"{view.dtype}[{', '.join(map(str, view.shape))}]", data


def load(path: Path, *, device: Device = "") -> Plan:
    """Reads a plan that :meth:`Plan.save` wrote.

    Args:
        path: The file.
        device: Another than the one it was compiled for.

    Raises:
        Error: The file cannot be read, is damaged, or its device cannot be used.
    """
    return Plan(_core.Plan.load(_arguments.path(path), _arguments.device(device)))
