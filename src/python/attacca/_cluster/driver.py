"""The driver: gives problems to Ray, and stores what comes back as it comes.

Ray schedules the tasks and retries those whose worker or node is lost. Nothing else is kept of a
run than the tuning database: a driver that is started again skips what is there.
"""
from __future__ import annotations

import collections
import contextlib
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TextIO

from .._errors import Error, MissingModule
from .._plan import Decision
from .._problems import (
    ONLY_WAY,
    Key,
    Machine,
    Problem,
    Row,
    decision_of,
    is_enough,
    rows_of,
    store,
)
from .._progress import Bar
from . import scores, task

_RETRIES = 20  # of a task whose worker or node was lost
_PENDING = 1000  # tasks that Ray knows of at the same time
_LOCKED = 70.0  # seconds to wait for a database whose lock was waited for less than a minute ago
_PATIENCE = 300.0  # seconds to wait for a GPU of a kind that the cluster lacks: it may grow


class Request(NamedTuple):
    """How the problems are to be tuned."""

    cluster: str  # for ``ray.init``
    accelerator_type: str | None
    again: bool
    seconds: float


class Outcome(NamedTuple):
    """What is known of the problems in the end.

    Attributes:
        machine: The GPU of this kind, and its node's tools.
        rows: The choices in the database, of problems that have one.
        decided: The problems without a choice that the cost model decides.
        finished: What the tasks of this run found; of the trials only those that failed.
        failures: Why a problem was not tuned.
        scores: How good the choices in ``rows`` are.
        unsaved: What the database did not take yet, since another process kept it locked.
    """

    machine: Machine
    rows: dict[Key, Row]
    decided: dict[Key, Mapping[str, Any]]
    finished: dict[Key, task.Finished]
    failures: dict[Key, str]
    scores: dict[Key, scores.Score]
    unsaved: list[Row]

    def decision(self, problem: Problem) -> Decision:
        """How the problem is computed on the machine."""
        if problem.key is None:
            return ONLY_WAY
        if problem.key in self.failures:
            return Decision("", "failed", 0, 0, remark=self.failures[problem.key])
        if problem.key in self.decided:
            return decision_of(self.decided[problem.key])
        row, now = self.rows[problem.key], problem.key in self.finished
        return Decision(row["candidate"], "measured" if now else "database", row["seconds"],
                        row["unfused_seconds"])


class Cluster:
    """A connection to a Ray cluster, for one kind of GPU."""

    def __init__(self, request: Request):
        self._ray, self.request = _ray(), request
        self._options: dict[str, Any] = {"num_gpus": 1, "max_retries": _RETRIES}
        if request.accelerator_type is not None:
            self._options["accelerator_type"] = request.accelerator_type

    def machine(self) -> Machine:
        """A GPU of the kind, as its node describes it.

        Raises:
            Error: The cluster has none, or it cannot be used.
        """
        looked = self._remote(task.look, "attacca: look").remote()
        while True:
            patience = None if self._has_kind() else _PATIENCE
            ready, _ = self._ray.wait([looked], timeout=patience)
            if ready or not self._has_kind():
                break
        if not ready:
            self._ray.cancel(looked)
            raise Error(f"no GPU{self._kind()} came within {_PATIENCE:.0f} seconds", "cluster",
                        f"the cluster has {self._resources()}: start a node with one")
        with self._errors():
            _, machine = self._ray.get(looked)
            assert isinstance(machine, Machine)
            return machine

    def tune(self, problems: Iterable[Problem]) -> Iterator[list[task.Finished]]:
        """Tunes problems; gives what is finished, as it comes. A task that Ray gave up failed."""
        waiting = collections.deque(problems)
        running: dict[Any, Problem] = {}
        remote = self._remote(task.tune, "attacca: tune")
        tuning = "always" if self.request.again else "measure"
        try:
            while waiting or running:
                while waiting and len(running) < _PENDING:
                    problem = waiting.popleft()
                    ref = remote.remote(problem, tuning, self.request.seconds)
                    running[ref] = problem
                ready, _ = self._ray.wait(list(running), timeout=None)
                more, _ = self._ray.wait(list(running), num_returns=len(running), timeout=0)
                yield [self._finished(ref, running.pop(ref)) for ref in {*ready, *more}]
        finally:
            for ref in running:
                self._ray.cancel(ref)

    def _finished(self, ref: Any, problem: Problem) -> task.Finished:
        try:
            finished = self._ray.get(ref)
        except self._ray.exceptions.RayError as error:
            assert problem.key is not None
            of_task = isinstance(error, self._ray.exceptions.RayTaskError)
            reason = _first_line(error.cause if of_task else error)
            return task.Finished(problem.key, "", 0, {}, reason, None)
        assert isinstance(finished, task.Finished)
        return finished

    def _remote(self, function: Any, name: str) -> Any:
        return self._ray.remote(function).options(name=name, **self._options)

    def _kind(self) -> str:
        kind = self.request.accelerator_type
        return f" of the type {kind}" if kind else ""

    def _has_kind(self) -> bool:
        resources, kind = self._ray.cluster_resources(), self.request.accelerator_type
        return bool(resources.get("GPU", 0) >= 1
                    and (kind is None or f"accelerator_type:{kind}" in resources))

    def _resources(self) -> str:
        resources = self._ray.cluster_resources()
        kinds = sorted(name.partition(":")[2] for name in resources
                       if name.startswith("accelerator_type:"))
        count = f"{resources.get('GPU', 0):.0f} GPUs"
        return f"{count}, of the types {', '.join(kinds)}" if kinds else count

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Makes Ray's errors ours; those of a task are the task's."""
        try:
            yield
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, Error):
                raise Error(f"on a node of the cluster: {cause.what}", cause.where,
                            cause.fix) from error
            raise Error(f"on a node of the cluster: {_first_line(cause)}", "cluster",
                        "install the same version of Attacca on all nodes") from error
        except self._ray.exceptions.RayError as error:
            raise Error(_first_line(error), "cluster", "see `ray status`") from error


def _first_line(error: Any) -> str:
    text = str(error).strip() or repr(error)
    return f"{type(error).__name__}: {text.splitlines()[0]}"


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MissingModule("Ray is not installed", "cluster",
                            "pip install 'attacca[cluster]'") from error
    return ray


def _check_listens(address: str) -> None:
    """Ray tries for twenty minutes to reach an address where nothing listens."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=30).close()


@contextlib.contextmanager
def connected(request: Request) -> Iterator[Cluster]:
    """A context with a connection to the cluster. One that the program made itself stays.

    Raises:
        Error: There is no such cluster; Ray is not installed.
    """
    ray = _ray()
    ours = not ray.is_initialized()
    if ours:
        try:
            _check_listens(request.cluster)
            ray.init(address=request.cluster, log_to_driver=False, configure_logging=False)
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            raise Error(f"no connection to the cluster: {_first_line(error)}", "cluster",
                        "give \"auto\" on a node of a running cluster (ray start), or "
                        "\"ray://HOST:10001\"") from error
    try:
        yield Cluster(request)
    finally:
        if ours:
            ray.shutdown()


def tune(cluster: Cluster, machine: Machine, problems: Mapping[Key, Problem],
         stream: TextIO | None) -> Outcome:
    """Tunes the problems that the database lacks, and stores each result when it comes, or with
    later ones; :func:`store_rest` must follow.

    Raises:
        Error: The database cannot be written at the start.
    """
    store([])  # a database that cannot be written is seen before the work
    known = _known(cluster.request, machine)
    missing = [problem for key, problem in problems.items() if key not in known]
    rows = {key: known[key] for key in problems if key in known}
    outcome = Outcome(machine, rows, {}, {}, {},
                      {key: scores.score_of(row, {}) for key, row in rows.items()}, [])
    if stream:
        stream.write(f"tune: {len(problems)} problems for {machine.device}, "
                     f"{len(problems) - len(missing)} of them known\n")
        stream.flush()
    bar = Bar(len(missing), stream) if stream else None
    for batch in cluster.tune(missing):
        _take(batch, outcome)
        for each in batch:
            if bar:
                bar.step(_said(each, outcome))
    return outcome


def store_rest(outcome: Outcome) -> None:
    """Stores what the database did not take yet.

    Raises:
        Error: It cannot be written for longer than a minute.
    """
    end = time.monotonic() + _LOCKED
    while True:
        try:
            return _store_unsaved(outcome)
        except Error:
            if time.monotonic() > end:
                raise
        time.sleep(1)


def _store_unsaved(outcome: Outcome) -> None:
    if outcome.unsaved:
        store(outcome.unsaved)
        outcome.unsaved.clear()


def _known(request: Request, machine: Machine) -> dict[Key, Row]:
    """The database's rows that need no tuning."""
    if request.again:
        return {}
    return {key: row for key, row in rows_of(machine).items() if is_enough(row, request.seconds)}


def _take(batch: Sequence[task.Finished], outcome: Outcome) -> None:
    outcome.unsaved.extend(each.found["choice"] for each in batch if "choice" in each.found)
    with contextlib.suppress(Error):  # later ones are stored with these
        _store_unsaved(outcome)
    for each in batch:
        outcome.finished[each.key] = _without_times(each)
        failure = _failure(each, outcome.machine)
        if failure:
            outcome.failures[each.key] = failure
        elif "choice" in each.found:
            outcome.rows[each.key] = each.found["choice"]
            outcome.scores[each.key] = scores.score_of(each.found["choice"], each.found)
        else:
            outcome.decided[each.key] = each.found


def _without_times(finished: task.Finished) -> task.Finished:
    """What is kept until the end, of a million problems perhaps."""
    failed = [trial for trial in finished.found.get("trials", []) if "failed" in trial]
    return finished._replace(found={**finished.found, "trials": failed})


def _failure(finished: task.Finished, machine: Machine) -> str:
    """Why there is no choice for the machine; empty: there is one, or none is needed."""
    if finished.failure:
        return finished.failure
    assert finished.machine is not None
    if finished.machine != machine:
        return (f"tuned on {finished.node}, whose GPU and tools are {finished.machine.device}, "
                f"{finished.machine.tools}, and not {machine.device}, {machine.tools}")
    remark: str = finished.found.get("remark", "")
    return remark.removeprefix("not measured: ")


def _said(finished: task.Finished, outcome: Outcome) -> str:
    """A line of progress."""
    where = f"{finished.key.shape} on {finished.node or 'an unknown node'}"
    if finished.key in outcome.failures:
        return f"{where}: failed: {outcome.failures[finished.key]}"
    found = finished.found
    took = f", {found['seconds'] * 1e6:.2f} us" if found["seconds"] else ""
    return f"{where} in {finished.seconds:.1f} s: {found['candidate']}{took}"
