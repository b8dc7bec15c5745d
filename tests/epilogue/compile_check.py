#!/usr/bin/env python3
"""Compiles every golden with NVRTC, or with nvcc where there is no NVRTC, for two architectures,
and looks at the PTX: the hole's parameters are those of the source, and eager code says how it
rounds.

Looks in $CUDA_HOME, in the wheels of the environment that runs this, and in /usr/local/cuda.
"""
import ctypes
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
FEWEST = 12  # goldens; fewer means that some were lost
ARCHITECTURES = ("compute_80", "compute_90a")
PTX_TYPES = {"uint32_t": "b32", "int32_t": "b32", "const attacca_hole_context*": "b64"}


def candidates(patterns):
    roots = [os.environ.get("CUDA_HOME"), sysconfig.get_paths()["purelib"] + "/nvidia",
             "/usr/local/cuda"]
    for root in filter(None, roots):
        for pattern in patterns:
            yield from sorted(pathlib.Path(root).glob(pattern))


class Nvrtc:
    """The library, opened by path."""

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))

    def compile(self, source, options):
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        self.library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"hole.cu", 0, None,
                                        None)
        flags = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
        failed = self.library.nvrtcCompileProgram(program, len(options), flags)
        which = "ProgramLog" if failed else "PTX"
        getattr(self.library, f"nvrtcGet{which}Size")(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        getattr(self.library, f"nvrtcGet{which}")(program, text)
        self.library.nvrtcDestroyProgram(ctypes.byref(program))
        if failed:
            raise ValueError(text.value.decode())
        return text.value.decode()


class Nvcc:
    def __init__(self, path):
        self.path = str(path)

    def compile(self, source, options):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "hole.cu"
            file.write_text(source)
            options = [o.replace("--gpu-architecture=", "-arch=") for o in options]
            done = subprocess.run([self.path, "-ptx", *options, str(file), "-o", "-"],
                                  capture_output=True, text=True)
        if done.returncode:
            raise ValueError(done.stderr)
        return done.stdout


def compiler():
    for path in candidates(["**/libnvrtc.so.1[0-9]", "lib64/libnvrtc.so"]):
        return Nvrtc(path)
    for path in candidates(["**/bin/nvcc"]):
        return Nvcc(path)
    sys.exit("neither NVRTC nor nvcc: run tools/setup.sh, or set CUDA_HOME")


def check(source, ptx):
    """What is wrong with the PTX, or nothing."""
    parameters = re.search(r"attacca_results attacca_hole\((.*)\)", source).group(1).split(", ")
    want = [PTX_TYPES[p.rsplit(" ", 1)[0]] for p in parameters]
    words = int(re.search(r"uint32_t word\[(\d+)\]", source).group(1))
    found = re.search(r"\.visible \.func\s+\(\.param \.align 4 \.b8 \w+\[(\d+)\]\) attacca_hole\("
                      r"(.*?)\)\s*\{", ptx, re.DOTALL)
    if not found:
        return "no function attacca_hole"
    if int(found.group(1)) != 4 * words:
        return f"a result of {found.group(1)} bytes, not {4 * words}"
    got = re.findall(r"\.param \.(b\d+)", found.group(2))
    if got != want:
        return f"parameters {got}, not {want}"
    free = re.search(r"\b(add|sub|mul)\.f(32|64)\b.*", ptx)
    if source.startswith("// Mode eager") and free:
        return f"may be contracted: {free.group(0)}"
    return ""


def main() -> int:
    tool, errors, count = compiler(), [], 0
    for path in sorted(GOLDEN.glob("*.cu")):
        source = path.read_text()
        options = ["-rdc=true"] + (["-fmad=false"] if source.startswith("// Mode eager") else [])
        for architecture in ARCHITECTURES:
            count += 1
            try:
                wrong = check(source,
                              tool.compile(source,
                                           [f"--gpu-architecture={architecture}", *options]))
            except ValueError as error:
                wrong = str(error)
            if wrong:
                errors.append(f"{path.name} for {architecture}: {wrong}")
    print("\n".join(errors))
    print(f"{type(tool).__name__} compiled {count - len(errors)} of {count}")
    return 1 if errors or count < FEWEST * len(ARCHITECTURES) else 0


if __name__ == "__main__":
    sys.exit(main())
