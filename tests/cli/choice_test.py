"""The choice without measuring, on times that were recorded on GPUs (bench/data), of problems that
its trees were not trained on. Templates that are not built are left out.

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
from ranking_collect import Describer, id_of

TEMPLATE_ERROR = 1.125  # times the unfused path's expected time: src/tune/candidates.cpp
LOSS = 0.93  # of the speed of the unfused path by the vendor library's own preference
# The held-out problems that lose more, with the least speed: with all templates, or with the few
# that tests build.
LOSSES = {
    # The way of the vendor library that is chosen is slower than expected.
    "gate swiglu 3 5568 293 1 h200": 0.77,
    "bf16 silu_mul 199 10408 128 1 h200": 0.88,
    "kn gelu 6497 136 18856 1 h200": 0.91,
    "kn silu_mul 317 6368 1856 1 h200": 0.92,
    # The template is slower than expected.
    "gate swiglu 278 8312 5624 1 h100": 0.80,
    "gate geglu_add 1101 312 440 1 h100": 0.90,
    "bf16 add 29 2168 5688 1 h200": 0.89,
    "bf16 none 4 2405 192 1 h100": 0.71,
}


def held_out():
    """(what describes problems on the device, problem, microseconds, proposals)."""
    for path in sorted((SOURCE / "bench/data").glob("*.csv")):
        with open(path, encoding="utf-8") as file:
            device = ranking_problems.read_stamp(file.readline())["device"]
            describer = Describer(ATTACCA, device)
            for problem, times, proposals in ranking_problems.read(file):
                if problem.held_out:
                    yield describer, problem, times, proposals
            describer.stop()


def choice(describer, problem, times, proposals):
    """(what is chosen of what was timed, the vendor library's preference); None where either was
    not timed."""
    said = describer.describe(problem, proposals=proposals)
    expected = {name: guess for name, guess in said["expected"].items() if name in times}
    names = ["unfused" + (f" absorbed={i}" if i else "")
             for i in range(len(said["expected_unfused"]))]
    margins = dict(zip(names, said["margins"]))
    ways = {name: guess for name, guess in zip(names, said["expected_unfused"]) if name in times}
    if not expected or not ways:
        return None
    way, template = min(ways, key=ways.get), min(expected, key=expected.get)
    unfused = ways[way] < expected[template] * math.exp(margins[way])
    return said.get("taken", way) if unfused else template, min(list(ways)[:2], key=times.get)


class Choice(unittest.TestCase):
    def test_loses_to_the_unfused_path_where_that_is_known_and_wins_on_average(self):
        over, unfused, losses = [], 0, {}
        for describer, problem, times, proposals in held_out():
            chosen = choice(describer, problem, times, proposals)
            if chosen is None:
                continue
            taken, peer = chosen
            unfused += taken.startswith("unfused")
            over.append(times[peer] / times[taken])
            if over[-1] < LOSS:
                losses[" ".join(map(str, (*problem[:6], id_of(describer.device))))] = round(
                    over[-1], 3)
        print(f"{len(over)} problems: {geometric_mean(over):.3f} times the unfused path's speed, "
              f"worst {min(over):.3f}, {len(losses)} below {LOSS}; {unfused} unfused")
        self.assertGreater(len(over), 480)
        self.assertGreater(geometric_mean(over), 1.1)
        for name, speed in losses.items():
            with self.subTest(name):
                self.assertGreaterEqual(speed, LOSSES.get(name, LOSS))

    def test_what_a_quick_tuning_does_not_time_would_gain_nothing(self):
        left = []
        for describer, problem, times, _ in held_out():
            said = describer.describe(problem)
            fused = [name for name in said["expected"] if name in times]
            unfused = [name for name in times if name.startswith("unfused")]
            if fused and unfused and min(said["expected"][name] for name in fused) \
                    > TEMPLATE_ERROR * min(said["expected_unfused"]):
                left.append(min(times[name] for name in unfused)
                            / min(times[name] for name in fused))
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
        self.assertRegex(line, r"learned from \d{3,} problems \(NVIDIA .*, 20\d\d-\d\d-\d\d\)")
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
