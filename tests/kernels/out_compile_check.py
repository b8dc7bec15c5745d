#!/usr/bin/env python3
"""Compiles uses of attacca::Out with NVRTC: right uses compile, wrong ones give the error that says
why.

Finds NVRTC in the nvidia-cuda-nvrtc wheel of the environment that runs this.
"""
import ctypes
import pathlib
import sys
import sysconfig

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include"

WRITE_ONLY = "attacca::Out is write-only"
NO_ADDRESS = "attacca::Out gives no address of an element"
NO_POINTER = "attacca::Out is no pointer"

# A statement of the kernel, and a part of the error; None: it compiles.
CASES = [
    ("out[i] = x[i];", None),
    ("out[i] = 1;", None),
    ("*out = x[i];", None),
    ("*(out + i) = x[i]; *(out - 1) = 0;", None),
    ("Out<float> to = out; to += i; ++to; *to++ = x[i]; to -= 2; to[0] = 1;", None),
    ("const float v[4] = {1, 2, 3, 4}; out.store(4 * i, v);", None),
    ("auto put = [=](int j) { out[j] = x[j]; }; put(i);", None),
    ("plus[i] = x[i];", None),
    ("const float v = out[i]; (void)v;", WRITE_ONLY),
    ("out[i] += x[i];", WRITE_ONLY),
    ("out[i] -= x[i];", WRITE_ONLY),
    ("out[i] *= 2.0f;", WRITE_ONLY),
    ("out[i] /= 2.0f;", WRITE_ONLY),
    ("++out[i];", WRITE_ONLY),
    ("out[i]++;", WRITE_ONLY),
    ("--out[i];", WRITE_ONLY),
    ("out[i]--;", WRITE_ONLY),
    ("out[i] = out[i + 1];", WRITE_ONLY),
    ("out[i] = 0.5f * out[i] + x[i];", WRITE_ONLY),
    ("if (*out > 0.0f) out[i] = 0;", WRITE_ONLY),
    ("atomicAdd(&out[i], x[i]);", NO_ADDRESS),
    ("atomicExch(&*out, x[i]);", NO_ADDRESS),
    ("float* p = &out[i]; (void)p;", NO_ADDRESS),
    ("float* p = out; (void)p;", NO_POINTER),
    ("take(out);", NO_POINTER),
]

PROGRAM = """
#include <attacca/out.cuh>
using attacca::Out;
__device__ void take(float* to) {{ *to = 1; }}
struct Plus {{
  float by;
  __device__ float operator()(float value, attacca::Index) const {{ return value + by; }}
}};
extern "C" __global__ void kernel(const float* x, Out<float> out, Out<float, Plus> plus) {{
  const int i = threadIdx.x;
  {}
}}
"""


class Nvrtc:
    def __init__(self):
        packages = pathlib.Path(sysconfig.get_paths()["purelib"])
        found = sorted(packages.glob("nvidia/**/lib/libnvrtc.so.*"))
        if not found:
            sys.exit("no NVRTC: run tools/setup.sh, which installs nvidia-cuda-nvrtc")
        self.library = ctypes.CDLL(str(found[0]))

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code:
            raise RuntimeError(f"{name} failed with {code}")

    def compile(self, source: str, *options: str) -> str:
        """The errors, or nothing."""
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        self.call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), b"case.cu", 0, None,
                  None)
        options = [option.encode() for option in
                   ("-arch=compute_90a", "-std=c++17", f"-I{INCLUDE}", *options)]
        failed = self.library.nvrtcCompileProgram(
            program, len(options), (ctypes.c_char_p * len(options))(*options))
        self.call("nvrtcGetProgramLogSize", program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        self.call("nvrtcGetProgramLog", program, log)
        self.call("nvrtcDestroyProgram", ctypes.byref(program))
        return log.value.decode() if failed else ""


def check(nvrtc: Nvrtc, use: str, wanted, *options: str) -> bool:
    errors = nvrtc.compile(PROGRAM.format(use), *options)
    ok = errors == "" if wanted is None else wanted in errors and errors.count("error:") == 1
    if not ok:
        print(f"{use}\n  wanted {wanted or 'no error'}, got\n{errors or '  no error'}")
    return ok


def main() -> int:
    nvrtc = Nvrtc()
    results = [check(nvrtc, use, wanted, *options)
               for use, wanted in CASES for options in ((), ("-DATTACCA_OPEN",))]
    print(f"{sum(results)} of {len(results)} compile or fail as they should")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
