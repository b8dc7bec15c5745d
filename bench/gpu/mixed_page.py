#!/usr/bin/env python3
"""The table of what mixed.py measured, from one CSV or several: OUT.csv, and in OUT.md what stands below its text.

    bench/gpu/mixed_page.py first.csv second.csv --out docs/benchmarks/gpu-mixed
"""

import argparse
import csv

import pages
from pages import number

EPILOGUES = {"none": "", "bias_silu": "bias, SiLU"}
HEADER = ["M x N x K", "weights", "epilogue", "Attacca us", "without epilogue", "cuBLAS bf16 us", "ratio", "GB/s",
          "what ran"]


def read(paths):
    """Rows by case, the largest weights first; later ones replace earlier ones."""
    found = {}
    for path in paths:
        with open(path, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                found[tuple(row[key] for key in ("codes", "group", "epilogue", "m", "n", "k"))] = row
    return sorted(found.values(),
                  key=lambda row: (-int(row["n"]) * int(row["k"]), -int(row["n"]), int(row["m"]), row["codes"],
                                   row["epilogue"]))


def line(row):
    without = float(row["product_us"]) if row["product_us"] else None
    ours, library = float(row["attacca_us"]), float(row["cublas_us"])
    return [pages.sizes(row), row["codes"], EPILOGUES[row["epilogue"]], number(ours, 1), number(without, 1),
            number(library, 1), number(library / ours, 2), row["weights_gbps"], f"`{row['kernel']}`"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", nargs="+")
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    rows = read(options.csv)
    with open(options.out + ".csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    with open(options.out + ".md", encoding="utf-8") as file:
        text = file.read().split(f"| {HEADER[0]} |")[0]
    with open(options.out + ".md", "w", encoding="utf-8") as file:
        file.write(text + "\n".join(pages.table(HEADER, [line(row) for row in rows], texts=3)) + "\n")


if __name__ == "__main__":
    main()
