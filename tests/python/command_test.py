"""The command line through the package, and that there is one version."""
import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import attacca

PROGRAM = pathlib.Path(attacca.__file__).parent / "bin/attacca"
ROOT = pathlib.Path(__file__).resolve().parents[2]


def command(*arguments, **keywords):
    return subprocess.run([sys.executable, "-m", "attacca", *arguments], capture_output=True,
                          text=True, check=False,
                          **keywords)


class Version(unittest.TestCase):
    def test_there_is_one(self):
        declared, = re.findall(r"^project\(attacca VERSION (\S+)",
                               (ROOT / "CMakeLists.txt").read_text(), re.M)
        self.assertEqual(attacca.__version__, declared)
        self.assertEqual(importlib.metadata.version("attacca"), declared)
        self.assertEqual(command("version").stdout.split()[1], declared)
        self.assertIn(f"## [{declared}]", (ROOT / "CHANGELOG.md").read_text())


class Command(unittest.TestCase):
    def test_arguments_input_and_status_are_the_programs(self):
        graph = "graph g(x: f32[M, 4], w: f32[4, 4]) { return y = relu(x @ w) }"
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "with space.attacca"
            path.write_text(graph)
            ran = command("explain", str(path))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(ran.stdout, str(attacca.explain(graph)))
        wrong = command("explain", str(path))
        itself = subprocess.run([PROGRAM, "explain", str(path)], capture_output=True, text=True,
                                check=False)
        self.assertIn(str(path), wrong.stderr)
        self.assertEqual((wrong.returncode, wrong.stdout, wrong.stderr), (2, "", itself.stderr))

    def test_the_script(self):
        """What pip installs calls the same function."""
        script, = importlib.metadata.entry_points(group="console_scripts", name="attacca")
        self.assertEqual(script.value, "attacca.__main__:main")
        self.assertIn(f'attacca = "{script.value}"', (ROOT / "pyproject.toml").read_text())

    def test_a_missing_program_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder) / "attacca"
            shutil.copytree(pathlib.Path(attacca.__file__).parent, package,
                            ignore=shutil.ignore_patterns("bin", "__pycache__"))
            ran = command("version", env={**os.environ, "PYTHONPATH": folder}, cwd=folder)
        self.assertEqual(ran.returncode, 1)
        self.assertIn(f"{package}/bin/attacca cannot be run: No such file", ran.stderr)


if __name__ == "__main__":
    unittest.main()
