"""Decision trees whose leaves are linear functions (as M5's, Quinlan 1992), fitted by weighted least
squares with a small ridge; several of them, each split by a random share of the features, are averaged.
"""

from typing import NamedTuple

import numpy as np

THRESHOLDS = 12      # tried a feature and branch, at quantiles
LEAST_GAIN = 0.01    # of a split, as a share of the error
RIDGE = 1.0          # of features scaled to unit variance


class Leaf(NamedTuple):
    constant: float
    slopes: np.ndarray


class Branch(NamedTuple):
    feature: int
    threshold: float
    below: object  # feature <= threshold
    above: object


class Moments:
    """What least squares needs to know of some rows; those of disjoint rows add up."""

    def __init__(self, rows, target, weight):
        weighted = rows * weight[:, None]
        self.gram, self.cross = weighted.T @ rows, weighted.T @ target
        self.square = float(weight @ target**2)

    def __sub__(self, other):
        rest = object.__new__(Moments)
        rest.gram, rest.cross = self.gram - other.gram, self.cross - other.cross
        rest.square = self.square - other.square
        return rest

    def solution(self):
        ridge = np.full(len(self.cross), RIDGE)
        ridge[0] = 1e-6  # of the constant
        return np.linalg.solve(self.gram + np.diag(ridge), self.cross)

    def error(self):
        line = self.solution()
        return self.square - 2 * line @ self.cross + line @ self.gram @ line + \
            RIDGE * float(line[1:] @ line[1:])


class Fitter:
    def __init__(self, rows, target, weight, depth, least_rows, share, random):
        self.rows, self.target, self.weight = rows, target, weight
        self.depth, self.least_rows, self.share, self.random = depth, least_rows, share, random
        self.mean, self.deviation = rows.mean(0), rows.std(0) + 1e-9
        self.scaled = np.c_[np.ones(len(rows)), (rows - self.mean) / self.deviation]

    def moments(self, chosen):
        return Moments(self.scaled[chosen], self.target[chosen], self.weight[chosen])

    def leaf(self, moments):
        line = moments.solution()
        slopes = line[1:] / self.deviation
        return Leaf(line[0] - slopes @ self.mean, slopes)

    def splits(self, chosen):
        count = self.rows.shape[1]
        for feature in self.random.choice(count, int(count * self.share), replace=False):
            values = self.rows[chosen, feature]
            distinct = np.unique(values)
            if len(distinct) > THRESHOLDS:
                shares = np.linspace(0, 1, THRESHOLDS + 2)[1:-1]
                distinct = np.unique(np.quantile(values, shares, method="lower"))
            else:
                distinct = distinct[:-1]
            for threshold in distinct:
                below = values <= threshold
                if min(below.sum(), (~below).sum()) >= self.least_rows:
                    yield int(feature), float(threshold), below

    def grow(self, chosen, depth=0):
        whole = self.moments(chosen)
        best, least = None, whole.error() * (1 - LEAST_GAIN)
        if depth < self.depth:
            for feature, threshold, below in self.splits(chosen):
                part = self.moments(chosen[below])
                error = part.error() + (whole - part).error()
                if error < least:
                    best, least = (feature, threshold, below), error
        if best is None:
            return self.leaf(whole)
        feature, threshold, below = best
        return Branch(feature, threshold, self.grow(chosen[below], depth + 1),
                      self.grow(chosen[~below], depth + 1))


def fit(rows, target, weight, trees, depth, least_rows, share, seed):
    random = np.random.default_rng(seed)
    return [Fitter(rows, target, weight, depth, least_rows, share, random).grow(np.arange(len(rows)))
            for _ in range(trees)]


def predict(tree, rows):
    if isinstance(tree, Leaf):
        return tree.constant + rows @ tree.slopes
    below = rows[:, tree.feature] <= tree.threshold
    values = np.empty(len(rows))
    values[below] = predict(tree.below, rows[below])
    values[~below] = predict(tree.above, rows[~below])
    return values


def mean_prediction(trees, rows):
    return np.mean([predict(tree, rows) for tree in trees], axis=0)


def as_arrays(trees):
    """The roots, branches (feature, threshold, below, above) and leaves as flat lists; a child >= 0
    is a branch, -1 - i leaf i."""
    branches, leaves = [], []

    def place(tree):
        if isinstance(tree, Leaf):
            leaves.append(tree)
            return -len(leaves)
        index = len(branches)
        branches.append(None)
        branches[index] = (tree.feature, tree.threshold, place(tree.below), place(tree.above))
        return index

    return [place(tree) for tree in trees], branches, leaves
