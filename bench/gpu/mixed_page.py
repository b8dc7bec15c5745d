#!/usr/bin/env python3
"""The page of what mixed.py measured, from one CSV or several; later rows replace earlier ones. A
line '# note: TEXT' of a CSV goes into the page.

    bench/gpu/mixed_page.py first.csv second.csv --out docs/benchmarks/gpu-mixed
"""

import argparse
from statistics import geometric_mean

import csv_run
import machine
import pages
from pages import number

EPILOGUES = {"none": "", "bias_silu": "bias, SiLU"}
HEADER = ["M x N x K", "weights", "epilogue", "Attacca us", "without epilogue", "cuBLAS bf16 us",
          "ratio", "GB/s", "what ran"]
HOW = """
Weights of 4 (s4) and 8 bits (s8) with a bf16 scale for each 128 values of k, bf16 activations,
beside cuBLAS's bf16 product of the unpacked weights, without the epilogue. The two take turns
without pauses. Each time is the median of CUDA graphs of launches over buffers that together exceed
twice the L2 cache. *Without epilogue* is Attacca's own product in the same turns. *Ratio* is
cuBLAS's time over Attacca's, above 1 where Attacca is faster. *GB/s* is the packed bytes over
Attacca's time."""


def read(paths):
    """(facts, rows by case), the largest weights first; later ones replace earlier ones."""
    facts, rows = csv_run.read(*paths)
    found = {tuple(row[key] for key in ("codes", "group", "epilogue", "m", "n", "k")): row
             for row in rows}
    return facts, sorted(found.values(), key=lambda row: (
        -int(row["n"]) * int(row["k"]), -int(row["n"]), int(row["m"]), row["codes"],
        row["epilogue"]))


def line(row):
    without = float(row["product_us"]) if row["product_us"] else None
    ours, library = float(row["attacca_us"]), float(row["cublas_us"])
    return [pages.sizes(row), row["codes"], EPILOGUES[row["epilogue"]], number(ours, 1),
            number(without, 1), number(library, 1), number(library / ours, 2), row["weights_gbps"],
            f"`{row['kernel']}`"]


def by_rows(rows):
    """The ratios of all layers, by M and width of the weights."""
    lines = []
    for m in sorted({int(row["m"]) for row in rows}):
        for codes in sorted({row["codes"] for row in rows}):
            some = [float(row["cublas_us"]) / float(row["attacca_us"]) for row in rows
                    if int(row["m"]) == m and row["codes"] == codes]
            if some:
                lines.append([m, codes, len(some), number(geometric_mean(some), 2),
                              number(min(some), 2), number(max(some), 2)])
    return pages.table(["M", "weights", "cases", "geometric mean", "least", "most"], lines, texts=2)


def page(facts, rows):
    return "\n".join([
        "# Packed weights on a GPU", "",
        f"On {machine.described(facts)}. Made by `bench/gpu/mixed.py` and `mixed_page.py`.", "",
        pages.paragraph(HOW), "", *([facts["note"], ""] if "note" in facts else []),
        "## Ratios by rows", "", *by_rows(rows), "",
        "## All cases", "", *pages.table(HEADER, [line(row) for row in rows], texts=3), ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", nargs="+")
    parser.add_argument("--out", required=True, help="OUT.csv and OUT.md are written")
    options = parser.parse_args()
    facts, rows = read(options.csv)
    csv_run.write(options.out + ".csv", list(rows[0]), facts, rows)
    pages.write(options.out + ".md", page(facts, rows))


if __name__ == "__main__":
    main()
