"""Tuning by the processes of a group, which leave with the same choices."""
from __future__ import annotations

import os
import pathlib
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TextIO, TypeVar

from . import _core, _dispatch
from ._compile import graph_of
from ._errors import Error
from ._plan import Decision
from ._problems import (
    ONLY_WAY,
    Key,
    Machine,
    Problem,
    Row,
    Tuned,
    combinations,
    decision_of,
    distinct,
    is_enough,
    kept_workers,
    key_of,
    machine,
    problems_of,
    rows_of,
    store,
    tune_problem,
)
from ._progress import Bar

Value = TypeVar("Value")


class Ranks(Protocol):
    """The processes of a group, as one of them sees it."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def device(self) -> str:
        """This rank's own GPU."""

    def gather(self, value: Any) -> list[Any]:
        """All ranks' values, in their order; waits for all ranks.

        Raises:
            Error: A rank ended, or did not come in time.
        """


_ranks_of: Callable[[Any], Ranks] | None = None


def register_ranks(of: Callable[[Any], Ranks]) -> None:
    """Makes :func:`ranks_of` accept process groups; :mod:`attacca.torch` calls this."""
    global _ranks_of
    _ranks_of = of


def ranks_of(group: Any) -> Ranks:
    """The ranks of a ``torch.distributed.ProcessGroup``.

    Raises:
        Error: It is none, or this process is not in it; torch is not installed.
    """
    _dispatch.custom_ops()  # importing attacca.torch registers them
    assert _ranks_of is not None
    return _ranks_of(group)


class Arguments(NamedTuple):
    """What :func:`attacca.tune` was given; but for the device, the same on all ranks."""

    graph: Any
    device: str
    mode: str
    again: bool
    seconds: float
    sizes: Mapping[str, Sequence[int]]
    batch_invariant: bool = False


class _Failure(NamedTuple):
    """An error on its way to the other ranks."""

    what: str
    where: str
    fix: str


def on_all(ranks: Ranks, compute: Callable[[], Value]) -> list[Value]:
    """What each rank computes, in the ranks' order. All ranks must call it.

    Raises:
        Error: On all ranks, if one of them failed: its number and its error.
    """
    own: Exception | None = None
    mine: Value | _Failure
    try:
        mine = compute()
    except Error as error:
        own, mine = error, _Failure(error.what, error.where, error.fix)
    except Exception as error:  # noqa: BLE001  the others must not wait for this rank
        own, mine = error, _Failure(f"{type(error).__name__}: {error}", "", "")
    values: list[Any] = ranks.gather(mine)
    failures = [(rank, value) for rank, value in enumerate(values) if isinstance(value, _Failure)]
    if failures:
        what = "; ".join(f"rank {rank}: {failure.what}" for rank, failure in failures)
        _, first = failures[0]
        raise Error(what, first.where, first.fix) from own
    return values


class _Joined(NamedTuple):
    """What a rank says of itself."""

    machine: Machine
    place: tuple[str, ...]  # ranks of equal places share a tuning database
    asked: dict[str, Any]  # must be alike on all ranks
    known: dict[Key, Row]


class _Work(NamedTuple):
    """What is to be tuned; the same on all ranks."""

    given: Arguments
    listed: list[list[Problem]]  # by combination of sizes

    def distinct(self) -> dict[Key, Problem]:
        return distinct(each for problems in self.listed for each in problems)


def tune(ranks: Ranks, read: Callable[[], Arguments],
         progress: Callable[[], TextIO | None]) -> list[Tuned]:
    """Tunes on all ranks' GPUs; each rank returns the same.

    Args:
        ranks: The group.
        read: Checks and returns this rank's arguments; may raise Error. The device "cuda" is the
            one that the group says.
        progress: As ``read``: where to show the progress of rank 0.
    """
    works: list[_Work] = []

    def join() -> _Joined:
        given = read()
        works.append(_work(given._replace(device=ranks.device) if given.device == "cuda"
                           else given))
        return _join(works[0])
    joined = on_all(ranks, join)
    _check_alike(joined)
    places = [each.place for each in joined]
    # What one machine knows all know, before anything is measured.
    rows = best(row for rank in joined for row in rank.known.values())
    _store(ranks, places, rows)
    known = {} if works[0].given.again else rows
    found = on_all(ranks, lambda: _tune_share(ranks, works[0], known, progress()))
    decisions = {key: each for share in found for key, each in share.items()}
    new = best(each["choice"] for each in decisions.values()
               if "choice" in each and each["source"] != "database")
    _store(ranks, places, new)
    rows.update(new)
    check_rows(ranks, joined[0].machine, rows)
    return [Tuned(sizes, tuple(_decision(each, decisions) for each in listed))
            for sizes, listed in zip(combinations(works[0].given.sizes), works[0].listed)]


def _work(given: Arguments) -> _Work:
    graph = graph_of(given.graph)
    return _Work(given, [
        problems_of(graph, given.device, given.mode, sizes, given.batch_invariant)
        for sizes in combinations(given.sizes)])


def _join(work: _Work) -> _Joined:
    here, given = machine(work.given.device), work.given
    asked = {"mode": given.mode, "batch_invariant": given.batch_invariant, "again": given.again,
             "seconds": given.seconds,
             "sizes": {name: list(values) for name, values in given.sizes.items()},
             "graph": [[each.key for each in problems] for problems in work.listed]}
    rows = rows_of(here)
    return _Joined(here, _place(), asked,
                   {key: rows[key] for key in work.distinct() if key in rows})


def _place() -> tuple[str, ...]:
    try:
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        boot = ""
    return socket.gethostname(), boot, os.path.realpath(_core.cache_directory())


def _check_alike(joined: Sequence[_Joined]) -> None:
    first = joined[0]
    for rank, other in enumerate(joined):
        for name, value in first.asked.items():
            if other.asked[name] != value:
                raise Error(f"{name} on rank {rank} is not that of rank 0", name,
                            "call attacca.tune with the same arguments on all ranks")
    check_machines([each.machine for each in joined])


def check_machines(machines: Sequence[Machine]) -> None:
    """Choices of one rank must hold for the others.

    Raises:
        Error: They do not.
    """
    first = machines[0]
    for rank, other in enumerate(machines):
        for name in ("device", "tools"):
            theirs, ours = getattr(other, name), getattr(first, name)
            if theirs != ours:
                raise Error(f"the {name} of rank {rank} is {theirs}, that of rank 0 {ours}",
                            "group", "give a group of GPUs of one kind, with the same versions of "
                            "Attacca, cuBLASLt and the driver")


def best(rows: Iterable[Row]) -> dict[Key, Row]:
    """One row for each key: of a thorough tuning if there is one, else the first."""
    chosen: dict[Key, Row] = {}
    for row in rows:
        known = chosen.setdefault(key_of(row), row)
        if known["quick"] and not row["quick"]:
            chosen[key_of(row)] = row
    return chosen


def spread(ranks: Ranks, rows: Mapping[Key, Row]) -> None:
    """Stores the rows, the same on all ranks, on every machine."""
    _store(ranks, on_all(ranks, _place), rows)


def _store(ranks: Ranks, places: Sequence[tuple[str, ...]], rows: Mapping[Key, Row]) -> None:
    """Stores rows on every machine, by its first rank, and waits for all of them."""
    leads = places.index(places[ranks.rank]) == ranks.rank
    on_all(ranks, lambda: store(rows.values()) if leads and rows else None)


def _tune_share(ranks: Ranks, work: _Work, known: Mapping[Key, Row],
                stream: TextIO | None) -> dict[Key, dict[str, Any]]:
    """Tunes every n-th of the problems that are to be measured, and of those that are known."""
    share = [each for is_known in (False, True)
             for each in [(key, problem) for key, problem in work.distinct().items()
                          if is_enough(known.get(key), work.given.seconds) == is_known
                          ][ranks.rank::ranks.size]]
    tuning = "always" if work.given.again else "measure"
    bar = Bar(len(share), stream) if stream and ranks.rank == 0 else None
    found = {}
    with kept_workers():
        for key, problem in share:
            if bar:
                bar.show(key.shape)
            found[key] = tune_problem(problem, work.given.device, tuning, work.given.seconds)
            if bar:
                bar.step(key.shape)
    return found


def check_rows(ranks: Ranks, here: Machine, rows: Mapping[Key, Row]) -> None:
    """Checks that every machine has these rows now.

    Raises:
        Error: On all ranks: one has others.
    """
    def read() -> dict[Key, Row]:
        stored = rows_of(here)
        return {key: stored[key] for key in rows if key in stored}
    for rank, other in enumerate(on_all(ranks, read)):
        wrong = next((key for key in rows if other.get(key) != rows[key]), None)
        if wrong:
            raise Error(f"the tuning database of rank {rank} has another choice for {wrong.shape} "
                        "than was stored", "group",
                        "let no other process tune on its machine at the same time")


def _decision(problem: Problem, decisions: Mapping[Key, Mapping[str, Any]]) -> Decision:
    if problem.key is None:
        return ONLY_WAY
    return decision_of(decisions[problem.key])
