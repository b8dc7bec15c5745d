"""bench/gpu/boosted_trees.py fits a function of steps, and ignores an error that a group has in
common."""

import sys
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "gpu"))
import boosted_trees

OPTIONS = {"trees": 60, "depth": 3, "rate": 0.2, "share": 1.0, "shared": 0.0, "seed": 1}


def steps(rows):
    return np.where(rows[:, 1] <= 0.5, 3 * (rows[:, 0] > 0.25) - 1, 2 * (rows[:, 2] > 0.75))


def evaluate(trees, row):
    """As src/tune/model/ranking_tree.cpp does it."""
    total = 0.0
    for tree in trees:
        at = 0
        while at < len(tree.features):
            at = 2 * at + (1 if row[tree.features[at]] <= tree.thresholds[at] else 2)
        total += tree.leaves[at - len(tree.features)]
    return total


class BoostedTrees(unittest.TestCase):
    def setUp(self):
        random = np.random.default_rng(7)
        self.rows = random.uniform(0, 1, (2000, 4))
        self.rows[:, 1] = random.integers(0, 2, 2000)
        self.target = steps(self.rows)
        self.weight = np.ones(2000)
        self.group = np.arange(2000) // 10

    def fit(self, target, **options):
        return boosted_trees.fit(self.rows, target, self.weight, self.group,
                                 **{**OPTIONS, **options})

    def test_finds_the_steps(self):
        off = boosted_trees.predict(self.fit(self.target), self.rows) - self.target
        self.assertLess(np.abs(off).mean(), 0.06)

    def test_nothing_to_find_has_no_branch(self):
        tree, = self.fit(np.zeros(2000), trees=1)
        self.assertTrue(np.isinf(tree.thresholds).all())
        self.assertEqual(len(tree.leaves), 2**OPTIONS["depth"])

    def test_a_groups_common_error_is_forgiven(self):
        common = np.random.default_rng(3).normal(0, 5, 200)[self.group]
        trees = self.fit(self.target + common, shared=1.0)
        between = boosted_trees.predict(trees, self.rows) - self.target
        between -= (np.bincount(self.group, between) / 10)[self.group]
        self.assertLess(np.abs(between).mean(), 0.2)

    def test_row_by_row_is_the_same(self):
        trees = self.fit(self.target)
        np.testing.assert_allclose([evaluate(trees, row) for row in self.rows[:50]],
                                   boosted_trees.predict(trees, self.rows[:50]))


if __name__ == "__main__":
    unittest.main()
