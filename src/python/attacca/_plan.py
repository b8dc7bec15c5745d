"""Plans: compiled graphs that are called with tensors."""
from __future__ import annotations

from typing import Any, NamedTuple

from . import _arguments, _core, _dispatch
from ._arguments import Path
from ._explain import Explanation
from ._launch import Engine
from ._layout import Tensor


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


class Plan:
    """A graph compiled for one device; call it with tensors.

    Made by :func:`attacca.compile`, :func:`attacca.load` and :func:`attacca.fuse`. Sizes named by
    symbols may differ from call to call. Any number of threads may call a plan at the same time.
    """

    def __init__(self, core: _core.Plan):
        self._core, self._engine = core, Engine(core)

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
        return tuple(layout.info for layout in self._engine.signature.inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The outputs, in the order in which calls return them."""
        return tuple(layout.info for layout in self._engine.signature.outputs)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Names of the sizes that may differ from call to call."""
        return tuple(self._engine.signature.symbols)

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
            return _dispatch.custom_ops().plan(self._engine, inputs, named, out)
        return self._engine.call(inputs, named, out)

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


def _unpickle(data: bytes) -> Plan:
    return Plan(_core.Plan.deserialize(data))


def engine_of(plan: Plan) -> Engine:
    """What runs a plan, for the package's other modules."""
    return plan._engine


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
