#!/usr/bin/env python3
"""Checks the layering rule of ARCHITECTURE.md: a folder of src/ includes itself and folders to its
left.

Also: CUDA headers only where a device is touched, and the headers that are slow to compile
(CLI11, nlohmann/json) in one file each; and the layers of the Python package (python_layers.py).
Usage: check_layers.py [ROOT]. Prints every violation and exits 1 if there is one.
"""
import pathlib
import re
import sys
from collections.abc import Iterator

import python_layers

# Folders of equal rank do not include each other.
RANKS = [["support"], ["ir"], ["import", "fold"], ["epilogue"], ["fuse"], ["ptx"], ["templates"],
         ["gpu"], ["problem"], ["launch"], ["tune"],
         ["run"], ["api"], ["cli", "python"]]
RANK = {folder: rank for rank, folders in enumerate(RANKS) for folder in folders}
DEVICE_FOLDERS = {"templates", "gpu", "launch", "tune", "run"}
ONE_FILE = {"CLI/": "cli/main.cpp", "nlohmann/": "support/text/json.cpp"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def violations(root: pathlib.Path) -> Iterator[str]:
    for path in sorted(root.rglob("*")):
        if path.suffix not in {".hpp", ".cpp", ".def", ".cu", ".cuh", ".h"}:
            continue
        name = path.relative_to(root)
        folder = name.parts[0]
        if folder not in RANK:
            yield f"{name}: {folder} has no rank in tools/check_layers.py"
            continue
        for _, header in INCLUDE.findall(path.read_text()):
            target = header.split("/")[0]
            if (target in RANK and "/" in header and target != folder
                    and RANK[target] >= RANK[folder]):
                yield f"{name}: {folder} may not include {header}"
            if re.match(r"(cuda|nvrtc|nvJitLink|cublas)", header) and folder not in DEVICE_FOLDERS:
                yield f"{name}: {header} outside the folders that use a device"
            for prefix, only in ONE_FILE.items():
                if header.startswith(prefix) and str(name) != only:
                    yield f"{name}: only {only} includes {header}"


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
