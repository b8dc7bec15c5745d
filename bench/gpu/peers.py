#!/usr/bin/env python3
"""Attacca beside PyTorch eager, Inductor, cuBLASLt's epilogue and the bare GEMM, row by row into a
CSV. Needs a GPU (but for --dry-run); see README.md here. Run again with the same --csv to go on."""

import argparse
import os
import random
import sys
import time
import traceback

import machine
import program
import rows
from attacca_side import ThroughCAbi, ThroughCli, columns_of
from cases import EPILOGUES, cases, quoted, shard
from csv_run import one_line

CONTENDERS = ["bare_us", *rows.PEERS]


class DryBench:
    """Stands in for torch_bench.TorchBench: made-up times, no torch, no GPU."""

    class Contender:
        def __init__(self, us):
            self.us = us

    def facts(self):
        return {"device": "none (dry run)"}

    def buffers(self, case):
        return case

    def peer(self, name, case, buffers):
        if name == "cublaslt_us" and case.epilogue != "bias_gelu":
            raise NotImplementedError("cuBLASLt has no SiLU epilogue")
        if name == "max_autotune_us" and case.m == 17:
            raise RuntimeError("made to fail\nin the dry run")
        return self.Contender(dry_us(case) * (1.0 if name == "bare_us" else 1.2))

    def timed(self, launch, case, buffers):
        return self.Contender(launch(0))

    def medians(self, contenders, rounds):
        return {name: contender.us for name, contender in contenders.items()}

    def forget(self):
        pass


class DryAttacca:
    name = "dry"

    def contenders(self, case, buffers):
        return {"attacca_us": lambda i: dry_us(case) * 1.02}

    def measured(self, case):
        if case.m == 129:
            raise RuntimeError("made to fail in the dry run")
        answer = {"candidates": [{"candidate": "some_template", "us": dry_us(case) * 1.02},
                                 {"candidate": "unfused algorithm=0", "us": dry_us(case) * 1.1},
                                 {"candidate": "broken", "failed": "why"}],
                  "bare_us": dry_us(case), "unfused_us": dry_us(case) * 1.1,
                  "selected": "some_template", "selected_us": dry_us(case) * 1.02}
        return columns_of(answer)

    def completed(self, row):
        return {}


def dry_us(case):
    flops, size = 2 * case.m * case.n * case.k, 2 * (case.m + case.n) * case.k
    jitter = random.Random(str(case)).uniform(1, 1.1)
    return max(flops / 700e12, size / 4e12) * 1e6 * jitter + 2


def say(text):
    print(text, file=sys.stderr, flush=True)


def measure(case, bench, attacca, peers, rounds):
    """One row. A contender that fails leaves its column empty and its reason in the notes."""
    row = {**case._asdict(), "through": attacca.name}
    notes = []

    def attempt(what, action):
        try:
            return action()
        except Exception as error:  # pylint: disable=broad-exception-caught
            notes.append(f"{what}: {one_line(error)}")
            if os.environ.get("BENCH_TRACE"):
                traceback.print_exc()
            return None

    found = attempt("attacca", lambda: attacca.measured(case)) or {}
    row.update({key: value for key, value in found.items() if value is not None})
    buffers = attempt("buffers", lambda: bench.buffers(case))
    contenders = {}
    if buffers is not None:
        for name in peers:
            made = attempt(name.removesuffix("_us"), lambda: bench.peer(name, case, buffers))
            if made is not None:
                contenders[name] = made
        launches = attempt("attacca", lambda: attacca.contenders(case, buffers)) or {}
        for name, launch in launches.items():
            made = attempt(name.removesuffix("_us"), lambda: bench.timed(launch, case, buffers))
            if made is not None:
                contenders[name] = made
        row.update(attempt("timing", lambda: bench.medians(contenders, rounds)) or {})
    row.update(attempt("attacca", lambda: attacca.completed(row)) or {})
    row["notes"] = "; ".join(notes)
    return row


def peers_of(case, options):
    """Max-autotune, which takes longer than all others together, may be left out of most cases."""
    if case[1:] in quoted(case.epilogue) or options.every.index(
        case) % options.max_autotune_every == 0:
        return options.peers
    return [name for name in options.peers if name != "max_autotune_us"]


def run(todo, bench, attacca, writer, options):
    """Measures until all is done or the time is up; returns the number of cases left."""
    begin = time.monotonic()
    longest = 0.0
    for index, case in enumerate(todo):
        left = options.minutes * 60 - (time.monotonic() - begin)
        if left < longest:
            say(f"time is up: {len(todo) - index} of {len(todo)} cases left")
            return len(todo) - index
        started = time.monotonic()
        row = measure(case, bench, attacca, peers_of(case, options), options.rounds)
        if len(peers_of(case, options)) < len(options.peers):
            row["notes"] = "; ".join(filter(None, [row["notes"], "max_autotune: left out"]))
        bench.forget()
        writer.write(row)
        longest = max(longest * 0.8, time.monotonic() - started)
        times = " ".join(f"{key.removesuffix('_us')} {row[key]:.1f}" for key in rows.TIMES
                         if isinstance(row.get(key), float))
        say(f"[{index + 1}/{len(todo)}] {case}: {times} {row['notes']}")
    return 0


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--csv", default="docs/benchmarks/gpu-epilogues.csv")
    parser.add_argument("--library", default=os.environ.get("ATTACCA_LIBRARY"),
                        help="libattacca.so; by default the program's own")
    parser.add_argument("--through", choices=["cli", "c-abi"],
                        help="by default the C ABI where there is a library")
    program.add_option(parser)
    parser.add_argument("--minutes", type=float, default=9, help="stops cleanly after these")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--full", action="store_true", help="every M for every layer")
    parser.add_argument("--epilogues", nargs="+", choices=list(EPILOGUES), default=list(EPILOGUES))
    parser.add_argument("--skip", nargs="+", choices=[c.removesuffix("_us") for c in CONTENDERS],
                        default=[], help="contenders to leave out")
    parser.add_argument("--max-autotune-every", type=int, default=1, metavar="N",
                        help="Inductor's max-autotune in the quoted and every N-th other case")
    parser.add_argument("--shard", default="0/1", help="i/n: this process measures every n-th case")
    parser.add_argument("--rows", nargs="+", type=int, metavar="M", help="only cases of these M")
    parser.add_argument("--first", type=int, default=0, help="at most so many cases")
    parser.add_argument("--dry-run", action="store_true", help="made-up times, no GPU")
    options = parser.parse_args(arguments)
    options.peers = [c for c in CONTENDERS if c.removesuffix("_us") not in options.skip]
    return options


def attacca_side(options):
    if options.dry_run:
        return DryAttacca()
    library = options.library or program.library_beside(options.attacca)
    if options.through != "cli" and library:
        try:
            return ThroughCAbi(library, options.attacca)
        except (OSError, AttributeError) as error:
            if options.through == "c-abi":
                raise
            say(f"{library}: {one_line(error)}; going on through the program")
    return ThroughCli(options.attacca)


def main(arguments=None):
    options = parse(arguments)
    if options.dry_run:
        bench = DryBench()
    else:
        from torch_bench import TorchBench
        bench = TorchBench()
    facts = {**bench.facts(), "driver": machine.driver_version(), "date": machine.today(),
             "rounds": options.rounds}
    writer = rows.Writer(options.csv, facts)
    options.every = cases(options.full, options.epilogues)
    todo = shard(options.every, options.shard)
    todo = [case for case in todo if case not in writer.done
            and (not options.rows or case.m in options.rows)]
    if options.first:
        todo = todo[:options.first]
    run(todo, bench, attacca_side(options), writer, options)


if __name__ == "__main__":
    main()
