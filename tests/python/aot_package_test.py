"""libattacca_torch.so: regions in processes that have torch and that library alone.

The blocks of docs/deploy.md are run as they stand.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

BUILD = pathlib.Path(os.environ["ATTACCA_BINARY_DIR"])
DEPLOY = pathlib.Path(__file__).parents[2] / "docs/deploy.md"
WITHOUT_PACKAGE = ("import sys\n"
                   "assert not any(name.startswith('attacca') for name in sys.modules)\n")


def blocks():
    """The Python of the section on packages: making one, running it."""
    section = DEPLOY.read_text(encoding="utf-8").split("## AOTInductor packages")[1]
    return re.findall(r"```python\n(.*?)```", section.split("\n## ")[0], re.DOTALL)


class InAProcess(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        subprocess.run(["cmake", "--install", BUILD, "--component", "torch", "--prefix",
                        cls.folder], check=True, stdout=subprocess.DEVNULL)
        cls.library = cls.folder / "lib/libattacca_torch.so"
        for file in (BUILD / "src/api").glob("libattacca.so*"):
            shutil.copy(file, cls.folder / "lib")

    def python(self, program, *arguments, package=False):
        """What a program printed, run without the Python package unless it is asked for."""
        path = str(BUILD / "python") if package else ""
        run = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program, *map(str, arguments)], text=True,
            cwd=self.folder, capture_output=True,
            env={**os.environ, "PYTHONPATH": path, "TORCHINDUCTOR_VEC_ISA_OK": "0",
                 "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "cache"),
                 "ATTACCA_CACHE_DIR": str(self.folder / "attacca"),
                 # Kernels for AVX2 are made behind functions that PyTorch's own oneDNN exports.
                 "DNNL_MAX_CPU_ISA": "AVX2"})
        self.assertEqual(run.returncode, 0, run.stderr[-2000:])
        return run.stdout

    def test_the_documents_package(self):
        make, load = blocks()
        self.python(make + "torch.save((x, model), 'model.pt')\n", package=True)
        self.assertIn("/usr/local/lib/libattacca_torch.so", load)
        said = self.python(load.replace("/usr/local", str(self.folder)) + textwrap.dedent("""
            x, eager = torch.load("model.pt", weights_only=False)
            with torch.no_grad():
                for given in (x, torch.randn(300, 64), torch.randn(2, 128)[:, ::2]):
                    torch.testing.assert_close(model(given), eager(given), rtol=1e-4, atol=1e-4)
            assert y.shape == (100, 64)
            """) + WITHOUT_PACKAGE + "print('close')")
        self.assertEqual(said, "close\n")
        # The package does call the operator.
        without = load.replace("torch.ops.load_library", "str")
        failed = subprocess.run([sys.executable, "-c", without], cwd=self.folder, text=True,
                                stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": ""})
        self.assertIn("import_attacca_torch", failed.stderr)

    def test_the_operator(self):
        """Several results, sizes that are sums, strides, escapes in the text; what is refused."""
        program = "import torch, sys\ntorch.ops.load_library(sys.argv[1])\n" + textwrap.dedent("""
            region = torch.ops.attacca.region.import_attacca_torch
            one = torch.ops.attacca.region_of_one_result.import_attacca_torch
            rest = ("fp32", "known", 0.0)
            close = torch.testing.assert_close
            text = ("graph g(x: bf16[2*M + 1, K], w: bf16[K, 5], e: f32[N]) "
                    "{ y = x @ w; return relu(y), exp(e) * 2 }")
            for m, k, n in [(1, 4, 3), (8, 16, 9), (1, 4, 3)]:
                x, w, e = torch.randn(2 * m + 1, k), torch.randn(k, 5), torch.randn(n)
                x, w = x.bfloat16(), w.bfloat16()
                relu, exp = region([x, w, e], text, *rest)
                close(relu.float(), torch.relu(x.float() @ w.float()), rtol=1e-2, atol=1e-2)
                close(exp, torch.exp(e) * 2)
            x, w = torch.randn(6, 20)[:, ::2], torch.randn(5, 10).t()
            text = "graph g(x: f32[M, 10], w: f32[10, 5]) { return y = x @ w }"
            close(one([x, w], text, *rest), x @ w)
            encoded = "graph g(x: f32[4]) { return 'a%25 b' = x + 1 }"
            close(one([torch.ones(4)], encoded, *rest), torch.full((4,), 2.0))
            for inputs, why in [([x, w[:4]], "w has shape (4, 5), f32[10, 5] is wanted"),
                                ([x.double(), w], "x is f64(6, 10), f32[M, 10] is wanted"),
                                ([x[0], w], "x is f32(10), f32[M, 10] is wanted"),
                                ([x], "1 inputs where the region has 2")]:
                try:
                    one(inputs, text, *rest)
                    print("accepted:", why)
                except RuntimeError as error:
                    if why not in str(error): print(why, "not in", error)
            for arguments in [(text, "fp33", "known", 0.0), (text, "fp32", "none", 0.0),
                              ("graph", *rest), ("graph g(x: f32[", *rest)]:
                try:
                    one([x, w], *arguments)
                    print("accepted:", arguments)
                except RuntimeError as error:
                    assert str(error).startswith("attacca::region: "), error
            """) + WITHOUT_PACKAGE
        self.assertEqual(self.python(program, self.library), "")

    def test_where_pytorch_is_linked(self):
        """As in C++ programs: PyTorch's symbols come first in the process."""
        program = "import ctypes, os, sys, torch\n" + textwrap.dedent("""
            ctypes.CDLL(torch.__path__[0] + "/lib/libtorch_cpu.so", os.RTLD_NOW | os.RTLD_GLOBAL)
            ctypes.CDLL(sys.argv[1], os.RTLD_NOW | os.RTLD_DEEPBIND)
            one = torch.ops.attacca.region_of_one_result.import_attacca_torch
            text = "graph g(x: f32[M, 64], w: f32[256, 64]) { return relu(x @ transpose(w)) }"
            x, w = torch.randn(100, 64), torch.randn(256, 64)
            torch.testing.assert_close(one([x, w], text, "fp32", "known", 0.0),
                                       torch.relu(x @ w.t()), rtol=1e-4, atol=1e-4)
            """) + WITHOUT_PACKAGE
        self.assertEqual(self.python(program, self.library), "")

    def test_beside_the_python_package(self):
        """Loaded first, it runs the regions that a compiled model's C++ calls."""
        program = "import sys, torch\ntorch.ops.load_library(sys.argv[1])\n" + textwrap.dedent("""
            import attacca.torch
            from attacca.torch._ops import region
            assert region.IN_CPP
            w = torch.randn(8, 16)
            def model(x):
                return torch.nn.functional.silu(x @ w) * 2
            compiled = torch.compile(model, backend="attacca",
                                     options={"policy": "always", "cpp_wrapper": True})
            x = torch.randn(4, 8)
            with torch.no_grad():
                torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
            assert len(attacca.torch.report().graphs[0].fused) == 1
            assert not region.all_loaded()  # nothing ran by Python's kernel
            """)
        self.assertEqual(self.python(program, self.library, package=True), "")


if __name__ == "__main__":
    unittest.main()
