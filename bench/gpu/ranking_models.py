"""The models that choose without measuring: of templates, of the vendor library's proposals and of
the unfused path. What they learn from, and how they choose."""

import math
from typing import NamedTuple

import ranking_problems

UNFUSED = "unfused"


class Choices(NamedTuple):
    """Some candidates of a problem: names, a row of features each, seconds."""
    names: list
    features: "numpy.ndarray"
    seconds: "numpy.ndarray"


class Measured(NamedTuple):
    """`unfused`: a way of the unfused path each, by the library's own first proposal. `proposals`:
    all that were timed and described, perhaps none. `bare`: the product alone, if it was timed.
    `best`: of all candidates, seconds. `peer`: of what runs the product by the vendor library's own
    preference. `aligned`: all rows of A and B to 16 bytes."""
    problem: ranking_problems.Problem
    device: str
    templates: Choices
    unfused: Choices
    proposals: Choices
    bare: Choices
    best: float
    peer: float
    aligned: bool


def choices(times, features):
    import numpy as np
    names = [name for name in features if name in times]
    return Choices(names, np.array([features[name] for name in names]),
                   np.array([times[name] * 1e-6 for name in names]))


def ways(features, of=UNFUSED):
    return {of + (f" absorbed={i}" if i else ""): row for i, row in enumerate(features)}


def read_measured(paths, describer_of):
    """What was measured. `describer_of`: from a device's name to what describes problems there."""
    measured = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            describer = describer_of(ranking_problems.read_stamp(file.readline())["device"])
            alignments = [describer.unfused_names.index(f"aligned_{side}") for side in "ab"]
            for problem, times, proposals in ranking_problems.read(file):
                asked = {name: values for name, values in proposals.items() if name in times}
                described = describer.describe(problem, proposals=asked)
                bare = problem.bare()
                unfused = choices(times, ways(described["unfused"]))
                templates = choices(times, described["features"])
                if unfused.names and templates.names:
                    measured.append(Measured(
                        problem, describer.device, templates, unfused,
                        choices(times, described.get("proposals", {})),
                        choices(times, ways(describer.describe(bare)["unfused"][:1], "bare"))
                        if bare else Choices([], [], []),
                        min(us for name, us in times.items() if "bare" not in name) * 1e-6,
                        unfused.seconds[:2].min(),
                        bool(unfused.features[0][alignments].min() >= 16)))
    return measured


BOOSTING = {"trees": 500, "depth": 6, "rate": 0.1, "share": 0.5, "shared": 0.7, "seed": 5}
PROPOSAL_BOOSTING = BOOSTING | {"trees": 200, "shared": 0.4}
PROPOSAL_MARGINS = [0, 0.03, 0.05, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 1.0]
UNFUSED_BOOSTING = BOOSTING | {"trees": 300, "rate": 0.05, "shared": 0}
DOUBT_BOOSTING = BOOSTING | {"trees": 80, "rate": 0.05, "shared": 0}
USUAL_DOUBT, LEAST_DOUBT = 0.1, 0.02  # as logarithms of times
COARSE = {"trees": 180, "rate": 0.2}  # where trees only serve to tell how sure they are
FOLDS = 4
LOSS = 0.93
MOST_LOSING = 0.003    # by a template
COST_OF_LOSING = 3.0   # by a proposal: as a logarithm of seconds
MOST_CORRECTION = 2  # with the depth, as ranking_tree.cpp has them
WEIGHT_OF_BARE = 0.5


def learn_order(timed, boosting):
    """Trees for the logarithm of a candidate's time over its estimate. A problem's faster
    candidates have more weight, because their order matters; the slow ones have a little, so that
    none is predicted to be fast."""
    import numpy as np
    from boosted_trees import fit
    rows = np.vstack([each.features for each in timed])
    target = np.concatenate([np.log(each.seconds) for each in timed]) - rows[:, 0]
    weight = np.concatenate([np.maximum((each.seconds.min() / each.seconds)**3, 0.02) /
                             len(each.seconds)**0.5 for each in timed])
    problem = np.repeat(np.arange(len(timed)), [len(each.seconds) for each in timed])
    return fit(rows, target, weight / weight.mean(), problem, **boosting)


def learn_proposals(measured, coarse=None):
    return learn_order([one.proposals for one in measured if one.proposals.names],
                       PROPOSAL_BOOSTING | (coarse or {}))


def expected(trees, features):
    import numpy as np
    from boosted_trees import predict
    correction = np.clip(predict(trees, features), -MOST_CORRECTION, MOST_CORRECTION)
    return np.exp(features[:, 0] + correction)


def folds(measured):
    """(which are left out, the others) of each fold."""
    for fold in range(FOLDS):
        left_out = list(range(fold, len(measured), FOLDS))
        yield left_out, [each for i, each in enumerate(measured) if i % FOLDS != fold]


def guessed_proposals(measured):
    """The expected seconds of each problem's proposals by trees that have not seen the problem."""
    made = [None] * len(measured)
    for left_out, others in folds(measured):
        if any(one.proposals.names for one in others):
            trees = learn_proposals(others, COARSE)
            for i in left_out:
                if measured[i].proposals.names:
                    made[i] = expected(trees, measured[i].proposals.features)
    return made


def taken(names, guess, margin):
    """As tune::best_proposal: another one than a first proposal only if that is expected to win by
    more than the margin."""
    best = min(range(len(names)), key=lambda i: guess[i])
    firsts = [i for i in range(len(names)) if "algorithm" not in names[i]]
    first = min(firsts, key=lambda i: guess[i], default=best)
    return best if guess[best] * math.exp(margin) < guess[first] else first


class ProposalMargins(NamedTuple):
    aligned: float
    others: float

    def of(self, one):
        return self.aligned if one.aligned else self.others


def proposal_margins(measured, guessed):
    """For each kind of problems: that by which what is taken is fastest, where a problem that loses
    by it counts as slower than it is."""
    def best(aligned):
        some = [(one, guess) for one, guess in zip(measured, guessed)
                if guess is not None and one.aligned == aligned]

        def costs(margin):
            took = [one.proposals.seconds[taken(one.proposals.names, guess, margin)]
                    for one, guess in some]
            return sum(math.log(seconds) + COST_OF_LOSING * (one.peer < LOSS * seconds)
                       for (one, _), seconds in zip(some, took))
        return min(PROPOSAL_MARGINS, key=costs)
    return ProposalMargins(best(True), best(False))


def picked_ways(measured, guessed, margins):
    """The seconds that the ways of each problem's unfused path take with the proposals that are
    taken. Those without proposals gain what the others do."""
    import numpy as np
    seconds, gains = [one.unfused.seconds.copy() for one in measured], []
    for i, (one, guess) in enumerate(zip(measured, guessed)):
        if guess is None:
            continue
        names = one.proposals.names
        for way, name in enumerate(one.unfused.names):
            same = [j for j, each in enumerate(names) if each.split(" algorithm")[0] == name]
            if same:
                at = taken([names[j] for j in same], [guess[j] for j in same], margins.of(one))
                seconds[i][way] = one.proposals.seconds[same[at]]
        gains.append(np.log(seconds[i] / one.unfused.seconds).mean())
    for i, guess in enumerate(guessed):
        if guess is None and gains:
            seconds[i] *= math.exp(np.mean(gains))
    return seconds


def learn_unfused(measured, seconds, boosting=UNFUSED_BOOSTING):
    """Trees for the unfused path, of picked_ways(), and bare products."""
    import numpy as np
    from boosted_trees import fit
    timed = [(one.unfused.features, took, 1) for one, took in zip(measured, seconds)] + \
        [(one.bare.features, one.bare.seconds, WEIGHT_OF_BARE) for one in measured
         if one.bare.names]
    rows = np.vstack([features for features, _, _ in timed])
    target = np.concatenate([np.log(took) for _, took, _ in timed]) - rows[:, 0]
    weight = np.concatenate([np.full(len(took), weight / len(took)**0.5)
                             for _, took, weight in timed])
    return fit(rows, target, weight / weight.mean(), np.arange(len(target)), **boosting)


class Models(NamedTuple):
    templates: list
    unfused: list
    proposals: list  # empty where none was measured
    proposal_margins: ProposalMargins


def learn(measured, guessed, coarse=None):
    """`guessed`: guessed_proposals()."""
    coarse = coarse or {}
    margins = proposal_margins(measured, guessed)
    known = any(one.proposals.names for one in measured)
    return Models(learn_order([one.templates for one in measured], BOOSTING | coarse),
                  learn_unfused(measured, picked_ways(measured, guessed, margins)),
                  learn_proposals(measured, coarse) if known else [], margins)


def features_of_best(measured, guessed):
    """Of the way of each problem's unfused path that is expected to be fastest."""
    import numpy as np
    return np.vstack([one.unfused.features[guess.unfused.argmin()]
                      for one, guess in zip(measured, guessed)])


def learn_doubt(measured, guessed):
    """Trees for how far the expected gain of the first template is off, as a logarithm: by guesses
    of trees that have not seen the problem."""
    import numpy as np
    from boosted_trees import fit

    def off(one, guess):
        template = guess.templates.argmin()
        took = min(one.peer, guess.unfused_seconds) / one.templates.seconds[template]
        return abs(math.log(took * guess.templates[template] / guess.unfused.min()))
    target = [math.log((LEAST_DOUBT + off(*pair)) / USUAL_DOUBT) for pair in zip(measured, guessed)]
    return fit(features_of_best(measured, guessed), np.array(target), np.ones(len(target)),
               np.arange(len(target)), **DOUBT_BOOSTING)


def doubts(measured, guessed, trees):
    """For each problem, by what trees of learn_doubt() say."""
    import numpy as np
    from boosted_trees import predict
    said = predict(trees, features_of_best(measured, guessed))
    return USUAL_DOUBT * np.exp(np.clip(said, -MOST_CORRECTION, MOST_CORRECTION))


def cross_validated_doubts(measured, guessed):
    """The doubts of trees that have not seen the problem."""
    made = [0.0] * len(measured)
    for left_out, others in folds(list(zip(measured, guessed))):
        trees = learn_doubt(*zip(*others))
        of = [(measured[i], guessed[i]) for i in left_out]
        for i, doubt in zip(left_out, doubts(*zip(*of), trees)):
            made[i] = doubt
    return made


class Guess(NamedTuple):
    """Expected seconds: of the templates, of the ways of the unfused path; the name of the unfused
    candidate that is taken if one is, and its seconds as measured."""
    templates: "numpy.ndarray"
    unfused: "numpy.ndarray"
    candidate: str
    unfused_seconds: float


def guesses(measured, models):
    import numpy as np

    def split(of, by):
        ends = np.cumsum([len(each.names) for each in of])
        return np.split(expected(by, np.vstack([each.features for each in of])), ends[:-1])
    made = []
    for one, templates, unfused in zip(measured,
                                       split([one.templates for one in measured], models.templates),
                                       split([one.unfused for one in measured], models.unfused)):
        of, way = one.unfused, unfused.argmin()
        if models.proposals and one.proposals.names:
            of = one.proposals
            way = taken(of.names, expected(models.proposals, of.features),
                        models.proposal_margins.of(one))
        made.append(Guess(templates, unfused, of.names[way], of.seconds[way]))
    return made


def cross_validated(measured, guessed):
    """The guesses of trees that have not seen the problem, by folds, trained coarsely."""
    made = [None] * len(measured)
    for left_out, others in folds(measured):
        left = set(left_out)
        trained = learn(others, [guess for i, guess in enumerate(guessed) if i not in left], COARSE)
        for i, guess in zip(left_out, guesses([measured[i] for i in left_out], trained)):
            made[i] = guess
    return made


class Chosen(NamedTuple):
    """What the models choose of a problem: whether the unfused path, its seconds, those of the
    first template and of the unfused candidate, and what was expected of both."""
    unfused: bool
    seconds: float
    template_seconds: float
    unfused_seconds: float
    expected_template: float
    expected_unfused: float
    name: str


def choose(one, guess, margin):
    """As tune::prefers_unfused decides."""
    i = guess.templates.argmin()
    best = guess.unfused.min()
    unfused = bool(best < guess.templates[i] * math.exp(margin))
    both = one.templates.seconds[i], guess.unfused_seconds
    return Chosen(unfused, both[unfused], *both, guess.templates[i], best,
                  guess.candidate if unfused else one.templates.names[i])


FACTORS = [round(0.125 * i, 3) for i in range(25)]


def loses(one, chosen):
    """More than 7 % to the vendor library's own preference."""
    return one.peer / chosen.seconds < LOSS


def safe_factor(measured, guessed, doubt):
    """Of the factors of doubt with which at most MOST_LOSING of the problems lose by a template,
    the one by which what is chosen is fastest."""
    def worth(factor):
        chosen = [choose(one, guess, factor * by)
                  for one, guess, by in zip(measured, guessed, doubt)]
        losing = sum(loses(*pair) and not pair[1].unfused for pair in zip(measured, chosen))
        return (-max(MOST_LOSING, losing / len(chosen)),
                -sum(math.log(each.seconds) for each in chosen))
    return max(FACTORS, key=worth)
