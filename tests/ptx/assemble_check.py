#!/usr/bin/env python3
"""Assembles every golden splice with ptxas: what the splice writes is PTX.

Finds ptxas as $PTXAS, else in the nvidia-cuda-nvcc wheel of the environment that runs this.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import sysconfig

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
FEWEST = 30  # goldens; fewer means that some were lost


def find_ptxas() -> str:
    if "PTXAS" in os.environ:
        return os.environ["PTXAS"]
    packages = pathlib.Path(sysconfig.get_paths()["purelib"])
    found = sorted(packages.glob("nvidia/**/bin/ptxas"))
    if not found:
        sys.exit("no ptxas: run tools/setup.sh, which installs nvidia-cuda-nvcc, or set PTXAS")
    return str(found[0])


def assemble(ptxas: str, path: pathlib.Path) -> str:
    """The errors of one file, or nothing."""
    arch = re.search(r"^\.target\s+(\w+)", path.read_text(errors="replace"), re.MULTILINE).group(1)
    # -c: functions of the device runtime, such as vprintf, are linked later.
    done = subprocess.run([ptxas, "-c", f"-arch={arch}", str(path), "-o", os.devnull],
                          capture_output=True, text=True, errors="replace")
    return "" if done.returncode == 0 else f"{path.name}: {done.stdout}{done.stderr}"


def main() -> int:
    ptxas = find_ptxas()
    files = sorted(GOLDEN.glob("*.ptx"))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        errors = [e for e in pool.map(lambda path: assemble(ptxas, path), files) if e]
    print("\n".join(errors))
    print(f"assembled {len(files) - len(errors)} of {len(files)} goldens")
    return 1 if errors or len(files) < FEWEST else 0


if __name__ == "__main__":
    sys.exit(main())
