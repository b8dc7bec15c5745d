#!/usr/bin/env python3
"""Compiles the Triton kernels of bench/gpu/user_kernel_cases.py to tests/kernels/triton/*.ptx
again, with small tiles, for sm_80 (whose matrix instructions the tests' interpreter knows). Needs
Triton, no GPU; the tests use the committed PTX and need neither.
"""
import os
import pathlib
import sys
from typing import Any

os.environ["TRITON_DISABLE_LINE_INFO"] = "1"  # line information would name this machine's folders
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench/gpu"))

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import user_kernel_cases as kernels

ALIGNED = [["tt.divisibility", 16]]  # Triton finds this alignment for every tensor


def compile_one(name: str, function: Any, signature: dict[str, str], constants: dict[str, int],
                warps: int) -> None:
    source = ASTSource(fn=function,
                       signature={**signature, **dict.fromkeys(constants, "constexpr")},
                       constexprs=constants,
                       attrs={(i,): ALIGNED for i, kind in enumerate(signature.values())
                              if kind.startswith("*")})
    compiled = triton.compile(source, target=GPUTarget("cuda", 80, 32),
                              options={"num_warps": warps, "ptx_version": 80})
    path = ROOT / "tests/kernels/triton" / f"{name}.ptx"
    path.write_text(compiled.asm["ptx"])
    print(f"{path}: {warps * 32} threads, {compiled.metadata.shared} bytes of shared memory")


def main() -> None:
    compile_one("add", kernels.add_kernel,
                {"x": "*bf16", "y": "*bf16", "out": "*bf16", "count": "i32"}, {"BLOCK": 256}, 1)
    compile_one("copy", kernels.copy_kernel, {"x": "*fp32", "out": "*fp32", "count": "i32"},
                {"BLOCK": 1024}, 1)
    compile_one("masked_rows", kernels.masked_rows_kernel,
                {"x": "*bf16", "keep": "*i8", "out": "*bf16", "columns": "i32"}, {"BLOCK": 128}, 2)
    compile_one("matmul", kernels.matmul_kernel,
                {"a": "*bf16", "b": "*bf16", "out": "*bf16", "m": "i32", "n": "i32", "k": "i32"},
                {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16}, 1)


if __name__ == "__main__":
    main()
