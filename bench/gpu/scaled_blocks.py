#!/usr/bin/env python3
"""Products of f8e4m3, with scales of blocks of 128 and with one scale a tensor, against the unfused
path, PyTorch's product of the same scaled factors and its bf16 product (both cuBLASLt), in one run,
in turns:

    bench/gpu/scaled_blocks.py --attacca build/src/cli/attacca \\
        --library build/src/api/libattacca.so --minutes 3 \\
        --out docs/benchmarks/gpu-scaled-blocks.csv

Each time is the median of graphs of launches over buffers that together exceed twice the L2 cache.
`unfused_us` is the time of Attacca's own unfused path (cuBLASLt and a pointwise kernel), `tflops`
the rate of the selected candidate. An empty cell: PyTorch refuses the product."""

import sys

import torch

import csv_run
import machine
import tuned_plan
from stopwatch import Timed, medians, sets_beyond_cache

# n, k, and the rows of A.
SHAPES = [(7168, 2048, (4096, 128, 16)), (4096, 7168, (4096, 128, 16)),
          (11008, 4096, (4096, 1024, 128))]
SCALES = {
    "blocks": ("u: f32[M, {kb}], v: f32[{nb}, {kb}]",
               "cast(dequantize(x, u, block=[1, 128]) @ "
               "transpose(dequantize(w, v, block=[128, 128])), {out})"),
    "tensor": ("u: f32[], v: f32[]", "cast(matmul(x, transpose(w)) * u * v, {out})"),
    "fast": ("u: f32[], v: f32[]", "cast(matmul(x, transpose(w), fast=true) * u * v, {out})"),
}
MOST_SETS = 24
COLUMNS = ["scales", "out", "m", "n", "k", "attacca_us", "kernel", "unfused_us", "cublas_fp8_us",
           "cublas_bf16_us", "tflops"]


def blocks(extent):
    return (extent + 127) // 128


def graph(scales, out, n, k):
    inputs, result = SCALES[scales]
    inputs = inputs.format(kb=blocks(k), nb=blocks(n))
    return (f"graph scaled(x: f8e4m3[M, {k}], w: f8e4m3[{n}, {k}], {inputs}) {{\n"
            f"  return {result.format(out=out)}\n}}\n")


def bytes_like(rows, columns):
    # Neither NaN nor the largest.
    return torch.randint(0, 256, (rows, columns), device="cuda", dtype=torch.uint8) & 0xbf


def measure(library, case, seconds):
    scales, out, m, n, k = case
    plan = tuned_plan.of_text(library, graph(scales, out, n, k), {"M": m}, seconds)
    factors = [(bytes_like(m, k), bytes_like(n, k))
               for _ in range(sets_beyond_cache(n * k + m * k, MOST_SETS))]
    shapes = ((m, blocks(k)), (blocks(n), blocks(k))) if scales == "blocks" else ((1,), (1,))
    u, v = (torch.rand(shape, device="cuda") * 0.01 + 0.001 for shape in shapes)
    result = torch.empty(m * n * (1 if out.startswith("f8") else 2), device="cuda",
                         dtype=torch.uint8)
    plain = [(torch.randn(m, k, device="cuda").bfloat16(),
              torch.randn(n, k, device="cuda").bfloat16())
             for _ in range(sets_beyond_cache(2 * (n * k + m * k), MOST_SETS))]
    product = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    ours = plan.launches([(x, w, u, v) for x, w in factors], [result] * len(factors))

    def cublas(i):
        x, w = plain[i]
        return torch.mm(x, w.t(), out=product)

    # PyTorch takes the left factor's scales contiguous along M, and the right one's transposed.
    left = u.t().contiguous().t() if scales == "blocks" else u

    def scaled(i):
        x, w = (each.view(torch.float8_e4m3fn) for each in factors[i])
        return torch._scaled_mm(x, w.t(), left, v.t(), out_dtype=torch.bfloat16,
                                use_fast_accum=scales == "fast")

    contenders = {"attacca_us": Timed(ours, len(factors)),
                  "cublas_bf16_us": Timed(cublas, len(plain))}
    try:
        contenders["cublas_fp8_us"] = Timed(scaled, len(factors))
    except RuntimeError as error:
        print(f"{case}: PyTorch: {csv_run.one_line(error)}", file=sys.stderr)
    us = medians(contenders)
    return {"scales": scales, "out": out, "m": m, "n": n, "k": k, **plan.columns(),
            **{name: f"{each:.2f}" for name, each in us.items()},
            "tflops": f"{2 * m * n * k / us['attacca_us'] * 1e-6:.0f}"}


def main():
    parser = tuned_plan.option_parser(__doc__, 3)
    parser.add_argument("--scales", nargs="*", default=list(SCALES), choices=list(SCALES))
    parser.add_argument("--results", nargs="*", default=["bf16"], choices=["bf16", "f8e4m3"])
    arguments = parser.parse_args()
    library = tuned_plan.open_library(arguments.library, arguments.attacca)
    cases = [(scales, result, m, n, k) for turn in range(3) for n, k, rows in SHAPES
             for m in rows[turn:turn + 1] for scales in arguments.scales
             for result in arguments.results]
    csv_run.run(cases, lambda case: measure(library, case, arguments.limit), COLUMNS, arguments.out,
                arguments.minutes, machine.facts())


if __name__ == "__main__":
    main()
