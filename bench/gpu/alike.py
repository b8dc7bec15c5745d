#!/usr/bin/env python3
"""Whether processes that tune the same problems choose alike: a new process with an empty database
tunes ten problems, again and again. Prints the choices of each problem with their counts, and how
many differ from the most common one; --json writes every choice and time after each process, and
goes on where such a file ends. --rounds writes the seconds of each round of the candidates that any
process compared last, from six further processes: what tests/tune/alike_test.cpp assumes of the
noise follows from them."""

import argparse
import collections
import json
import os
import tempfile
import time

import program
from ranking_collect import Worker

# Small and large, in which the unfused path wins, a template, or nearly both.
PROBLEMS = [
    ("silu({x} @ transpose({w}) + {b})", 16, 4096, 4096),
    ("silu({x} @ transpose({w}) + {b})", 256, 14336, 4096),
    ("gelu_tanh({x} @ transpose({w}) + {b})", 1024, 11008, 4096),
    ("{x} @ transpose({w}) + {b}", 1, 6144, 4096),
    ("relu({x} @ transpose({w}) + {b})", 160, 9112, 11472),
    ("gelu({x} @ transpose({w}) + {b})", 64, 12288, 4096),
    ("{x} @ transpose({w}) + {b}", 512, 4096, 14336),
    ("silu({x} @ transpose({w}) + {b})", 2040, 2880, 2880),
    ("gelu_tanh({x} @ transpose({w}) + {b})", 128, 2112, 7168),
    ("relu({x} @ transpose({w}) + {b})", 2048, 8192, 512),
]


TIMING_PROCESSES, TIMED_ROUNDS = 6, 66


def graph(problems=PROBLEMS):
    """The problems as regions of one graph."""
    inputs, lines = [], []
    for i, (text, m, n, k) in enumerate(problems):
        inputs.append(f"x{i}: bf16[{m}, {k}], w{i}: bf16[{n}, {k}], b{i}: bf16[{n}]")
        lines.append(f"  y{i} = " + text.format(x=f"x{i}", w=f"w{i}", b=f"b{i}"))
    outputs = ", ".join(f"y{i}" for i in range(len(problems)))
    return f"graph ten({', '.join(inputs)}) {{\n" + "\n".join(lines) + f"\n  return {outputs}\n}}\n"


def rounds(attacca, runs):
    """For each problem, for each process: the seconds of each round of the final candidates."""
    made = [[] for _ in PROBLEMS]
    for _ in range(TIMING_PROCESSES):
        worker = Worker(attacca)
        for i, problem in enumerate(PROBLEMS):
            names = sorted({each["candidate"] for run in runs for each in run[i]["candidates"]
                            if each["final"]})
            text = {"graph": graph([problem]), "mode": "fp32", "alignments": {}, "symbols": {}}
            made[i].append(worker.rounds({
                "problem": text, "candidates": names, "rounds": TIMED_ROUNDS, "device": 0,
                "pace": "sustained", "vendor": ""}))
        worker.stop()
    return made


def earlier(path):
    """The runs of a file that --json wrote."""
    if not path or not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def keep(runs, path):
    """Replaces the file at once, so that a run that is ended leaves a whole one."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(runs, file)
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(". ")[0])
    program.add_option(parser)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--processes", type=int, default=60, help="at most")
    parser.add_argument("--budget", type=int, default=16,
                        help="templates to time, the best by rank")
    parser.add_argument("--json", help="a file for all choices; an existing one is continued")
    parser.add_argument("--rounds", help="a file for the seconds of single rounds")
    args = parser.parse_args()
    end = time.monotonic() + 60 * args.minutes
    runs = earlier(args.json)
    with tempfile.TemporaryDirectory() as folder:
        # One folder, so that kernels are built once; its choices are forgotten each time.
        environment = program.without_choices(folder)
        path = os.path.join(folder, "ten.attacca")
        with open(path, "w", encoding="utf-8") as file:
            file.write(graph())
        while len(runs) < args.processes and time.monotonic() < end:
            program.answer(args.attacca, "tune", "--forget", env=environment)
            begin = time.monotonic()
            said = program.answer(args.attacca, "tune", path, "--budget", str(args.budget),
                                  "--json", env=environment)
            runs.append(json.loads(said)["tuned"])
            if args.json:
                keep(runs, args.json)
            print(f"process {len(runs)}: {time.monotonic() - begin:.1f} s", flush=True)
        if args.rounds:
            os.environ.update(environment)  # so that no kernel is built again
            with open(args.rounds, "w", encoding="utf-8") as file:
                json.dump(rounds(args.attacca, runs), file)
    others = 0
    for i, (text, m, n, k) in enumerate(PROBLEMS):
        counts = collections.Counter(run[i]["winner"] for run in runs)
        others += len(runs) - max(counts.values(), default=0)
        print(f"{m} x {n} x {k} {text.format(x='x', w='w', b='b')}")
        for winner, count in counts.most_common():
            times = [run[i]["us"] for run in runs if run[i]["winner"] == winner]
            print(f"  {count:3} {winner}, {min(times):.2f} to {max(times):.2f} us")
    print(f"{others} of {len(runs) * len(PROBLEMS)} choices differ from the most common one")


if __name__ == "__main__":
    main()
