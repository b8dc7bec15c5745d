"""Problems, the regions of a graph with all sizes known, and what was found best for them: what
processes that tune together send each other."""
from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from . import _arguments, _core
from ._errors import Error
from ._plan import Decision


class Tuned(NamedTuple):
    """The result of tuning for one combination of sizes.

    Attributes:
        sizes: The value of each symbol, such as {"M": 16}.
        decisions: How each region is computed, with its time and that of the unfused path.
    """

    sizes: dict[str, int]
    decisions: tuple[Decision, ...]


class Key(NamedTuple):
    """What a choice holds for, on GPUs of one kind with the same versions of Attacca's tools."""

    problem: str  # dtypes, layouts, epilogue
    shape: str  # "m<=16 n=64 batch=1 k=64"


class Problem(NamedTuple):
    """One region with its sizes."""

    key: Key | None  # None: there is only one way to compute it
    operations: float
    text: str  # for ``_core.tune_problem``


class Machine(NamedTuple):
    """What choices hold for: the GPU's name, and the versions of the tools."""

    device: str
    capability: int
    tools: str


Row = dict[str, Any]  # of the tuning database

QUICK_SECONDS = 5.0  # a tuning that may take no longer is quick (src/tune/options.hpp)

ONLY_WAY = Decision("unfused", "only way", 0, 0)  # of a problem without a key


def machine(device: str) -> Machine:
    """A GPU of this machine."""
    return Machine(**json.loads(_core.machine_json(device)))


def symbols_of(graph: _core.Graph) -> list[str]:
    """The names of a graph's sizes."""
    symbols: list[str] = json.loads(_core.graph_symbols(graph))
    return symbols


def problems_of(graph: _core.Graph, device: str, mode: str, sizes: Mapping[str, int],
                batch_invariant: bool = False) -> list[Problem]:
    """The problems of a graph on a GPU, which may be "h200" or "sm_90"; nothing is tuned."""
    return [_problem(each) for each in json.loads(_core.graph_problems(
        graph, device, mode, list(sizes.items()), batch_invariant))]


def _problem(listed: Mapping[str, Any]) -> Problem:
    if not listed["problem"]:
        return Problem(None, 0, "")
    return Problem(Key(listed["problem"], listed["shape"]), listed["operations"],
                   json.dumps(listed["text"]))


def distinct(problems: Iterable[Problem]) -> dict[Key, Problem]:
    """Each problem that has a choice once, the largest first; the order is the same for the same
    problems."""
    found: dict[Key, Problem] = {}
    for each in problems:
        if each.key is not None:
            found.setdefault(each.key, each)
    ordered = sorted(found.values(), key=lambda each: (-each.operations, each.key))
    return {each.key: each for each in ordered if each.key is not None}


def rows_of(machine: Machine) -> dict[Key, Row]:
    """The tuning database's rows for a machine, which need not be this one."""
    return {key_of(row): row for row in json.loads(_core.list_choices())
            if (row["device"], row["tools"]) == (machine.device, machine.tools)}


def is_enough(row: Row | None, seconds: float) -> bool:
    """Whether a tuning that may take so long does not measure again what the row decides; 0: 60
    seconds. A choice of a quick tuning is enough for quick ones."""
    return row is not None and (not row["quick"] or 0 < seconds <= QUICK_SECONDS)


def key_of(row: Row) -> Key:
    """The key of a row."""
    return Key(row["problem"], row["shape"])


def store(rows: Iterable[Row]) -> None:
    """Stores rows in the tuning database, all of them or none."""
    _core.store_choices(json.dumps(list(rows)))


def tune_problem(problem: Problem, device: str, tuning: str, seconds: float) -> dict[str, Any]:
    """Tunes a problem on a GPU of this machine; returns its decision as JSON has it.

    Raises:
        Error: Tuning failed.
    """
    found: dict[str, Any] = json.loads(_core.tune_problem(problem.text, device, tuning, seconds))
    key = Key(found["problem"], found["shape"])
    if key != problem.key:  # a plan would look under another key and not find the choice
        raise Error(f"the problem is {key.shape} here and was {problem.key and problem.key.shape}",
                    "problem", "install the same version of Attacca everywhere")
    return found


@contextlib.contextmanager
def kept_workers() -> Iterator[None]:
    """A context in which the processes that time kernels serve one tuning after another: to start
    one takes most of a second."""
    _core.keep_workers()
    try:
        yield
    finally:
        _core.release_workers()


def decision_of(found: Mapping[str, Any]) -> Decision:
    """The decision of :func:`tune_problem`'s result."""
    return Decision(found["candidate"], found["source"], found["seconds"],
                    found["unfused_seconds"], remark=found.get("remark", ""))


def combinations(sizes: Mapping[str, Sequence[int]]) -> list[dict[str, int]]:
    """All combinations of the symbols' values."""
    return [dict(zip(sizes, each)) for each in itertools.product(*sizes.values())]


def label_of(sizes: Mapping[str, int]) -> str:
    """One combination, for progress and errors."""
    return " ".join(f"{name}={value}" for name, value in sizes.items()) or "all sizes fixed"


def values_of(name: str, given: Any) -> list[int]:
    """A size, or several, of a keyword argument."""
    several = isinstance(given, Iterable) and not isinstance(given, (str, bytes, type))
    if not several or getattr(given, "shape", None) == ():
        return [_arguments.size(given, name)]
    return [_arguments.size(value, name) for value in given]
