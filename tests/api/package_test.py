"""The installed package as a user meets it: headers, find_package, templates, the command line.

Usage: package_test.py BUILD_DIR [unittest arguments]
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
SOURCE = pathlib.Path(__file__).resolve().parents[2]


def run(*command, **keywords):
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, **keywords)
    if result.returncode != 0:
        raise AssertionError(f"{command} gave {result.returncode}:\n{result.stdout}")
    return result.stdout


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        cls.prefix = cls.root / "prefix"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix, "--strip")
        cls.environment = {k: v for k, v in os.environ.items() if not k.startswith("ATTACCA_")}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_the_examples_build_and_run(self):
        build = self.root / "example"
        run("cmake", "-S", SOURCE / "examples/cpp", "-B", build,
            f"-DCMAKE_PREFIX_PATH={self.prefix}",
            "-DCMAKE_BUILD_TYPE=Release")
        run("cmake", "--build", build)
        output = run(build / "linear_silu", env=self.environment)
        self.assertIn("silu(acc + ", output)
        self.assertRegex(output, r"cpu: largest error \S+, passed")
        output = run(build / "experts", env=self.environment)
        self.assertRegex(output, r"largest error \S+ of \S+, passed")
        self.assertIn("y: f32[T, 64] = scatter_add(0, token, acc * col(weight))", output)
        self.assertNotIn("region 3", output)

    def test_what_is_installed_needs_nothing_of_the_build(self):
        for path in self.prefix.rglob("*"):
            if path.suffix == ".so" or path.name == "attacca" and path.is_file():
                needed = run("readelf", "-d", path)
                self.assertNotIn(str(BUILD), needed)
                self.assertNotRegex(needed, "cuda|nvrtc|nvJitLink|cublas")
        headers = [path.name for path in (self.prefix / "include").rglob("*.h*")]
        self.assertEqual(sorted(headers), ["attacca.h", "attacca.hpp"])
        for header in (self.prefix / "include").rglob("*.h*"):
            self.assertNotRegex(header.read_text(), "fmt|expected|cutlass|cute")

    def test_templates_are_found_beside_the_library(self):
        templates = self.prefix / "share/attacca/templates"
        templates.mkdir(parents=True, exist_ok=True)
        place = templates / "libattacca_templates.so"
        if not place.exists():  # if none are built, the folder's path is enough
            place.touch()
            self.addCleanup(place.unlink)
        library = self.prefix / "lib/libattacca.so"
        script = ("import ctypes\n"
                  f"lib = ctypes.CDLL({str(library)!r})\n"
                  "path = ctypes.c_void_p()\n"
                  "lib.attacca_template_directory.restype = ctypes.c_void_p\n"
                  "assert lib.attacca_template_directory(ctypes.byref(path)) is None\n"
                  "lib.attacca_bytes_data.restype = ctypes.c_char_p\n"
                  "lib.attacca_bytes_data.argtypes = [ctypes.c_void_p]\n"
                  "print(lib.attacca_bytes_data(path).decode())\n")
        found = run(sys.executable, "-c", script, env=self.environment).strip()
        self.assertEqual(pathlib.Path(found).resolve(), templates.resolve())

    def test_shipped_choices_are_installed_and_found(self):
        source = sorted(path.name for path in (SOURCE / "src/tune/shipped").glob("*.choices"))
        tuned = self.prefix / "share/attacca/tuned"
        self.assertEqual(sorted(path.name for path in tuned.iterdir()), source)
        place = tuned / "other.choices"
        place.write_text("{}")
        self.addCleanup(place.unlink)
        doctor = subprocess.run([self.prefix / "bin/attacca", "doctor"], env=self.environment,
                                stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertIn(f"not used: not a file of tuned choices ({place};", doctor)

    def test_every_built_template_is_installed(self):
        line = next(line for line in (BUILD / "CMakeCache.txt").read_text().splitlines()
                    if line.startswith("ATTACCA_TEMPLATE_DIR:"))
        built = {path.name for path in pathlib.Path(line.split("=", 1)[1]).glob("*.json")}
        installed = {path.name for path in (self.prefix / "share/attacca/templates").glob("*.json")}
        self.assertEqual(installed, built)

    def test_the_command_line_runs(self):
        example = SOURCE / "examples/int8_linear.attacca"
        self.assertIn("region 1", run(self.prefix / "bin/attacca", "explain", example,
                                      env=self.environment))

    def test_another_version_is_refused(self):
        project = self.root / "versions"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.20)\nproject(p LANGUAGES CXX)\n"
            "find_package(attacca 99 REQUIRED)\n")
        with self.assertRaisesRegex(AssertionError, "compatible"):
            run("cmake", "-S", project, "-B", project / "build",
                f"-DCMAKE_PREFIX_PATH={self.prefix}")


class Packed(unittest.TestCase):
    """`cpack`, as `make package` runs it."""

    def test_tarball_and_deb(self):
        with tempfile.TemporaryDirectory() as folder:
            run("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", folder, cwd=BUILD)
            names = {path.suffix: path for path in pathlib.Path(folder).glob("attacca*.*")}
            fields = run("dpkg-deb", "--info", names[".deb"])
            depends = re.search(r"Depends: (.*)", fields).group(1)
            for library in ("libdnnl2", "libfmt9", "libhwy1", "libprotobuf32", "libsqlite3-0"):
                self.assertIn(library, depends)
            listing = run("dpkg-deb", "--contents", names[".deb"])
            tarball = run("tar", "-tzf", names[".gz"])
            for path in ("bin/attacca", "lib/libattacca.so", "include/attacca/attacca.h",
                         "lib/cmake/attacca/attaccaConfig.cmake"):
                self.assertIn("./usr/" + path, listing)
                self.assertIn("/" + path, tarball)


if __name__ == "__main__":
    unittest.main()
