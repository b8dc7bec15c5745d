#!/usr/bin/env python3
"""The models that choose without measuring, trained on measurements: of the kernel templates, and
of the unfused path.

    ranking.py collect --minutes 8   where a GPU is: times candidates of random problems
    ranking.py train                 anywhere: fits the trees, src/tune/model/*_tree.inc
    ranking.py evaluate              scores them on problems that they were not trained on

The last two need numpy and all templates (`make gpu`, or $ATTACCA_TEMPLATE_DIR), whose features
`attacca bench features` prints. A quarter of the problems is held out: `train` leaves them out too,
so that tests may judge its trees by them.
"""

import argparse
import math
import textwrap
from statistics import geometric_mean
from typing import NamedTuple

import pages
import program
import ranking_problems
from ranking_collect import Describer, collect

UNFUSED = "unfused"


class Choices(NamedTuple):
    """Some candidates of a problem: names, a row of features each, seconds."""
    names: list
    features: "numpy.ndarray"
    seconds: "numpy.ndarray"


class Measured(NamedTuple):
    """`bare`: the product alone, if it was timed. `best`: of all candidates, seconds. `peer`: of
    what runs the product by the vendor library's own preference."""
    problem: ranking_problems.Problem
    templates: Choices
    unfused: Choices
    bare: Choices
    best: float
    peer: float


def choices(times, features):
    import numpy as np
    names = [name for name in features if name in times]
    return Choices(names, np.array([features[name] for name in names]),
                   np.array([times[name] * 1e-6 for name in names]))


def ways(features, of=UNFUSED):
    return {of + (f" absorbed={i}" if i else ""): row for i, row in enumerate(features)}


def read_measured(options):
    """(the names of features of templates and of the unfused path, what was measured)."""
    describer = Describer(options.attacca)
    measured = []
    for path in options.csv:
        with open(path, encoding="utf-8") as file:
            for problem, times, _ in ranking_problems.read(file):
                described = describer.describe(problem)
                bare = problem.bare()
                unfused = choices(times, ways(described["unfused"]))
                templates = choices(times, described["features"])
                if unfused.names and templates.names:
                    measured.append(Measured(
                        problem, templates, unfused,
                        choices(times, ways(describer.describe(bare)["unfused"][:1], "bare"))
                        if bare else Choices([], [], []),
                        min(us for name, us in times.items() if "bare" not in name) * 1e-6,
                        unfused.seconds[:2].min()))
    return describer.names, describer.unfused_names, measured


BOOSTING = {"trees": 500, "depth": 6, "rate": 0.1, "share": 0.5, "shared": 0.7, "seed": 5}
UNFUSED_BOOSTING = BOOSTING | {"trees": 150, "rate": 0.08, "shared": 0}
MOST_CORRECTION = 2  # with the depth, as ranking_tree.cpp has them
WEIGHT_OF_BARE = 0.5


def learn(measured):
    """Trees for the logarithm of a template's time over its estimate. A problem's faster templates
    have more weight, because their order matters; the slow ones have a little, so that none is
    predicted to be fast."""
    import numpy as np
    from boosted_trees import fit
    timed = [each.templates for each in measured]
    rows = np.vstack([each.features for each in timed])
    target = np.concatenate([np.log(each.seconds) for each in timed]) - rows[:, 0]
    weight = np.concatenate([np.maximum((each.seconds.min() / each.seconds)**3, 0.02) /
                             len(each.seconds)**0.5 for each in timed])
    problem = np.repeat(np.arange(len(timed)), [len(each.seconds) for each in timed])
    return fit(rows, target, weight / weight.mean(), problem, **BOOSTING)


def learn_unfused(measured):
    """Likewise of the unfused path and of bare products."""
    import numpy as np
    from boosted_trees import fit
    timed = [(each, weight / len(each.names)**0.5) for one in measured
             for each, weight in ((one.unfused, 1), (one.bare, WEIGHT_OF_BARE)) if each.names]
    rows = np.vstack([each.features for each, _ in timed])
    target = np.concatenate([np.log(each.seconds) for each, _ in timed]) - rows[:, 0]
    weight = np.concatenate([np.full(len(each.names), weight) for each, weight in timed])
    return fit(rows, target, weight / weight.mean(), np.arange(len(target)), **UNFUSED_BOOSTING)


def expected(trees, features):
    import numpy as np
    from boosted_trees import predict
    correction = np.clip(predict(trees, features), -MOST_CORRECTION, MOST_CORRECTION)
    return np.exp(features[:, 0] + correction)


class Chosen(NamedTuple):
    """What the models choose of a problem: whether the unfused path, its seconds, those of the
    first template and of the way of the unfused path, and what was expected of both."""
    unfused: bool
    seconds: float
    template_seconds: float
    unfused_seconds: float
    expected_template: float
    expected_unfused: float


def guesses(measured, trees, unfused_trees):
    """(expected seconds of the templates, of the ways of the unfused path) of each problem."""
    import numpy as np

    def split(of, by):
        ends = np.cumsum([len(each.names) for each in of])
        return np.split(expected(by, np.vstack([each.features for each in of])), ends[:-1])
    return list(zip(split([one.templates for one in measured], trees),
                    split([one.unfused for one in measured], unfused_trees)))


def choose(one, guess, margin):
    """As tune::prefers_unfused decides."""
    template, way = guess
    i, j = template.argmin(), way.argmin()
    unfused = bool(way[j] * math.exp(margin) < template[i])
    both = one.templates.seconds[i], one.unfused.seconds[j]
    return Chosen(unfused, both[unfused], *both, template[i], way[j])


class Quality(NamedTuple):
    """By geometric mean, as parts of the speed: the first template's of the best template's; what
    is chosen of the best candidate's, and the worst; what is chosen over the vendor library's own
    preference, the worst, and the part of problems that lose more than 7 %."""
    problems: int
    first: float
    chosen: float
    worst: float
    over: float
    worst_over: float
    losing: float
    unfused: float


LOSS = 0.93


def quality(measured, chosen):
    over = [one.peer / each.seconds for one, each in zip(measured, chosen)]
    worth = [one.best / each.seconds for one, each in zip(measured, chosen)]
    first = [one.templates.seconds.min() / each.template_seconds
             for one, each in zip(measured, chosen)]
    return Quality(len(over), geometric_mean(first), geometric_mean(worth), min(worth),
                   geometric_mean(over), min(over), sum(each < LOSS for each in over) / len(over),
                   sum(each.unfused for each in chosen) / len(over))


MARGINS = [0.0, 0.02, 0.04, 0.06]


def choose_all(measured, trees, unfused_trees):
    """(the margin of MARGINS by which what is chosen is fastest, what is chosen with it)."""
    guessed = guesses(measured, trees, unfused_trees)

    def chosen(margin):
        return [choose(one, guess, margin) for one, guess in zip(measured, guessed)]
    margin = max(MARGINS, key=lambda margin: round(quality(measured, chosen(margin)).chosen, 4))
    return margin, chosen(margin)


def residuals(measured, chosen):
    """Standard deviations of the logarithms of expected over measured times: of the first template,
    of the unfused path."""
    import numpy as np
    return tuple(float(np.std([math.log(guess(each) / took(each)) for each in chosen]))
                 for guess, took in ((lambda c: c.expected_template, lambda c: c.template_seconds),
                                     (lambda c: c.expected_unfused, lambda c: c.unfused_seconds)))


def groups(measured):
    """(a heading, (a name, which problems) ...) of the tables."""
    families = sorted({one.problem.family for one in measured})
    yield "family", [(name, [one.problem.family == name for one in measured]) for name in families]
    limits = [0, 1, 4, 16, 64, 128, 256, 512, 1024, 2048, 8192]
    yield "M", [(f"{low + 1} to {high}" if low + 1 < high else str(high),
                 [low < one.problem.m <= high for one in measured])
                for low, high in zip(limits, limits[1:])]
    yield "N and K", [
        ("multiples of 8", [one.problem.n % 8 == one.problem.k % 8 == 0 for one in measured]),
        ("others", [one.problem.n % 8 + one.problem.k % 8 > 0 for one in measured])]


HEADER = ["problems", "first template / best", "chosen / best", "worst", "over the vendor's way",
          "worst", "below 0.93", "unfused"]


def cells(worth):
    return [worth.problems, f"{worth.first:.3f}", f"{worth.chosen:.3f}", f"{worth.worst:.3f}",
            f"{worth.over:.3f}", f"{worth.worst_over:.3f}", f"{worth.losing:.1%}",
            f"{worth.unfused:.0%}"]


def evaluate(options):
    _, _, measured = read_measured(options)
    train_on = [one for one in measured if not one.problem.held_out]
    held_out = [one for one in measured if one.problem.held_out]
    trees, unfused_trees = learn(train_on), learn_unfused(train_on)
    margin, chosen = choose_all(held_out, trees, unfused_trees)
    of_templates, of_unfused = residuals(held_out, chosen)
    lines = ["# The choice without measuring", "",
             f"On one {stamp(options)['device']}; {stamp(options)['date']}. Made by "
             "`bench/gpu/ranking.py collect`, `train` and `evaluate` from the data in "
             "`bench/data`.", "",
             f"{len(measured)} random problems, {sum(len(o.templates.names) for o in measured)} "
             f"times of templates. {len(held_out)} problems, drawn at random, are held out: what "
             "follows is of them, by trees trained on the others. Speeds are parts of the fastest "
             "candidate's, tuned variants and all proposals of the vendor library counted; \"the "
             "vendor's way\" is the unfused path with the library's own first proposal and the "
             "bias that it adds itself.", "",
             f"Expected times are off by {of_templates:.1%} for the first template and "
             f"{of_unfused:.1%} for the unfused path (standard deviations of logarithms). The "
             f"unfused path is taken where it is expected to win by more than {margin:.0%}, the "
             "margin by which what is chosen on the held-out problems is fastest.", "",
             *pages.table(["", *HEADER], [["all", *cells(quality(held_out, chosen))]]), ""]
    for heading, parts in groups(held_out):
        rows = []
        for name, which in parts:
            some = [pair for pair, take in zip(zip(held_out, chosen), which) if take]
            if some:
                rows.append([name, *cells(quality(*zip(*some)))])
        lines += [*pages.table([heading, *HEADER], rows), ""]
    pages.write(options.out, "\n".join(lines))
    print("\n".join(lines))


def stamp(options):
    with open(options.csv[0], encoding="utf-8") as file:
        return ranking_problems.read_stamp(file.readline())


def numbers(name, values, kind="uint16_t"):
    """An array of C++."""
    text = textwrap.wrap(",".join(values).replace(",", ", "), 98, break_on_hyphens=False)
    return [f"constexpr {kind} {name}[] = {{", *(line.replace(", ", ",") for line in text), "};"]


def write_trees(path, names, trees, head):
    """`kSplits`: the distinct branches, which trees have by index; the first separates nothing."""
    splits = sorted({(int(feature), float(threshold)) for tree in trees
                     for feature, threshold in zip(tree.features, tree.thresholds)
                     if math.isfinite(threshold)})
    place = {split: 1 + at for at, split in enumerate(splits)}
    lines = ["// Written by bench/gpu/ranking.py train.", *head,
             *numbers("kTrainedFeatures", [f'"{name}"' for name in names], "std::string_view"),
             *numbers("kSplits", ["{0,INFINITY}", *(f"{{{feature},{threshold:.6g}}}"
                                                    for feature, threshold in splits)], "Split"),
             "constexpr Tree kTrees[] = {"]
    for tree in trees:
        branches = [place.get((int(feature), float(threshold)), 0)
                    for feature, threshold in zip(tree.features, tree.thresholds)]
        leaves = [f"{leaf * 1e4:.0f}" for leaf in tree.leaves]
        text = f"{{{{{','.join(map(str, branches))}}},{{{','.join(leaves)}}}}},"
        lines += [line.replace(", ", ",") for line in textwrap.wrap(
            text.replace(",", ", "), 115, break_on_hyphens=False)]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([*(line.rstrip() for line in lines), "};"]) + "\n")


def train(options):
    names, unfused_names, measured = read_measured(options)
    train_on = [one for one in measured if not one.problem.held_out]
    held_out = [one for one in measured if one.problem.held_out]
    trees, unfused_trees = learn(train_on), learn_unfused(train_on)
    margin, chosen = choose_all(held_out, trees, unfused_trees)
    known = stamp(options)
    fingerprints = numbers("kTemplates", [f"0x{each}" for each in known["templates"]], "uint32_t")
    write_trees(options.tree, names, trees,
                [f'constexpr const char* kMeasuredOn = "{known["device"]}, {known["date"]}";',
                 f"constexpr int kProblems = {len(measured)};",
                 *fingerprints])
    write_trees(options.unfused_tree, unfused_names, unfused_trees,
                [f"constexpr double kMargin = {margin:g};"])
    print(f"{len(trees)} and {len(unfused_trees)} trees; held out: {quality(held_out, chosen)}")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["collect", "train", "evaluate"])
    program.add_option(parser)
    parser.add_argument("--csv", nargs="+", default=["bench/data/candidates.csv"])
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--seed", type=int, default=20261123)
    parser.add_argument("--tree", default="src/tune/model/ranking_tree.inc")
    parser.add_argument("--unfused-tree", default="src/tune/model/unfused_tree.inc")
    parser.add_argument("--out", default="docs/benchmarks/ranking.md")
    options = parser.parse_args(arguments)
    {"collect": collect, "train": train, "evaluate": evaluate}[options.action](options)


if __name__ == "__main__":
    main()
