#!/usr/bin/env python3
"""The page of what scaled_blocks.py measured:

    bench/gpu/scaled_blocks_page.py one.csv --out docs/benchmarks/gpu-scaled-blocks
"""

import argparse

import csv_run
import machine
import pages

SCALES = {"blocks": "blocks of 128", "tensor": "tensor", "fast": "tensor, fast=true"}
HOW = """
Products of f8e4m3 factors. *Blocks of 128*: a scale for each 1 x 128 of A and each 128 x 128 of B.
*Tensor*: one scale a factor, sums taken in f32 every 128 values of k; with `fast=true` the tensor
cores add all of them. *Unfused*: Attacca's unfused path, cuBLASLt's product and a pointwise kernel.
*cuBLAS fp8*: PyTorch's product of the same scaled factors; *bf16*: its product of bf16 factors of
these sizes. Microseconds, medians of CUDA graphs of launches over buffers that together exceed
twice the L2 cache; all but *unfused*, which the tuner timed, in turns. *Ratio* is cuBLAS fp8's time
over Attacca's, above 1 where Attacca is faster."""


def line(row):
    return [pages.sizes(row), SCALES[row["scales"]], row["out"], row["attacca_us"],
            row["unfused_us"],
            row["cublas_fp8_us"] or "-", row["cublas_bf16_us"],
            pages.number(float(row["cublas_fp8_us"]) / float(row["attacca_us"]), 2)
            if row["cublas_fp8_us"] else "-", row["tflops"], f"`{row['kernel']}`"]


def page(facts, rows):
    return "\n".join([
        "# 8-bit floats with scales", "",
        f"On {machine.described(facts)}. Made by `bench/gpu/scaled_blocks.py` and "
        "`scaled_blocks_page.py`.", "", pages.paragraph(HOW), "",
        *([facts["note"], ""] if "note" in facts else []),
        *pages.table(["M x N x K", "scales", "result", "Attacca us", "unfused us", "cuBLAS fp8 us",
                      "cuBLAS bf16 us", "ratio", "TFLOP/s", "what ran"],
                     [line(row) for row in rows], texts=3), ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv")
    parser.add_argument("--out", required=True, help="OUT.md is written")
    options = parser.parse_args()
    pages.write(options.out + ".md", page(*csv_run.read(options.csv)))


if __name__ == "__main__":
    main()
