"""The report of a cluster's tuning: an HTML page."""
from __future__ import annotations

import contextlib
import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import _core
from .._errors import Error
from .._problems import Key
from .driver import Outcome
from .models import Model
from .scores import Score, Table, tables_of, text_of


def write(path: str, models: Sequence[Model], outcome: Outcome) -> None:
    """Writes the page: how good the choices are by family and M; for each problem the winner, its
    time and the unfused path's, what is chosen without measuring, and why candidates and problems
    failed.

    Raises:
        Error: The file cannot be written.
    """
    page = _core.report_page(json.dumps(_report(models, outcome)))
    with _errors(path):
        pathlib.Path(path).write_text(page, encoding="utf-8")


def check(path: str) -> None:
    """Checks that a page can be written; one that exists stays.

    Raises:
        Error: It cannot.
    """
    with _errors(path), open(path, "ab"):
        pass


@contextlib.contextmanager
def _errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Error(f"the report cannot be written: {error.strerror}", path,
                    "give another path") from error


def text(outcome: Outcome) -> str:
    """The tables of the page, for the command line."""
    return "".join(f"\n{text_of(table)}" for table in tables(outcome))


def tables(outcome: Outcome) -> list[Table]:
    """How good the choices are."""
    return tables_of({key: outcome.scores[key] for key in outcome.rows
                      if key not in outcome.failures})


def _report(models: Sequence[Model], outcome: Outcome) -> dict[str, Any]:
    machine, finished = outcome.machine, outcome.finished.values()
    keys = [*outcome.failures, *(key for key in outcome.rows if key not in outcome.failures),
            *outcome.decided]
    nodes = {each.node for each in finished if each.node}
    fused = sum(not row["candidate"].startswith("unfused") for row in outcome.rows.values())
    return {
        "format": "attacca.report/1",
        "title": f"Tuning for {machine.device}",
        "summary": [
            f"{machine.device}, {machine.tools}",
            f"models: {', '.join(model.name for model in models)}",
            f"{len(keys)} problems: {fused} fused, {len(outcome.rows) - fused} unfused, "
            f"{len(outcome.decided)} left to the cost model, {len(outcome.failures)} failed",
            f"{len(finished)} tuned now, by {len(nodes)} nodes, in "
            f"{sum(each.seconds for each in finished):.0f} seconds of GPUs",
        ],
        "tables": [table._asdict() for table in tables(outcome)],
        "regions": [_region(key, outcome, outcome.scores.get(key)) for key in keys],
    }


def _region(key: Key, outcome: Outcome, score: Score | None) -> dict[str, Any]:
    finished = outcome.finished.get(key)
    reasons = [f"{trial['candidate']}: {trial['failed']}"
               for trial in (finished.found.get("trials", []) if finished else [])
               if "failed" in trial]
    detail = _detail(key)
    if finished and score and score.without is not None:
        detail += (f"\nwithout measuring: {finished.found['modelled']}, {score.without:.3f} of the "
                   "fastest candidate's speed")
    region = {"name": key.shape, "detail": detail, "saved": "", "times": [], "reasons": reasons}
    if key in outcome.failures:
        return {**region, "verdict": "failed", "reasons": [outcome.failures[key], *reasons]}
    if key in outcome.decided:
        return {**region, "verdict": "by the cost model",
                "reasons": [str(outcome.decided[key]["candidate"]), *reasons]}
    return {**region, **_measured(outcome.rows[key]), "reasons": reasons}


def _measured(row: Mapping[str, Any]) -> dict[str, Any]:
    seconds, unfused = row["seconds"], row["unfused_seconds"]
    if row["candidate"].startswith("unfused"):
        return {"verdict": row["candidate"], "times": [_time("unfused", seconds)]}
    saved = f"{(unfused - seconds) * 1e6:.2f} us a call" if unfused > seconds else ""
    times = [_time("fused", seconds), *([_time("unfused", unfused)] if unfused else [])]
    return {"verdict": row["candidate"], "saved": saved, "times": times}


def _time(label: str, seconds: float) -> dict[str, Any]:
    return {"label": label, "seconds": seconds}


def _detail(key: Key) -> str:
    return "; ".join(line for line in key.problem.splitlines() if line)
