"""What runs on the cluster's nodes, in Ray's workers.

CUDA keeps to the GPUs that CUDA_VISIBLE_DEVICES named at its first use in a process. Ray names
another one where it gives a worker another GPU: then a task runs in a process of its own.
"""
from __future__ import annotations

import ctypes
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from .._errors import Error
from .._problems import Key, Machine, Problem, machine, tune_problem

DEVICE = "cuda"  # the one that Ray lets a worker see

_PR_SET_PDEATHSIG = 1  # of linux/prctl.h

Value = TypeVar("Value")


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
    return _on_own_gpu(_look)


def _look() -> tuple[str, Machine]:
    return socket.gethostname(), machine(DEVICE)


def tune(problem: Problem, tuning: str, seconds: float) -> Finished:
    """Tunes a problem. An error is a result: only a worker that dies is Ray's to retry."""
    return _on_own_gpu(_tune, problem, tuning, seconds)


def _tune(problem: Problem, tuning: str, seconds: float) -> Finished:
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


_used: list[str | None] = []  # CUDA_VISIBLE_DEVICES at the first use of CUDA in this process


def _on_own_gpu(function: Callable[..., Value], *arguments: Any) -> Value:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not _used:
        _used.append(visible)
    return function(*arguments) if _used == [visible] else _in_process(function, *arguments)


def _in_process(function: Callable[..., Value], *arguments: Any) -> Value:
    """Calls the function in a new process, which ends with this one."""
    ran = subprocess.run(
        [sys.executable, "-c",
         f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve()"],
        check=True, input=pickle.dumps((function, arguments)), stdout=subprocess.PIPE)
    value, error = pickle.loads(ran.stdout)
    if error is not None:
        raise error
    found: Value = value
    return found


def serve() -> None:
    """Answers the call on standard input."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    function, arguments = pickle.load(sys.stdin.buffer)
    answer: tuple[Any, Error | None]
    try:
        answer = function(*arguments), None
    except Error as error:
        answer = None, error
    sys.stdout.buffer.write(pickle.dumps(answer))
