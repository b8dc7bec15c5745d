"""What runs on the cluster's nodes, in Ray's workers."""
from __future__ import annotations

import socket
import time
from typing import Any, NamedTuple

from .._errors import Error
from .._problems import Key, Machine, Problem, machine, tune_problem

DEVICE = "cuda"  # the one that Ray lets a worker see


class Finished(NamedTuple):
    """What a task found."""

    key: Key
    node: str
    seconds: float
    found: dict[str, Any]  # as tune_problem() returns it, but "excluded"; empty if it failed
    failure: str
    machine: Machine | None  # None if it failed


def look() -> tuple[str, Machine]:
    """The node's name, and its GPU."""
    return socket.gethostname(), machine(DEVICE)


def tune(problem: Problem, tuning: str, seconds: float) -> Finished:
    """Tunes a problem. An error is a result: only a worker that dies is Ray's to retry."""
    begin = time.monotonic()
    assert problem.key is not None
    node, here, found, failure = socket.gethostname(), None, {}, ""
    try:
        here = machine(DEVICE)
        found = tune_problem(problem, DEVICE, tuning, seconds)
        found.pop("excluded", None)
    except Error as error:
        failure = str(error)
    return Finished(problem.key, node, time.monotonic() - begin, found, failure, here)
