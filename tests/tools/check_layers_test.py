"""The layer check finds what it is there to find. Run: check_layers_test.py (needs python3 only)."""
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
        self.assertEqual(check({"fuse/a.cpp": '#include "ir/graph.hpp"\n#include <vector>\n'})[0], 0)

    def test_an_include_to_the_right_is_named(self):
        code, out = check({"ir/a.cpp": '#include "fuse/fuse.hpp"\n'})
        self.assertEqual(code, 1)
        self.assertIn("ir may not include fuse/fuse.hpp", out)

    def test_rooms_of_one_rank_are_apart(self):
        self.assertEqual(check({"fold/a.hpp": '#include "import/onnx.hpp"\n'})[0], 1)

    def test_slow_headers_have_one_home(self):
        self.assertEqual(check({"run/a.cpp": '#include "nlohmann/json.hpp"\n'})[0], 1)
        self.assertEqual(check({"support/json.cpp": '#include "nlohmann/json.hpp"\n'})[0], 0)

    def test_cuda_stays_in_device_rooms(self):
        self.assertEqual(check({"fuse/a.cpp": "#include <cuda.h>\n"})[0], 1)

    def test_a_stray_folder_is_refused(self):
        self.assertEqual(check({"utils/a.cpp": ""})[0], 1)


if __name__ == "__main__":
    unittest.main()
