"""What a plan fuses and why not more, as text, as data and drawn."""
from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

from . import _core
from ._errors import Error


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
