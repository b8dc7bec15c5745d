"""``attacca.tune``: measures the ways to compute a graph's products, and shows progress."""
from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterable
from typing import Any, NamedTuple, TextIO

from . import _arguments, _core
from ._arguments import Device, Mode, Path
from ._compile import GraphSource, compile_plan
from ._errors import Error
from ._plan import Decision, Instance, Plan


class Tuned(NamedTuple):
    """The result of tuning for one combination of sizes.

    Attributes:
        sizes: The value of each symbol, such as {"M": 16}.
        decisions: How each region is computed, with its time and that of the unfused path.
    """

    sizes: dict[str, int]
    decisions: tuple[Decision, ...]


class _Bar:
    """A progress bar on a terminal, and a line for each step on other streams."""

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


def _stream(progress: Any) -> TextIO | None:
    if progress is True:
        return sys.stderr
    if progress is False or all(hasattr(progress, name) for name in ("write", "flush", "isatty")):
        return progress or None
    raise Error(f"progress is {_arguments.shown(progress)}", "progress",
                "give True, False or a text stream")


def _values(name: str, given: Any) -> list[int]:
    """A size, or several."""
    several = isinstance(given, Iterable) and not isinstance(given, (str, bytes, type))
    if not several or getattr(given, "shape", None) == ():
        return [_arguments.size(given, name)]
    return [_arguments.size(value, name) for value in given]


def tune(graph: GraphSource, *, device: Device = "cuda", mode: Mode = "fp32", again: bool = False,
         seconds: float = 0, progress: bool | TextIO = True,
         **sizes: int | _arguments.Integer | Iterable[int | _arguments.Integer]) -> list[Tuned]:
    """Times the kernels that can compute a graph on a GPU, and stores the fastest in the tuning
    database.

    Plans that are compiled later, in any process on this machine, use what is stored.

    Args:
        graph: A graph as :func:`attacca.compile` takes it; not an ExportedProgram.
        device: "cuda" or "cuda:1", or a ``torch.device``.
        mode: As for :func:`attacca.compile`.
        again: Whether to measure sizes that are in the database already.
        seconds: The time limit for measuring one region, in seconds; 0: 60.
        progress: Whether to show progress on standard error, or a text stream to show it on.
        **sizes: For each symbol of the graph one value or several, such as ``M=[1, 16, 256]``; all
            combinations are measured.

    Returns:
        One :class:`Tuned` for each combination of sizes.

    Raises:
        Error: As :func:`attacca.compile`; a symbol is missing or unknown; a size is negative; the
            device is not a GPU.
    """
    where = _arguments.device(device)
    if not where.startswith("cuda"):
        raise Error(f"the device is {where}, and only GPUs are measured", "device", "give cuda")
    limit, tuning = _arguments.seconds(seconds, "seconds"), "always" if _arguments.flag(
        again, "again") else "measure"
    stream = _stream(progress)
    values = {name: _values(name, given) for name, given in sizes.items()}
    plan: Plan = compile_plan(graph, where, mode, tuning, limit, 0, None)
    combinations = [dict(zip(values, each)) for each in itertools.product(*values.values())]
    bar = _Bar(len(combinations), stream) if stream else None
    found = []
    for sizes_now in combinations:
        label = " ".join(f"{name}={value}"
                         for name, value in sizes_now.items()) or "all sizes fixed"
        if bar:
            bar.show(label)
        instance: Instance = plan.prepare(**sizes_now)
        found.append(Tuned(sizes_now, instance.decisions))
        if bar:
            bar.step(label)
    return found


def export_choices(path: Path, *, device: Device = "cuda") -> int:
    """Writes the tuning database's choices for a GPU to a file, for :func:`import_choices`.

    Only choices that were made with the present versions of Attacca, its templates, cuBLASLt and
    the driver are written. The same choices always give the same bytes.

    Args:
        path: The file. One that exists is replaced.
        device: "cuda" or "cuda:1", or a ``torch.device``.

    Returns:
        The number of choices in the file.

    Raises:
        Error: No such GPU; the database cannot be read or the file cannot be written.
    """
    return _core.export_choices(_arguments.path(path), _arguments.device(device))


def import_choices(path: Path, *, device: Device = "cuda") -> int:
    """Reads choices from a file into the tuning database: all of them, or none if there is an
    error.

    They replace the database's choices for the same problems. The processes of a distributed job
    (ranks) choose the same kernels if they import the same file.

    Args:
        path: A file that :func:`export_choices` or ``attacca tune --export`` wrote.
        device: "cuda" or "cuda:1", or a ``torch.device``.

    Returns:
        The number of choices in the file.

    Raises:
        Error: The file is damaged, was made for another device or with other versions of Attacca,
            its templates, cuBLASLt or the driver; the database cannot be written.
    """
    return _core.import_choices(_arguments.path(path), _arguments.device(device))
