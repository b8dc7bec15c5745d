"""bench/gpu/tensor_parallel.py runs to its page, with gloo on a tiny model."""
import csv
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "bench/gpu/tensor_parallel.py"


class ExchangeBench(unittest.TestCase):
    def test_two_ranks_write_the_page(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "page")
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
            ran = subprocess.run(
                [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                 "2", str(SCRIPT), "--device", "cpu", "--rows", "8,16", "--loop", "40", "--runs",
                 "2", "--out", out], capture_output=True, text=True, timeout=300, check=False,
                env=environment)
            self.assertEqual(ran.returncode, 0, ran.stderr)
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


if __name__ == "__main__":
    unittest.main()
