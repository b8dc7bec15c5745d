#!/usr/bin/env python3
"""Writes src/python/attacca/_core.pyi, the extension's types, from the built extension.

Usage: python_stubs.py [--check]. With --check: fails where the file is not current. PYTHONPATH
leads to the built package.
"""
import pathlib
import sys

from nanobind.stubgen import StubGen

import attacca._core
from generated_file import keep_current, wrapped

FILE = pathlib.Path(__file__).resolve().parent.parent / "src/python/attacca/_core.pyi"


def main() -> int:
    generator = StubGen(attacca._core, include_docstrings=False)
    generator.put(attacca._core)
    lines = (wrapped(line) for line in generator.get().split("\n"))
    return keep_current(FILE, "\n".join(lines))


if __name__ == "__main__":
    sys.exit(main())
