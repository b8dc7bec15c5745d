"""The options of the backend for ``torch.compile``."""
from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, TypedDict, get_args

from .. import _arguments
from .._arguments import Mode, Tuning
from .._errors import Error
from .._together import ranks_of

Policy = Literal["measured", "always"]
POLICIES: tuple[str, ...] = get_args(Policy)


def _compares() -> bool:
    """Whether regions are compared with Inductor by default.

    Raises:
        Error: ATTACCA_TORCH_COMPARE is neither 0 nor 1.
    """
    given = os.environ.get("ATTACCA_TORCH_COMPARE") or "1"
    if given not in ("0", "1"):
        raise Error(f"ATTACCA_TORCH_COMPARE is {given!r}", "the environment", "set it to 0 or 1")
    return given == "1"


class OptionsGiven(TypedDict, total=False):
    """The options of :class:`Options` by name."""

    policy: Policy
    compare: bool
    kernels: bool
    overlap: bool
    mode: Mode
    tuning: Tuning
    tuning_seconds: float
    measuring_seconds: float
    batch_invariant: bool
    group: Any


class Options(NamedTuple):
    """The options of ``torch.compile(..., backend="attacca", options={...})`` besides Inductor's.

    Attributes:
        policy: "measured": a region is fused if that makes the graph faster on this GPU; on the CPU
            nothing is fused. "always": every region is fused.
        compare: What "measured" compares a region with. True: Inductor. First the region is timed
            beside its products alone, which Inductor's code for it contains. If that does not
            decide, Inductor compiles the region with and without Attacca's call, together with the
            ops around it that Inductor may fuse with it. Equal regions are timed once for all
            models, at the sizes at hand, and the result is kept in Attacca's cache. False, or
            ATTACCA_TORCH_COMPARE=0 in the environment: the unfused path, which is the vendor
            library's product and one pointwise kernel.
        kernels: Whether epilogues may be fused into users' Triton kernels.
        overlap: Whether regions beside a collective become one with it, as
            :func:`all_gather_matmul` and its like are, which measure how rows are exchanged when
            they first run. These regions are not compared with Inductor's code; give all ranks the
            same.
        mode: "fp32" or "eager", as for :func:`attacca.compile`.
        tuning: As for :func:`attacca.compile`, for the sizes at hand while compiling. By default
            what is not in the database is measured. Calls with other sizes measure nothing: they
            use the database, which :func:`attacca.tune` fills, or the cost model.
        tuning_seconds: The time limit for measuring the kernels of one region, in seconds; 0: what
            is left of measuring_seconds and 0.6 more, at most 5. With 5 or less, only the kernels
            that the cost model ranks best are timed, and a later compilation with more seconds
            measures again.
        measuring_seconds: The time limit for measuring one graph, in seconds; 0: 0.4 of the
            time that Inductor alone is expected to take, at least 1. When it is over, the regions
            that are not decided yet get the kernels that the cost model chooses: these are timed
            beside the region's products alone, and what that does not decide is left to Inductor,
            unless the kernels were tuned before, or come tuned with Attacca, and take at most 0.75
            of the unfused path's time.
            Later compilations take over such a verdict, unless they have twice the time or the
            tuning database has changed.
        batch_invariant: As for :func:`attacca.compile`: every product that Attacca can compute is
            computed by it, also one without an epilogue, on every device, and nothing is measured.
            The report names the products that are left, which may depend on the number of rows as
            may reductions by Inductor (docs/numerics.md). Inductor's ``shape_padding`` and
            ``coordinate_descent_tuning``, which change products by their shapes, are off.
        group: A process group of ``torch.distributed`` whose ranks compile the same graphs in the
            same order: rank 0 measures and decides for all, and its choices of kernels for the
            sizes at hand go to every rank's tuning database. Where ranks have different regions,
            none is fused. Inductor's cache is not used, since a rank that finds a graph there does
            not wait for the others. None: each rank decides for itself.
    """

    policy: Policy = "measured"
    compare: bool = _compares()
    kernels: bool = True
    overlap: bool = False
    mode: Mode = "fp32"
    tuning: Tuning = "measure"
    tuning_seconds: float = 0.0
    measuring_seconds: float = 0.0
    batch_invariant: bool = False
    group: Any = None

    @classmethod
    def of(cls, given: dict[str, Any]) -> Options:
        """The options given by name, and the defaults of the others.

        Raises:
            Error: An option or value is unknown, out of range, or has no effect together with the
                others.
        """
        for name in given:
            if name not in cls._fields:
                raise Error(f"unknown option {name}", name, f"one of {', '.join(cls._fields)}")
        if given.get("batch_invariant") and "policy" not in given:
            given = {**given, "policy": "always"}
        options = cls(**given).check()
        for name, cause in _without_effect(options):
            if name in given:
                raise Error(f"{name}={given[name]!r} has no effect with {cause}", name,
                            "leave one of them out")
        return options

    def check(self) -> Options:
        """Checks the values; returns the options.

        Raises:
            Error: A value is unknown or out of range; the group is none, or this process is not in
                it.
        """
        _arguments.choice(self.policy, POLICIES, "policy")
        for name, value in (("compare", self.compare), ("kernels", self.kernels),
                            ("overlap", self.overlap), ("batch_invariant", self.batch_invariant)):
            if not isinstance(value, bool):
                raise Error(f"{name} is {value!r}", name, "give True or False")
        _arguments.choice(self.mode, _arguments.MODES, "mode")
        _arguments.choice(self.tuning, _arguments.TUNINGS, "tuning")
        if self.batch_invariant and self.policy != "always":
            raise Error("policy='measured' chooses by the number of rows", "policy",
                        "leave it out with batch_invariant=True")
        if self.batch_invariant and self.overlap:
            raise Error("products that overlap with collectives are not batch-invariant",
                        "overlap", "leave out one of overlap and batch_invariant")
        if self.group is not None:
            ranks_of(self.group)
        return self._replace(
            tuning_seconds=_arguments.seconds(self.tuning_seconds, "tuning_seconds"),
            measuring_seconds=_arguments.seconds(self.measuring_seconds, "measuring_seconds"))


def _without_effect(options: Options) -> Iterator[tuple[str, str]]:
    """Options whose values have no effect, each with the option that causes it."""
    measures = options.tuning in ("measure", "always")
    if options.policy == "always":
        if options.compare:
            yield "compare", "policy='always', which compares nothing"
        if measures:
            yield "tuning", "policy='always', which measures nothing"
        for name in ("tuning_seconds", "measuring_seconds"):
            if getattr(options, name):
                yield name, "policy='always', which measures nothing"
        if options.group is not None:
            yield "group", "policy='always', which measures nothing"
    else:
        if options.tuning_seconds and not measures:
            yield "tuning_seconds", f"tuning={options.tuning!r}, which measures nothing"
        if options.measuring_seconds and not options.compare:
            yield "measuring_seconds", "compare=False, which times nothing beside Inductor"
