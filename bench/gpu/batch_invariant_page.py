#!/usr/bin/env python3
"""Makes a page of docs/benchmarks of the CSV of batch_invariant.py.

    bench/gpu/batch_invariant_page.py batch-invariant.csv --out docs/benchmarks/batch-invariant
"""
import argparse
import statistics

import csv_run
import machine
import pages

LIMIT = 1.1  # the goal: a cost of at most 10 %
TUNINGS = {"measure": "both are chosen by measuring",
           "model": "both are chosen by the cost model, without measuring"}


def page(facts, rows):
    costs = [float(row["invariant_us"]) / float(row["usual_us"]) for row in rows]
    lines = [
        "# What batch-invariant products cost", "",
        f"On {machine.described(facts)}. Made by `bench/gpu/batch_invariant.py` and "
        "`batch_invariant_page.py`.", "",
        pages.paragraph(f"""bf16 products of [M, K] and [N, K] with bias and SiLU, with
        `batch_invariant=True` and without ([numerics](../numerics.md)); {TUNINGS[facts['tuning']]}.
        *Cost*: the quotient of both less 1, below 0 where the batch-invariant product is the faster
        one. Microseconds, medians of CUDA graphs over buffers that together exceed the L2
        cache, in turns."""), "",
        f"The geometric mean of the cost is {statistics.geometric_mean(costs) - 1:+.1%}; "
        f"{sum(cost <= LIMIT for cost in costs)} of {len(costs)} are at most {LIMIT - 1:.0%}, the "
        f"largest is {max(costs) - 1:+.1%}.", ""]
    cells = [[row["n"], row["k"], row["m"], row["invariant_us"], row["usual_us"],
              f"{cost - 1:+.1%}", f"`{row['invariant']}`", f"`{row['usual']}`"]
             for row, cost in zip(rows, costs)]
    return "\n".join([*lines, *pages.table(["N", "K", "M", "batch-invariant us", "usual us", "cost",
                                            "what ran", "usually"], cells, texts=0)]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("csv")
    parser.add_argument("--out", required=True, help="the page, without .md")
    arguments = parser.parse_args()
    pages.write(f"{arguments.out}.md", page(*csv_run.read(arguments.csv)))


if __name__ == "__main__":
    main()
