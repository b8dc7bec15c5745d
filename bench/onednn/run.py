#!/usr/bin/env python3
"""Times several versions of oneDNN in turns, at the products that Attacca asks for on the CPU, and
writes docs/benchmarks/onednn.md. The other versions are Debian's of later releases, which run with
their own C library, and a wheel; nothing is installed.

    bench/onednn/run.py [--rounds 5]    by a Python with pip that may install, as .deps/venv's
"""
import argparse
import datetime
import math
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
from statistics import geometric_mean

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))

import processor

PAGE = ROOT / "docs/benchmarks/onednn.md"
RELEASES = ("trixie", "forky")
PACKAGES = ("libdnnl3.6", "libdnnl-dev", "libc6", "libstdc++6", "libgomp1", "libgcc-s1")
WHEELS = ("onednn-cpu-gomp==2023.2.0", "onednn-devel-cpu-gomp==2023.2.0")
COMPILE = ("g++", "-O2", "-std=c++20", str(HERE / "pieces.cpp"), "-o")


def of_this_machine(folder):
    program = folder / "installed"
    subprocess.run([*COMPILE, program, "-ldnnl"], check=True)
    return program


def of_a_release(folder, release):
    """With the release's own dynamic linker and libraries."""
    root, program = folder / release, folder / f"pieces_{release}"
    subprocess.run([ROOT / "tools/later_debian.sh", release, root, *PACKAGES], check=True)
    libraries = root / "usr/lib/x86_64-linux-gnu"
    subprocess.run([*COMPILE, program, "-I", root / "usr/include", libraries / "libdnnl.so",
                    "-Wl,--unresolved-symbols=ignore-in-shared-libs", f"-Wl,-rpath,{libraries}",
                    f"-Wl,--dynamic-linker={libraries}/ld-linux-x86-64.so.2"], check=True)
    return program


def of_the_wheel(folder):
    root, program = folder / "wheel", folder / "pieces_wheel"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--prefix",
                    root, "--disable-pip-version-check", *WHEELS], check=True)
    subprocess.run([*COMPILE, program, "-I", root / "include", root / "lib/libdnnl.so.3",
                    f"-Wl,-rpath,{root / 'lib'}"], check=True)
    return program


def measure(programs, rounds):
    """``{(kind, rows, k): {version: microseconds}}``, the fastest of the rounds."""
    times = {}
    for _ in range(rounds):
        for program in programs:
            ran = subprocess.run([program], check=True, capture_output=True, text=True,
                                 env={**os.environ, "OMP_NUM_THREADS": "1"})
            for line in ran.stdout.splitlines():
                version, kind, rows, k, time = line.split()
                case = times.setdefault((kind, int(rows), int(k)), {})
                case[version] = min(case.get(version, math.inf), float(time))
    return times


def page(times):
    versions = list(next(iter(times.values())))
    first = versions[0]
    yield f"""# Versions of oneDNN

`bench/onednn/run.py` writes this file. Attacca's CPU executor asks oneDNN for products of a panel
of rows by a piece of 256 columns of packed weights. Each version multiplies twelve such pieces in
turn, on one thread; times are the fastest of many, in microseconds for a piece, and the versions
run in turns. {first} is Debian 12's.

{processor.name()}, {platform.machine()}; {datetime.date.today()}.

| products | rows | k | {" | ".join(versions)} |
|---|---:|---:|{"---:|" * len(versions)}"""
    for (kind, rows, k), case in times.items():
        yield f"| {kind} | {rows} | {k} | " + " | ".join(f"{case[v]:.2f}" for v in versions) + " |"
    yield f"""
Geometric means of {first}'s time over the version's: above 1.00 the version is faster.

| products | {" | ".join(versions[1:])} |
|---|{"---:|" * (len(versions) - 1)}"""
    for kind in dict.fromkeys(kind for kind, *_ in times):
        means = [geometric_mean([case[first] / case[version]
                                 for key, case in times.items() if key[0] == kind])
                 for version in versions[1:]]
        yield f"| {kind} | " + " | ".join(f"{mean:.2f}" for mean in means) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        programs = [of_this_machine(folder), of_the_wheel(folder),
                    *(of_a_release(folder, release) for release in RELEASES)]
        times = measure(programs, given.rounds)
    PAGE.write_text("\n".join(page(times)) + "\n")


if __name__ == "__main__":
    main()
