#!/usr/bin/env python3
"""A fused kernel assembles if the kernel itself does: randomly damaged kernels, through ptxas.

Usage: fuse_fuzz_check.py PTX_TEST. ATTACCA_SEED repeats a run; ATTACCA_FUZZ_PAIRS: how many at
    most.
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

from assemble_check import assemble, find_ptxas

PAIRS = int(os.environ.get("ATTACCA_FUZZ_PAIRS", "150"))


def shown(path: pathlib.Path) -> str:
    return path.read_text(errors="replace")  # comments and strings may hold damaged bytes


def main() -> int:
    ptxas = find_ptxas()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        fuzz = subprocess.run([sys.argv[1], "--gtest_filter=Fuzz.DamagedKernels*"],
                              env={**os.environ, "ATTACCA_FUZZ_OUT": name},
                              capture_output=True, text=True)
        print(fuzz.stdout)
        if fuzz.returncode != 0:
            return 1
        befores = sorted(folder.glob("*.before.ptx"))[:PAIRS]

        def check(before: pathlib.Path):
            """None if the damaged kernel does not assemble, else the errors of the fused one."""
            if assemble(ptxas, before):
                return None
            after = before.with_name(before.name.replace(".before.", ".after."))
            errors = assemble(ptxas, after)
            return errors and f"{errors}\n{shown(before)}\n---- fused\n{shown(after)}"

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = [r for r in pool.map(check, befores) if r is not None]
    errors = [r for r in results if r]
    print("\n".join(errors))
    print(f"assembled {len(results) - len(errors)} of {len(results)} fused kernels; "
          f"{len(befores) - len(results)} were damaged beyond assembly")
    return 1 if errors or len(results) < len(befores) // 10 else 0


if __name__ == "__main__":
    sys.exit(main())
