"""The line check finds long lines outside tables and data."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECK = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_lines.py"
LONG = "x" * 101


def check(files):
    """The status and the output of the check of a folder with these files."""
    with tempfile.TemporaryDirectory() as root:
        for name, content in files.items():
            path = pathlib.Path(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        run = subprocess.run([sys.executable, CHECK, root], capture_output=True, text=True)
        return run.returncode, run.stdout


class LineCheck(unittest.TestCase):
    def test_a_long_line_is_named(self):
        for name in ("a.cpp", "a.py", "a.md", "CMakeLists.txt", "Makefile", "folder/a.toml"):
            with self.subTest(name):
                self.assertEqual(check({name: f"short\n{LONG}\n"}),
                                 (1, f"{name}:2: 101 columns, more than 100\nlines: 1 too long\n"))

    def test_every_long_line_is_named(self):
        code, out = check({"a.py": f"{LONG}\n\n{LONG}", "b.py": LONG})
        self.assertEqual(code, 1)
        self.assertEqual([line.split(": ")[0] for line in out.splitlines()],
                         ["a.py:1", "a.py:3", "b.py:1", "lines"])

    def test_100_characters_pass(self):
        self.assertEqual(check({"a.cpp": "x" * 100, "a.md": "\u00e9" * 100}),
                         (0, "lines: 0 too long\n"))

    def test_rows_output_and_data_pass(self):
        row = f"| {LONG} |"
        console = f"```console\n$ attacca\n{LONG}\n```\n"
        self.assertEqual(check({"a.md": f"{row}\n  {row}\n{console}", "a.def": f'ROW("{LONG}")\n',
                                "a.csv": LONG, "a.json": LONG, "a.choices": LONG, "a.svg": LONG,
                                "a.ptx": LONG, "tests/a/golden/b.cu": LONG,
                                "a.onnx": b"\xff" + LONG.encode()})[0], 0)

    def test_text_beside_them_is_checked(self):
        for name, before, line in [("a.def", 'ROW("a")\n', f"// {LONG}"),
                                   ("a.md", "", f"text | {LONG} |"),
                                   ("a.md", "```console\n$ attacca\n```\n", LONG),
                                   ("a.md", "```python\n", LONG)]:
            with self.subTest(name, before=before):
                code, out = check({name: before + line})
                self.assertEqual(code, 1)
                self.assertIn(f"{name}:{before.count(chr(10)) + 1}: {len(line)} columns", out)

    def test_what_is_not_the_projects_is_left_out(self):
        for name in ("build/a.cpp", "build-demo/a/b.cpp", ".git/a.py", ".deps/a.py",
                     "tools/__pycache__/a.py"):
            with self.subTest(name):
                self.assertEqual(check({name: LONG, "a.cpp": ""})[0], 0)
        for name in ("src/build/a.cpp", "src/.a/b.cpp"):
            with self.subTest(name):
                self.assertEqual(check({name: LONG})[0], 1)


if __name__ == "__main__":
    unittest.main()
