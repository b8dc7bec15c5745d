#!/usr/bin/env python3
"""Weights of s8 as they lie, times activations of bf16 or f16, against PyTorch, in turns:

    bench/gpu/bytes_as_they_lie.py --attacca build/src/cli/attacca \\
        --library build/src/api/libattacca.so --out bytes.csv --minutes 3

Each time is the median of graphs of launches over buffers that together exceed twice the L2 cache.
`cublas_us` is PyTorch's product of weights that were converted before, `converted_us` that of a
copy that each call converts, `ratio` cuBLAS's time over ours; `inductor_us`, with --inductor, that
of torch.compile(mode="max-autotune-no-cudagraphs") on mm(x, w.to(x.dtype))."""

import sys

import torch

import csv_run
import machine
import tuned_plan
from stopwatch import Timed, medians, sets_beyond_cache

SHAPES = [(11008, 4096), (4096, 11008), (12288, 4096), (22016, 4096), (4096, 4096)]
ROWS = [16, 64, 512]
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
LAYOUTS = {"nk": "transpose(cast(w, {}))", "kn": "cast(w, {})"}
COLUMNS = ["dtype", "layout", "m", "n", "k", "attacca_us", "kernel", "unfused_us", "cublas_us",
           "converted_us", "inductor_us", "ratio", "weights_gbps"]
MOST_SETS = 24


def graph(dtype, layout, n, k):
    shape = f"{n}, {k}" if layout == "nk" else f"{k}, {n}"
    return (f"graph bytes(x: {dtype}[M, {k}], w: s8[{shape}]) {{\n"
            f"  return x @ {LAYOUTS[layout].format(dtype)}\n}}\n")


def as_kn(weights, layout):
    return weights.t() if layout == "nk" else weights


def inductor(layout, x, weights):
    """Timed; empty if the compilation fails."""
    compiled = torch.compile(lambda x, w: torch.mm(x, as_kn(w, layout).to(x.dtype)),
                             mode="max-autotune-no-cudagraphs")
    try:
        compiled(x, weights[0])
        return {"inductor": Timed(lambda i: compiled(x, weights[i]), len(weights))}
    except Exception as error:  # pylint: disable=broad-exception-caught
        print(f"{tuple(x.shape)} {layout}: {csv_run.one_line(error)}", file=sys.stderr)
        return {}


def measure(library, case, options):
    dtype, layout, m, n, k = case
    plan = tuned_plan.of_text(library, graph(dtype, layout, n, k), {"M": m}, options.limit)
    half = DTYPES[dtype]
    shape = (n, k) if layout == "nk" else (k, n)
    weights = [torch.randint(-128, 128, shape, device="cuda", dtype=torch.int8)
               for _ in range(sets_beyond_cache(n * k, MOST_SETS))]
    wide = [torch.randn(shape, device="cuda").to(half)
            for _ in range(sets_beyond_cache(2 * n * k, MOST_SETS))]
    x = torch.randn(m, k, device="cuda").to(half)
    out, product = (torch.empty(m, n, device="cuda", dtype=half) for _ in range(2))
    us = medians({
        "ours": Timed(plan.launches([(x, each) for each in weights], [out] * len(weights)),
                      len(weights)),
        "cublas": Timed(lambda i: torch.mm(x, as_kn(wide[i], layout), out=product), len(wide)),
        "converted": Timed(lambda i: torch.mm(x, as_kn(weights[i].to(half), layout), out=product),
                           len(weights)),
        **(inductor(layout, x, weights) if options.inductor else {})})
    return {"dtype": dtype, "layout": layout, "m": m, "n": n, "k": k,
            "attacca_us": f"{us['ours']:.2f}", **plan.columns(),
            "cublas_us": f"{us['cublas']:.2f}", "converted_us": f"{us['converted']:.2f}",
            "inductor_us": f"{us['inductor']:.2f}" if "inductor" in us else "",
            "ratio": f"{us['cublas'] / us['ours']:.2f}",
            "weights_gbps": f"{n * k / us['ours'] * 1e-3:.0f}"}


def main():
    parser = tuned_plan.option_parser(__doc__, 3)
    parser.add_argument("--dtypes", nargs="*", default=list(DTYPES), choices=list(DTYPES))
    parser.add_argument("--layouts", nargs="*", default=["nk"], choices=list(LAYOUTS))
    parser.add_argument("--rows", nargs="*", type=int, default=ROWS)
    parser.add_argument("--shapes", nargs="*", default=SHAPES, metavar="NxK",
                        type=lambda text: tuple(int(size) for size in text.split("x")))
    parser.add_argument("--inductor", action="store_true", help="max-autotune too, slow")
    arguments = parser.parse_args()
    library = tuned_plan.open_library(arguments.library, arguments.attacca)
    cases = [(dtype, layout, m, n, k) for n, k in arguments.shapes for m in arguments.rows
             for dtype in arguments.dtypes for layout in arguments.layouts]
    csv_run.run(cases, lambda case: measure(library, case, arguments), COLUMNS, arguments.out,
                arguments.minutes, machine.facts())


if __name__ == "__main__":
    main()
