"""``attacca.tune(cluster=...)`` and ``python -m attacca tune --cluster`` on a Ray cluster of
processes: each problem is tuned once, by whatever node; killed tasks, nodes and drivers lose
nothing; an error costs the problem that it concerns.

Needs the stand-in for the driver (ATTACCA_LIBCUDA) and templates (ATTACCA_TEMPLATE_DIR).
timing_worker.py makes up the times, which depend on the candidate and the sizes alone. Usage:
cluster_tuning.py [CLASS].
"""
import collections
import io
import json
import math
import os
import pathlib
import random
import re
import subprocess
import sys
import time
import unittest
from unittest import mock

import local_cluster
import timing_worker

ROOT = pathlib.Path(__file__).resolve().parents[2]
GRAPH = """graph g(x: f16[M, 60], w: f16[60, 60]) {
  a = silu(x @ transpose(w))
  b = silu(a @ transpose(w))
  return c = tanh(b @ w)
}"""
PROBLEMS_OF_EACH = 2  # the first two regions are equal
NODES, GPUS = 2, 3


def setUpModule():
    global cluster, attacca
    cluster = local_cluster.LocalCluster(NODES, GPUS)
    unittest.addModuleCleanup(cluster.__exit__)
    import ray

    import attacca
    # One connection for all calls of this process; the commands make their own.
    ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)
    unittest.addModuleCleanup(ray.shutdown)


def timed():
    """How often each combination of sizes was asked for, since the last call."""
    path = pathlib.Path(os.environ["TIMING_LOG"])
    lines = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return collections.Counter(lines)


def rows():
    """The driver's database."""
    from attacca import _core
    return json.loads(_core.list_choices())


def driver(*arguments, **environment):
    """``python -m attacca tune ARGUMENTS`` on the cluster, not awaited."""
    return subprocess.Popen(
        [sys.executable, "-m", "attacca", "tune", "--cluster", cluster.address,
         *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, **environment})


def tune(models, **given):
    return attacca.tune(models, cluster=cluster.address, progress=given.pop("progress", False),
                        **given)


class ClusterTuning(unittest.TestCase):
    def setUp(self):
        timed()

    def test_each_problem_once(self):
        shown, sizes = io.StringIO(), [5, 16, 200, 5]
        page, file = (cluster.folder / name for name in ("page.html", "cluster.choices"))
        found = tune(GRAPH, M=sizes, progress=shown, report=page, export=file)
        self.assertEqual([each.sizes for each in found], [{"M": m} for m in sizes])
        self.assertEqual(timed(), {f'{{"M": {m}}}': PROBLEMS_OF_EACH for m in (5, 16, 200)})
        for each in found:
            self.assertEqual([d.source for d in each.decisions], ["measured"] * 3)
            for decision in each.decisions:
                self.assertAlmostEqual(decision.seconds, timing_worker.seconds_of(
                    {"symbols": each.sizes}, decision.candidate))
        self.assertIn("tune: 6 problems for Fake 0, 0 of them known", shown.getvalue())
        self.assertRegex(shown.getvalue(), r"tune 6/6 m<=\d+ n=60 .* on \S+ in .* s: ")
        self.assertIn("6 tuned now", page.read_text())
        again = tune(GRAPH, M=sizes, progress=shown)
        self.assertEqual([d.source for each in again for d in each.decisions], ["database"] * 12)
        self.assertEqual(timed(), {})
        # The driver's plans use them, and the file is what a machine with the GPU exports.
        plan = attacca.compile(GRAPH, device="cuda")
        self.assertEqual({d.source for d in plan.prepare(M=16).decisions}, {"database"})
        own = cluster.folder / "own.choices"
        attacca.export_choices(own)
        self.assertEqual(own.read_bytes(), file.read_bytes())
        tune(GRAPH, M=5, again=True)
        self.assertEqual(timed(), {'{"M": 5}': PROBLEMS_OF_EACH})

    def test_what_measuring_gained(self):
        """The report beside the made-up times, which are the same in all rounds."""
        graph, page = cluster.folder / "gain.attacca", cluster.folder / "gain.html"
        graph.write_text(GRAPH.replace("60", "124"))
        sizes = [5, 3000]
        output, errors = driver(graph, "--dim", "M=5,3000", "--html", page).communicate(timeout=60)
        speeds, gains = {}, {}
        for m in sizes:
            plan = attacca.compile(graph, device="cuda", tuning="model")
            for number, decision in enumerate(plan.prepare(M=m).decisions[1:]):
                def seconds_of(candidate, m=m):
                    return timing_worker.seconds_of({"symbols": {"M": m}}, candidate)
                ways = self.trials(graph, m, number)
                best = min(map(seconds_of, ways))
                unfused = min(seconds_of(way) for way in ways if way.startswith("unfused"))
                speeds[m, number] = best / seconds_of(decision.candidate)
                gains[m, number] = unfused / seconds_of(decision.candidate)
        self.assertEqual(len(speeds), 4, errors)

        def mean(values):
            return math.exp(sum(map(math.log, values)) / len(values))
        lines = [re.split(" {2,}", line) for line in output.splitlines()]
        everything = next(line for line in lines if line[0] == "all")
        self.assertEqual(everything[1:6], [
            "4", *(f"{f(values.values()):.3f}" for values in (speeds, gains) for f in (mean, min))])
        for rows, m in (("5 to 16", 5), ("2049 to 8192", 3000)):
            line = next(line for line in lines if line[0] == rows)
            self.assertEqual(line[1:4], ["2", *(f"{f([speeds[m, 0], speeds[m, 1]]):.3f}"
                                                for f in (mean, min))])
        self.assertIn(["f16", "4"], [line[:2] for line in lines])
        said = page.read_text()
        for each in speeds.values():
            self.assertIn(f", {each:.3f} of the fastest candidate", said)
        self.assertIn("<h2>Choices by M</h2>", said)
        again, _ = driver(graph, "--dim", "M=5").communicate(timeout=60)
        self.assertRegex(again, r"(?m)^all +2 +- +- +- +- +- +\d\.\d+ ")

    def trials(self, graph, m, number):
        """The candidates that a tuning times."""
        from attacca import _core
        from attacca._problems import problems_of
        listed = problems_of(_core.Graph.parse(graph.read_text()), "cuda", "fp32", {"M": m})
        problem = listed[1 + number].text
        found = json.loads(_core.tune_problem(problem, "cuda", "always", 0))
        return [trial["candidate"] for trial in found["trials"] if "seconds" in trial]

    def test_batch_invariant(self):
        graph = GRAPH.replace("60", "72")
        found = tune(graph, M=[3, 300], batch_invariant=True)
        self.assertEqual(timed(), {f'{{"M": {m}}}': PROBLEMS_OF_EACH for m in (3, 300)})
        plan = attacca.compile(graph, device="cuda", batch_invariant=True)
        for each in found:
            decisions = plan.prepare(**each.sizes).decisions
            self.assertEqual({d.source for d in decisions}, {"database"})
            self.assertEqual([d.candidate for d in decisions],
                             [d.candidate for d in each.decisions])

    def test_models_of_every_kind(self):
        folder = cluster.folder
        (folder / "g.attacca").write_text(GRAPH.replace("60", "68"))
        (folder / "list.shapes").write_text(
            "# products\n"
            '{"m": 16, "n": 76, "k": 76, "dtype": "f16", "epilogue": "silu(acc + row(bias))"}\n'
            '\n{"m": 100, "n": 76, "k": 76}\n')
        models = [GRAPH.replace("60", "68"), folder / "g.attacca", folder / "list.shapes",
                  ROOT / "examples/bert_mlp.onnx", "cluster_tuning:torch_model"]
        shown = io.StringIO()
        found = tune(models, M=[7, 9], progress=shown)
        sizes = [each.sizes for each in found]
        self.assertEqual(sizes[:4], [{"M": 7}, {"M": 9}] * 2)
        self.assertEqual(sizes[4:6], [{"M": 16, "N": 76, "K": 76}, {"M": 100, "N": 76, "K": 76}])
        self.assertEqual(sizes[6:], [{}, {}])  # the file's sizes are fixed
        self.assertEqual(found[0], found[2]._replace(sizes=found[0].sizes))
        self.assertTrue(all(d.seconds for each in found for d in each.decisions), found)
        counts = timed()
        self.assertEqual(counts['{"M": 16, "N": 76, "K": 76}'] + counts[
            '{"K": 76, "M": 16, "N": 76}'], 1, counts)
        self.assertEqual(counts['{"M": 7}'], PROBLEMS_OF_EACH, counts)
        self.assertEqual(counts["{}"], sum(len(each.decisions) for each in found[6:]), counts)
        self.assertEqual(len(found[7].decisions), 2, found[7])

    def test_what_cannot_be_tuned(self):
        for models, given, text in [
                ([], {}, "there is no model"),
                (GRAPH, {}, "size M of model 1 has no value"),
                (GRAPH, {"M": 5, "K": 3}, "no model has a size K"),
                (GRAPH, {"M": 5, "mode": "fp23"}, "unknown mode fp23"),
                ("nowhere:model", {}, "nowhere:model failed: ModuleNotFoundError"),
                ("cluster_tuning:NODES", {}, "'int' object is not callable"),
                ("cluster_tuning:no_model", {}, "returned a str"),
                ("/nowhere/x.shapes", {}, "cannot be read"),
                (GRAPH, {"M": 5, "report": 3}, "report"),
                (GRAPH.replace("60", "148"), {"M": 5, "report": "/nowhere/x.html"},
                 "report cannot be written"),
                (GRAPH, {"M": 5, "accelerator_type": 3}, "accelerator_type")]:
            with self.subTest(text), self.assertRaisesRegex(attacca.Error, text):
                tune(models, **given)
        self.assertEqual(timed(), {})
        with self.assertRaisesRegex(attacca.Error, "without a cluster"):
            attacca.tune(GRAPH, M=5, accelerator_type="H200")
        with self.assertRaisesRegex(attacca.Error, "a group and a cluster"):
            tune(GRAPH, M=5, group=3)
        for line, text in [("16 4 4", "not a shape"), ('{"m": 16}', "not a shape"),
                           ('{"m": 16, "n": 4, "k": 4, "l": 3}', "unexpected keyword"),
                           ('{"m": -1, "n": 4, "k": 4}', "size .*:1 m is -1"),
                           ('{"m": 1, "n": 4, "k": 4, "dtype": "f31"}', "f31"),
                           ("# none", "no shapes")]:
            path = cluster.folder / "bad.shapes"
            path.write_text(line + "\n")
            with self.subTest(line), self.assertRaisesRegex(attacca.Error, text):
                tune(path)

    def test_a_kind_that_the_cluster_lacks(self):
        from attacca._cluster import driver as module
        patience, module._PATIENCE = module._PATIENCE, 1.0
        try:
            with self.assertRaisesRegex(attacca.Error, "no GPU of the type H999 came within"):
                tune(GRAPH, M=5, accelerator_type="H999")
        finally:
            module._PATIENCE = patience

    def test_a_problem_that_fails_costs_itself(self):
        """The command's status, output and report say which."""
        graph, page = cluster.folder / "two.attacca", cluster.folder / "failures.html"
        graph.write_text(GRAPH.replace("60", "100"))
        node = cluster.add("CRASH", TIMING_CRASH="5")
        process = driver(graph, "--dim", "M=5,16", "--html", page, "--accelerator-type", "CRASH",
                         "--export", cluster.folder / "some.choices")
        output, errors = process.communicate(timeout=60)
        cluster.kill(node)
        self.assertEqual(process.returncode, 3, errors)
        self.assertIn("6 regions: ", output)
        self.assertIn("3 failed", output)
        self.assertIn("failed: no candidate ran", output)
        self.assertIn("tune 4/4", errors)
        self.assertIn("no candidate ran", page.read_text())
        shapes = [row["shape"] for row in rows() if "n=100" in row["shape"]]
        self.assertEqual(shapes, ["m<=16 n=100 batch=1 k=100"] * PROBLEMS_OF_EACH)

    def test_an_error_of_a_task_is_the_reason(self):
        from attacca._cluster import task
        shown = io.StringIO()
        with mock.patch.object(task, "tune", broken):
            found, = tune(GRAPH.replace("60", "140"), M=5, progress=shown)
        self.assertEqual([(d.source, d.remark) for d in found.decisions],
                         [("failed", "TypeError: one line")] * 3)
        self.assertIn(" on an unknown node: failed: TypeError: one line,", shown.getvalue())

    def test_the_command_says_what_is_wrong(self):
        model = ROOT / "examples/bert_mlp.attacca"
        for arguments, text in [(["/nowhere/x.attacca"], "x.attacca"),
                                ([model, "--dim", "M"], "no NAME=SIZE"),
                                ([model, "--dim", "mode=3"], "the name of an option"),
                                ([model, "--cluster", "127.0.0.1:1"], "no connection")]:
            process = driver(*arguments)
            _, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 2, errors)
            self.assertIn(text, errors)
            self.assertIn("fix: ", errors)

    def test_the_example(self):
        script = ROOT / "examples/python/tune_cluster.py"
        ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60,
                             cwd=cluster.folder, check=False,
                             env={**os.environ, "RAY_ADDRESS": cluster.address})
        self.assertEqual(ran.returncode, 0, ran.stderr)
        said = script.read_text().partition("# prints:\n")[2]
        self.assertEqual("".join(f"# {line}\n" for line in ran.stdout.splitlines()), said)
        self.assertEqual(attacca.import_choices(cluster.folder / "mlp.choices"), len(rows()))
        self.assertIn("Tuning for Fake 0", (cluster.folder / "mlp.html").read_text())


class Kills(unittest.TestCase):
    """What is killed is done again, by Ray or by the next driver."""

    def setUp(self):
        timed()

    def check(self, width, count):
        mine = [row for row in rows() if f"n={width} " in row["shape"]]
        self.assertEqual(len(mine), count)
        for row in mine:
            m = int(re.match(r"m<=(\d+) ", row["shape"])[1])
            self.assertAlmostEqual(row["seconds"], timing_worker.seconds_of(
                {"symbols": {"M": m}}, row["candidate"]))

    def test_tasks_and_nodes(self):
        sizes = [2**i for i in range(8)]
        process = driver(*self.model(108), "--dim", f"M={','.join(map(str, sizes))}")
        chance, killed, spare = random.Random(7), 0, cluster.add()
        end = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < end:
            if killed == 6 and spare:
                spare = cluster.kill(spare)
            if killed < 12:
                killed += cluster.kill_a_task(chance)
            time.sleep(0.1)
        output, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, errors)
        self.assertGreaterEqual(killed, 6)
        self.assertIn("0 failed", output)
        self.check(108, PROBLEMS_OF_EACH * len(sizes))

    def test_a_driver_goes_on_where_it_stopped(self):
        sizes = [2**i for i in range(8)]
        arguments = [*self.model(116), "--dim", f"M={','.join(map(str, sizes))}"]
        process = driver(*arguments)
        for line in process.stderr:
            if line.startswith("tune 5/16"):
                break
        process.kill()
        process.communicate()
        done = sum("n=116 " in row["shape"] for row in rows())
        self.assertGreaterEqual(done, 5)
        end = time.monotonic() + 30
        while cluster.tasks() and time.monotonic() < end:
            time.sleep(0.2)
        self.assertEqual(cluster.tasks(), [], "tasks go on without their driver")
        before = timed().total()
        output, errors = (process := driver(*arguments)).communicate(timeout=60)
        self.assertEqual(process.returncode, 0, errors)
        self.assertIn(f"16 problems for Fake 0, {done} of them known", errors)
        self.assertIn("0 failed", output)
        self.check(116, 16)
        self.assertLessEqual(timed().total(), 16 - done)
        self.assertGreaterEqual(before, done)

    def model(self, width):
        path = cluster.folder / f"{width}.attacca"
        path.write_text(GRAPH.replace("60", str(width)))
        return [path]


def broken(problem, tuning, seconds):
    raise TypeError("one line\nand another one")


def torch_model():
    import torch
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(84, 92), torch.nn.ReLU(), torch.nn.Linear(92, 84),
                                torch.nn.GELU()).half()
    return model, (torch.zeros(12, 84, dtype=torch.float16),)


def no_model():
    return "no model"


if __name__ == "__main__":
    unittest.main()
