"""Right results pass --check: a third of the models of ONNX's own backend tests, on made-up data.

Usage: check_models_test.py ATTACCA [unittest arguments]. ATTACCA_SEED: the data, and which third.
"""
import os
import pathlib
import subprocess
import sys
import unittest

import onnx

ATTACCA = sys.argv.pop(1)
SEED = int(os.environ.get("ATTACCA_SEED", "1"))
MODELS = pathlib.Path(onnx.__file__).parent / "backend/test/data"
REFUSED = 2  # exit codes: 0, bad input, 3 where the check fails


class Models(unittest.TestCase):
    def test_right_results_pass(self):
        checked = 0
        for number, model in enumerate(sorted(MODELS.glob("*/*/model.onnx"))[SEED % 3::3]):
            mode = ("fp32", "eager")[number % 2]
            run = subprocess.run([ATTACCA, "run", model, "--check", "--mode", mode, "--seed",
                                  str(SEED)], capture_output=True, text=True, timeout=60)
            with self.subTest(model.parent.name, mode=mode, seed=SEED):
                self.assertIn(run.returncode, (0, REFUSED), run.stdout + run.stderr)
            checked += run.returncode == 0
        self.assertGreaterEqual(checked, 200)


if __name__ == "__main__":
    unittest.main()
