"""Writes docs/environment.md from src/support/environment.def.

Usage: environment_docs.py [--check]. With --check: fails where the page is not current.
"""
import pathlib
import re
import sys

from generated_file import keep_current

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "src/support/environment.def"
HEAD = """# Environment variables

Written by `tools/environment_docs.py` from `src/support/environment.def`. `attacca doctor` prints
the variables that are set. A variable that is set to nothing counts as unset.

| variable | what it does | where it is unset |
|---|---|---|
"""


def rows() -> list[tuple[str, str, str]]:
    """(name, what it does, value where it is unset) of every variable."""
    return re.findall(r'^VARIABLE\("([^"]*)",\s*"([^"]*)",\s*"([^"]*)"\)$', TABLE.read_text(),
                      re.MULTILINE)


def main() -> int:
    lines = (f"| `{name}` | {what} | {otherwise} |\n" for name, what, otherwise in rows())
    return keep_current(ROOT / "docs/environment.md", HEAD + "".join(lines))


if __name__ == "__main__":
    sys.exit(main())
