"""A kernel compiler that is killed while it writes leaves no template behind; one that is there
stays.

Usage: whole_files_test.py CMAKE KERNELS_FOLDER. Configures the kernels' own project with a stand-in
    for nvcc.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

CMAKE, KERNELS = sys.argv[1:]
NVCC = """#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in -o) out=$2 ;; -MF) deps=$2 ;; esac
  shift
done
printf '.version 8.0 half of it' > "$out"
[ "$KILLED" = 1 ] && kill -9 $$
printf ' and the rest }' >> "$out"
: > "$deps"
"""

with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    for file in ("cuda/include/cuda_runtime.h", "cuda/include/cuda/std/type_traits",
                 "cutlass/include/cutlass/cutlass.h", "cuda/bin/nvcc"):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(NVCC if file.endswith("nvcc") else "")
    (folder / "cuda/bin/nvcc").chmod(0o755)
    build, templates = folder / "build", folder / "templates"
    subprocess.run([CMAKE, "-S", KERNELS, "-B", build, "-G", "Ninja", "-DATTACCA_TEMPLATES=few",
                    f"-DATTACCA_TEMPLATE_DIR={templates}", f"-DATTACCA_CUDA={folder / 'cuda'}",
                    f"-DCUTLASS_DIR={folder / 'cutlass'}"], check=True, stdout=subprocess.DEVNULL)
    listed = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], check=True, text=True,
                            capture_output=True).stdout
    name = next(line.split(":")[0] for line in listed.splitlines()
                if line.split(":")[0].endswith(".ptx"))

    # The template's own step alone; what it waits for needs CUDA's and CUTLASS's headers.
    step = subprocess.run(["ninja", "-C", build, "-t", "commands", name], check=True, text=True,
                          capture_output=True).stdout.splitlines()[-1]
    assert "nvcc" in step, step

    def make(killed):
        return subprocess.run(step, shell=True, cwd=build, stderr=subprocess.DEVNULL,
                              env={**os.environ, "KILLED": killed}).returncode

    ptx = build / name
    assert make("1") != 0
    assert not ptx.exists(), "half a template was left behind"
    assert make("0") == 0
    assert ptx.read_text().endswith("}")
    whole = ptx.read_text()
    assert make("1") != 0
    assert ptx.read_text() == whole, "half a template took the place of a whole one"

    # The other files of the directory: no step writes one under its own name.
    rules = (build / "build.ninja").read_text()
    for line in rules.splitlines():
        if line.startswith("build ") and "libattacca_templates.so" in line:
            made = line.removeprefix("build ").split(":")[0].split()
            if str(templates / "libattacca_templates.so") in made:
                assert "CUSTOM_COMMAND" in line, line
    assert "libattacca_templates.so.draft" in rules
print("templates appear whole or not at all")
