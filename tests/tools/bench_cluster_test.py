"""bench/gpu/cluster.py, on a Ray cluster of this machine's processes.

Needs what tests/python/cluster_tuning.py needs: the stand-in for the driver (ATTACCA_LIBCUDA) and
templates (ATTACCA_TEMPLATE_DIR). The kernels' times are made up.
"""
import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "bench/gpu/cluster.py"
sys.path.insert(0, str(SCRIPT.parent))

import cluster

ROWS = [16, 100]  # four problems each


def found(seconds, keys=(("p", "m<=16"),), failed=()):
    return {"seconds": seconds, "keys": [list(key) for key in keys], "failed": list(failed)}


class Summary(unittest.TestCase):
    def test_quotients_of_means(self):
        lines, well = cluster.summary({1: [found(9), found(11)], 2: [found(5), found(3)]})
        self.assertEqual(lines, ["1 GPU: 10.00 s, 1.00 times as fast as with 1",
                                 "2 GPUs: 4.00 s, 2.50 times as fast as with 1",
                                 "1 problem; the databases' keys are the same"])
        self.assertTrue(well)

    def test_what_is_wrong_is_said(self):
        for other, line in [(found(1, keys=[("p", "m<=32")]), "the databases' keys DIFFER"),
                            (found(1, failed=["failed: no GPU"]), "failed: no GPU")]:
            lines, well = cluster.summary({1: [found(1)], 2: [other]})
            self.assertIn(line, "\n".join(lines))
            self.assertFalse(well)
        self.assertFalse(cluster.summary({1: [found(1, keys=())]})[1])


class Turns(unittest.TestCase):
    def test_numbers_of_gpus_take_turns(self):
        asked = []

        def measure(gpus, rows):
            asked.append((gpus, rows))
            return {**found(8 / gpus), "tasks": [3.0, 4.5], "start": 2.0}
        output = io.StringIO()
        with mock.patch.object(cluster, "measure", measure), contextlib.redirect_stdout(output):
            self.assertEqual(cluster.main(["--gpus", "1,2", "--turns", "2", "--rows", "5,6"]), 0)
        self.assertEqual(asked, [(gpus, [5, 6]) for gpus in (1, 2, 1, 2)])
        lines = output.getvalue().splitlines()
        self.assertEqual(lines[4], "turn 2, 2 GPUs: 4.00 s; 1 problem, 0 failed; tasks took 7.5 s "
                         "in all, 4.5 s the longest; Ray started in 2.0 s")
        self.assertEqual(lines[6], "2 GPUs: 4.00 s, 2.00 times as fast as with 1")


class Run(unittest.TestCase):
    def test_two_gpus(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "timed"
            environment = {"ATTACCA_TUNE_WORKER": str(ROOT / "tests/python/timing_worker.py"),
                           "ATTACCA_LIBCUBLASLT": "/nowhere/x", "TIMING_LOG": str(log)}
            begin = time.monotonic()
            run = subprocess.run([sys.executable, SCRIPT, "--gpus", "2", "--turns", "1", "--rows",
                                  ",".join(map(str, ROWS))], capture_output=True, text=True,
                                 check=False, env={**os.environ, **environment})
            took = time.monotonic() - begin
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            timed = set(log.read_text().splitlines())
        self.assertEqual(timed, {f'{{"M": {m}}}' for m in ROWS})
        said = re.search(r"turn 1, 2 GPUs: ([0-9.]+) s; 8 problems, 0 failed; tasks took ([0-9.]+) "
                         r"s in all, ([0-9.]+) s the longest; Ray started in ([0-9.]+) s\n",
                         run.stdout)
        seconds, tasks, longest, start = map(float, said.groups())
        self.assertLess(longest, seconds + 0.1)
        self.assertLess(tasks, 2 * seconds + 0.1 * 8)  # two at a time; each is rounded
        self.assertLess(seconds + start, took)
        self.assertTrue(run.stdout.endswith(
            f"2 GPUs: {seconds:.2f} s, 1.00 times as fast as with 2\n"
            "8 problems; the databases' keys are the same\n"), run.stdout)


if __name__ == "__main__":
    unittest.main()
