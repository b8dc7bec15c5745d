"""``python -m attacca tune MODEL... --cluster ADDRESS``."""
from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from . import _arguments
from ._errors import Error
from ._problems import Tuned
from ._progress import stream
from ._tune import checked, cluster_of, tune, tune_on_cluster

_OK, _BAD_INPUT, _FAILED = 0, 2, 3  # as the program's


def is_asked_for(arguments: Sequence[str]) -> bool:
    """Whether the command line's arguments are for this command and not for the program."""
    return arguments[:1] == ["tune"] and any(each.partition("=")[0] == "--cluster"
                                             for each in arguments)


def run(arguments: Sequence[str]) -> int:
    """Tunes as the arguments say; returns the status: 2 for an error, 3 if a problem failed."""
    given = _parser().parse_args(arguments[1:])
    try:
        found = tune_on_cluster(
            checked(given.models, _sizes(given.dim), "cuda", given.mode, given.again,
                    given.limit, given.batch_invariant),
            cluster_of(given.cluster, given.accelerator_type, given.html, given.export),
            stream(True))
    except Error as error:
        sys.stderr.write(f"error: {error.what}\n" + f"  at: {error.where}\n" * bool(error.where)
                         + f"  fix: {error.fix}\n" * bool(error.fix))
        return _BAD_INPUT
    failed = _print(found.tuned)
    sys.stdout.write(found.text)
    return _FAILED if failed else _OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="attacca tune", description=(
        "Tune models on a Ray cluster: each region is a task that takes one GPU. What the tuning "
        "database has is skipped."))
    parser.add_argument("models", nargs="+", metavar="MODEL", help=(
        "a .attacca or .onnx file, a .shapes file, or package.module:function"))
    parser.add_argument("--cluster", required=True, metavar="ADDRESS",
                        help="auto, or ray://HOST:10001")
    parser.add_argument("--accelerator-type", metavar="KIND",
                        help="the kind of GPU, as Ray names it: H200")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=SIZE,...",
                        help="sizes of a symbolic dimension, e.g. M=1,16,256")
    parser.add_argument("--mode", choices=_arguments.MODES, default="fp32")
    parser.add_argument("--batch-invariant", action="store_true",
                        help="tune for plans whose rows do not depend on the batch")
    parser.add_argument("--limit", type=float, default=0, metavar="SECONDS",
                        help="the most seconds for one region and size")
    parser.add_argument("--again", action="store_true",
                        help="measure what the database has, too")
    parser.add_argument("--export", metavar="FILE", help="write the choices to a file")
    parser.add_argument("--html", metavar="FILE", help="write a report to a file")
    return parser


def _sizes(dims: Iterable[str]) -> dict[str, Any]:
    sizes: dict[str, Any] = {}
    for dim in dims:
        name, _, values = dim.partition("=")
        try:
            numbers = [int(value) for value in values.split(",")]
        except ValueError:
            numbers = []
        if not name.isidentifier() or not numbers:
            raise Error(f"{dim} is no NAME=SIZE", "--dim", "write --dim M=1,16,256")
        if name in sizes or name in _TAKEN:
            raise Error(f"{name} is given twice" if name in sizes
                        else f"the size {name} has the name of an option", "--dim",
                        "give each size once" if name in sizes else "rename it in the graph")
        sizes[name] = numbers
    return sizes


_TAKEN = set(tune.__kwdefaults__ or {}) | {"graph"}


def _print(found: Iterable[Tuned]) -> int:
    """Prints a summary; returns how many regions failed."""
    decisions = [decision for tuned in found for decision in tuned.decisions]
    failed = [decision for decision in decisions if decision.source in ("failed", "fallback")]
    for reason in sorted({decision.remark for decision in failed}):
        print(f"failed: {reason}")
    fused = sum(decision.seconds > 0 and not decision.candidate.startswith("unfused")
                for decision in decisions)
    print(f"{len(decisions)} regions: {fused} fused, {len(decisions) - fused - len(failed)} "
          f"unfused, {len(failed)} failed")
    return len(failed)
