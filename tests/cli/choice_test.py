"""The choice without measuring, on times that were recorded on a GPU (bench/data/candidates.csv),
of problems that its trees were not trained on. Templates that are not built are left out.

Usage: choice_test.py ATTACCA [unittest arguments]
"""
import json
import math
import os
import sys
import tempfile
import unittest
from pathlib import Path
from statistics import geometric_mean

from cli_test import ATTACCA, attacca

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "bench/gpu"))
import ranking_problems
from ranking_collect import Describer

LOSS = 0.93  # of the unfused path's speed
TEMPLATE_ERROR = 1.125  # times the unfused path's expected time: src/tune/candidates.cpp


def held_out():
    with open(SOURCE / "bench/data/candidates.csv", encoding="utf-8") as file:
        return [(problem, times) for problem, times, _ in ranking_problems.read(file)
                if problem.held_out]


class Choice(unittest.TestCase):
    def test_loses_to_the_unfused_path_rarely_and_wins_on_average(self):
        describer = Describer(ATTACCA)
        over, unfused = [], 0
        for problem, times in held_out():
            said = describer.describe(problem)
            expected = {name: guess for name, guess in said["expected"].items() if name in times}
            ways = {"unfused" + (f" absorbed={i}" if i else ""): guess
                    for i, guess in enumerate(said["expected_unfused"])}
            ways = {name: guess for name, guess in ways.items() if name in times}
            if not expected or not ways:
                continue
            way, template = min(ways, key=ways.get), min(expected, key=expected.get)
            takes_unfused = ways[way] * math.exp(describer.margin) < expected[template]
            unfused += takes_unfused
            peer = min(times[name] for name in list(ways)[:2])
            over.append(peer / times[way if takes_unfused else template])
        describer.stop()
        losing = sum(each < LOSS for each in over)
        print(f"{len(over)} problems: {geometric_mean(over):.3f} times the unfused path's speed, "
              f"worst {min(over):.3f}, {losing} below {LOSS}; {unfused} unfused")
        self.assertGreater(len(over), 150)
        self.assertGreater(geometric_mean(over), 1.1)
        self.assertLess(losing, 0.06 * len(over))


    def test_what_a_quick_tuning_does_not_time_would_gain_nothing(self):
        describer = Describer(ATTACCA)
        left = []
        for problem, times in held_out():
            said = describer.describe(problem)
            fused = [name for name in said["expected"] if name in times]
            unfused = [name for name in times if name.startswith("unfused")]
            if fused and unfused and min(said["expected"][name] for name in fused) \
                    > TEMPLATE_ERROR * min(said["expected_unfused"]):
                left.append(min(times[name] for name in unfused)
                            / min(times[name] for name in fused))
        describer.stop()
        print(f"{len(left)} problems are not timed; the fastest template has at most "
              f"{max(left):.3f} times the unfused path's speed there")
        self.assertGreater(len(left), 20)
        self.assertLess(geometric_mean([max(1, each) for each in left]), 1.01)
        self.assertLess(sum(each > 1.03 for each in left), 0.05 * len(left))


class Age(unittest.TestCase):
    def stale(self, folder):
        code, out, _ = attacca("doctor", env={"ATTACCA_TEMPLATE_DIR": str(folder)})
        self.assertEqual(code, 0)
        line = next(line for line in out.splitlines() if line.startswith("ranking "))
        self.assertRegex(line, r"learned from \d{3,} problems \(NVIDIA H200, 20\d\d-\d\d-\d\d\)")
        if "of these templates" in line:
            return 0
        return int(line.split("stale: ")[1].split()[0])

    def test_doctor_counts_templates_that_are_new_or_changed(self):
        built = Path(os.environ["ATTACCA_TEMPLATE_DIR"])
        with tempfile.TemporaryDirectory() as folder:
            for file in built.iterdir():
                (Path(folder) / file.name).symlink_to(file)
            before = self.stale(folder)
            products = 0
            for file in Path(folder).glob("*.json"):
                metadata = json.loads(file.read_text())
                if metadata["family"] != "gemm":
                    continue
                products += 1
                file.unlink()
                file.write_text(json.dumps(metadata | {"threads": metadata["threads"] + 128}))
            self.assertEqual(self.stale(folder), products)
            # Those that are in the tree; another nvcc may build them otherwise.
            self.assertLessEqual(before, products)


if __name__ == "__main__":
    unittest.main()
