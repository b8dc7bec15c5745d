#!/usr/bin/env python3
"""The models that choose without measuring, trained on measurements: of the kernel templates, of
the unfused path, and of what the vendor's library proposes for it.

    ranking.py collect --minutes 8   where a GPU is: times candidates of random problems
    ranking.py train                 anywhere: fits the trees, src/tune/model/*_tree.inc
    ranking.py evaluate              scores them on problems that they were not trained on

The last two need numpy and all templates (`make gpu`, or $ATTACCA_TEMPLATE_DIR), whose features
`attacca bench features` prints. A quarter of the problems is held out: `train` leaves them out too,
so that tests may judge its trees by them.
"""

import argparse
import functools
import math
import textwrap
from statistics import geometric_mean
from typing import NamedTuple

import pages
import program
import ranking_models as models
import ranking_problems
from ranking_collect import Describer, collect

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


def quality(measured, chosen):
    over = [one.peer / each.seconds for one, each in zip(measured, chosen)]
    worth = [one.best / each.seconds for one, each in zip(measured, chosen)]
    first = [one.templates.seconds.min() / each.template_seconds
             for one, each in zip(measured, chosen)]
    return Quality(len(over), geometric_mean(first), geometric_mean(worth), min(worth),
                   geometric_mean(over), min(over),
                   sum(models.loses(*pair) for pair in zip(measured, chosen)) / len(over),
                   sum(each.unfused for each in chosen) / len(over))


def residuals(measured, chosen):
    """Standard deviations of the logarithms of expected over measured times: of the first template,
    of the unfused path."""
    import numpy as np
    return tuple(float(np.std([math.log(guess(each) / took(each)) for each in chosen]))
                 for guess, took in ((lambda c: c.expected_template, lambda c: c.template_seconds),
                                     (lambda c: c.expected_unfused, lambda c: c.unfused_seconds)))


def groups(measured):
    """(a heading, (a name, which problems) ...) of the tables."""
    devices = sorted({one.device for one in measured})
    yield "device", [(name, [one.device == name for one in measured]) for name in devices]
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


class Result(NamedTuple):
    """What was learned without the held-out problems, and what is chosen of those."""
    trained: models.Models
    doubt: list    # trees
    factor: float  # of doubt
    sure: list  # what is chosen of the problems that were learned from, by cross validation
    measured: list
    held_out: list
    chosen: list


def describers(options):
    """A function from a device's name to what describes problems there."""
    return functools.cache(lambda device: Describer(options.attacca, device))


def learn(options):
    measured = models.read_measured(options.csv, describers(options))
    train_on = [one for one in measured if not one.problem.held_out]
    held_out = [one for one in measured if one.problem.held_out]
    proposals = models.guessed_proposals(train_on)
    guessed = models.cross_validated(train_on, proposals)
    unseen = models.cross_validated_doubts(train_on, guessed)
    factor = models.safe_factor(train_on, guessed, unseen)
    sure = [models.choose(one, guess, factor * by)
            for one, guess, by in zip(train_on, guessed, unseen)]
    trained, doubt = models.learn(train_on, proposals), models.learn_doubt(train_on, guessed)
    guessed = models.guesses(held_out, trained)
    chosen = [models.choose(one, guess, factor * by) for one, guess, by
              in zip(held_out, guessed, models.doubts(held_out, guessed, doubt))]
    print(f"cross validation: {quality(train_on, sure)}\nheld out: {quality(held_out, chosen)}")
    return Result(trained, doubt, factor, sure, measured, held_out, chosen)


def losses(held_out, chosen):
    """A row for each problem that loses, the worst first."""
    rows = []
    for one, each in sorted(zip(held_out, chosen), key=lambda pair: pair[0].peer / pair[1].seconds):
        if models.loses(one, each):
            problem = one.problem
            rows.append([problem.family, problem.tail,
                         f"{problem.m} x {problem.n} x {problem.k}" +
                         (f", {problem.batch} times" if problem.batch > 1 else ""),
                         f"`{each.name}`", f"{each.seconds * 1e6:.1f}",
                         f"{one.peer * 1e6:.1f}", f"{each.expected_template * 1e6:.1f}",
                         f"{each.expected_unfused * 1e6:.1f}",
                         f"{one.peer / each.seconds:.3f}"])
    return rows


LOSSES = ["family", "tail", "M x N x K", "chosen", "us", "the vendor's way, us",
          "expected of the template", "of the unfused path", "over the vendor's way"]


def evaluate(options):
    write_page(options, learn(options))


def parts(measured, sure):
    """A row for each part of the cross validation, and one of all."""
    train_on = [one for one in measured if not one.problem.held_out]
    rows = [[fold + 1, *cells(quality(train_on[fold::models.FOLDS], sure[fold::models.FOLDS]))]
            for fold in range(models.FOLDS)]
    return [*rows, ["all", *cells(quality(train_on, sure))]]


def write_page(options, result):
    trained, _, factor, sure, measured, held_out, chosen = result
    of_templates, of_unfused = residuals(held_out, chosen)
    lines = ["# The choice without measuring", "",
             f"On one {' and one '.join(devices(options))}; {stamp(options)['date']}. Made by "
             "`bench/gpu/ranking.py collect`, `train` and `evaluate` from the data in "
             "`bench/data`.", "",
             f"{len(measured)} random problems, {sum(len(o.templates.names) for o in measured)} "
             f"times of templates. {len(held_out)} problems, drawn at random, are held out: what "
             "follows is of them, by trees trained on the others. Speeds are parts of the fastest "
             "candidate's, tuned variants and all proposals of the vendor library counted; \"the "
             "vendor's way\" is the unfused path with the library's own first proposal and the "
             "bias that it adds itself.", "",
             f"Expected times are off by {of_templates:.1%} for the first template and "
             f"{of_unfused:.1%} for the unfused path (standard deviations of logarithms). How far "
             "the expected gain of a template is off for such a problem is learned, too, and a "
             f"template is taken where it is expected to win by more than {factor:g} times that. "
             "The factor was found by cross validation on the problems that are not held out: of "
             f"those by which at most {models.MOST_LOSING:.1%} of the problems lose more than 7 % "
             "to the vendor's way by a template, it is the one by which what is chosen is fastest. "
             "Of the unfused path, one "
             "of the vendor library's proposals is chosen by a model of its own, another one than "
             "its first only if it is expected to win by more than "
             f"{trained.proposal_margins.aligned:.0%}, or {trained.proposal_margins.others:.0%} "
             "where rows of A or B are not aligned to 16 bytes, found likewise. The problems of "
             "the first file have no proposals that are described: its first one stands for them.",
             "",
             *pages.table(["", *HEADER], [["all", *cells(quality(held_out, chosen))]]), "",
             f"The other problems, each by trees of the other {models.FOLDS - 1} of "
             f"{models.FOLDS} parts, which are coarser:", "",
             *pages.table(["part", *HEADER], parts(measured, sure)), ""]
    for heading, members in groups(held_out):
        rows = []
        for name, which in members:
            some = [pair for pair, take in zip(zip(held_out, chosen), which) if take]
            if some:
                rows.append([name, *cells(quality(*zip(*some)))])
        lines += [*pages.table([heading, *HEADER], rows), ""]
    lines += ["## Losses", "", "Held-out problems whose choice is slower than 0.93 of the vendor's "
              "way:", "", *pages.table(LOSSES, losses(held_out, chosen)), ""]
    pages.write(options.out, "\n".join(lines))
    print("\n".join(lines))


def stamp_of(path):
    with open(path, encoding="utf-8") as file:
        return ranking_problems.read_stamp(file.readline())


def stamp(options):
    """That of the last file."""
    return stamp_of(options.csv[-1])


def devices(options):
    return sorted({stamp_of(path)["device"] for path in options.csv})


def measured_on(options):
    return ", ".join([*devices(options), stamp(options)["date"]])


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
    trained, doubt, factor, _, measured, _, _ = learn(options)
    known = stamp(options)
    describer = Describer(options.attacca, known["device"])
    fingerprints = numbers("kTemplates", [f"0x{each}" for each in known["templates"]], "uint32_t")
    write_trees(options.tree, describer.names, trained.templates,
                [f'constexpr const char* kMeasuredOn = "{measured_on(options)}";',
                 f"constexpr int kProblems = {len(measured)};",
                 *fingerprints])
    write_trees(options.unfused_tree, describer.unfused_names, trained.unfused, [])
    write_trees(options.doubt_tree, describer.unfused_names, doubt,
                [f"constexpr double kMargin = {factor * models.USUAL_DOUBT:g};"])
    if trained.proposals:
        write_trees(options.proposal_tree, describer.proposal_names, trained.proposals,
                    ["constexpr double kMargin = {:g}, kUnalignedMargin = {:g};".format(
                        *trained.proposal_margins)])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["collect", "train", "evaluate"])
    program.add_option(parser)
    parser.add_argument("--csv", nargs="+", default=["bench/data/candidates.csv",
                                                     "bench/data/candidates2.csv",
                                                     "bench/data/candidates3.csv",
                                                     "bench/data/candidates4.csv",
                                                     "bench/data/candidates5.csv"])
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--seed", type=int, default=20261123)
    parser.add_argument("--tree", default="src/tune/model/ranking_tree.inc")
    parser.add_argument("--unfused-tree", default="src/tune/model/unfused_tree.inc")
    parser.add_argument("--doubt-tree", default="src/tune/model/doubt_tree.inc")
    parser.add_argument("--proposal-tree", default="src/tune/model/proposal_tree.inc")
    parser.add_argument("--out", default="docs/benchmarks/ranking.md")
    options = parser.parse_args(arguments)
    {"collect": collect, "train": train, "evaluate": evaluate}[options.action](options)


if __name__ == "__main__":
    main()
