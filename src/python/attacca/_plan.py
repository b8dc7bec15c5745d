"""Plans: compiled graphs that are called with tensors."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from . import _arguments, _core, _dispatch
from ._arguments import Path
from ._explain import Explanation
from ._launch import Engine
from ._layout import Tensor


class Decision(NamedTuple):
    """How one region is computed on a GPU.

    Attributes:
        candidate: The kernel and its schedule; of the unfused path, "unfused ...".
        source: Where the choice comes from. "measured": timed now; "database": timed earlier on
            this machine; "plan" or "bundle": stored in the plan's file, without or with kernels;
            "shipped": came with Attacca; "model": the cost model; "only way": there was one
            candidate; "analysis": a kernel of your own, by the analysis of its code; "fallback":
            the kernel that was chosen could not be made; "failed": there is no choice, since
            tuning on a cluster failed.
        seconds: The measured time of one call, in seconds; 0: not known.
        unfused_seconds: The same of the unfused path; 0: not known.
        together: How many regions are computed by one launch, this one's: products of one input
            may be launched together. 1: it alone.
        remark: Why it was not measured, or what failed; usually "".
    """

    candidate: str
    source: str
    seconds: float
    unfused_seconds: float
    together: int = 1
    remark: str = ""


class Plan:
    """A graph compiled for one device. Call it with tensors.

    :func:`attacca.compile`, :func:`attacca.load` and :meth:`attacca.Fused.plan` return plans. Sizes
    that the graph names by symbols, such as M, may differ between calls. Several threads may call a
    plan at the same time.
    """

    def __init__(self, core: _core.Plan):
        self._core, self._engine = core, Engine(core)

    @property
    def device(self) -> str:
        """The device, such as "cpu" or "cuda:0"."""
        return self._core.device

    @property
    def mode(self) -> str:
        """The mode, "fp32" or "eager"."""
        return self._core.mode

    @property
    def batch_invariant(self) -> bool:
        """Whether it was compiled so, as :func:`attacca.compile` explains."""
        return self._core.batch_invariant

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The inputs, in the order of a call's arguments."""
        return tuple(layout.info for layout in self._engine.signature.inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The outputs, in the order of a call's results."""
        return tuple(layout.info for layout in self._engine.signature.outputs)

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of the sizes that may differ between calls."""
        return tuple(self._engine.signature.symbols)

    def __call__(self, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """Runs the plan.

        Args:
            *inputs: Tensors of NumPy, PyTorch, CuPy or any library that supports DLPack, on the
                plan's device, in the order of :attr:`inputs` and with their dtypes and shapes. They
                are neither copied nor converted. Strides may be anything but negative: rows may be
                parts of wider rows, matrices transposed, elements repeated.
            out: Where to write: a tensor, or a list with one for each output; rows may be parts of
                wider rows. None: the first input's framework allocates the results.
            **named: Inputs by name instead of by position.

        Returns:
            The output; if the plan has several, a tuple of them. On a GPU the work is queued on the
            framework's current stream and may not be done yet.

        Raises:
            Error: An input is missing, unknown or given twice; a dtype, shape, stride or device is
                wrong; an out is read-only, or overlaps an input or another out; a PyTorch tensor
                requires a gradient while gradients are enabled; the GPU fails.
        """
        if not named and not _dispatch.traced():
            known = self._engine.cache.run(inputs, out)
            if known is not None:
                return known
        if _dispatch.wanted((*inputs, *named.values()) if named else inputs):
            return _dispatch.custom_ops().plan(self._engine, inputs, named, out)
        return self._engine.call(inputs, named, out)

    def prepare(self, **sizes: int | _arguments.Integer) -> Instance:
        """Chooses and builds the kernels for certain sizes, which the first call with these sizes
        would do otherwise.

        Args:
            **sizes: A value for each of :attr:`symbols`, such as ``M=16``.

        Returns:
            An :class:`Instance`, which says what was chosen.

        Raises:
            Error: A symbol is missing or unknown; a size is negative; the GPU fails.
        """
        return Instance(self._core.prepare(_arguments.sizes(sizes, "sizes"), []))

    def explain(self) -> Explanation:
        """Which ops the plan fuses, and for each op left out the reason."""
        return Explanation(self._core)

    def save(self, path: Path, kernels: bool = False) -> None:
        """Writes the plan to a file that :func:`attacca.load` reads without the graph or its
        weights.

        Args:
            path: The file; it appears whole or not at all.
            kernels: Whether to write the machine code of the kernels, too, for all sizes that were
                prepared or called so far. Loaded on a GPU of the same compute capability, such a
                file, a bundle, runs for these sizes without NVRTC, ptxas or the templates' PTX.
                docs/deploy.md in Attacca's repository says what it needs.

        Raises:
            Error: The file cannot be written. If ``kernels`` is True: the plan is for the CPU, was
                prepared for no sizes, or launches kernels of your own.
        """
        self._core.save(_arguments.path(path), _arguments.flag(kernels, "kernels"))

    def __reduce__(self) -> Any:
        return _unpickle, (self._core.serialize(),)

    def __repr__(self) -> str:
        inputs = ", ".join(f"{t.name}: {t.type}" for t in self.inputs)
        outputs = ", ".join(f"{t.name}: {t.type}" for t in self.outputs)
        return f"<attacca.Plan ({inputs}) -> {outputs} on {self.device}, mode {self.mode}>"


def _unpickle(data: bytes) -> Plan:
    return Plan(_core.Plan.deserialize(data))


def engine_of(plan: Plan) -> Engine:
    """The engine of a plan, for the package's other modules."""
    return plan._engine


class Instance:
    """What was chosen for a plan at certain sizes; :meth:`Plan.prepare` returns it.

    To run the plan, call it with tensors of these sizes.
    """

    def __init__(self, core: _core.Instance):
        self._core = core

    @property
    def workspace_bytes(self) -> int:
        """The bytes of device memory that a call needs besides its inputs and outputs."""
        return self._core.workspace_bytes

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """How each region is computed on a GPU; empty on the CPU."""
        return tuple(Decision(d.candidate, d.source, d.seconds, d.unfused_seconds, d.together,
                              d.remark)
                     for d in self._core.decisions())


def run_remembering(plan: Plan, tensors: Sequence[Any], out: Any, cache: _core.CallCache) -> Any:
    """Runs a plan on its inputs, and adds the call to a cache of the caller's."""
    return plan._engine.call(tensors, {}, out, cache)
