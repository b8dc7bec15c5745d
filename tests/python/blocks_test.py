"""bench/gpu/blocks.py and expert_layers.py at tiny widths on the CPU."""
import csv
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "bench/gpu/blocks.py"
sys.path.insert(0, str(SCRIPT.parent))


class Blocks(unittest.TestCase):
    def test_rows_and_page(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "blocks"
            result = subprocess.run(
                [sys.executable, SCRIPT, "--device", "cpu", "--tiny", "--plain", "--out", out,
                 "--tokens", "12",
                 "--blocks", "llama_mlp,gpt_oss_mlp,bert", "--contenders", "eager,inductor,attacca",
                 "--turns", "1", "--rounds", "1"], capture_output=True, text=True,
                env={**os.environ, "TORCHINDUCTOR_VEC_ISA_OK": "0"})
            self.assertEqual(result.returncode, 0, result.stderr)
            with open(f"{out}.csv") as file:
                rows = list(csv.DictReader(file))
            page = pathlib.Path(f"{out}.md").read_text()
            subprocess.run([sys.executable, SCRIPT.parent / "blocks_page.py", f"{out}.csv",
                            f"{out}.csv", "--out",
                            f"{out}2"], check=True)
            self.assertEqual(pathlib.Path(f"{out}2.md").read_text(), page)
        self.assertEqual([row["contender"] for row in rows], ["eager", "inductor", "attacca"] * 3)
        for row in rows:
            self.assertGreater(float(row["direct_us"]), 0, row)
            self.assertLess(float(row["error"]), 0.02, row)
            if row["contender"] == "attacca":
                self.assertGreater(int(row["regions"]), 0, row)
        self.assertEqual(page.count("| bert |"), 3)

    def test_layers_of_experts(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "layers.csv"
            result = subprocess.run(
                [sys.executable, SCRIPT.parent / "expert_layers.py", "--device", "cpu", "--tiny",
                 "--layers", "gpt-oss-20b", "--tokens", "12", "--turns", "1", "--rounds", "1",
                 "--csv", file], capture_output=True, text=True,
                env={**os.environ, "TORCHINDUCTOR_VEC_ISA_OK": "0"})
            self.assertEqual(result.returncode, 0, result.stderr)
            row, = (line for line in csv.DictReader(
                line for line in file.read_text().splitlines() if not line.startswith("#")))
            subprocess.run([sys.executable, SCRIPT.parent / "expert_layers_page.py", file, "--out",
                            f"{folder}/layers"], check=True)
            page = pathlib.Path(f"{folder}/layers.md").read_text()
        self.assertEqual((row["layer"], row["tokens"], row["regions"]), ("gpt-oss-20b", "12", "2"))
        self.assertLess(float(row["error"]), 0.02)
        self.assertIn("| gpt-oss-20b | 12 |", page)

    def test_losses_are_named(self):
        import blocks_page
        rows = [{"block": "b", "tokens": 1, "contender": c, "graph_us": us, "error": error}
                for c, us, error in [("eager", 9.0, 1e-3), ("inductor", 5.0, 1e-3),
                                     ("attacca", 6.0, 2e-3)]]
        self.assertEqual(blocks_page.losses(rows, "graph_us")[2:],
                         ["- b at 1: error 2.00e-03, eager 1.00e-03",
                          "- b at 1: 6.0 us, Inductor 5.0 us", ""])


if __name__ == "__main__":
    unittest.main()
