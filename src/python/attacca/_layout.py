"""A plan's inputs and outputs: their types, and whether given tensors fit them."""
from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from . import _core
from ._arguments import LONG_NAMES
from ._dims import Dim, sources
from ._errors import Error
from ._frameworks import View


class Tensor(NamedTuple):
    """The name and type of an input or output of a plan.

    Attributes:
        name: Its name in the graph.
        dtype: Its dtype, such as "bf16".
        type: Its dtype and shape in the text form, such as "bf16[M, 4096]".
        shape: Its extents in the text form, such as ("M", "4096").
    """

    name: str
    dtype: str
    type: str
    shape: tuple[str, ...]


class Layout:
    """An input or output with its extents and strides parsed, so that they can be evaluated.
    ``strides`` is None for a row-major one."""

    def __init__(self, info: Tensor):
        self.info = info
        self.shape = [Dim(extent) for extent in info.shape]
        _, _, strides = info.type.rpartition(";")
        self.strides = [Dim(s)
                        for s in strides.rstrip("]").split(",")] if ";" in info.type else None


def _layouts(infos: Sequence[_core.TensorInfo]) -> list[Layout]:
    return [Layout(Tensor(info.name, info.dtype, info.type, tuple(info.shape))) for info in infos]


class Signature:
    """The inputs, outputs and symbols of a plan, and the checks of the tensors given for them."""

    def __init__(self, core: _core.Plan):
        self.device = core.device
        self.inputs, self.outputs = _layouts(core.inputs), _layouts(core.outputs)
        self.symbols = list(core.symbols)
        self.sources = sources([layout.shape for layout in self.inputs])
        self._positions = {layout.info.name: i for i, layout in enumerate(self.inputs)}

    # ---- Inputs

    def arranged(self, given: list[Any], named: Mapping[str, Any]) -> list[Any]:
        """Inputs by position and by name, in the plan's order.

        Raises:
            Error: An input is missing, unknown or given twice, or there are too many.
        """
        wanted = ", ".join(self._positions)
        if len(given) > len(self.inputs):
            raise Error(f"{len(given)} inputs where the plan has {len(self.inputs)}", "inputs",
                        f"give {wanted or 'none'}")
        all_given: list[Any] = given + [None] * (len(self.inputs) - len(given))
        for name, tensor in named.items():
            index = self._positions.get(name)
            if index is None:
                near = difflib.get_close_matches(name, self._positions, 1)
                fix = (f"did you mean {near[0]}?" if near else
                       f"the inputs are {wanted}; initializers of an ONNX model are constants")
                raise Error(f"the plan has no input {name}", name, fix)
            if index < len(given):
                raise Error(f"input {name} is given twice", name, "give it by position or by name")
            all_given[index] = tensor
        for layout, tensor in zip(self.inputs, all_given):
            if tensor is None:
                raise Error(f"operand {layout.info.name} is missing", layout.info.name,
                            f"give {layout.info.name}=, a {layout.info.type}")
        return all_given

    def names_after(self, count: int) -> list[str]:
        """The names of the inputs after the first ``count``."""
        return list(self._positions)[count:]

    def sizes(self, views: Sequence[View]) -> dict[str, int]:
        """The symbols' values, read from the inputs' shapes.

        Raises:
            Error: The dtype, device or shape of a tensor differs from the input's.
        """
        for layout, view in zip(self.inputs, views):
            info = layout.info
            if view.dtype != info.dtype:
                raise Error(f"{info.name} is {view.dtype}, {info.type} is wanted", info.name,
                            f"convert it to {LONG_NAMES[info.dtype]}")
            if view.device != self.device:
                raise Error(f"{info.name} is on {view.device}, the plan on {self.device}",
                            info.name,
                            f"move it, or compile for device=\"{view.device}\"")
            if len(view.shape) != len(layout.shape):
                raise Error(f"{info.name} has shape {view.shape}, {info.type} is wanted", info.name,
                            f"give it {len(layout.shape)} dimensions")
        sizes: dict[str, int] = {}
        shapes = [view.shape for view in views]
        for symbol in self.symbols:
            source = self.sources.get(symbol)
            if source is None:
                raise Error(f"size {symbol} is not an extent of any input", symbol,
                            "give an input an extent that is the symbol alone")
            sizes[symbol] = source.read(shapes)
        for layout, view in zip(self.inputs, views):
            shape = tuple(dim.value(sizes) for dim in layout.shape)
            if shape != view.shape:
                known = ", ".join(f"{s}={v}" for s, v in sizes.items())
                raise Error(f"{layout.info.name} has shape {view.shape}, {layout.info.type} is "
                            f"wanted" + (f" with {known}" if known else ""), layout.info.name,
                            f"give it shape {shape}")
        return sizes

    def sizes_of(self, shapes: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """The symbols' values from the inputs' shapes, which are not checked and may be
        symbolic."""
        return {symbol: source.read(shapes) for symbol, source in self.sources.items()}

    def declared_strides(self, shapes: Sequence[Sequence[Any]]) -> list[tuple[Any, ...] | None]:
        """Each input's strides as the graph declares them; None: row-major."""
        sizes = self.sizes_of(shapes)
        return [None if layout.strides is None
                else tuple(stride.value(sizes) for stride in layout.strides)
                for layout in self.inputs]

    # ---- Outputs

    def check_count(self, outs: Sequence[Any]) -> None:
        """Checks that ``out`` has one tensor for each output.

        Raises:
            Error: It has more or fewer.
        """
        if len(outs) != len(self.outputs):
            wanted = len(self.outputs)
            raise Error(f"out has {len(outs)} tensors for {wanted} outputs", "out",
                        f"give a list of {wanted} tensors" if wanted > 1 else "give one tensor")

    def check_outs(self, into: Sequence[View], sizes: Mapping[str, int]) -> None:
        """Checks the tensors of ``out``.

        Raises:
            Error: The dtype, device or shape of a tensor differs from the output's.
        """
        for layout, view in zip(self.outputs, into):
            name = layout.info.name
            shape = tuple(dim.value(sizes) for dim in layout.shape)
            if view.dtype != layout.info.dtype:
                raise Error(f"out is {view.dtype}, {name} is {layout.info.dtype}", "out",
                            f"give {LONG_NAMES[layout.info.dtype]}")
            if view.device != self.device:
                raise Error(f"out is on {view.device}, the plan on {self.device}", "out", "move it")
            if view.shape != shape:
                raise Error(f"out has shape {view.shape}, {name} has {shape}", "out",
                            f"give it shape {shape}")
