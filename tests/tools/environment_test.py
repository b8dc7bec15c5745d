"""Every environment variable that the product reads is a row of src/support/environment.def, from
which docs/environment.md is written; every setting of a test is in CONTRIBUTING.md's table."""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import environment_docs

NAMES = {name for name, _, _ in environment_docs.rows()}


def sources(*endings):
    return [path for ending in endings for path in (ROOT / "src").rglob(f"*{ending}")]


class Environment(unittest.TestCase):
    def test_every_row_is_read(self):
        text = environment_docs.TABLE.read_text()
        self.assertEqual(len(NAMES), text.count("\nVARIABLE("))

    def test_one_function_reads_the_environment(self):
        reading = [str(path.relative_to(ROOT)) for path in sources(".cpp", ".hpp")
                   if re.search(r"\b(secure_)?getenv\s*\(", path.read_text())]
        self.assertEqual(reading, ["src/support/environment.cpp"])

    def test_every_name_in_cpp_is_in_the_table(self):
        for path in sources(".cpp", ".hpp"):
            text = path.read_text()
            found = re.findall(r'\benvironment\("(\w+)"\)',
                               text) + re.findall(r'"(ATTACCA_[A-Z_]+)"', text)
            self.assertLessEqual(set(found), NAMES, path)

    def test_every_name_in_python_is_in_the_table(self):
        for path in sources(".py"):
            text = path.read_text()
            found = re.findall(r'(?:environ(?:\.\w+\(|\[)|getenv\()\s*["\'](\w+)["\']', text)
            self.assertEqual(len(re.findall(r"\benviron\b|\bgetenv\b", text)), len(found), path)
            self.assertLessEqual(set(found), NAMES, path)

    def test_every_variable_of_the_table_is_used(self):
        every = "\n".join(path.read_text() for path in sources(".cpp", ".hpp", ".py"))
        for name in NAMES - {"TMPDIR"}:  # std::filesystem::temp_directory_path reads it
            self.assertIn(f'"{name}"', every)

    def test_every_setting_of_a_test_is_in_the_table_for_contributors(self):
        read: set[str] = set()
        for path in [*(ROOT / "tests").rglob("*.cpp"), *(ROOT / "tests").rglob("*.py")]:
            text = path.read_text()
            pattern = r'(?<!Setting )\bsetting\("(ATTACCA_\w+)"' if path.suffix == ".cpp" else \
                r'environ\.get\("(ATTACCA_\w+)"'
            read.update(re.findall(pattern, text))
        table = re.findall(r"^\| `(ATTACCA_\w+)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
        by_ctest = {"ATTACCA_BINARY_DIR"}
        self.assertEqual(sorted(read - NAMES - by_ctest), sorted(table))

    def test_the_page_is_current(self):
        self.assertEqual(subprocess.run([sys.executable, ROOT / "tools/environment_docs.py",
                                         "--check"],
                                        check=False).returncode, 0)


if __name__ == "__main__":
    unittest.main()
