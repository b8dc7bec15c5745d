"""What a tuning on a cluster does in the driver's process, without Ray: a stand-in for the cluster
gives made-up results."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

import torch

import attacca
from attacca import _arguments, _core, _matmul
from attacca._cluster import driver, models, page, task
from attacca._cluster.task import Finished
from attacca._problems import Key, Machine, Problem, problems_of

HERE = Machine("Made up", 90, "attacca 0")
PROBLEMS = {key: Problem(key, 1.0, "") for key in
            (Key("a problem", f"m<=16 n={n} batch=1 k=64") for n in (64, 68, 72))}


def row(key, quick=False):
    return {"device": HERE.device, "tools": HERE.tools, **key._asdict(), "candidate": "unfused",
            "seconds": 2e-5, "unfused_seconds": 2e-5, "made": 1, "quick": quick}


def finished(problem):
    found = {"candidate": "unfused", "seconds": 2e-5, "choice": row(problem.key)}
    return Finished(problem.key, "node", 1.0, found, "", HERE)


class Lock:
    """A process that keeps the tuning database locked."""

    def __init__(self):
        code = ("import sqlite3, sys; database = sqlite3.connect(sys.argv[1]); "
                "database.execute('BEGIN EXCLUSIVE'); print(flush=True); sys.stdin.read()")
        path = pathlib.Path(os.environ["ATTACCA_CACHE_DIR"]) / "tuned.sqlite"
        self._process = subprocess.Popen([sys.executable, "-c", code, path], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE)
        self._process.stdout.readline()

    def end(self):
        self._process.communicate()


class Database(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        environment = mock.patch.dict(os.environ, ATTACCA_CACHE_DIR=folder.name)
        self.addCleanup(environment.stop)
        environment.start()

    def tune(self, batches, seconds=0, again=False):
        """``batches``: a function of the problems that are tuned."""
        connection = types.SimpleNamespace(
            tune=batches, request=driver.Request("", None, again, seconds))
        return driver.tune(connection, HERE, PROBLEMS, None)

    def test_quick_choices_are_known_to_quick_tunings_alone(self):
        thorough, quick, new = PROBLEMS
        driver.store([row(thorough), row(quick, quick=True)])
        asked = []

        def ask(wanted):
            asked.append([problem.key for problem in wanted])
            return []
        for seconds, again, missing in [(0, False, [quick, new]), (5.1, False, [quick, new]),
                                        (5, False, [new]), (0.1, False, [new]),
                                        (5, True, [thorough, quick, new])]:
            with self.subTest(seconds=seconds, again=again):
                self.tune(ask, seconds, again)
                self.assertEqual(asked.pop(), missing)

    def test_what_comes_while_the_database_is_locked_is_stored_later(self):
        def batches(wanted):
            first, *others = map(finished, wanted)
            lock = Lock()
            yield [first]
            lock.end()
            yield others
        outcome = self.tune(batches)
        self.assertEqual(driver.rows_of(HERE), outcome.rows)
        self.assertEqual(list(outcome.rows), list(PROBLEMS))
        driver.store_rest(outcome)

    def test_a_database_that_stays_locked_is_an_error_in_the_end(self):
        locks = []

        def batches(wanted):
            locks.append(Lock())
            return [[finished(problem)] for problem in wanted]
        outcome = self.tune(batches)
        self.assertEqual((list(outcome.rows), outcome.failures), (list(PROBLEMS), {}))
        with mock.patch.object(driver, "_LOCKED", 0.5), \
                self.assertRaisesRegex(attacca.Error, "keeps the tuning database locked"):
            driver.store_rest(outcome)
        locks[0].end()
        driver.store_rest(outcome)
        self.assertEqual(driver.rows_of(HERE), outcome.rows)


class Shapes(unittest.TestCase):
    M, N, K = SIZES = 16, 64, 32

    def of_file(self, **line):
        """The key of a line of a file of shapes."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x.shapes"
            path.write_text(json.dumps({**dict(zip("mnk", self.SIZES)), **line}) + "\n")
            model, = models.models_of(path, {})
        (problem,), = models.listed([model], "sm_90", "fp32", False)[0]
        return problem.key

    def of_matmul(self, dtype, epilogue="acc", **given):
        """The key that attacca.matmul looks up on a GPU."""
        kinds, engine_of = [], _matmul.engine_of

        def note(*kind):
            kinds.append(kind)
            return engine_of(*kind)
        a, b = (torch.zeros(rows, self.K).to(dtype) for rows in (self.M, self.N))
        with mock.patch.object(_matmul, "engine_of", note):
            attacca.matmul(a, b.T, epilogue, **given)
        graph = _core.Graph.parse(engine_of(*kinds[0]).core.graph_text())
        problem, = problems_of(graph, "sm_90", "fp32", dict(zip("MNK", self.SIZES)))
        return problem.key

    def test_the_key_is_that_of_matmul(self):
        bias = torch.zeros(self.N)
        for names, dtype in [(("f8e4m3", "float8_e4m3fn"), torch.float8_e4m3fn),
                             (("f8e5m2", "float8_e5m2"), torch.float8_e5m2),
                             (("s8", "int8"), torch.int8), (("u8", "uint8"), torch.uint8),
                             (("bf16", "bfloat16"), torch.bfloat16),
                             (("f16", "float16"), torch.float16)]:
            with self.subTest(names):
                wanted = self.of_matmul(dtype)
                self.assertEqual([self.of_file(dtype=name) for name in names], [wanted] * 2)
                self.assertEqual(self.of_file(dtype=names[0], out_dtype=""), wanted)
                epilogue = "silu(acc + row(bias: f32))"
                wanted = self.of_matmul(dtype, epilogue, bias=bias, out_dtype="float32")
                self.assertEqual([self.of_file(dtype=name, epilogue=epilogue, out_dtype=out)
                                  for name in names for out in ("f32", "float32")], [wanted] * 4)

    def test_what_is_no_dtype(self):
        for line, text in [({"dtype": "f31"}, "unknown dtype f31"), ({"dtype": 3}, "dtype is 3"),
                           ({"out_dtype": "f31"}, "unknown dtype f31"),
                           ({"dtype": "s8", "epilogue": "silu(acc)"}, "silu needs floats")]:
            with self.subTest(line), self.assertRaisesRegex(attacca.Error, text):
                self.of_file(**line)


class Page(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_path_that_cannot_be_written(self):
        for path, text in [("", "No such file"), (self.folder / "none/x.html", "No such file"),
                           (self.folder, "Is a directory")]:
            with self.subTest(path), self.assertRaisesRegex(attacca.Error, text):
                page.check(str(path))
        path = self.folder / "x.html"
        path.write_text("before")
        page.check(str(path))
        self.assertEqual(path.read_text(), "before")

    def test_names_of_files(self):
        """The page is UTF-8 in every locale; bytes that are not are written as escapes."""
        for name, shown in [(b"caf\xc3\xa9.shapes", "caf\xe9.shapes"),
                            (b"\xff.shapes", "\\xff.shapes")]:
            path = os.fsencode(self.folder / "") + b"/" + name
            with open(path, "w", encoding="utf-8") as file:
                file.write('# \xe9\n{"m": 1, "n": 4, "k": 4}\n')
            script = (
                "import os, sys; from attacca._cluster import driver, models, page; "
                "from attacca._problems import Machine; "
                "page.write(sys.argv[2], models.models_of(sys.argv[1], {}), "
                "driver.Outcome(Machine('Made up', 90, ''), {}, {}, {}, {}, {}, []))")
            out = self.folder / "page.html"
            ran = subprocess.run([sys.executable, "-X", "utf8=0", "-c", script, path, out],
                                 capture_output=True, text=True, check=False,
                                 env={**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"})
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertIn(f"/{shown}</li>", out.read_text(encoding="utf-8"))


class Workers(unittest.TestCase):
    """Calls of one process whose GPU changes, as Ray's workers make them."""

    def on(self, gpu, function, *arguments):
        with mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES=gpu):
            return task._on_own_gpu(function, *arguments)

    def setUp(self):
        used = mock.patch.object(task, "_used", [])
        self.addCleanup(used.stop)
        used.start()

    def test_cuda_is_used_with_one_gpu_alone(self):
        self.assertEqual([self.on("3", os.getpid), self.on("3", os.getpid)], [os.getpid()] * 2)
        self.assertNotIn(self.on("1", os.getpid), [os.getpid(), self.on("1", os.getpid)])
        self.assertEqual(self.on("1", os.getenv, "CUDA_VISIBLE_DEVICES"), "1")
        self.assertEqual(self.on("3", os.getpid), os.getpid())

    def test_errors_are_those_of_the_call(self):
        self.on("0", os.getpid)
        with self.assertRaisesRegex(attacca.Error, "name is 3") as raised:
            self.on("1", _arguments.text, 3, "name")
        self.assertEqual(raised.exception.where, "name")

    def test_the_process_ends_with_the_worker(self):
        script = ("import os, sys; from attacca._cluster import task; "
                  "os.environ['CUDA_VISIBLE_DEVICES'] = '0'; task._on_own_gpu(os.getpid); "
                  "os.environ['CUDA_VISIBLE_DEVICES'] = '1'; "
                  "task._on_own_gpu(exec, 'import os, sys, time; "
                  "print(os.getpid(), file=sys.stderr, flush=True); time.sleep(60)')")
        with subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE) as worker:
            fresh = int(worker.stderr.readline())
            worker.kill()
        end = time.monotonic() + 20
        while (state := self.state(fresh)) not in "ZX" and time.monotonic() < end:
            time.sleep(0.05)
        self.assertIn(state, "ZX")

    def state(self, process):
        """A letter of proc(5); X: there is none."""
        try:
            stat = pathlib.Path(f"/proc/{process}/stat").read_text()
        except FileNotFoundError:
            return "X"
        return stat.rpartition(")")[2].split()[0]


if __name__ == "__main__":
    unittest.main()
