"""``attacca.tune``: measures the ways to compute a graph's products, and shows progress."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TextIO

from . import _arguments, _core, _together
from ._arguments import Device, Mode, Path
from ._compile import GraphSource, compile_plan
from ._errors import Error
from ._plan import Instance, Plan
from ._problems import Tuned, combinations, label_of, values_of
from ._progress import Bar, stream


class ProcessGroup(Protocol):
    """A torch.distributed.ProcessGroup."""

    def rank(self) -> int: ...

    def size(self) -> int: ...


def tune(graph: GraphSource, *, device: Device = "cuda", mode: Mode = "fp32", again: bool = False,
         seconds: float = 0, progress: bool | TextIO = True, group: ProcessGroup | None = None,
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
        progress: Whether to show progress on standard error, or a text stream to show it on; with a
            group, that of rank 0.
        group: A process group of ``torch.distributed``, such as ``torch.distributed.group.WORLD``.
            All its ranks must call this function, with the same arguments but for ``device``
            ("cuda": the rank's current one). Each region is tuned by one rank; then the database of
            every rank's machine has the same choices.
        **sizes: For each symbol of the graph one value or several, such as ``M=[1, 16, 256]``; all
            combinations are measured.

    Returns:
        One :class:`Tuned` for each combination of sizes.

    Raises:
        Error: As :func:`attacca.compile`; a symbol is missing or unknown; a size is negative; the
            device is not a GPU. With a group, on all ranks: one of them failed or ended, the
            arguments differ, or the GPUs are not of one kind.
    """
    def read() -> _together.Arguments:
        where = _arguments.device(device)
        if not where.startswith("cuda"):
            raise Error(f"the device is {where}, and only GPUs are measured", "device", "give cuda")
        _arguments.choice(mode, _arguments.MODES, "mode")
        return _together.Arguments(
            graph, where, mode, _arguments.flag(again, "again"),
            _arguments.seconds(seconds, "seconds"),
            {name: values_of(name, given) for name, given in sizes.items()})

    if group is not None:
        return _together.tune(_together.ranks_of(group), read, lambda: stream(progress))
    return _tune_here(read(), stream(progress))


def _tune_here(given: _together.Arguments, shown: TextIO | None) -> list[Tuned]:
    plan: Plan = compile_plan(given.graph, given.device, given.mode,
                              "always" if given.again else "measure", given.seconds, 0, None)
    all_sizes = combinations(given.sizes)
    bar = Bar(len(all_sizes), shown) if shown else None
    found = []
    for sizes in all_sizes:
        label = label_of(sizes)
        if bar:
            bar.show(label)
        instance: Instance = plan.prepare(**sizes)
        found.append(Tuned(sizes, instance.decisions))
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
