"""The benchmark of experts' weights in codes on the CPU, where all but the times is real, and its
page of made-up times.

Usage: bench_codes_test.py LIBATTACCA [unittest arguments].
"""
import os
import sys
import unittest
from unittest import mock

import torch

LIBRARY = os.path.abspath(sys.argv.pop(1))

from on_the_host import ScriptTest, fails

import expert_codes
import experts_in_codes
import experts_in_codes_page

TINY = {
    "gpt-oss-20b": experts_in_codes.Layer(4, 2, 64, 32, True, ("mxfp4",)),
    "qwen3-30b-a3b": experts_in_codes.Layer(8, 3, 256, 128, False, ("u4", "u8"))}


class InCodes(ScriptTest):
    library = LIBRARY

    def setUp(self):
        super().setUp()
        patch = mock.patch.object(experts_in_codes, "LAYERS", TINY)
        patch.start()
        self.addCleanup(patch.stop)

    def test_every_case(self):
        rows, said = self.rows(experts_in_codes, "--tokens", "1", "7", "--parts",
                               *experts_in_codes.PARTS)
        self.assertEqual(said, "")
        self.assertEqual(
            [(row["codes"], row["part"], row["tokens"]) for row in rows],
            [(codes, part, tokens) for tokens in "17" for layer in TINY.values()
             for codes in layer.codes for part in experts_in_codes.PARTS])
        self.check_errors(rows, experts_in_codes.ERRORS.values())
        for row in rows:
            self.assertEqual((row["kernel"], row["bf16_kernel"], row["note"]),
                             ("some_template", "some_template", ""))
            self.assertEqual((row["over_bf16"], row["ratio"]), ("1.00", "1.00"))
        page = self.page(experts_in_codes_page)
        self.assertIn("| u8 | 7 | 3 | 1.00 | 1.00 | ", page)
        self.assertIn("| gpt-oss-20b | mxfp4 | gathered | 7 | ", page)

    def test_what_fails_leaves_a_note(self):
        options = ["--layers", "gpt-oss-20b", "--tokens", "5"]
        with mock.patch.object(experts_in_codes.tuned_plan, "of_text", fails):
            rows, _ = self.rows(experts_in_codes, *options)
        self.assertEqual([(row["attacca_us"], bool(row["inductor_us"]), row["ratio"], row["note"])
                          for row in rows],
                         [("", True, "", "codes: made to fail; bf16: made to fail")] * 2)
        with mock.patch.object(expert_codes, "widened", fails):
            rows, said = self.rows(experts_in_codes, *options)
        self.assertIn("part='down', tokens=5): made to fail\n", said)
        self.assertEqual([(row["part"], row["n"], row["note"]) for row in rows],
                         [("up", "", "made to fail"), ("down", "", "made to fail")])
        page = self.page(experts_in_codes_page)
        self.assertIn("- gpt-oss-20b, mxfp4, up, 5 tokens: made to fail\n", page)
        self.assertIn("| mxfp4 | 5 | 2 | - | - | - |\n", page)

    def test_codes_by_hand(self):
        codes = torch.tensor([[[0x10, 0xf2] + [0] * 14]], dtype=torch.uint8)
        got = expert_codes.widened("mxfp4", codes, torch.tensor([[[128]]], dtype=torch.uint8))
        self.assertEqual(got[0, 0, :5].tolist(), [0, 1, 2, -12, 0])
        codes = torch.full((1, 1, 128), 0x88, dtype=torch.uint8)
        codes[0, 0, 0], codes[0, 0, 64] = 0xf0, 0x79
        scales = torch.tensor([[[0.5, 2]]], dtype=torch.bfloat16)
        got = expert_codes.widened("u4", codes, scales)
        self.assertEqual(got[0, 0, [0, 1, 2, 127, 128, 129]].tolist(), [-4, 3.5, 0, 0, 2, -2])
        codes = torch.full((1, 1, 128), 0, dtype=torch.uint8)
        codes[0, 0, 5] = 255
        got = expert_codes.widened("u8", codes, torch.ones(1, 1, 1, dtype=torch.bfloat16))
        self.assertEqual(got[0, 0, [0, 5]].tolist(), [-128, 127])

    def test_bytes_are_those_of_the_tensors(self):
        for name in expert_codes.FORMATS:
            values, scales = expert_codes.made(name, 2, 48, 256)
            self.assertEqual(2 * expert_codes.bytes_of(name, 48, 256),
                             values.nbytes + scales.nbytes)
            deviation = float(expert_codes.widened(name, values, scales).float().std())
            self.assertAlmostEqual(deviation, 256**-0.5, delta=0.5 * 256**-0.5)

    def test_the_page_of_codes_names_losses(self):
        row = dict.fromkeys(experts_in_codes.COLUMNS, "") | {
            "layer": "l", "codes": "u4", "part": "up", "tokens": "16", "attacca_us": "10.00",
            "kernel": "some", "bf16_us": "9.00", "inductor_us": "20.00", "over_bf16": "0.90",
            "ratio": "2.00", "limit_us": "8.00", "share": "0.80", "error": "1e-3",
            "inductor_error": "2e-3"}
        page = experts_in_codes_page.page({"device": "a GPU", "date": "2026-01-02"},
                                          [row, row | {"part": "down", "over_bf16": "1.60"}])
        self.assertIn("| u4 | 16 | 2 | 1.20 | 2.00 | 0.80 |\n", page)
        self.assertIn("- l, u4, up, 16 tokens: 0.90 of bf16's speed\n\n", page)
        self.assertNotIn("down, 16 tokens:", page)
        self.assertIn("| l | u4 | up | 16 | 10.00 | 9.00 | 20.00 | 0.90 | 2.00 | 8.00 | 1e-3 | "
                      "2e-3 | `some` |\n", page)


if __name__ == "__main__":
    unittest.main()
