"""The benchmark of experts in scaled blocks on the CPU, where all but the times is real.

Usage: bench_scaled_experts_test.py LIBATTACCA [unittest arguments].
"""
import os
import sys
import unittest
from unittest import mock

LIBRARY = os.path.abspath(sys.argv.pop(1))

from on_the_host import ScriptTest, fails

import scaled_experts


class ScaledExperts(ScriptTest):
    library = LIBRARY

    def setUp(self):
        super().setUp()
        sizes = mock.patch.multiple(scaled_experts, EXPERTS=4, CHOSEN=2, WIDTH=256, INNER=128)
        sizes.start()
        self.addCleanup(sizes.stop)

    def test_every_case(self):
        rows, said = self.rows(scaled_experts, "--tokens", "1", "9", "--routings", "uniform",
                               "zipf")
        self.assertEqual(said, "")
        self.assertEqual([(row["part"], row["tokens"], row["routing"]) for row in rows],
                         [(part, tokens, routing) for part in scaled_experts.PARTS
                          for tokens in "19" for routing in ("uniform", "zipf")])
        self.check_errors(rows, scaled_experts.ERRORS.values())
        for row in rows:
            self.assertEqual((row["kernel"], row["bf16_kernel"], row["note"]),
                             ("some_template", "some_template", ""))
            self.assertEqual((row["over_bf16"], row["ratio"]), ("1.00", "1.00"))

    def test_what_fails_leaves_a_note(self):
        with mock.patch.object(scaled_experts.tuned_plan, "of_text", fails):
            rows, _ = self.rows(scaled_experts, "--tokens", "5")
        self.assertEqual([(row["attacca_us"], bool(row["inductor_us"]), row["ratio"], row["note"])
                          for row in rows],
                         [("", True, "", "ours: made to fail; bf16: made to fail")] * 2)


if __name__ == "__main__":
    unittest.main()
