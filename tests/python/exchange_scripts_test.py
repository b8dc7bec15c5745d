"""Scripts for several GPUs run to their ends with gloo: bench/gpu/tensor_parallel.py on a tiny
model, and exchange_checks.py."""
import csv
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
BENCH = HERE.parents[1] / "bench/gpu/tensor_parallel.py"


class OnTwoRanks(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_script(self, *arguments):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
                       "ATTACCA_TEST_STORE": os.path.join(self.folder.name, "store")}
        ran = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
             *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False,
            env=environment)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        return ran.stdout

    def test_the_benchmark_writes_its_page(self):
        out = os.path.join(self.folder.name, "page")
        self.run_script(BENCH, "--device", "cpu", "--rows", "8,16", "--loop", "40", "--runs", "2",
                        "--out", out)
        with open(f"{out}.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
        with open(f"{out}.md", encoding="utf-8") as file:
            page = file.read()
        self.assertEqual(len(rows), 6)
        for row in rows:
            self.assertEqual((row["equal"], row["chosen"]), ("1", "whole"), row)
            self.assertLess(float(row["error"]), 0.01)
            for name in ("eager", "nccl", "whole", "attacca", "products", "wire"):
                self.assertGreater(float(row[f"{name}_us"]), 0, row)
        self.assertIn("40 calls one after the other were equal", page)
        self.assertIn("| tiny | reduce residual | 16 |", page)

    def test_the_checks_pass(self):
        said = self.run_script(HERE / "exchange_checks.py", "--device", "cpu", "--calls", "60")
        self.assertIn("gate (32, 48, 64) torch.bfloat16: whole, direct, pieces, awaiting, measured "
                      "right\n", said)
        self.assertIn("60 calls among them: all is right", said)


if __name__ == "__main__":
    unittest.main()
