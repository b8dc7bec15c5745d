"""Progress of a tuning, on a terminal or in a log."""
from __future__ import annotations

import sys
import time
from typing import Any, TextIO

from . import _arguments
from ._errors import Error


class Bar:
    """A progress bar on a terminal, and a line for each step on other streams."""

    def __init__(self, total: int, stream: TextIO):
        self._total, self._stream, self._start, self._done = total, stream, time.monotonic(), 0

    def show(self, label: str) -> None:
        """Says what is being done."""
        if self._stream.isatty():
            width = 30
            filled = width * self._done // max(self._total, 1)
            bar = "#" * filled + "-" * (width - filled)
            self._stream.write(f"\r\x1b[Ktune [{bar}] {self._done}/{self._total} {label}")
            if self._done == self._total:
                self._stream.write("\n")
        else:
            self._stream.write(f"tune {self._done}/{self._total} {label}\n")
        self._stream.flush()

    def step(self, label: str) -> None:
        """Says what was done."""
        self._done += 1
        self.show(f"{label}, {time.monotonic() - self._start:.1f} s")


def stream(progress: Any) -> TextIO | None:
    """The stream that an argument ``progress`` names; None: nothing is shown.

    Raises:
        Error: It is neither a bool nor a text stream.
    """
    if progress is True:
        return sys.stderr
    if progress is False or all(hasattr(progress, name) for name in ("write", "flush", "isatty")):
        return progress or None
    raise Error(f"progress is {_arguments.shown(progress)}", "progress",
                "give True, False or a text stream")
