"""The scripts of examples/python print what they say, and generated files are current."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
ON_A_CLUSTER = SOURCE / "examples/python/tune_cluster.py"  # cluster_tuning.py runs it
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def run(script, environment):
    """Runs a script, through torchrun if it says so; kills what it leaves running."""
    runner = TORCHRUN if "torchrun" in script.read_text() else []
    process = subprocess.Popen([sys.executable, *runner, script], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=environment,
                               start_new_session=True)
    try:
        return (*process.communicate(timeout=300), process.returncode)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Examples(unittest.TestCase):
    def test_they_print_what_they_say(self):
        scripts = sorted(set((SOURCE / "examples/python").glob("*.py")) - {ON_A_CLUSTER})
        self.assertEqual(len(scripts), 5)
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "TORCHINDUCTOR_VEC_ISA_OK": "0",
                           "TORCHINDUCTOR_CACHE_DIR": folder, "GLOO_SOCKET_IFNAME": "lo",
                           "OMP_NUM_THREADS": "1"}
            for script in scripts:
                with self.subTest(script.name):
                    output, errors, status = run(script, environment)
                    self.assertEqual(status, 0, errors)
                    said = script.read_text().partition("# prints:\n")[2]
                    printed = "".join(f"# {line}".rstrip() + "\n"
                                      for line in output.splitlines())
                    self.assertEqual(printed, said)


class Generated(unittest.TestCase):
    def check(self, tool):
        result = subprocess.run([sys.executable, SOURCE / "tools" / tool, "--check"],
                                capture_output=True,
                                text=True)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_the_reference(self):
        self.check("python_docs.py")

    def test_the_types_of_the_extension(self):
        self.check("python_stubs.py")

    def test_the_docstrings_say_all(self):
        import attacca
        import attacca.torch
        for module in (attacca, attacca.torch):
            for name in module.__all__:
                self.assertTrue(getattr(module, name).__doc__, name)


if __name__ == "__main__":
    unittest.main()
