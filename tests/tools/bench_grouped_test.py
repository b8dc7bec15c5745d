"""The benchmark of grouped products on the CPU, where all but the times and Triton's kernels is
real, and its page of made-up times.

Usage: bench_grouped_test.py LIBATTACCA [unittest arguments].
"""
import os
import sys
import unittest
from unittest import mock

import torch

LIBRARY = os.path.abspath(sys.argv.pop(1))

from on_the_host import ScriptTest, fails

import grouped
import grouped_page
import routed
import triton_experts

TINY = {"four": (4, 2, 64, 32), "eight": (8, 3, 32, 64)}


def by_loop(work):
    """In place of triton_experts.fastest."""
    def launch(i):
        ends, ids = work.draws[i]
        products, outs = work.buffers()
        begin = 0
        for matrix, end in zip(work.w, ends.tolist()):
            own = ids[begin:end]
            products[i][own] = work.x[own // work.divisor] @ matrix
            begin = end
        if work.router is not None:
            products[i].mul_(work.router)
        if work.gate:
            gate, up = products[i].chunk(2, dim=-1)
            outs[i].copy_(torch.nn.functional.silu(gate) * up)
        return outs[i]
    return launch, triton_experts.CONFIGS[0]


class Grouped(ScriptTest):
    library = LIBRARY

    def setUp(self):
        super().setUp()
        for patch in [mock.patch.object(grouped, "LAYERS", TINY),
                      mock.patch.object(triton_experts, "fastest", by_loop)]:
            patch.start()
            self.addCleanup(patch.stop)

    def test_every_part_in_both_layouts(self):
        for layout in ("nk", "kn"):
            rows, said = self.rows(grouped, "--tokens", "1", "7", "--layout", layout)
            self.assertEqual(said, "")
            self.assertEqual(
                [(row["layer"], row["part"], row["tokens"], row["routing"]) for row in rows],
                [(layer, part, tokens, routing) for layer in TINY for part in grouped.PARTS
                 for tokens in "17" for routing in grouped.ROUTINGS])
            self.check_errors(rows, ("error", "torch_error", "triton_error"))
            for row in rows:
                self.assertEqual((row["layout"], row["kernel"], row["note"]),
                                 (layout, "some_template", ""))
                self.assertEqual((row["attacca_us"], row["triton_us"], row["ratio"]),
                                 ("4.00", "4.00", "1.00"))
                self.assertEqual(row["triton_config"], str(triton_experts.CONFIGS[0]))
                self.assertEqual(bool(row["inductor_us"]), row["part"] != "bare")
        self.assertIn("| eight | bare | (K, N) | 7 | zipf | 4.00 | 4.00 | - | 4.00 | 1.00 | ",
                      self.page(grouped_page))

    def test_what_fails_leaves_a_note(self):
        with mock.patch.object(triton_experts, "fastest", fails):
            rows, _ = self.rows(grouped, "--layers", "four", "--tokens", "5", "--parts", "up",
                                "--routings", "uniform")
        self.assertEqual([(row["triton_us"], row["ratio"], row["note"]) for row in rows],
                         [("", "1.00", "triton: made to fail")])
        with mock.patch.object(grouped.tuned_plan, "of_text", fails):
            rows, _ = self.rows(grouped, "--layers", "four", "--tokens", "5", "--no-triton",
                                "--parts", "up", "--routings", "uniform", "zipf")
        self.assertEqual([(row["attacca_us"], row["torch_us"], row["ratio"], row["note"])
                          for row in rows], [("", "4.00", "", "ours: made to fail")] * 2)

    def test_a_case_that_fails_leaves_a_note_and_the_others_go_on(self):
        draw = routed.draw

        def no_zipf(tokens, experts, chosen, routing):
            return fails() if routing == "zipf" else draw(tokens, experts, chosen, routing)
        with mock.patch.object(routed, "draw", no_zipf):
            rows, said = self.rows(grouped, "--layers", "four", "--tokens", "5", "--parts", "up",
                                   "down")
        self.assertIn("('four', 'up', 5, 'zipf'): made to fail\n", said)
        self.assertEqual([(row["part"], row["routing"], row["note"]) for row in rows],
                         [("up", "uniform", ""), ("up", "zipf", "made to fail"),
                          ("down", "uniform", ""), ("down", "zipf", "made to fail")])
        page = self.page(grouped_page)
        self.assertIn("- four, up, (N, K), 5 tokens, zipf: made to fail\n", page)
        self.assertIn("| 5 | 2 | 1.00 | 1.00 | 1.00 | 1.00 |\n", page)
        self.assertNotIn("| four | up | (N, K) | 5 | zipf |", page)

    def test_the_page_of_grouped_products_has_triton(self):
        row = dict.fromkeys(grouped.COLUMNS, "") | {
            "layer": "l", "part": "up", "layout": "nk", "tokens": "16", "routing": "uniform",
            "attacca_us": "10.00", "kernel": "some", "torch_us": "14.00", "inductor_us": "13.00",
            "triton_us": "12.00", "ratio": "1.20", "limit_us": "8.00", "share": "0.80"}
        old = {key: value for key, value in row.items() if "triton" not in key and key != "note"}
        page = grouped_page.page({"device": "a GPU", "triton": "3", "date": "2026-01-02"},
                                 [row, old | {"tokens": "64", "ratio": "1.30"}])
        self.assertIn("On a GPU, Triton 3; 2026-01-02.", page)
        self.assertIn("| 16 | 1 | 1.20 | 1.20 | 1.30 | 1.20 |\n"
                      "| 64 | 1 | 1.30 | 1.30 | 1.30 | - |\n", page)
        self.assertIn("| 14.00 | 13.00 | 12.00 | 1.20 | 8.00 | `some` |\n", page)
        self.assertIn("| 14.00 | 13.00 | - | 1.30 | 8.00 | `some` |\n", page)


if __name__ == "__main__":
    unittest.main()
