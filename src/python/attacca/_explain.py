"""What a plan fuses and why not more, as text, as data and drawn."""
from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any, Mapping

from . import _core
from ._arguments import Device, Mode, Tuning
from ._errors import Error

if TYPE_CHECKING:
    from ._plan import GraphSource, Plan


class Explanation:
    """What a plan fuses and why not more. Prints as text; notebooks draw it."""

    def __init__(self, core: _core.Plan):
        self._core = core

    def __str__(self) -> str:
        return self._core.explain_text()

    def __repr__(self) -> str:
        return self._core.explain_text()

    @property
    def data(self) -> dict[str, Any]:
        """As ``attacca explain --json`` gives it (docs/explain-json.md)."""
        data: dict[str, Any] = json.loads(self._core.explain_json())
        return data

    @property
    def dot(self) -> str:
        """For Graphviz, one cluster a region."""
        return self._core.explain_dot()

    def svg(self) -> str:
        """Drawn by Graphviz.

        Raises:
            Error: Graphviz is not installed.
        """
        if shutil.which("dot") is None:
            raise Error("dot, which draws, is not installed", "svg", "install graphviz")
        drawn = subprocess.run(["dot", "-Tsvg"], input=self.dot, capture_output=True, text=True)
        if drawn.returncode != 0:
            raise Error(f"dot failed: {drawn.stderr.strip()}", "svg", "check Graphviz")
        return drawn.stdout

    def _repr_svg_(self) -> "str | None":
        return self.svg() if shutil.which("dot") else None


def explain(what: "Plan | GraphSource", *, device: Device = "cpu", mode: Mode = "fp32",
            tuning: Tuning = "known", tuning_seconds: float = 0, threads: int = 0,
            constants: "Mapping[str, Any] | None" = None) -> Explanation:
    """What is fused into what, and every op that was left out with the reason.

    Args:
        what: A :class:`attacca.Plan`, or a graph as :func:`attacca.compile` takes it; not an
            ExportedProgram, whose regions ``attacca.torch.Program.regions`` lists.
        device: As for :func:`attacca.compile`. This and what follows are for graphs; a plan was
            compiled already.
        mode: As for :func:`attacca.compile`.
        tuning: As for :func:`attacca.compile`.
        tuning_seconds: As for :func:`attacca.compile`.
        threads: As for :func:`attacca.compile`.
        constants: As for :func:`attacca.compile`.

    Returns:
        An :class:`Explanation`: ``print`` it, or leave it as a notebook cell's value to see it
        drawn.

    Raises:
        Error: As :func:`attacca.compile`; options that a plan would ignore.
    """
    from ._plan import Plan, compile_plan

    given = (device, mode, tuning, tuning_seconds, threads, constants)
    if not isinstance(what, Plan):
        return compile_plan(what, *given).explain()
    names = ("device", "mode", "tuning", "tuning_seconds", "threads", "constants")
    for name, value, default in zip(names, given, ("cpu", "fp32", "known", 0, 0, None)):
        if type(value) is not type(default) or value != default:
            raise Error(f"{name} means nothing to a plan, which is compiled already", name, "leave it out")
    return what.explain()
