"""The scores of a cluster's tuning, of made-up trials."""
import unittest

from attacca._cluster.scores import Score, family_of, score_of, tables_of, text_of
from attacca._problems import Key

ACC = "i0 = acc f32 rounded=bf16 step=1 offset=0 gemm=0\n"
TN = "bf16:r16 bf16:c16 -> bf16"


def key(shape, products=TN, inputs=ACC):
    return Key(f"fp32|epilogue rank=2\n{inputs}store bf16 [s 1] = i0\n|{products}|bf16:r16",
               f"{shape} n=64 batch=1 k=64")


def trial(candidate, seconds, final=False):
    return {"candidate": candidate, "seconds": seconds, "final": final}


class Scores(unittest.TestCase):
    ROW = {"seconds": 4.0, "unfused_seconds": 5.0}

    def test_only_times_of_the_last_comparison_compare(self):
        found = {"modelled": "b", "trials": [
            trial("a", 4.0, True), trial("unfused", 6.0, True), trial("b", 5.0, True),
            trial("c", 1.0), {"candidate": "d", "final": False, "failed": "it crashed"}]}
        self.assertEqual(score_of(self.ROW, found), Score(4 / 5, 6 / 5, 5 / 4))
        found["modelled"] = "c"  # timed in the first round alone
        self.assertEqual(score_of(self.ROW, found), Score(None, None, 5 / 4))

    def test_a_quick_tuning_has_one_comparison(self):
        found = {"modelled": "unfused", "trials": [trial("a", 1.0), trial("unfused", 2.0)]}
        self.assertEqual(score_of(self.ROW, found), Score(0.5, 1.0, 1.25))

    def test_what_was_known_has_its_gain_alone(self):
        self.assertEqual(score_of(self.ROW, {}), Score(None, None, 1.25))
        self.assertEqual(score_of({"seconds": 4.0, "unfused_seconds": 0}, {}),
                         Score(None, None, None))

    def test_tables(self):
        scores = {key("m<=1"): Score(1.0, 2.0, 2.0), key("m<=4"): Score(0.25, 0.5, 2.0),
                  key("m<=16384"): Score(None, None, 8.0), key("m=any"): Score(1.0, None, None)}
        everything, _, rows = tables_of(scores)
        self.assertEqual(everything.rows, [
            ["all", "4", "0.630", "0.250", "1.000", "0.500", "50.0%", "3.175", "2.000"]])
        self.assertEqual([row[:3] for row in rows.rows], [
            ["1", "1", "1.000"], ["2 to 4", "1", "0.250"], ["8193 and more", "1", "-"],
            ["any", "1", "1.000"]])
        self.assertEqual(len({len(line) for line in text_of(rows).splitlines()}), 1)
        self.assertEqual(tables_of({}), [])

    def test_families(self):
        two = ACC + ACC.replace("i0", "i1").replace("gemm=0", "gemm=1")
        for family, products, inputs in [
                ("bf16", TN, ACC), ("kn", "bf16:r16 bf16:r16 -> bf16", ACC),
                ("gate", TN, two), ("gate_two", f"{TN}|{TN}", two),
                ("fp8", "f8e4m3:r16 f8e4m3:c16 -> f32", ACC),
                ("fp8_fast", "f8e4m3:r16 f8e4m3:c16 -> f32 fast", ACC),
                ("fp8_blocks", "f8e4m3:r16 f8e4m3:c16 -> f32 blocks", ACC),
                ("s8", "s8:r16 s8:c16 -> s32", ACC), ("grouped", f"{TN} grouped", ACC),
                ("packed", f"{TN} packed s4", ACC), ("f16", "f16:r16 f16:r16 -> f16", ACC),
                ("kernel", "k.cu saxpy", ACC)]:
            self.assertEqual(family_of(key("m<=16", products, inputs)), family)
        self.assertEqual(family_of(key("m<=16")._replace(shape="m<=16 n=4 batch=8 k=4")), "batch")


if __name__ == "__main__":
    unittest.main()
