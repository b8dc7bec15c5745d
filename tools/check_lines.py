#!/usr/bin/env python3
"""Checks that lines have at most 100 columns, in every file of the project.

Not checked: rows of tables in .def files and in Markdown, output of commands shown in Markdown,
data files (``DATA`` and binary ones), generated text with which tests compare (``golden/``), hidden
folders, and what builds make.

Usage: check_lines.py [ROOT]. Prints FILE:LINE and the length of every longer line, and exits 1 if
there is one.
"""
import os
import pathlib
import re
import sys
from collections.abc import Iterator

COLUMNS = 100
DATA = {".choices", ".csv", ".json", ".jsonl", ".ptx", ".svg"}
LEFT_OUT = re.compile(r"\.|build|demo-output$|.*__pycache__$")  # as in .gitignore
CONSOLE = re.compile(r"```console\n.*?```", re.DOTALL)


def files(root: pathlib.Path) -> Iterator[pathlib.Path]:
    """The project's files, relative to its root, sorted."""
    for folder, folders, names in os.walk(root):
        inside = pathlib.Path(folder).relative_to(root)
        folders[:] = sorted(each for each in folders if not LEFT_OUT.match(str(inside / each)))
        for name in sorted(names):
            path = inside / name
            if path.suffix not in DATA and "golden" not in path.parts:
                yield path


def may_be_long(ending: str, line: str) -> bool:
    if ending == ".def":
        return not line.lstrip().startswith("//")
    return ending == ".md" and line.lstrip().startswith("|")


def violations(root: pathlib.Path) -> Iterator[str]:
    for path in files(root):
        try:
            text = (root / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:  # a binary file
            continue
        if path.suffix == ".md":
            text = CONSOLE.sub(lambda block: "\n" * block[0].count("\n"), text)
        for number, line in enumerate(text.split("\n"), 1):
            if len(line) > COLUMNS and not may_be_long(path.suffix, line):
                yield f"{path}:{number}: {len(line)} columns, more than {COLUMNS}"


def main() -> int:
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(
        __file__).resolve().parent.parent
    found = list(violations(root))
    for line in found:
        print(line)
    print(f"lines: {len(found)} too long")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
