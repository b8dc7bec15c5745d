#!/usr/bin/env python3
"""Packed weights against PyTorch's bf16 product (cuBLAS) of the same shape, in one run, in turns:

    bench/gpu/mixed.py --attacca build/src/cli/attacca --library build/src/api/libattacca.so \\
        --out docs/benchmarks/gpu-mixed.csv --minutes 5

Each time is the median of graphs of launches over buffers that together exceed twice the L2 cache,
so that weights come from memory. `ratio` is cuBLAS's time over ours; `weights_gbps` the packed
bytes over our time; `torch_us`, with --torch, the time of PyTorch's own kernel for such weights
(packed_peers.py); `product_us`, where there is an epilogue, our product without it, in the same
turns."""

import sys

import torch

import csv_run
import machine
import packed_peers
import tuned_plan
from stopwatch import Timed, medians, sets_beyond_cache

SHAPES = [(14336, 4096), (4096, 14336), (28672, 8192), (4096, 11008), (22016, 4096), (4096, 4096)]
ROWS = [1, 16, 64, 128, 256, 1024, 4096]
CODES = {"s4": "weights=s8, bits=4", "s8": "weights=s8", "f8e4m3": "weights=f8e4m3"}
EPILOGUES = {"none": "y", "bias_silu": "silu(y + b)"}
COLUMNS = ["codes", "group", "epilogue", "m", "n", "k", "attacca_us", "product_us", "kernel",
           "unfused_us",
           "cublas_us", "torch_us", "ratio", "weights_gbps"]
GROUP = 128
MOST_SETS = 24
TORCH = {"s4": packed_peers.int4_kernel, "s8": packed_peers.autotuned_int8}


def padded(size, to=256):
    return (size + to - 1) // to * to


class Layout:
    """Where codes and bf16 scales are in a packed tensor (src/ir/packed/packed.hpp), and its
    size."""

    def __init__(self, codes, n, k):
        bits = 4 if codes == "s4" else 8
        blocks = padded(n, 64) // 64 * (padded(k, 64) // 64)
        self.scales_at = 256 + padded(blocks * 64 * 64 * bits // 8)
        self.scales = padded(n, 64) * ((k + GROUP - 1) // GROUP)
        self.bytes = self.scales_at + padded(2 * self.scales)


def graph(codes, epilogue, n, k):
    packing = f"{CODES[codes]}, group={GROUP}, scales=bf16"
    return (f"graph mixed(x: bf16[M, {k}], w: u8[{Layout(codes, n, k).bytes}], b: bf16[{n}]) {{\n"
            f"  y = matmul(x, transpose(unpack(w, [{n}, {k}], {packing}, dtype=bf16)))\n"
            f"  return {EPILOGUES[epilogue]}\n}}\n")


def packed(codes, layout):
    """Random codes, with scales for weights of ordinary size."""
    weights = torch.randint(0, 256, (padded(layout.bytes, 2),), device="cuda", dtype=torch.uint8)
    if codes == "f8e4m3":
        weights &= 0xbf  # neither NaN nor the largest
    scales = weights[layout.scales_at:layout.scales_at + 2 * layout.scales]
    scales.copy_((torch.rand(layout.scales, device="cuda") * 0.01 + 0.001).bfloat16()
                 .view(torch.uint8))
    weights[36:40] = 0
    weights[36] = 2 if codes == "s4" else 0  # the scales fold (src/ir/packed/packed.hpp)
    return weights


def torch_peer(codes, x, n, count):
    """Timed; empty if PyTorch has no kernel for it or fails."""
    if codes not in TORCH:
        return {}
    try:
        return {"torch": Timed(TORCH[codes](x, n, GROUP, count), count)}
    except Exception as error:  # pylint: disable=broad-exception-caught
        print(f"{codes} {tuple(x.shape)} x {n}: {csv_run.one_line(error)}", file=sys.stderr)
        return {}


def measure(library, case, options):
    codes, epilogue, m, n, k = case
    layout = Layout(codes, n, k)

    def plan_of(tail):
        return tuned_plan.of_text(library, graph(codes, tail, n, k), {"M": m}, options.limit)

    plans = {"ours": plan_of(epilogue)}
    if epilogue != "none":
        plans["product"] = plan_of("none")
    weights = [packed(codes, layout) for _ in range(sets_beyond_cache(layout.bytes, MOST_SETS))]
    x = torch.randn(m, k, device="cuda").bfloat16()
    b = torch.randn(n, device="cuda").bfloat16()
    out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    plain = [torch.randn(n, k, device="cuda").bfloat16()
             for _ in range(sets_beyond_cache(2 * n * k, MOST_SETS))]
    product = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    sets, outs = [(x, each, b) for each in weights], [out] * len(weights)
    us = medians({**{name: Timed(each.launches(sets, outs),
                                 len(sets)) for name, each in plans.items()},
                  "cublas": Timed(lambda i: torch.mm(x, plain[i].t(), out=product), len(plain)),
                  **(torch_peer(codes, x, n, len(weights)) if options.torch else {})})
    return {"codes": codes, "group": GROUP, "epilogue": epilogue, "m": m, "n": n, "k": k,
            "attacca_us": f"{us['ours']:.2f}",
            "product_us": f"{us['product']:.2f}" if "product" in us else "",
            **plans["ours"].columns(),
            "cublas_us": f"{us['cublas']:.2f}",
            "torch_us": f"{us['torch']:.2f}" if "torch" in us else "",
            "ratio": f"{us['cublas'] / us['ours']:.2f}",
            "weights_gbps": f"{layout.bytes / us['ours'] * 1e-3:.0f}"}


def main():
    parser = tuned_plan.option_parser(__doc__, 5)
    parser.add_argument("--codes", nargs="*", default=["s4", "s8"], choices=list(CODES))
    parser.add_argument("--epilogues", nargs="*", default=["none"], choices=list(EPILOGUES))
    parser.add_argument("--rows", nargs="*", type=int, default=ROWS)
    parser.add_argument("--shapes", nargs="*", default=SHAPES, metavar="NxK",
                        type=lambda text: tuple(int(size) for size in text.split("x")))
    parser.add_argument("--torch", action="store_true", help="PyTorch's own ways too, slow")
    arguments = parser.parse_args()
    library = tuned_plan.open_library(arguments.library, arguments.attacca)
    cases = [(codes, epilogue, m, n, k) for n, k in arguments.shapes for m in arguments.rows
             for codes in arguments.codes for epilogue in arguments.epilogues]
    csv_run.run(cases, lambda case: measure(library, case, arguments), COLUMNS, arguments.out,
                arguments.minutes, machine.facts())


if __name__ == "__main__":
    main()
