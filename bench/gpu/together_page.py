#!/usr/bin/env python3
"""The page of what together.py measured:

    bench/gpu/together_page.py together.csv --out docs/benchmarks/gpu-together
"""

import argparse
from statistics import geometric_mean

import csv_run
import machine
import pages

HOW = """
Products of one input in bf16: the queries, keys and values of layers, M rows by the columns of each
product, with or without biases. *Together*: a plan of the products, chosen without measuring, in
so many launches: one where the cost model expects a gain. *Apart*: a plan for each product, its
kernel measured. *PyTorch*: `x @ w.T` or `addmm` for each. *Ratio*: the faster of these two over
*together*, above 1 where one launch is faster. *Joined*: PyTorch's one product with the weights in
one matrix, for comparison: it needs a copy of the weights. Microseconds, medians of CUDA graphs
that walk more operands than the L2 cache holds, in turns."""
SLOWER = 0.98


def line(row):
    return [row["layer"], row["m"], row["columns"].replace(" ", " + "), row["k"],
            row["together_us"], row["launches"], row["apart_us"], row["torch_us"],
            row["joined_us"], row["ratio"], f"`{row['kernel']}`"]


def mean_of(rows):
    return f"{geometric_mean(float(row['ratio']) for row in rows):.2f}"


def least_of(rows):
    return f"{min(float(row['ratio']) for row in rows):.2f}"


def summary(rows):
    counts = sorted({int(row["m"]) for row in rows})
    lines = []
    for m in [*counts, "all"]:
        some = [row for row in rows if m == "all" or int(row["m"]) == m]
        joined = geometric_mean(float(row["joined_us"]) / float(row["together_us"])
                                for row in some)
        lines.append([m, len(some), sum(row["launches"] == "1" for row in some), mean_of(some),
                      least_of(some), f"{joined:.2f}"])
    return lines


def page(facts, rows):
    slower = [f"{row['layer']}, {row['m']} rows: {row['ratio']}" for row in rows
              if float(row["ratio"]) < SLOWER]
    wrong = [f"{row['layer']}, {row['m']} rows: {row['error']} against {row['torch_error']}"
             for row in rows if float(row["error"]) > 1.05 * float(row["torch_error"])]
    return "\n".join([
        "# One launch for several products", "",
        f"On {machine.described(facts)}. Made by `bench/gpu/together.py` and `together_page.py`.",
        "", pages.paragraph(HOW), "",
        *pages.table(["M", "layers", "one launch", "ratio, geometric mean", "least",
                      "joined / together"], summary(rows), texts=0), "",
        *pages.listed(f"Slower than {SLOWER} of the faster of apart and PyTorch:", slower),
        *pages.listed("An error against f64 above PyTorch's by more than 5 %:", wrong),
        *pages.table(["layer", "M", "columns", "K", "together", "launches", "apart", "PyTorch",
                      "joined", "ratio", "kernel"], map(line, rows), texts=1), ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv")
    parser.add_argument("--out", required=True, help="OUT.md is written")
    options = parser.parse_args()
    pages.write(options.out + ".md", page(*csv_run.read(options.csv)))


if __name__ == "__main__":
    main()
