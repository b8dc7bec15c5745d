"""bench/gpu/grouped_choices.py: what the cost model chooses for layers of experts, by recorded
times of an H100 and an H200. Usage: bench_grouped_choices_test.py ATTACCA"""

import contextlib
import io
import json
import os
import re
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench/gpu"))

import grouped_choices

ATTACCA = sys.argv.pop()


def said(*words):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        grouped_choices.main(["--attacca", ATTACCA, *words])
    return out.getvalue()


def means(text):
    return [float(each) for each in re.search(r"takes ([0-9.]+) times .* at most ([0-9.]+) times",
                                              text).groups()]


class GroupedChoices(unittest.TestCase):
    def test_the_choice_is_near_the_fastest(self):
        text = said("evaluate")
        mean, worst = means(text)
        self.assertLess(mean, 1.05, text)
        self.assertLess(worst, 1.3, text)
        self.assertRegex(text, r"(?m)^1\.00  grouped_")
        self.assertRegex(text, r"(?m)^1\.00  unfused")

    def test_times_the_other_way_round_are_far_off(self):
        with open(grouped_choices.DATA, encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
            for record in records:
                us = {name: 1e6 / us for name, us in record["us"].items()}
                file.write(json.dumps({**record, "us": us}) + "\n")
            file.flush()
            self.assertGreater(means(said("--data", file.name, "evaluate"))[0], 1.2)

    def test_collect_keeps_each_candidates_fastest_variant(self):
        trials = [{"candidate": "a swizzle=1", "us": 3.0}, {"candidate": "a", "us": 2.0},
                  {"candidate": "unfused", "us": 4.0}, {"candidate": "b", "failure": "it hung"}]
        answer = json.dumps({"tuned": [{"winner": "a", "us": 2.0, "candidates": trials}]})
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "one.attacca"), "w", encoding="utf-8") as file:
                file.write("graph g")
            data = os.path.join(folder, "data.jsonl")
            with mock.patch.object(grouped_choices.program, "answer", lambda *w, **o: answer):
                said("--data", data, "collect", "--graphs", folder, "--device", "h100")
            with open(data, encoding="utf-8") as file:
                self.assertEqual([json.loads(line) for line in file], [
                    {"graph": "graph g", "device": "h100", "us": {"a": 2.0, "unfused": 4.0}}])


if __name__ == "__main__":
    unittest.main(verbosity=2)
