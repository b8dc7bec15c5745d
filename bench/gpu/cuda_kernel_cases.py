#!/usr/bin/env python3
"""The CUDA C++ kernels of user_kernels.py --cuda, whose source is in cuda_kernels/.

    bench/gpu/cuda_kernel_cases.py    compiles them into build/cuda_kernels, where nvcc and CUTLASS
                                      are; no GPU is needed
"""

import glob
import os
import struct
import subprocess
import sys
from types import SimpleNamespace

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
SOURCES = os.path.join(ROOT, "bench/gpu/cuda_kernels")
BUILT = os.path.join(ROOT, "build/cuda_kernels")
FILES = ("row_kernels", "block_quantized", "attention", "products")


def build():
    """PTX and machine code of each file."""
    toolkit = glob.glob(os.path.join(ROOT, ".deps/venv/lib/python3*/site-packages/nvidia/cu13"))
    nvcc = os.path.join(toolkit[0], "bin/nvcc") if toolkit else "nvcc"
    os.makedirs(BUILT, exist_ok=True)
    for name in FILES:
        base = os.path.join(BUILT, name)
        subprocess.run([nvcc, "-ptx", "-std=c++17", "-O3", "-DNDEBUG", "-arch=sm_90a",
                        "--expt-relaxed-constexpr", f"-I{ROOT}/.deps/cutlass/include",
                        os.path.join(SOURCES, name + ".cu"), "-o", base + ".ptx"], check=True)
        subprocess.run([nvcc, "-cubin", "-arch=sm_90a", base + ".ptx", "-o", base + ".cubin"],
                       check=True)


def bits(value):
    """A float parameter as the integer with its bits."""
    return struct.unpack("<I", struct.pack("<f", value))[0]


class CudaCase:
    """A kernel at a shape. `make(torch)`: its arguments in the order of its parameters, and a
    function of them that computes the result in f64."""

    def __init__(self, file, entry, shape, dtype, output, grid, threads, shared, make):
        self.name, self.file, self.entry, self.shape, self.dtype = entry, file, entry, shape, dtype
        self.output, self.grid, self.threads, self.shared = output, grid, threads, shared
        self.make = make
        self.arguments = self.exact = None

    def prepare(self, torch):
        self.arguments, self.exact = self.make(torch)

    def release(self):
        self.arguments = self.exact = None

    def compile(self):
        base = os.path.join(BUILT, self.file)
        with open(base + ".ptx", encoding="utf-8") as ptx, open(base + ".cubin", "rb") as cubin:
            return SimpleNamespace(
                asm={"ptx": ptx.read(), "cubin": cubin.read()},
                metadata=SimpleNamespace(name=self.entry, num_warps=self.threads // 32,
                                         shared=self.shared))

    def check(self, torch, got):
        """Raises if the kernel alone is wrong: a benchmark of it would mean nothing."""
        want = self.exact()  # of the first rows
        error = (got[:len(want)].double() - want).abs().max().item()
        allowed = 0.02 * want.abs().max().item()
        if not error <= allowed:
            raise RuntimeError(f"the kernel alone is wrong by {error:.3g} of {allowed:.3g}")


def ceil_div(x, y):
    return (x + y - 1) // y


# ---- Rows

def randn(torch, *shape, dtype):
    return torch.randn(shape, device="cuda").to(dtype)


def layer_norm(rows):
    def make(torch):
        x = randn(torch, rows, 4096, dtype=torch.bfloat16)
        return ([x, torch.empty_like(x), bits(1e-5)],
                lambda: torch.nn.functional.layer_norm(x.double(), (4096,), eps=1e-5))
    return CudaCase("row_kernels", "cub_layer_norm", (rows, 4096), "bf16", 1, (rows, 1, 1), 256,
                    0, make)


def softmax(rows):
    def make(torch):
        x = randn(torch, rows, 1024, dtype=torch.float32)
        return [x, torch.empty_like(x)], lambda: torch.softmax(x.double(), 1)
    return CudaCase("row_kernels", "cub_softmax", (rows, 1024), "f32", 1, (rows, 1, 1), 128, 0,
                    make)


def scan(rows):
    def make(torch):
        x = randn(torch, rows, 2048, dtype=torch.float32)
        return [x, torch.empty_like(x)], lambda: torch.cumsum(x.double(), 1)
    return CudaCase("row_kernels", "cub_scan", (rows, 2048), "f32", 1, (rows, 1, 1), 256, 0, make)


def rms_norm(rows):
    def make(torch):
        x, gain = randn(torch, rows, 1024, dtype=torch.float16), randn(torch, 1024,
                                                                       dtype=torch.float16)

        def exact():
            wide = x.double()
            return wide * torch.rsqrt(wide.square().mean(1, keepdim=True) + 1e-5) * gain.double()
        return [x, gain, torch.empty_like(x), rows, bits(1e-5)], exact
    return CudaCase("row_kernels", "warp_rms_norm", (rows, 1024), "f16", 2, (ceil_div(rows, 4), 1,
                    1), 128, 0, make)


def rope(rows, heads, dim):
    log_base = 9.210340371976184  # of 10000

    def make(torch):
        x = randn(torch, rows, heads * dim, dtype=torch.float16)
        positions = torch.arange(rows, device="cuda", dtype=torch.int32) % 64

        def exact():
            pairs = x.double().view(rows, heads, dim // 2, 2)
            steps = torch.arange(0, dim, 2, device="cuda", dtype=torch.float64) / dim
            angles = positions.double()[:, None, None] * torch.exp(-log_base * steps)
            sine, cosine = angles.sin(), angles.cos()
            left, right = pairs[..., 0], pairs[..., 1]
            return torch.stack([left * cosine - right * sine, left * sine + right * cosine],
                               -1).view(rows, heads * dim)
        return [x, positions, torch.empty_like(x), heads * dim, dim, bits(log_base)], exact
    return CudaCase("row_kernels", "rope", (rows, heads * dim), "f16", 2,
                    (ceil_div(heads * dim // 2, 256), rows, 1), 256, 0, make)


def causal_conv(rows, columns):
    def make(torch):
        x, taps = (randn(torch, rows, n, dtype=torch.bfloat16) for n in (columns, 4))
        return ([x, taps, torch.empty_like(x), columns],
                lambda: torch.nn.functional.conv1d(
                    torch.nn.functional.pad(x.double()[None], (3, 0)), taps.double()[:, None],
                    groups=rows)[0])
    return CudaCase("row_kernels", "causal_conv", (rows, columns), "bf16", 2, (ceil_div(columns,
                    1024), rows, 1), 128, 0, make)


# ---- Weights in blocks of 32

TOKENS = 4


def as_bytes(torch, *parts):
    """Blocks of the parts, each [rows, blocks, elements], one after the other in memory."""
    return torch.cat([part.contiguous().view(torch.uint8).view(*part.shape[:2], -1)
                      for part in parts], 2).contiguous()


def quantized(entry, rows, columns):
    blocks = columns // 32

    def make(torch):
        def any_of(low, high, *shape):
            return torch.randint(low, high, shape, device="cuda", dtype=torch.int8)

        def scales(count):
            return (torch.rand(count, blocks, 1, device="cuda") * 0.02).half()
        w_scale, x_scale = scales(rows), scales(TOKENS)
        x = any_of(-127, 128, TOKENS, blocks, 32)
        sums = (x.float().sum(2, keepdim=True) * x_scale.float()).half()
        if entry.endswith("8"):
            w = any_of(-127, 128, rows, blocks, 32)
            stored = as_bytes(torch, w_scale, w)
        else:
            w = any_of(-8, 8, rows, blocks, 32)
            nibbles = (w + 8).view(torch.uint8)
            stored = as_bytes(torch, w_scale, nibbles[..., :16] | nibbles[..., 16:] << 4)

        def exact():
            wide_w = (w.double() * w_scale.double()).view(rows, columns)
            return (x.double() * x_scale.double()).view(TOKENS, columns) @ wide_w.t()
        out = torch.empty(TOKENS, rows, device="cuda")
        return [stored, as_bytes(torch, x_scale, sums, x), out, rows, blocks], exact
    return CudaCase("block_quantized", entry, (TOKENS, rows), "f32", 2, (ceil_div(rows, 4), 1, 1),
                    128, 0, make)


# ---- Attention

def flash_forward(heads, length):
    def make(torch):
        q, k, v = (randn(torch, heads, length, 64, dtype=torch.bfloat16) for _ in range(3))
        out = torch.empty_like(q)

        def exact():  # the first heads: all of them take gigabytes
            some = (each[:2].double() for each in (q, k, v))
            return torch.nn.functional.scaled_dot_product_attention(*some).view(-1, 64)
        return [q, k, v, out, length, bits(0.125 * 1.4426950408889634)], exact
    return CudaCase("attention", "flash_forward", (heads * length, 64), "bf16", 3, (length // 64,
                    heads, 1), 128, 0, make)


def flash_combine(rows, splits):
    def make(torch):
        parts = randn(torch, splits, rows, 128, dtype=torch.float32)
        logs = randn(torch, splits, rows, dtype=torch.float32)
        out = torch.empty(rows, 128, device="cuda", dtype=torch.bfloat16)
        return ([parts, logs, out, rows, splits],
                lambda: (torch.softmax(logs.double(), 0)[..., None] * parts.double()).sum(0))
    return CudaCase("attention", "flash_combine", (rows, 128), "bf16", 2, (ceil_div(rows, 4), 1,
                    1), 128, 0, make)


# ---- Products

def product(entry, m, n, k, dtype, threads, shared, b_is_transposed=True):
    def make(torch):
        kind = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[dtype]
        a = randn(torch, m, k, dtype=kind)
        b = (torch.randn((n, k) if b_is_transposed else (k, n), device="cuda") * k**-0.5).to(kind)
        out = torch.empty(m, n, device="cuda", dtype=kind)
        return ([a, b, out, m, n, k],
                lambda: a.double() @ (b.double().t() if b_is_transposed else b.double()))
    return CudaCase("products", entry, (m, n), dtype, 2, (m // 128, n // 128, 1), threads, shared,
                    make)


def cases():
    return [layer_norm(4096), softmax(8192), scan(4096), rms_norm(16384), rope(4096, 32, 128),
            causal_conv(4096, 4096), quantized("mul_mat_vec_q8", 14336, 4096),
            quantized("mul_mat_vec_q4", 14336, 4096), flash_forward(64, 2048),
            flash_combine(8192, 8), product("cute_mma_gemm", 4096, 4096, 1024, "f16", 128, 0),
            product("cutlass2_gemm", 4096, 4096, 1024, "bf16", 128, 65536),
            product("cutlass2_sgemm", 2048, 2048, 512, "f32", 256, 49152, False),
            product("cute_wgmma_gemm", 4096, 4096, 1024, "bf16", 256, 131072)]


if __name__ == "__main__":
    sys.exit(build())
