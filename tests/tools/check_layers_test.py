"""The layer check finds each kind of violation. Run: check_layers_test.py (needs python3 only)."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECK = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_layers.py"


def check(files):
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = pathlib.Path(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        run = subprocess.run([sys.executable, CHECK, root], capture_output=True, text=True)
        return run.returncode, run.stdout


class LayerCheck(unittest.TestCase):
    def test_includes_to_the_left_pass(self):
        self.assertEqual(
            check({"fuse/a.cpp": '#include "ir/graph/graph.hpp"\n#include <vector>\n'})[0], 0)

    def test_an_include_to_the_right_is_named(self):
        code, out = check({"ir/a.cpp": '#include "fuse/fuse.hpp"\n'})
        self.assertEqual(code, 1)
        self.assertIn("ir may not include fuse/fuse.hpp", out)

    def test_folders_of_one_rank_are_apart(self):
        self.assertEqual(check({"fold/a.hpp": '#include "import/onnx/onnx.hpp"\n'})[0], 1)

    def test_slow_headers_have_one_home(self):
        self.assertEqual(check({"run/a.cpp": '#include "nlohmann/json.hpp"\n'})[0], 1)
        self.assertEqual(check({"support/text/json.cpp": '#include "nlohmann/json.hpp"\n'})[0], 0)

    def test_cuda_stays_in_device_folders(self):
        self.assertEqual(check({"fuse/a.cpp": "#include <cuda.h>\n"})[0], 1)

    def test_a_stray_folder_is_refused(self):
        for folder in ("utils", "ir/utils", "tune/model/utils"):
            code, out = check({f"{folder}/a.cpp": ""})
            self.assertEqual(code, 1)
            self.assertIn(f"{folder} has no rank", out)

    def test_subfolders_are_ranked(self):
        for file, header in [("ptx/syntax/a.hpp", "ptx/analysis/b.hpp"),  # to a higher one
                             ("run/cpu/a.hpp", "run/cuda/b.hpp"),  # of one row
                             ("run/cpu/a.hpp", "run/pipeline.hpp"),  # own files above
                             ("gpu/devices.hpp", "gpu/driver/device.hpp"),  # own files below
                             ("run/cpu/kernels/a.hpp", "run/shared/../cpu/plan.hpp"),
                             ("templates/kernels/mma/a.cuh", "wgmma/b.cuh")]:
            with self.subTest(file=file, header=header):
                below = {"templates/kernels/wgmma/b.cuh": ""}
                code, out = check({file: f'#include "{header}"\n', **below})
                self.assertEqual(code, 1)
                self.assertIn(f"{file}: {file.rpartition('/')[0]} may not include {header}", out)

    def test_includes_of_lower_subfolders_pass(self):
        files = {"ptx/analysis/a.hpp": '#include "ptx/syntax/b.hpp"\n',
                 "run/a.cpp": '#include "run/cuda/plan.hpp"\n',
                 "gpu/driver/a.cpp": '#include "gpu/devices.hpp"\n',
                 "launch/a.cpp": '#include "launch/helpers/b.hpp"\n',
                 "launch/helpers/a.cpp": '#include "launch/toolbox.hpp"\n',
                 "templates/kernels/packed/a.cuh": '#include "wgmma/b.cuh"\n#include "abi.h"\n',
                 "templates/kernels/wgmma/b.cuh": "", "templates/abi.h": ""}
        self.assertEqual(check(files), (0, "layers: 0 violations\n"))

    def test_units_that_include_each_other_are_named(self):
        to = '#include "launch/{}.hpp"\n'.format
        for folders in (("a", "b"), ("a", "helpers/b")):  # inside a folder, across folders
            one, other = folders
            code, out = check({f"launch/{one}.hpp": to(other), f"launch/{other}.hpp": "",
                               f"launch/{other}.cpp": to(other) + to(one)})
            self.assertEqual(code, 1)
            self.assertRegex(out, rf"units include each other: .*launch/{one} < launch/{other}")
        self.assertEqual(check({"launch/a.hpp": "", "launch/a.cpp": to("a")})[0], 0)

    def test_a_folder_has_sixteen_units(self):
        files = {f"fuse/a{i}{suffix}": "" for i in range(16) for suffix in (".cpp", ".hpp")}
        self.assertEqual(check(files)[0], 0)
        code, out = check({**files, "fuse/table.def": ""})
        self.assertEqual(code, 1)
        self.assertIn("fuse has 17 units", out)


def check_package(files):
    return check({f"python/attacca/{name}.py": text for name, text in files.items()})


class PythonLayers(unittest.TestCase):
    def test_imports_of_lower_modules_pass(self):
        files = {"__init__": "from ._plan import Plan\n",
                 "_plan": "from . import _core\nfrom ._layout import Layout\n",
                 "_layout": "class Layout: pass\n",
                 "torch/__init__": "from .. import _plan\nfrom ._ops import region\n",
                 "torch/_ops/__init__": "",
                 "torch/_ops/region": "from ..._layout import Layout\nimport torch\n"}
        self.assertEqual(check_package(files), (0, "layers: 0 violations\n"))

    def test_an_upward_import_is_named(self):
        code, out = check_package({"_layout": "from ._plan import Plan\n", "_plan": ""})
        self.assertEqual(code, 1)
        self.assertIn("_layout.py:1: _layout may not import _plan", out)

    def test_imports_in_functions_count(self):
        for where, line, what in [("_explain", "from ._compile import g",
                                   "_explain may not import _compile"),
                                  ("torch/_ops/region", "from .._rewrite import g",
                                   "_ops may not import _rewrite")]:
            with self.subTest(where):
                code, out = check_package({where: f"def f():\n    {line}\n    return g\n"})
                self.assertEqual(code, 1)
                self.assertIn(f"{where}.py:2: {what}", out)

    def test_a_circle_cannot_pass(self):
        """Two modules that import each other: one of the imports goes upward, whatever their
        ranks."""
        for one, other in [("_tune", "_matmul"), ("torch/_compare", "torch/_rewrite"),
                           ("_functions/views", "_functions/parts")]:
            names = [path.split("/")[-1] for path in (one, other)]
            code, _ = check_package({one: f"from .{names[1]} import f\n",
                                     other: f"from .{names[0]} import g\n"})
            self.assertEqual(code, 1, (one, other))

    def test_the_optional_part_is_imported_in_two_places(self):
        late = "def f():\n    from . import torch\n    return torch\n"
        files = {"torch/__init__": ""}
        self.assertEqual(check_package({**files, "_dispatch": late})[0], 0)
        self.assertIn("_plan may not import torch", check_package({**files, "_plan": late})[1])

    def test_private_names_stay_in_their_module(self):
        defined = {
            "_layout": "_LIMIT = 3\nclass Layout:\n    def __init__(self):\n        self._count = "
                       "0\n    def _grow(self): self._count += 1\n"}
        for use, name in [("from ._layout import _LIMIT\n", "_LIMIT"),
                          ("from . import _layout\nprint(_layout._LIMIT)\n", "_LIMIT"),
                          ("def f(layout): return layout._count\n", "_count"),
                          ("def f(layout): layout._grow()\n", "_grow")]:
            with self.subTest(use):
                code, out = check_package({**defined, "_plan": use})
                self.assertEqual(code, 1)
                self.assertIn(f"{name} is private to _layout", out)
        allowed = ("import torch\nclass Own:\n    _grow = 1\n"
                   "    def f(self, other): return self._grow, other._grow, torch._grow\n")
        self.assertEqual(check_package({**defined, "_plan": allowed})[0], 0)

    def test_every_module_has_a_rank(self):
        self.assertIn("_stray has no rank", check_package({"_stray": ""})[1])
        self.assertIn("torch/_stray has no rank", check_package({"torch/_stray/part": ""})[1])


if __name__ == "__main__":
    unittest.main()
