#!/usr/bin/env python3
"""Checks the layers of src/, as ARCHITECTURE.md describes them.

A file includes only files of its own folder and of folders ranked below it (``RANKS``); no units
include each other in a circle, a unit being the files of one name, such as a .cpp and its .hpp; a
folder has at most ``MOST_UNITS``. CUDA headers are included only where a device is touched, slow
headers (CLI11, nlohmann/json) by one file each. The layers of the Python package are those of
python_layers.py.

Usage: check_layers.py [ROOT]. Prints every violation and exits 1 if there is one.
"""
import collections
import graphlib
import os
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

import python_layers

# By folder, its subfolders from the bottom to the top; "." is its own files. What stands in one row
# does not include each other. Where "." is missing, own files stand below some subfolders' files
# and above others: there only circles are refused.
RANKS = {
    "": [["support"], ["ir"], ["import", "fold"], ["epilogue"], ["fuse"], ["ptx"], ["templates"],
         ["gpu"], ["problem"], ["launch"], ["tune"], ["run"], ["api"], ["plugin"],
         ["cli", "ort", "python", "torch_ops"]],
    "support": [["files", "text"]],
    "ir": [["sizes"], ["graph"], ["packed", "text"], ["interpret"]],
    "import": [["files", "onnx"]],
    "import/onnx": [["nodes", "sizes"], ["."], ["products"], ["microsoft"]],
    "fold": [["quantized"], ["rows"]],
    "epilogue": [["."], ["code"]],
    "fuse": [["."], ["explain", "joining"]],
    "ptx": [["syntax"], ["splice"], ["analysis"]],
    "templates": [["."], ["kernels"]],
    "templates/kernels": [["common"], ["host"], ["cutlass", "mma", "pointwise"], ["wgmma"],
                          ["dot", "grouped", "packed"], ["grouped_codes", "grouped_mma", "wide"]],
    "templates/kernels/packed": [["folded", "whole"]],
    "templates/kernels/wgmma": [["pipeline"], ["feed", "finish"]],
    "gpu": [["."], ["driver"], ["cache"], ["compile"], ["kernel"]],
    "launch": [["bundle", "helpers"]],
    "run": [["shared"], ["cpu", "cuda", "check"], ["parts"], ["."]],
    "run/cpu": [["kernels", "rows"], ["."], ["region"]],
    "tune": [["model"], ["."]],
    "api": [["."], ["c"]],
    "ort": [["cuda"]],
    "cli": [["."], ["explain"], ["run"], ["bench", "bundle", "kernel", "onnxruntime", "tune"]],
}
MOST_UNITS = 16
# Includes that go upward: the shared config includes the weights.cuh of the kernel's own folder.
CHOSEN = {("templates/kernels/wgmma/config.cuh", f"templates/kernels/{folder}/weights.cuh")
          for folder in ("grouped", "grouped_codes", "packed", "wide")}
# The kernels' include directories.
SEARCHED = (pathlib.PurePath("templates"), pathlib.PurePath("templates/kernels"))
DEVICE_FOLDERS = {"templates", "gpu", "launch", "tune", "run"}
ONE_FILE = {"CLI/": "cli/main.cpp", "nlohmann/": "support/text/json.cpp"}

SUFFIXES = {".hpp", ".cpp", ".def", ".inc", ".cu", ".cuh", ".h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


class Include(NamedTuple):
    """One line of a file; paths below src/, where the file is found there."""

    file: str
    header: str  # as written
    target: str


def includes(root: pathlib.Path) -> Iterator[Include]:
    for path in sorted(root.rglob("*")):
        if path.suffix not in SUFFIXES:
            continue
        file = path.relative_to(root)
        for header in INCLUDE.findall(path.read_text()):
            found = (str(base / header) for base in (pathlib.PurePath(), file.parent, *SEARCHED)
                     if (root / base / header).is_file())
            yield Include(str(file), header, os.path.normpath(next(found, header)))


def rank(folder: str, name: str) -> "int | None":
    return next((at for at, row in enumerate(RANKS.get(folder, [])) if name in row), None)


def parts(file: str) -> list[str]:
    """The folders to a file, then "." for it."""
    return [*pathlib.PurePath(file).parts[:-1], "."]


def unranked(folder: str) -> Iterator[str]:
    above, _, name = folder.rpartition("/")
    if rank(above, name) is None:
        yield f"{folder} has no rank in tools/check_layers.py"


def upward(include: Include) -> Iterator[str]:
    """Ranks are compared where the ways to the two files part."""
    ours, theirs = parts(include.file), parts(include.target)
    common = 0
    while common < min(len(ours), len(theirs)) - 1 and ours[common] == theirs[common]:
        common += 1
    folder, name, other = "/".join(ours[:common]), ours[common], theirs[common]
    above, below = rank(folder, name), rank(folder, other)
    if (name != other and above is not None and below is not None and below >= above
            and (include.file, include.target) not in CHOSEN):
        yield f"{include.file}: {'/'.join(ours[:-1])} may not include {include.header}"


def misplaced(include: Include) -> Iterator[str]:
    if (re.match(r"(cuda|nvrtc|nvJitLink|cublas)", include.header)
            and include.file.split("/")[0] not in DEVICE_FOLDERS):
        yield f"{include.file}: {include.header} outside the folders that use a device"
    for prefix, only in ONE_FILE.items():
        if include.header.startswith(prefix) and include.file != only:
            yield f"{include.file}: only {only} includes {include.header}"


def unit(file: str) -> str:
    return str(pathlib.PurePath(file).with_suffix(""))


def circle(found: list[Include]) -> Iterator[str]:
    """One, if there are any."""
    graph: dict[str, set[str]] = {}
    for include in found:
        if unit(include.file) != unit(include.target):
            graph.setdefault(unit(include.file), set()).add(unit(include.target))
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        yield f"units include each other: {' < '.join(error.args[1])}"


def crowded(units: set[str]) -> Iterator[str]:
    """A folder with too many units."""
    counts = collections.Counter(each.rpartition("/")[0] for each in units)
    for folder, count in sorted(counts.items()):
        if count > MOST_UNITS:
            yield f"{folder} has {count} units, more than {MOST_UNITS}: part it"


def violations(root: pathlib.Path) -> Iterator[str]:
    files = [path.relative_to(root) for path in root.rglob("*") if path.suffix in SUFFIXES]
    for folder in sorted({str(above) for file in files for above in file.parents} - {"."}):
        yield from unranked(folder)
    found = list(includes(root))
    for include in found:
        yield from upward(include)
        yield from misplaced(include)
    yield from circle(found)
    yield from crowded({unit(str(file)) for file in files})


def main() -> int:
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(
        __file__).resolve().parent.parent / "src"
    found = [*violations(root), *python_layers.violations(root / "python/attacca")]
    for line in found:
        print(line)
    print(f"layers: {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
