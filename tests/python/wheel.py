"""The wheel of `make wheel`, in an environment of its own that sees no build tree.

The wheel is built against what is installed from the build tree. Usage: wheel.py BUILD_DIR
"""
import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
SOURCE = pathlib.Path(__file__).resolve().parents[2]
VERSION = re.search(r"project\(attacca VERSION ([0-9.]+)",
                    (SOURCE / "CMakeLists.txt").read_text())[1]
# What every Debian 12 machine with python3 has: libc6, libgcc-s1, libstdc++6 and zlib1g, on which
# apt and python3 depend.
SYSTEM = r"linux-vdso|ld-linux-x86-64|lib(c|dl|gcc_s|m|pthread|rt|stdc\+\+|z)\."
MATMUL = """
import numpy as np
import attacca
x = np.arange(32, dtype=np.float32).reshape(4, 8)
y = attacca.matmul(x, x.T, "relu(acc - 500)")
assert (y == np.maximum(x @ x.T - 500, 0)).all() and y.any(), y
print(attacca.__version__, attacca._core.template_directory())
"""
PLUGIN = """
import attacca.onnxruntime
import onnxruntime
attacca.onnxruntime.register()
print([device.ep_name for device in onnxruntime.get_ep_devices()])
"""
BACKEND = "import torch; print('attacca' in torch._dynamo.list_backends())"


def run(*command, **keywords):
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, **keywords)
    if result.returncode != 0:
        raise AssertionError(f"{command} gave {result.returncode}:\n{result.stdout}")
    return result.stdout


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = pathlib.Path(folder.name)
        prefix = cls.root / "prefix"
        run("cmake", "--install", BUILD, "--prefix", prefix, "--strip")
        run(SOURCE / "tools/wheel.sh", cls.root, "--no-build-isolation",
            f"--config-settings=cmake.define.ATTACCA_PREFIX={prefix}",
            f"--config-settings=build-dir={cls.root / 'build'}",
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHON": sys.executable})
        cls.wheel, = cls.root.glob("*.whl")
        cls.templates = [path.name for path in prefix.glob("share/attacca/templates/*")]
        run(sys.executable, "-m", "venv", "--without-pip", cls.root / "venv")
        cls.python = cls.root / "venv/bin/python"
        run(sys.executable, "-m", "pip", "--python", cls.python, "install", "--quiet", "--no-index",
            cls.wheel)
        cls.package = next(cls.root.glob("venv/lib/python3.*/site-packages/attacca"))
        for other in (prefix, cls.root / "build"):
            other.rename(cls.root / f"moved_{other.name}")

    def clean(self, *command, packages=()):
        """Runs a command that sees nothing but the environment, and these packages of this one."""
        beside = self.root / "beside"
        beside.mkdir(exist_ok=True)
        for package in packages:
            found = pathlib.Path(importlib.util.find_spec(package).origin).parent
            for path in found.parent.glob(f"{package}*"):  # numpy and numpy.libs
                if not (beside / path.name).exists():
                    (beside / path.name).symlink_to(path)
        return run(*command, cwd=self.root, env={
            "PATH": f"{self.python.parent}:/usr/bin:/bin", "HOME": str(self.root),
            **({"PYTHONPATH": str(beside)} if packages else {})})

    def test_what_is_in_it(self):
        self.assertRegex(self.wheel.name, rf"^attacca-{VERSION}-cp\d+-\w+-manylinux_2_\d+_x86_64")
        for name in ("__init__.py", "py.typed", "_core.pyi", "torch/__init__.py",
                     "lib/libattacca.so.0", "bin/attacca"):
            self.assertTrue((self.package / name).exists(), name)
        self.assertEqual(
            sorted(path.name for path in self.package.glob("share/attacca/templates/*")),
            sorted(self.templates))
        self.assertEqual(sorted(path.name for path in self.package.parent.iterdir()),
                         ["attacca", f"attacca-{VERSION}.dist-info", "attacca.libs"])

    def test_every_library_is_in_it_or_in_every_debian(self):
        programs = [path for path in self.package.parent.rglob("*")
                    if path.is_file() and path.read_bytes().startswith(b"\x7fELF")]
        self.assertGreater(len(programs), 8)
        for program in programs:
            for line in self.clean("ldd", program).splitlines():
                if not re.match(rf"\s*(/lib64/)?({SYSTEM})", line):
                    self.assertRegex(line, rf"=> {self.package.parent}/|statically linked", program)
            paths = re.findall(r"R(?:UN)?PATH.*\[(.*)\]", self.clean("readelf", "-d", program))
            for path in ":".join(paths).split(":"):
                self.assertRegex(path, r"^($|\$ORIGIN)", program)

    def test_the_added_libraries_have_their_licences(self):
        licences = [path.name for path in self.package.parent.glob("*.dist-info/licenses/*")]
        for library in ("libdnnl", "libfmt", "libgomp", "libhwy", "libprotobuf", "libsqlite3",
                        "libxxhash"):
            self.assertTrue(list(self.package.parent.glob(f"attacca.libs/{library}*")), library)
            self.assertTrue([name for name in licences if name.startswith(library)], library)

    def test_a_product_on_the_cpu(self):
        version, templates = self.clean(self.python, "-c", MATMUL, packages=["numpy"]).split()
        self.assertEqual(version, VERSION)
        if self.templates:
            self.assertEqual(templates, str(self.package / "share/attacca/templates"))

    def test_the_command_line(self):
        example = SOURCE / "examples/bert_mlp.onnx"
        for command in (["attacca"], ["python", "-m", "attacca"]):
            self.assertEqual(self.clean(*command, "version").split()[1], VERSION)
            self.assertRegex(self.clean(*command, "run", example, "--check"), "check y: passed")
            if self.templates:
                self.assertIn(f"in {self.package}/share/attacca/templates\n",
                              self.clean(*command, "doctor"))

    @unittest.skipUnless((BUILD / "python/attacca/lib/libattacca_ort.so").exists(),
                         "it was built without ONNX Runtime's headers")
    def test_onnxruntime_finds_its_plug_in(self):
        found = self.clean(self.python, "-c", PLUGIN,
                           packages=["numpy", "onnxruntime"])
        self.assertIn("AttaccaExecutionProvider", found)

    def test_torch_finds_its_backend(self):
        site = pathlib.Path(importlib.util.find_spec("torch").origin).parents[1]
        (self.package.parent / "torch.pth").write_text(f"{site}\n")
        self.addCleanup((self.package.parent / "torch.pth").unlink)
        self.assertEqual(self.clean(self.python, "-W", "ignore", "-c", BACKEND).split()[-1], "True")


if __name__ == "__main__":
    unittest.main()
