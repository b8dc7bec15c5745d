"""``attacca.tune``: measures the ways to compute a graph's products, and shows progress."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TextIO, Union

from . import _arguments, _core, _together
from ._arguments import Device, Mode, Path
from ._compile import GraphSource, compile_plan
from ._errors import Error
from ._plan import Instance, Plan
from ._problems import Tuned, combinations, distinct, kept_workers, label_of, values_of
from ._progress import Bar, stream


class ProcessGroup(Protocol):
    """A torch.distributed.ProcessGroup."""

    def rank(self) -> int: ...

    def size(self) -> int: ...


Models = Union[GraphSource, Sequence[GraphSource]]


def tune(graph: Models, *, device: Device = "cuda", mode: Mode = "fp32", again: bool = False,
         seconds: float = 0, batch_invariant: bool = False, progress: bool | TextIO = True,
         group: ProcessGroup | None = None, cluster: str | None = None,
         accelerator_type: str | None = None, report: Path | None = None,
         export: Path | None = None,
         **sizes: int | _arguments.Integer | Iterable[int | _arguments.Integer]) -> list[Tuned]:
    """Times the kernels that can compute a graph on a GPU, and stores the fastest in the tuning
    database.

    Plans that are compiled later, in any process on this machine, use what is stored.

    Args:
        graph: A graph as :func:`attacca.compile` takes it; not an ExportedProgram. With a cluster,
            also a list of models: graphs, files ``*.shapes``, and functions by import path, such as
            "package.module:function" (docs/cluster.md).
        device: "cuda" or "cuda:1", or a ``torch.device``. Without effect on a cluster, where Ray
            gives each task a GPU.
        mode: As for :func:`attacca.compile`.
        again: Whether to measure sizes that are in the database already.
        seconds: The time limit for measuring one region, in seconds; 0: 60.
        batch_invariant: Whether to tune for plans that are compiled with it (docs/numerics.md): of
            the kernels that sum in the order that the cost model chose, which give the same bits.
        progress: Whether to show progress on standard error, or a text stream to show it on; with a
            group, that of rank 0.
        group: A process group of ``torch.distributed``, such as ``torch.distributed.group.WORLD``.
            All its ranks must call this function, with the same arguments but for ``device``
            ("cuda": the rank's current one). Each region is tuned by one rank; then the database of
            every rank's machine has the same choices.
        cluster: The address of a Ray cluster, "auto" or "ray://HOST:10001": each region is a task
            that takes one GPU, and this process stores what comes back in its database.
        accelerator_type: The kind of GPU to tune for, as Ray names it: "H200". None: any, which
            must be of one kind.
        report: A file for an HTML page that says what was found on the cluster.
        export: A file for the cluster's choices, which :func:`import_choices` reads.
        **sizes: For each symbol of the graph one value or several, such as ``M=[1, 16, 256]``; all
            combinations are measured.

    Returns:
        One :class:`Tuned` for each combination of sizes, model by model. On a cluster, a region
        that could not be tuned has a decision whose source is "failed", with the reason as its
        remark.

    Raises:
        Error: As :func:`attacca.compile`; a symbol is missing or unknown; a size is negative; the
            device is not a GPU. With a group, on all ranks: one of them failed or ended, the
            arguments differ, or the GPUs are not of one kind. With a cluster: it cannot be used, or
            it has no such GPU.
    """
    def read() -> _together.Arguments:
        return checked(graph, sizes, device, mode, again, seconds, batch_invariant)

    if cluster is not None:
        if group is not None:
            raise Error("a group and a cluster are given", "cluster", "leave one of them out")
        return tune_on_cluster(
            read(), cluster_of(cluster, accelerator_type, report, export), stream(progress)).tuned
    for name, given in (("accelerator_type", accelerator_type), ("report", report),
                        ("export", export)):
        if given is not None:
            raise Error(f"{name} has no effect without a cluster", name,
                        "leave it out, or give cluster=")
    if group is not None:
        return _together.tune(_together.ranks_of(group), read, lambda: stream(progress))
    return _tune_here(read(), stream(progress))


def checked(graph: Any, sizes: Mapping[str, Any], device: Any, mode: Any, again: Any,
            seconds: Any, batch_invariant: Any) -> _together.Arguments:
    """The checked arguments of :func:`tune`.

    Raises:
        Error: One of them is wrong.
    """
    where = _arguments.device(device)
    if not where.startswith("cuda"):
        raise Error(f"the device is {where}, and only GPUs are measured", "device", "give cuda")
    _arguments.choice(mode, _arguments.MODES, "mode")
    return _together.Arguments(
        graph, where, mode, _arguments.flag(again, "again"), _arguments.seconds(seconds, "seconds"),
        {name: values_of(name, given) for name, given in sizes.items()},
        _arguments.flag(batch_invariant, "batch_invariant"))


class Cluster(NamedTuple):
    """The arguments for a cluster."""

    address: str
    accelerator_type: str | None
    report: str | None
    export: str | None


def cluster_of(address: Any, accelerator_type: Any, report: Any, export: Any) -> Cluster:
    """The checked arguments.

    Raises:
        Error: One of them is wrong.
    """
    kind = None if accelerator_type is None else _arguments.text(accelerator_type,
                                                                 "accelerator_type")
    page, file = (None if given is None else _arguments.path(given, name)
                  for name, given in (("report", report), ("export", export)))
    return Cluster(_arguments.text(address, "cluster"), kind, page, file)


class OnCluster(NamedTuple):
    """What a tuning on a cluster found; ``text`` says how good the choices are."""

    tuned: list[Tuned]
    text: str


def tune_on_cluster(given: _together.Arguments, cluster: Cluster,
                    shown: TextIO | None) -> OnCluster:
    """:func:`tune` with ``cluster``."""
    from ._cluster import driver, models, page  # parts that most processes do not need

    read = models.models_of(given.graph, given.sizes)
    request = driver.Request(cluster.address, cluster.accelerator_type, given.again, given.seconds)
    with driver.connected(request) as connection:
        machine = connection.machine()
        # Errors of files are seen before the work.
        if cluster.report is not None:
            page.check(cluster.report)
        if cluster.export is not None:
            _core.write_choices(machine.device, machine.tools, cluster.export)
        listed = models.listed(read, f"sm_{machine.capability}", given.mode, given.batch_invariant)
        wanted = distinct(problem for model in listed for problems in model for problem in problems)
        outcome = driver.tune(connection, machine, wanted, shown)
    if cluster.report is not None:
        page.write(cluster.report, read, outcome)
    driver.store_rest(outcome)
    if cluster.export is not None:
        _core.write_choices(machine.device, machine.tools, cluster.export)
    tuned = [Tuned(sizes, tuple(outcome.decision(problem) for problem in problems))
             for model, by_sizes in zip(read, listed)
             for sizes, problems in zip(model.sizes, by_sizes)]
    return OnCluster(tuned, page.text(outcome))


def _tune_here(given: _together.Arguments, shown: TextIO | None) -> list[Tuned]:
    plan: Plan = compile_plan(given.graph, given.device, given.mode,
                              "always" if given.again else "measure", given.seconds, 0, None,
                              given.batch_invariant)
    all_sizes = combinations(given.sizes)
    bar = Bar(len(all_sizes), shown) if shown else None
    found = []
    with kept_workers():
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
