"""Explanations of plans as text, as data and as drawings."""
from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

from . import _core
from ._errors import Error


class Explanation:
    """Which ops a plan fuses, and for each op left out the reason.

    ``print`` shows it as text, a notebook as a drawing if Graphviz is installed.
    """

    def __init__(self, core: _core.Plan):
        self._core = core

    def __str__(self) -> str:
        return self._core.explain_text()

    def __repr__(self) -> str:
        return self._core.explain_text()

    @property
    def data(self) -> dict[str, Any]:
        """The explanation as dicts and lists: what ``attacca explain --json`` prints, described in
        docs/explain-json.md."""
        data: dict[str, Any] = json.loads(self._core.explain_json())
        return data

    @property
    def dot(self) -> str:
        """The drawing in Graphviz's language, with one cluster for each region."""
        return self._core.explain_dot()

    def svg(self) -> str:
        """The drawing as SVG, made by Graphviz.

        Raises:
            Error: Graphviz is not installed, or fails.
        """
        if shutil.which("dot") is None:
            raise Error("dot, Graphviz's program, is not installed", "svg", "install graphviz")
        drawn = subprocess.run(["dot", "-Tsvg"], input=self.dot, capture_output=True, text=True)
        if drawn.returncode != 0:
            raise Error(f"dot failed: {drawn.stderr.strip()}", "svg", "check Graphviz")
        return drawn.stdout

    def _repr_svg_(self) -> str | None:
        return self.svg() if shutil.which("dot") else None
