"""Gradient boosting with regression trees of equal depth on histograms (Friedman 2001). Rows belong
to groups: an error that is common to all rows of a group counts less than errors between its rows.
"""

from typing import NamedTuple

import numpy as np

BINS = 48          # bins of a feature, split at quantiles
GAP = 1e-4         # the least distance between values that a branch separates
LEAST_WEIGHT = 0.3  # the least weight of the rows on either side of a branch
RIDGE = 2          # in weights of rows: shrinks the values of leaves with few rows
NOWHERE = np.inf   # the threshold of a branch that separates no rows


class Tree(NamedTuple):
    """Branch i leads to 2 i + 1 where row[feature] <= threshold, else to 2 i + 2. The indices after
    the last branch are the leaves."""
    features: np.ndarray
    thresholds: np.ndarray
    leaves: np.ndarray


def thresholds_of(column):
    """Thresholds between values at least GAP apart, so that rounding a threshold moves no row."""
    distinct = np.unique(column)
    below, above = distinct[:-1], distinct[1:]
    between = ((below + above) / 2)[above - below > GAP]
    if len(between) < BINS:
        return between
    chosen = np.quantile(column, np.linspace(0, 1, BINS + 1)[1:-1], method="lower")
    return np.unique(between[np.searchsorted(between, chosen).clip(max=len(between) - 1)])


def sums(places, values, shape):
    return np.bincount(places.ravel(), values, minlength=np.prod(shape)).reshape(shape)


class Fitter:
    def __init__(self, rows, weight, depth, share, random):
        self.weight, self.depth, self.random = weight, depth, random
        self.thresholds = [thresholds_of(column) for column in rows.T]
        self.bins = np.stack([np.searchsorted(known, column)
                              for known, column in zip(self.thresholds, rows.T)], 1)
        self.most_bins = int(self.bins.max()) + 1
        self.tried = max(1, int(rows.shape[1] * share))

    def splits(self, node, count, gradient, tried):
        """For each of `count` nodes the feature and the last bin of the lower side that reduce the
        error most. The bin is beyond the last one if no split reduces it."""
        shape = (count, len(tried), self.most_bins)
        places = (node[:, None] * len(tried) + np.arange(len(tried))) * self.most_bins + \
            self.bins[:, tried]
        weight = sums(places, np.repeat(self.weight, len(tried)), shape).cumsum(2)
        pull = sums(places, np.repeat(self.weight * gradient, len(tried)), shape).cumsum(2)
        above, above_pull = weight[:, :, -1:] - weight, pull[:, :, -1:] - pull
        gain = pull**2 / (weight + RIDGE) + above_pull**2 / (above + RIDGE) - \
            pull[:, :, -1:]**2 / (weight[:, :, -1:] + RIDGE)
        gain[np.minimum(weight, above) < LEAST_WEIGHT] = 0
        flat = gain.reshape(count, -1)
        best = flat.argmax(1)
        bins = np.where(flat.max(1) > 1e-9, best % self.most_bins, self.most_bins)
        return tried[best // self.most_bins], bins

    def tree(self, gradient, rate):
        """(the tree, the leaf of each row)."""
        tried = np.sort(self.random.choice(len(self.thresholds), self.tried, replace=False))
        node = np.zeros(len(self.bins), int)
        features, thresholds = [], []
        for level in range(self.depth):
            feature, bins = self.splits(node, 2**level, gradient, tried)
            features += list(feature)
            thresholds += [self.thresholds[of][at] if at < len(self.thresholds[of]) else NOWHERE
                           for of, at in zip(feature, bins)]
            node = 2 * node + (self.bins[np.arange(len(node)), feature[node]] > bins[node])
        weight = np.bincount(node, self.weight, minlength=2**self.depth)
        pull = np.bincount(node, self.weight * gradient, minlength=2**self.depth)
        return Tree(np.array(features), np.array(thresholds), rate * pull / (weight + RIDGE)), node


def fit(rows, target, weight, group, *, trees, depth, rate, share, shared, seed):
    """`share`: the part of the features that is tried for each tree. `shared`: the part, 0 to 1, of
    a group's common error that is ignored."""
    fitter = Fitter(rows, weight, depth, share, np.random.default_rng(seed))
    of_group = np.bincount(group, weight)
    rest, made = target.astype(float), []
    for _ in range(trees):
        common = (np.bincount(group, weight * rest) / of_group)[group]
        tree, leaf = fitter.tree(rest - shared * common, rate)
        rest -= tree.leaves[leaf]
        made.append(tree)
    return made


def predict(trees, rows):
    total = np.zeros(len(rows))
    for tree in trees:
        node = np.zeros(len(rows), int)
        while node[0] < len(tree.features):
            above = rows[np.arange(len(rows)), tree.features[node]] > tree.thresholds[node]
            node = 2 * node + 1 + above
        total += tree.leaves[node - len(tree.features)]
    return total
