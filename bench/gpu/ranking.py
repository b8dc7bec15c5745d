#!/usr/bin/env python3
"""The model that ranks kernel templates without measuring, trained on measurements.

    ranking.py collect --minutes 8   where a GPU is: times every legal template of random problems;
                                     the CSV gets a row for each problem and candidate
    ranking.py train                 anywhere: fits the trees, src/tune/model/ranking_tree.inc
    ranking.py evaluate              scores the fit on layers and epilogues that are new to it

The last two need numpy and all templates (`make gpu`, or $ATTACCA_TEMPLATE_DIR), whose features
`attacca bench gemm --features` prints.
"""

import argparse
import csv
import json
import math
import os
import random
import sys
import textwrap
import time
from statistics import geometric_mean
from typing import NamedTuple

import pages
import program
from ranking_collect import collect
from ranking_problems import Problem


class Measured(NamedTuple):
    """A problem's legal templates: names, a row of features each, seconds; and the best unfused
    time."""
    problem: Problem
    templates: list
    features: "numpy.ndarray"
    seconds: "numpy.ndarray"
    unfused: float


# Templates had other names when bench/data was measured.
RENAMED = [("bf16_", "cutlass_"), ("sm90_", "wgmma_"), ("sm80_", "mma_"), ("sm89_", "mma_"),
           ("mixed_", "packed_")]


def current_name(candidate):
    for old, new in RENAMED:
        if candidate.startswith(old):
            return new + candidate[len(old):]
    return candidate


def read_rows(path):
    """The CSV's rows with today's names; an empty column of the problem repeats the row above."""
    problem = None
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.reader(file):
            if row == COLUMNS:
                continue
            if row[len(Problem._fields) - 1]:
                problem = Problem(*row[:len(Problem._fields)])
            yield problem, current_name(row[-2]), float(row[-1]) * 1e-6


def read_measured(options):
    import numpy as np
    times = {}
    for path in options.csv:
        for problem, candidate, seconds in read_rows(path):
            times.setdefault(problem, {})[candidate] = seconds
    measured, names = [], []
    for problem, timed in times.items():
        answer = ask(options.attacca, problem, "--features")
        names = answer["names"]
        templates = [name for name in timed if name in answer["features"]]
        if templates:
            measured.append(Measured(
                problem, templates, np.array([answer["features"][name] for name in templates]),
                np.array([timed[name] for name in templates]),
                min((us for name, us in timed.items() if name.startswith("unfused")),
                    default=float("inf"))))
    return names, measured


BOOSTING = {"trees": 150, "depth": 4, "rate": 0.1, "share": 0.5, "shared": 0.7, "seed": 5}
MOST_CORRECTION = 0.7  # with the depth, as ranking_tree.cpp has them


def learn(measured):
    """Trees for the logarithm of time over estimate. A problem's faster templates have more weight,
    because their order matters; the slow ones have a little, so that none is predicted to be
    fast."""
    import numpy as np
    from boosted_trees import fit
    rows = np.vstack([each.features for each in measured])
    target = np.concatenate([np.log(each.seconds) for each in measured]) - rows[:, 0]
    weight = np.concatenate([np.maximum((each.seconds.min() / each.seconds)**3, 0.02) /
                             len(each.seconds)**0.5 for each in measured])
    problem = np.repeat(np.arange(len(measured)), [len(each.seconds) for each in measured])
    return fit(rows, target, weight / weight.mean(), problem, **BOOSTING)


def expected(trees, features):
    import numpy as np
    from boosted_trees import predict
    correction = np.clip(predict(trees, features), -MOST_CORRECTION, MOST_CORRECTION)
    return np.exp(features[:, 0] + correction)


class Quality(NamedTuple):
    """Relative to the best template's speed, by geometric mean: the first template's speed, the
    best of the first 8; the worst first one; the mean factor by which expected times are off."""
    first: float
    of_eight: float
    worst: float
    off: float


def quality(measured, times):
    import numpy as np
    first, of_eight, off = [], [], []
    for each, guess in zip(measured, times):
        order = np.argsort(guess, kind="stable")
        best = each.seconds.min()
        first.append(best / each.seconds[order[0]])
        of_eight.append(best / each.seconds[order[:8]].min())
        ratio = guess[order[0]] / each.seconds[order[0]]
        off.append(max(ratio, 1 / ratio))
    return Quality(geometric_mean(first), geometric_mean(of_eight), min(first), geometric_mean(off))


MEASURED = "2026-11-22"  # bench/data/candidates.csv
HELD_OUT = {"layers (N, K)": lambda problem: (problem.n, problem.k),
            "epilogues and dtypes": lambda problem: problem[:5]}
FOLDS = 8


def held_out(measured, key):
    """Each problem's times as predicted by trees that were trained without its key."""
    keys = sorted({key(each.problem) for each in measured})
    random.Random(1).shuffle(keys)
    fold = {value: index % FOLDS for index, value in enumerate(keys)}
    times = [None] * len(measured)
    for index in range(FOLDS):
        trees = learn([each for each in measured if fold[key(each.problem)] != index])
        for place, each in enumerate(measured):
            if fold[key(each.problem)] == index:
                times[place] = expected(trees, each.features)
    return times


def evaluate(options):
    import numpy as np
    _, measured = read_measured(options)
    rows = [("the analytic estimate", [np.exp(each.features[:, 0]) for each in measured])]
    rows += [(f"trained without its {name}",
              held_out(measured, key)) for name, key in HELD_OUT.items()]
    lines = ["# The ranking without measuring", "",
             f"On one NVIDIA H200; {MEASURED}. Made by `bench/gpu/ranking.py collect`, `train` and "
             "`evaluate` from the data in `bench/data`.", "",
             f"{len(measured)} problems, {sum(len(each.templates) for each in measured)} times of "
             "templates, in eighths: each is ranked by trees trained on the other seven. Speeds "
             "are parts of the fastest legal template's.", "",
             *pages.table(["ranked by", "the first's speed", "the best of the first 8",
                           "the worst first", "expected times off by"],
                          [[name, f"{worth.first:.4f}", f"{worth.of_eight:.4f}",
                            f"{worth.worst:.3f}",
                            f"{worth.off - 1:.1%}"]
                           for name, worth in ((name, quality(measured,
                                                              times)) for name, times in rows)])]
    pages.write(options.out, "\n".join(lines))
    print("\n".join(lines))


def as_cpp(tree, names):
    branches = ", ".join("{" + names[feature] + ", " +
                         (f"{threshold:.7g}" if math.isfinite(threshold) else "INFINITY") + "}"
                         for feature, threshold in zip(tree.features, tree.thresholds))
    leaves = ", ".join(f"{leaf:.5g}" for leaf in tree.leaves)
    return textwrap.wrap(f"{{{{{branches}}}, {{{leaves}}}}},", 98, initial_indent="    ",
                         subsequent_indent="      ")


def train(options):
    names, measured = read_measured(options)
    trees = learn(measured)
    lines = [f"// Written by bench/gpu/ranking.py train, of {len(measured)} problems.",
             "constexpr Tree kTrees[] = {"]
    for tree in trees:
        lines += as_cpp(tree, names)
    with open(options.tree, "w", encoding="utf-8") as file:
        file.write("\n".join([*lines, "};"]) + "\n")
    worth = quality(measured, [expected(trees, each.features) for each in measured])
    print(f"{options.tree}: {len(trees)} trees; on what it was trained on {worth.first:.4f}, of "
          f"eight {worth.of_eight:.4f}, worst {worth.worst:.3f}")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["collect", "train", "evaluate"])
    program.add_option(parser)
    parser.add_argument("--csv", nargs="+", default=["bench/data/candidates.csv"])
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--seed", type=int, default=20261122)
    parser.add_argument("--tree", default="src/tune/model/ranking_tree.inc")
    parser.add_argument("--out", default="docs/benchmarks/ranking.md")
    options = parser.parse_args(arguments)
    {"collect": collect, "train": train, "evaluate": evaluate}[options.action](options)


if __name__ == "__main__":
    main()
