#!/usr/bin/env python3
"""Writes docs/benchmarks/onnx.md: small ONNX models on the CPU beside ONNX Runtime.

Usage: run.py REGIONS [--rounds N]

Run with PYTHONPATH leading to the built package, to bench and to bench/onnx. REGIONS: the program
onnx_regions of the build. `make bench-onnx` does all this.
"""
from __future__ import annotations

import argparse
import collections
import datetime
import json
import logging
import math
import pathlib
import platform
import subprocess
import sys
import tempfile
import textwrap
import time
import warnings
from collections.abc import Callable
from statistics import geometric_mean
from typing import Any

import models
import numpy as np
import onnxruntime
import processor

import attacca
import attacca.onnxruntime

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/benchmarks/onnx.md"
THREADS = (1, 2)
# What the nodes of ONNX Runtime's profile are; others are elementwise.
KINDS = {
    "products and their tails": (
        "MatMul Gemm FusedMatMul FusedGemm QGemm QLinearMatMul MatMulInteger MatMulIntegerToFloat "
        "DynamicQuantizeMatMul").split(),
    "reductions": (
        "Softmax QLinearSoftmax LayerNormalization SimplifiedLayerNormalization "
        "SkipLayerNormalization SkipSimplifiedLayerNormalization ReduceMean ReduceMax "
        "ReduceSum").split(),
    "moving": "Reshape Transpose Concat Split Slice Gather Unsqueeze Squeeze Expand".split(),
}
ROWS = ("products and their tails", "reductions", "elementwise", "moving")


def options_of(threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    return options


def session_of(model: bytes, threads: int, profile: str = "") -> Any:
    options = options_of(threads)
    if profile:
        options.enable_profiling, options.profile_file_prefix = True, profile
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def session_with_attacca(model: bytes, threads: int) -> tuple[Any, int]:
    """With the regions that Attacca's provider claims by measuring, and their number."""
    options = options_of(threads)
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    attacca.onnxruntime.add_provider(options)
    session = onnxruntime.InferenceSession(model, options)
    return session, sum(part.ep_name == attacca.onnxruntime.PROVIDER
                        for part in session.get_provider_graph_assignment_info())


def fastest(run: Callable[[], Any], threads: int, calls: int = 5) -> float:
    """Microseconds of the fastest call: after a pause, in which the other's threads stop spinning
    (ONNX Runtime's do after 32 ms), and a call that wakes its own."""
    if threads > 1:
        time.sleep(0.05)
    run()
    best = math.inf
    for _ in range(calls):
        begin = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begin)
    return best * 1e6


def in_turns(ours: Callable[[], Any], theirs: Callable[[], Any], threads: int,
             rounds: int) -> tuple[float, float]:
    times = [(fastest(ours, threads), fastest(theirs, threads)) for _ in range(rounds)]
    mine, others = zip(*times)
    return min(mine), min(others)


def their_kinds(model: bytes, feeds: dict[str, Any], folder: str) -> dict[str, float]:
    session = session_of(model, 1, folder + "/profile")
    for _ in range(100):
        session.run(None, feeds)
    nodes = collections.defaultdict(list)
    for event in json.loads(pathlib.Path(session.end_profiling()).read_text()):
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            nodes[event["name"], event["args"]["op_name"]].append(event["dur"])
    kinds: dict[str, float] = collections.defaultdict(float)
    for (_, op), durations in nodes.items():
        kind = next((kind for kind, ops in KINDS.items() if op in ops), "elementwise")
        kinds[kind] += min(durations)
    return kinds


def our_kinds(program: str, model: bytes, feeds: dict[str, Any],
              folder: str) -> dict[str, float]:
    path = pathlib.Path(folder, "model.onnx")
    path.write_bytes(model)
    inputs = []
    for name, value in feeds.items():
        np.save(pathlib.Path(folder, name), value)
        inputs.append(f"{name}={folder}/{name}.npy")
    lines = subprocess.run([program, str(path), "1", "100", *inputs], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    return {kind: float(time) for time, kind in (line.split("\t") for line in lines)}


def wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, 100)) + "\n"


class Ratios:
    """Of each form on each number of threads; ONNX Runtime's time over the other's."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], list[float]] = collections.defaultdict(list)

    def cells(self, form: str, threads: int, ours: float, theirs: float) -> list[str]:
        self._found[form, threads].append(theirs / ours)
        return [f"{ours:.0f}", f"{theirs:.0f}", f"{theirs / ours:.2f}"]

    def means(self) -> list[list[str]]:
        return [[form, *(f"{geometric_mean(self._found[form, threads]):.2f}"
                         for threads in THREADS)] for form in models.FORMS]


def measured(program: str, rounds: int) -> str:
    rows, inside, kinds, ratios, ratios_inside = [], [], [], Ratios(), Ratios()
    with tempfile.TemporaryDirectory() as folder:
        for structure in models.STRUCTURES:
            for form in models.FORMS:
                model, feeds = models.make(structure, form, pathlib.Path(folder))
                cells, cells_inside = [structure, form], [structure, form]
                for threads in THREADS:
                    plan = attacca.compile(model, threads=threads)
                    session = session_of(model, threads)
                    with_attacca, claimed = session_with_attacca(model, threads)
                    cells += ratios.cells(form, threads, *in_turns(
                        lambda: plan(**feeds), lambda: session.run(None, feeds), threads,
                        rounds))
                    cells_inside += ratios_inside.cells(form, threads, *in_turns(
                        lambda: with_attacca.run(None, feeds), lambda: session.run(None, feeds),
                        threads, rounds)) + [str(claimed)]
                rows.append(cells)
                inside.append(cells_inside)
                mine = our_kinds(program, model, feeds, folder)
                others = their_kinds(model, feeds, folder)
                kinds.append([structure, form] + [
                    f"{mine.get(kind, 0):.0f} / {others.get(kind, 0):.0f}" for kind in ROWS])
                print(*cells, "inside:", *cells_inside[2:], file=sys.stderr, flush=True)
    return (page(rows, ratios.means(), kinds) + "\n## Inside ONNX Runtime\n\n"
            + page_inside(inside, ratios_inside.means()))


def losses(rows: list[list[str]]) -> str:
    """What is below 0.95, and why."""
    below = [f"{row[0]} {row[1]} ({', '.join(row[4::3])})" for row in rows
             if min(map(float, row[4::3])) < 0.95]
    return (f"Below 0.95 on one thread or two: {'; '.join(below) or 'none'}. "
            "Halves of a rotation are copied, each region has an overhead of about a microsecond, "
            "and what surrounds a quantised product runs step by step over chunks of its rows "
            "unless it is one activation with a bias, a gate or a sum.")


def table(head: list[str], rows: list[list[str]], texts: int) -> str:
    rule = ["---"] * texts + ["---:"] * (len(head) - texts)
    return "".join("| " + " | ".join(row) + " |\n" for row in [head, rule, *rows]).replace(
        "| --- |", "|---|").replace(" ---: |", "---:|").replace(" --- |", "---|")


def counted(threads: int) -> str:
    return f"{threads} thread{'s' * (threads > 1)}"


def head_of(ours: str, *more: str) -> list[str]:
    return [f"{what}, {counted(threads)}" for threads in THREADS
            for what in (ours, "ONNX Runtime", "ratio", *more)]


def table_of_means(means: list[list[str]]) -> str:
    return (wrapped("Geometric means of the ratios:") + "\n"
            + table(["form", *map(counted, THREADS)], means, 1))


def page_inside(rows: list[list[str]], means: list[list[str]]) -> str:
    slower = [f"{row[0]} {row[1]} on {counted(threads)} ({row[at]})" for row in rows
              for at, threads in zip(range(4, len(row), 4), THREADS)
              if float(row[at]) < 1 and row[at + 1] != "0"]
    return (wrapped(
        "The same models in sessions with Attacca's provider, which measures while the session is "
        "created and claims what is faster ([onnxruntime.md](../onnxruntime.md)), beside sessions "
        "without it. *Claimed*: the number of regions that it claims; where that is 0, both "
        "sessions run the same nodes, and the ratio says how exact the times are. Below 1.00 with "
        f"claimed regions: {'; '.join(slower) or 'none'}.")
        + "\n" + table(["model", "form", *head_of("with Attacca", "claimed")], rows, 2)
        + "\n" + table_of_means(means))


def page(rows: list[list[str]], means: list[list[str]], kinds: list[list[str]]) -> str:
    head = "# ONNX models on the CPU\n\n"
    head += wrapped(
        "`make bench-onnx` writes this file. The models (`bench/onnx/models.py`) have random "
        "weights and the structures of an MLP on 64 rows, of two layers of BERT and of Llama on "
        "128 tokens, and of two layers of a vision transformer on 197, with 256 features. They are "
        "exported by torch and quantised by onnxruntime.quantization. The peer is ONNX Runtime's "
        "own CPU provider with all its optimisations. Both run in turns in one process; times are "
        "the fastest of many calls, since other work on the machine only makes them slower, and "
        "disturbs two threads most. Ratios are ONNX Runtime's time over Attacca's: above 1.00 "
        "Attacca is faster.")
    head += "\n" + wrapped(
        f"{processor.name()}, shared with other work; ONNX Runtime {onnxruntime.__version__}, "
        f"Python {platform.python_version()}; {datetime.date.today()}. Microseconds.")
    text = head + "\n" + table(["model", "form", *head_of("Attacca")], rows, 2)
    text += "\n" + wrapped(losses(rows)) + "\n" + table_of_means(means)
    text += "\n" + wrapped(
        "Where the time goes on one thread, Attacca / ONNX Runtime's profile. Attacca's regions "
        "count as what they begin with: a product's elementwise tail is in its product; softmax "
        "and the part of a norm that one kernel computes are in the elementwise region or the "
        "product that they replace a part of. ONNX Runtime's fused norms and softmax are "
        "reductions, its products of quantised tensors "
        "include quantising.") + "\n"
    return text + table(["model", "form", *ROWS], kinds, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("regions")
    parser.add_argument("--rounds", type=int, default=21)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    PAGE.write_text(measured(arguments.regions, arguments.rounds))


if __name__ == "__main__":
    main()
