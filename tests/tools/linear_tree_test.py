"""bench/gpu/linear_tree.py finds a function that is linear by pieces, and writes it down as it is."""

import sys
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "gpu"))
import linear_tree  # noqa: E402  pylint: disable=wrong-import-position


def pieces(rows):
    return np.where(rows[:, 1] <= 0.5, 3 * rows[:, 0] - 1, rows[:, 2] - 2 * rows[:, 0])


def evaluate(arrays, row):
    """As src/tune/ranking_tree.cpp does it."""
    roots, branches, leaves = arrays
    total = 0.0
    for at in roots:
        while at >= 0:
            feature, threshold, below, above = branches[at]
            at = below if row[feature] <= threshold else above
        leaf = leaves[-1 - at]
        total += leaf.constant + float(leaf.slopes @ row)
    return total / len(roots)


class LinearTree(unittest.TestCase):
    def setUp(self):
        random = np.random.default_rng(7)
        self.rows = random.uniform(0, 1, (2000, 4))
        self.rows[:, 1] = random.integers(0, 2, 2000)
        self.target = pieces(self.rows)
        self.forest = linear_tree.fit(self.rows, self.target, np.ones(2000), trees=3, depth=2,
                                      least_rows=50, share=1.0, seed=1)

    def test_finds_the_pieces(self):
        self.assertLess(np.abs(linear_tree.mean_prediction(self.forest, self.rows) - self.target).max(),
                        0.02)

    def test_one_line_has_no_branch(self):
        tree, = linear_tree.fit(self.rows, 2 * self.rows[:, 3] + 1, np.ones(2000), trees=1, depth=3,
                                least_rows=50, share=1.0, seed=1)
        self.assertIsInstance(tree, linear_tree.Leaf)
        self.assertAlmostEqual(tree.constant, 1, places=2)

    def test_branches_keep_enough_rows(self):
        few = linear_tree.fit(self.rows, self.target, np.ones(2000), trees=1, depth=9, least_rows=1001,
                              share=1.0, seed=1)
        self.assertIsInstance(few[0], linear_tree.Leaf)

    def test_arrays_say_the_same(self):
        arrays = linear_tree.as_arrays(self.forest)
        expected = linear_tree.mean_prediction(self.forest, self.rows[:50])
        np.testing.assert_allclose([evaluate(arrays, row) for row in self.rows[:50]], expected)


if __name__ == "__main__":
    unittest.main()
