#!/usr/bin/env python3
"""Unpacks one folder of a wheel. Usage: unpack_wheel.py WHEEL FOLDER DESTINATION"""
import pathlib
import sys
import zipfile


def main() -> int:
    wheel, folder, destination = sys.argv[1:]
    prefix = folder.rstrip("/") + "/"
    with zipfile.ZipFile(wheel) as archive:
        names = [n for n in archive.namelist() if n.startswith(prefix) and not n.endswith("/")]
        if not names:
            print(f"{wheel}: no folder {folder}", file=sys.stderr)
            return 1
        for name in names:
            path = pathlib.Path(destination) / name[len(prefix):]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
