"""The command line beside its files: output that cannot be written, caches and databases that
cannot be used, variables that cannot be read.

Usage: process_test.py ATTACCA [unittest arguments].
"""
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

ATTACCA = sys.argv.pop(1)
GRAPH = "graph g(x: f32[M, 8], w: f32[8, 16]) { return relu(x @ w) }\n"
LONG = "graph g(x: f32[M, 8], w: f32[8, 8]) {\n" + "".join(
    f"  a{i} = relu({'x' if i == 0 else f'a{i - 1}'} @ w)\n"
    for i in range(300)) + "  return a299\n}\n"


class Process(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.graph = self.folder / "graph.attacca"
        self.graph.write_text(GRAPH)
        self.cache = self.folder / "cache"
        self.cache.mkdir(mode=0o700)
        self.env = {**os.environ, "ATTACCA_CACHE_DIR": str(self.cache)}

    def attacca(self, *args, env=(), **more):
        run = subprocess.run([ATTACCA, *map(str, args)], capture_output=not more, text=True,
                             timeout=120, env={**self.env, **dict(env)}, **more)
        return run.returncode, run.stdout, run.stderr

    def commands(self):
        long = self.folder / "long.attacca"
        long.write_text(LONG)
        return [("explain", self.graph), ("explain", self.graph, "--json"), ("explain", long),
                ("explain", self.graph, "--dot"),
                ("run", self.graph, "--dim", "M=4"), ("run", self.graph, "--dim", "M=4", "--json"),
                ("fold", "x * sigmoid(x)"), ("emit", "--epilogue", "silu(acc)"), ("version",),
                ("doctor",), ("cache", "ls"), ("cache", "ls", "--json"), ("cache", "verify"),
                ("tune", "--show"), ("tune", "--show", "--json"), ("--help",), ("--version",)]


class Output(Process):
    def test_a_full_disk_is_an_error(self):
        for command in self.commands():
            with open("/dev/full", "w") as full:
                code, _, err = self.attacca(*command, stdout=full, stderr=subprocess.PIPE)
            self.assertEqual(code, 2, command)
            self.assertIn("cannot write the output", err, command)
            self.assertIn("No space left on device", err, command)

    def test_errors_that_cannot_be_printed_keep_the_exit_code(self):
        for command in [("run", "nofile"), ("foo",), ("version", "--what"),
                        ("explain", self.graph, "--seed")]:
            with open("/dev/full", "w") as full:
                self.assertEqual(self.attacca(*command, stdout=full, stderr=full)[0], 2, command)
            for streams in ((2,), (1, 2)):
                code, _, _ = self.attacca(
                    *command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    preexec_fn=lambda streams=streams: [os.close(each) for each in streams])
                self.assertEqual(code, 2, command)

    def test_usage_that_is_wrong_is_named(self):
        for command, said in [(("foo",), "foo"), (("expalin", self.graph), "expalin"),
                              (("explain", self.graph, "--json", "--dot"), "--json")]:
            code, out, err = self.attacca(*command)
            self.assertEqual((code, out), (2, ""), command)
            self.assertIn(said, err)

    def test_what_never_ends_is_refused(self):
        code, _, err = self.attacca("explain", "/dev/zero")
        self.assertEqual(code, 2)
        self.assertIn("is no regular file", err)

    def test_empty_texts_and_odd_seeds_are_errors(self):
        run = ("run", self.graph, "--dim", "M=4")
        for command in [(*run, "--output", ""), (*run, "--trace", ""), (*run, "--seed", "-1"),
                        (*run, "--seed", ""), (*run, "--seed", "9" * 23), (*run, "--seed", "1x"),
                        ("explain", self.graph, "--svg", ""), ("explain", self.graph, "--html", ""),
                        ("explain", self.graph, "--as", ""), ("fold", "x", "--why-not", "")]:
            code, _, err = self.attacca(*command)
            self.assertEqual(code, 2, command)
            self.assertRegex(err, "an empty text|is no number from 0 to", command)
        self.assertEqual(self.attacca(*run, "--seed", str(2**64 - 1))[0], 0)

    def test_a_closed_output_is_an_error(self):
        for command in self.commands():
            code, _, err = self.attacca(*command, stderr=subprocess.PIPE,
                                        preexec_fn=lambda: os.close(1))
            self.assertEqual(code, 2, command)
            self.assertIn("cannot write the output", err, command)

    def test_nothing_is_printed_into_files(self):
        """The first file opened would take the number of a closed stream."""
        self.attacca("tune", "--show")
        sqlite3.connect(self.cache / "tuned.sqlite").close()
        before = (self.cache / "tuned.sqlite").read_bytes()
        for streams in ((1,), (2,), (1, 2), (0, 1, 2)):
            self.attacca("doctor", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL,
                         preexec_fn=lambda streams=streams: [os.close(each) for each in streams])
            self.assertEqual(self.graph.read_text(), GRAPH)
        self.assertEqual(sqlite3.connect(self.cache / "tuned.sqlite").execute(
            "PRAGMA integrity_check").fetchall(), [("ok",)])
        self.assertIsInstance(before, bytes)

    def test_a_reader_that_leaves_ends_it_as_usual(self):
        for ignored, expected in ((False, -13), (True, 2)):
            reader, writer = os.pipe()
            os.close(reader)
            run = subprocess.run([ATTACCA, "version"], stdout=writer, stderr=subprocess.PIPE,
                                 restore_signals=not ignored, text=True, timeout=60)
            os.close(writer)
            self.assertEqual(run.returncode, expected, run.stderr)


class Variables(Process):
    def test_a_limit_that_cannot_be_read_is_an_error(self):
        for bad in ("x", "-1", "1T", "1.5G", "99999999999999999999", "20000000000G", " 5"):
            for command in (("explain", self.graph), ("cache", "ls"), ("run", self.graph)):
                code, out, err = self.attacca(*command, env={"ATTACCA_CACHE_LIMIT": bad})
                self.assertEqual((code, out), (2, ""), (bad, command))
                self.assertIn("at: ATTACCA_CACHE_LIMIT", err)
                self.assertIn("fix: give bytes", err)
            code, out, _ = self.attacca("doctor", env={"ATTACCA_CACHE_LIMIT": bad})
            self.assertEqual(code, 0)
            self.assertIn("ATTACCA_CACHE_LIMIT: the cache's limit", out)

    def test_limits_that_can_be_read(self):
        for good, number in (("", 1 << 30), ("5", 5), ("2K", 2048), ("3G", 3 << 30)):
            code, out, _ = self.attacca("cache", "ls", "--json", env={"ATTACCA_CACHE_LIMIT": good})
            self.assertEqual((code, json.loads(out)["limit_bytes"]), (0, number))


class Doctor(Process):
    def doctor(self, **env):
        code, out, err = self.attacca("doctor", env=env)
        self.assertEqual((code, err), (0, ""))
        return {line[:10].strip(): line[11:] for line in out.splitlines() if line[:10].strip()}

    def test_a_good_cache(self):
        self.assertEqual(self.doctor()["cache"], str(self.cache))
        self.assertEqual(self.doctor()["tuned"], "nothing measured yet")
        self.assertIn("not made yet",
                      self.doctor(ATTACCA_CACHE_DIR=str(self.folder / "no"))["cache"])

    def test_a_cache_that_others_may_write(self):
        self.cache.chmod(0o777)
        said = self.doctor()["cache"]
        self.assertIn("not used: another user may have written it", said)
        self.assertIn("chmod go-w", said)
        if os.geteuid() == 0:
            self.cache.chmod(0o700)
            os.chown(self.cache, 65534, 65534)
            self.assertIn("not used", self.doctor()["cache"])
        (self.cache / "kernels").mkdir(exist_ok=True)
        code, _, err = self.attacca("cache", "ls")
        self.assertEqual(code, 2)
        self.assertIn("another user may have written it", err)

    def test_a_cache_that_is_no_folder(self):
        said = self.doctor(ATTACCA_CACHE_DIR=str(self.graph))["cache"]
        self.assertIn("not used: Not a directory", said)

    def test_without_a_home_the_cache_is_the_users_own(self):
        env = {"ATTACCA_CACHE_DIR": "", "XDG_CACHE_HOME": "", "HOME": "",
               "TMPDIR": str(self.folder)}
        own = self.folder / f"attacca-{os.geteuid()}"
        self.assertEqual(self.doctor(**env)["cache"], f"{own} (not made yet)")
        own.mkdir(exist_ok=True)
        own.chmod(0o777)  # another user made it first
        self.assertIn("not used", self.doctor(**env)["cache"])

    def test_a_locked_database(self):
        file = self.cache / "tuned.sqlite"
        with sqlite3.connect(file) as database:
            database.execute("BEGIN EXCLUSIVE")
            start = time.monotonic()
            self.assertIn("locked", self.doctor()["tuned"])
            code, _, err = self.attacca("tune", "--show")
            self.assertEqual(code, 2)
            self.assertIn("another process keeps the tuning database locked", err)
            self.assertLess(time.monotonic() - start, 20)

    def test_templates_that_are_left_out(self):
        folder = os.environ.get("ATTACCA_TEMPLATE_DIR", "")
        names = sorted(pathlib.Path(folder).glob("*.ptx"))[:2] if folder else []
        if len(names) < 2:
            self.skipTest("no templates are built")
        own = self.folder / "templates"
        own.mkdir()
        for name in names:
            for file in (name, name.with_suffix(".json")):
                (own / file.name).write_bytes(file.read_bytes())
        (own / "libattacca_templates.so").write_bytes(
            (names[0].parent / "libattacca_templates.so").read_bytes())
        whole = names[0].read_bytes()
        for broken, reason in ((whole[:len(whole) // 2], "broken off"), (b"", "broken off")):
            (own / names[0].name).write_bytes(broken)
            code, out, _ = self.attacca("doctor", env={"ATTACCA_TEMPLATE_DIR": str(own)})
            self.assertEqual(code, 0)
            self.assertIn(f"templates  1 in {own}", out)
            self.assertIn(f"left out: {names[0].stem} (", out)
            self.assertIn(reason, out)


if __name__ == "__main__":
    unittest.main()
