#!/usr/bin/env python3
"""Makes a page of docs/benchmarks of the CSV of expert_layers.py.

    bench/gpu/expert_layers_page.py expert-layers.csv --out docs/benchmarks/expert-layers
"""
import argparse
import statistics

import csv_run
import machine
import pages

COLUMNS = ["layer", "tokens", "inductor_us", "attacca_us", "ratio", "inductor_first_s",
           "attacca_first_s", "regions", "error"]


def page(facts, rows):
    ratios = [float(row["ratio"]) for row in rows]
    lines = [
        "# Layers of experts under torch.compile", "",
        f"On {machine.described(facts)}. Made by `bench/gpu/expert_layers.py`.", "",
        pages.paragraph("""Layers of experts at the models' widths in bf16, with random weights and
        each token's experts drawn alike: routing's sort, both grouped products with biases and
        gates, the router's weights and the sum. *Inductor*: `torch.compile`'s default; *Attacca*:
        `backend="attacca"`, with the choices of kernels for such layers that come with it
        (src/tune/shipped) where one is for this device. Microseconds, medians of CUDA graphs in
        turns; *first*: seconds to the first result with empty caches."""), "",
        f"{statistics.geometric_mean(ratios):.2f}x in the geometric mean of {len(rows)} cases, at "
        f"least {min(ratios):.2f}x.", ""]
    cells = [[row["layer"], row["tokens"], *(pages.number(float(row[key]), 1) for key in
                                             ("inductor_us", "attacca_us")),
              pages.number(float(row["ratio"]), 2),
              *(pages.number(float(row[key]), 1) for key in ("inductor_first_s",
                                                             "attacca_first_s")),
              row["regions"], row["error"]] for row in rows]
    return "\n".join([*lines, *pages.table(
        ["layer", "tokens", "Inductor us", "Attacca us", "ratio", "Inductor first s",
         "Attacca first s", "regions", "error"], cells)]) + "\n"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("csv")
    parser.add_argument("--out", required=True, help="the page, without .md")
    options = parser.parse_args(arguments)
    pages.write(f"{options.out}.md", page(*csv_run.read(options.csv)))


if __name__ == "__main__":
    main()
