"""The wheel that `pip install .` makes, built against what is installed from the build tree.

Usage: wheel.py BUILD_DIR. PYTHONPATH does not lead to the build tree.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
SOURCE = pathlib.Path(__file__).resolve().parents[2]
VERSION = re.search(r"project\(attacca VERSION ([0-9.]+)",
                    (SOURCE / "CMakeLists.txt").read_text())[1]
CODE = """
import numpy as np
import attacca
x = np.ones((4, 8), np.float32)
print(attacca.matmul(x, x.T, "relu(acc - 9)").shape, attacca._core.template_directory())
import torch
print("attacca" in torch._dynamo.list_backends())
"""


def run(*command, **keywords):
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, **keywords)
    if result.returncode != 0:
        raise AssertionError(f"{command} gave {result.returncode}:\n{result.stdout}")
    return result.stdout


class Wheel(unittest.TestCase):
    def test_what_is_in_it_and_that_it_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            run("cmake", "--install", BUILD, "--prefix", root / "prefix")
            run(sys.executable, "-m", "pip", "wheel", SOURCE, "--no-deps", "--no-build-isolation",
                "-w", root, "--config-settings", f"cmake.define.ATTACCA_PREFIX={root / 'prefix'}",
                "--config-settings", f"build-dir={root / 'build'}")
            wheel, = root.glob(f"attacca-{VERSION}-*.whl")
            names = set(zipfile.ZipFile(wheel).namelist())
            for name in ("__init__.py", "py.typed", "_core.pyi", "torch/__init__.py",
                         "lib/libattacca.so.0",
                         "bin/attacca"):
                self.assertIn(f"attacca/{name}", names)
            self.assertFalse([name for name in names
                              if name.startswith(("include/", "lib/", "attacca/src"))])
            run(sys.executable, "-m", "pip", "install", "--no-deps", "--target", root / "site",
                wheel)
            environment = {**os.environ, "PYTHONPATH": str(root / "site")}
            environment.pop("ATTACCA_TEMPLATE_DIR", None)
            printed = run(sys.executable, "-W", "ignore", "-c", CODE, env=environment,
                          cwd=root).splitlines()
            self.assertTrue(printed[0].startswith("(4, 4) "), printed)
            if any(name.endswith("libattacca_templates.so") for name in names):
                self.assertIn(str(root / "site/attacca/share/attacca/templates"), printed[0])
            self.assertEqual(printed[-1], "True")
            for command in ([root / "site/bin/attacca"], [sys.executable, "-m", "attacca"]):
                self.assertIn(f"attacca {VERSION}",
                              run(*command, "version", env=environment, cwd=root))


if __name__ == "__main__":
    unittest.main()
