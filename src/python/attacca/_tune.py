"""Measuring every way to compute a graph's products, with progress."""
from __future__ import annotations

import itertools
import sys
import time
from typing import Any, Iterable, NamedTuple, TextIO

from ._errors import Error
from ._plan import Decision, Instance, Plan, compile as compile_graph


class Tuned(NamedTuple):
    """What tuning found for one combination of sizes.

    Attributes:
        sizes: The value of each symbol.
        decisions: How each region is computed, with its time and the unfused path's.
    """

    sizes: dict[str, int]
    decisions: tuple[Decision, ...]


class _Bar:
    """A progress bar on a terminal; a line a step elsewhere."""

    def __init__(self, total: int, stream: TextIO):
        self._total, self._stream, self._start, self._done = total, stream, time.monotonic(), 0

    def show(self, label: str) -> None:
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
        self._done += 1
        self.show(f"{label}, {time.monotonic() - self._start:.1f} s")


def tune(graph: Any, *, device: str = "cuda", mode: str = "fp32", again: bool = False,
         seconds: float = 0, progress: "bool | TextIO" = True,
         **sizes: "int | Iterable[int]") -> list[Tuned]:
    """Measures how to compute a graph's products on a GPU, and remembers the winners.

    Plans compiled later, in any process of this machine, find them in the database.

    Args:
        graph: Anything that :func:`attacca.compile` takes.
        device: "cuda" or "cuda:1".
        mode: As for :func:`attacca.compile`.
        again: Measure also what the database knows.
        seconds: The most that measuring one region may take; 0: 60.
        progress: A bar on standard error, or on the stream given; False: nothing.
        **sizes: Of each symbol one value or several, as ``M=[1, 16, 256]``; all combinations are
            measured.

    Returns:
        One :class:`Tuned` for each combination.

    Raises:
        Error: As :func:`attacca.compile`; a missing or unknown symbol; a device that is no GPU.
    """
    if not device.startswith("cuda"):
        raise Error(f"nothing to measure on {device}", "device", "give cuda")
    plan: Plan = compile_graph(graph, device=device, mode=mode, tuning="always" if again else "measure",
                               tuning_seconds=seconds)
    values = {name: [v] if isinstance(v, int) else list(v) for name, v in sizes.items()}
    combinations = [dict(zip(values, each)) for each in itertools.product(*values.values())]
    bar = _Bar(len(combinations), sys.stderr if progress is True else progress) if progress else None
    found = []
    for sizes_now in combinations:
        label = " ".join(f"{name}={value}" for name, value in sizes_now.items()) or "all sizes fixed"
        if bar:
            bar.show(label)
        instance: Instance = plan.prepare(**sizes_now)
        found.append(Tuned(sizes_now, instance.decisions))
        if bar:
            bar.step(label)
    return found
