"""``attacca.tune(batch_invariant=True)`` and ``attacca tune --batch-invariant``: of kernels that
sum in the order of all numbers of rows, the fastest for each is stored, and plans of the mode use
it.

Needs the stand-in for the driver (ATTACCA_LIBCUDA), templates (ATTACCA_TEMPLATE_DIR) and the
program (ATTACCA_TUNE_WORKER). timing_worker.py makes up the times.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import timing_worker

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = os.environ["ATTACCA_TUNE_WORKER"]
GRAPH = """graph g(x: f16[M, 64], w: f16[128, 64], v: f16[96, 128]) {
  h = silu(x @ transpose(w))
  return tanh(h @ transpose(v))
}"""
ROWS = [1, 16, 64, 256, 1024, 8192]
TIE = 1.0175  # times the fastest: src/tune/rounds.cpp


class InvariantTuning(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.log = self.folder / "timed"
        self.graph = self.folder / "g.attacca"
        self.graph.write_text(GRAPH)
        self.new_database("first")

    def new_database(self, name):
        os.environ.update(ATTACCA_CACHE_DIR=str(self.folder / name), TIMING_LOG=str(self.log),
                          ATTACCA_LIBCUBLASLT="/nowhere/x",
                          ATTACCA_TUNE_WORKER=str(HERE / "timing_worker.py"))

    def timed(self):
        """The numbers of rows that were asked for, since the last call."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return sorted(json.loads(line)["M"] for line in lines)

    def command(self, *arguments):
        ran = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True,
                             check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout

    def ranked(self, rows):
        """By region: the templates that sum in the order of all numbers of rows."""
        said = json.loads(self.command("explain", self.graph, "--device", "cuda",
                                       "--batch-invariant", "--dim", f"M={rows}", "--json"))
        return [{each["template"] for each in region["ranked"]} for region in said["candidates"]]

    def test_the_fastest_of_one_order_is_chosen(self):
        from attacca import _core
        from attacca._problems import problems_of
        graph = _core.Graph.parse(GRAPH)
        for m in (1, 64, 3000):
            allowed = self.ranked(m)
            for number, problem in enumerate(problems_of(graph, "cuda", "fp32", {"M": m}, True)):
                found = json.loads(_core.tune_problem(problem.text, "cuda", "always", 0))
                times = {trial["candidate"]: trial["seconds"] for trial in found["trials"]}
                self.assertGreater(len(times), 2)
                self.assertEqual({name.split()[0] for name in times}, allowed[number])
                for name, seconds in times.items():
                    self.assertAlmostEqual(seconds, timing_worker.seconds_of(
                        {"symbols": {"M": m}}, name), delta=1e-12)
                counted = {name: seconds * (1.015 if "=" in name else 1)
                           for name, seconds in times.items()}
                self.assertLessEqual(counted[found["candidate"]], TIE * min(counted.values()))
                self.assertIn(found["modelled"], times)
                reasons = {each["template"]: each["reason"] for each in found["excluded"]}
                self.assertIn("cuBLASLt", reasons["unfused"])

    def test_plans_use_it(self):
        import attacca
        found = attacca.tune(GRAPH, M=ROWS, batch_invariant=True, progress=False)
        self.assertEqual([each.sizes for each in found], [{"M": m} for m in ROWS])
        self.assertEqual(self.timed(), sorted(2 * ROWS))
        self.assertEqual({d.source for each in found for d in each.decisions}, {"measured"})
        plan = attacca.compile(GRAPH, device="cuda", batch_invariant=True)
        for each in found:
            decisions = plan.prepare(**each.sizes).decisions
            self.assertEqual({d.source for d in decisions}, {"database"})
            self.assertEqual([d.candidate for d in decisions],
                             [d.candidate for d in each.decisions])
        other = plan.prepare(M=3000).decisions
        self.assertEqual({d.source for d in other}, {"model"})
        usual = attacca.compile(GRAPH, device="cuda").prepare(M=16).decisions
        self.assertEqual({d.source for d in usual}, {"model"})
        attacca.tune(GRAPH, M=ROWS, batch_invariant=True, progress=False)
        self.assertEqual(self.timed(), [])
        attacca.tune(GRAPH, M=5, batch_invariant=True, again=True, progress=False)
        self.assertEqual(self.timed(), [5, 5])

    def test_processes_choose_alike(self):
        import attacca
        found = attacca.tune(GRAPH, M=ROWS, batch_invariant=True, progress=False)
        self.new_database("second")
        text = ("import attacca\n"
                f"found = attacca.tune({GRAPH!r}, M={ROWS}, batch_invariant=True, progress=False)\n"
                "print(*[d.candidate for each in found for d in each.decisions], sep='\\n')")
        ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                             check=True)
        self.assertEqual(ran.stdout.splitlines(),
                         [d.candidate for each in found for d in each.decisions])

    def test_a_choice_of_another_order_is_not_used(self):
        """Nor is it kept when the problem is tuned again."""
        import attacca
        from attacca import _core
        attacca.tune(GRAPH, M=16, batch_invariant=True, progress=False)
        rows = json.loads(_core.list_choices())
        (wide,) = [row for row in rows if "n=128" in row["shape"]]
        _core.store_choices(json.dumps([{**wide, "candidate": "unfused", "seconds": 1e-9}]))
        plan = attacca.compile(GRAPH, device="cuda", batch_invariant=True)
        self.assertEqual([d.source for d in plan.prepare(M=16).decisions], ["model", "database"])
        again = attacca.tune(GRAPH, M=16, batch_invariant=True, again=True, progress=False)
        self.assertEqual(again[0].decisions[0].candidate, wide["candidate"])

    def test_the_command(self):
        said = json.loads(self.command("tune", self.graph, "--batch-invariant", "--dim", "M=16,300",
                                       "--json"))
        self.assertTrue(said["batch_invariant"])
        self.assertEqual([(row["region"], row["dims"]["M"]) for row in said["tuned"]],
                         [(1, 16), (2, 16), (1, 300), (2, 300)])
        self.assertEqual(self.timed(), [16, 16, 300, 300])
        for row in said["tuned"]:
            self.assertIn(row["winner"].split()[0], self.ranked(16)[row["region"] - 1])
        listed = json.loads(self.command("tune", "--show", "--json"))["choices"]
        self.assertEqual(sorted(row["candidate"] for row in listed),
                         sorted(row["winner"] for row in said["tuned"]))
        self.command("tune", self.graph, "--batch-invariant", "--dim", "M=16", "--missing")
        self.assertEqual(self.timed(), [])

    def test_not_a_flag(self):
        import attacca
        with self.assertRaisesRegex(attacca.Error, "batch_invariant is 1"):
            attacca.tune(GRAPH, M=5, batch_invariant=1)


if __name__ == "__main__":
    unittest.main()
