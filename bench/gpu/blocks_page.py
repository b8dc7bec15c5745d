#!/usr/bin/env python3
"""The page of what blocks.py measured, from one CSV or several; later rows replace earlier ones.

    bench/gpu/blocks_page.py first.csv second.csv --out docs/benchmarks/gpu-blocks
"""

import argparse

import csv_run
import machine
import pages
from pages import number

COLUMNS = ["date", "device", "torch", "block", "source", "tokens", "contender", "graph_us",
           "direct_us",
           "error", "cold_s", "warm_s", "regions", "note"]
NUMBERS = {"tokens": int, "graph_us": float, "direct_us": float, "error": float, "cold_s": float,
           "warm_s": float, "regions": int}


def time_column(rows):
    """The column of times to compare: those in a CUDA graph, where there are any."""
    return "graph_us" if any(row["graph_us"] != "" for row in rows) else "direct_us"


def page(rows):
    column = time_column(rows)
    facts = {key: ", ".join(sorted({row[key] for row in rows})) for key in ("device", "torch",
                                                                            "date")}
    lines = ["# Transformer blocks under torch.compile", "",
             f"On {machine.described(facts)}. Made by `bench/gpu/blocks.py`; bf16, one sequence.",
             "",
             "Times are medians of the whole block"
             + (", in a CUDA graph; *direct* is without one, and includes the host's time where "
                "the GPU waits for it. " if column == "graph_us" else ". ")
             + "*Error* is the root mean square of the difference from the block in f64, over that "
               "of the result. *First* is the time to the first result: *cold* with empty caches, "
               "*warm* again from the caches on disk.", ""]
    inductor = {(row["block"], row["tokens"]): row[column] for row in rows
                if row["contender"] == "inductor"}
    cells = []
    for row in rows:
        base, own = inductor.get((row["block"], row["tokens"])), row[column]
        ratio = f"{base / own:.3f}x" if isinstance(base, float) and isinstance(own, float) else "-"
        cells.append([row["block"], row["source"], row["tokens"], row["contender"], number(own, 1),
                      ratio,
                      number(row["direct_us"], 1),
                      f"{row['error']:.2e}" if row["error"] != "" else "-",
                      number(row["cold_s"], 2), number(row["warm_s"], 2),
                      number(row["regions"], 0)])
    lines += pages.table(["block", "of", "tokens", "contender", "us", "against Inductor",
                          "direct us", "error",
                          "first cold s", "warm s", "regions"], cells, texts=4)
    return "\n".join(lines + ["", *losses(rows, column), *decisions(rows)])


def decisions(rows):
    """The backend's notes from compiling, by block."""
    return pages.listed("What was found while compiling, and why rows are empty:", [
        f"{row['block']} at {row['tokens']}: {row['note']}" for row in rows if row["note"]])


def losses(rows, time_column):
    """The blocks that are slower than Inductor or less exact than eager, by name."""
    by = {(row["block"], row["tokens"], row["contender"]): row for row in rows}
    found = []
    for (name, tokens, contender), row in by.items():
        if contender != "attacca":
            continue
        eager, inductor = (by.get((name, tokens, other)) for other in ("eager", "inductor"))
        if eager and "" not in (row["error"],
                                eager["error"]) and row["error"] > 1.02 * eager["error"]:
            found.append(
                f"{name} at {tokens}: error {row['error']:.2e}, eager {eager['error']:.2e}")
        if inductor and "" not in (row[time_column], inductor[time_column]) \
                and row[time_column] > 1.02 * inductor[time_column]:
            found.append(
                f"{name} at {tokens}: {row[time_column]:.1f} us, Inductor "
                f"{inductor[time_column]:.1f} us")
    if not found:
        return ["No block is slower than Inductor's default by more than 2 %, or less exact than "
                "eager by more than 2 %.", ""]
    return pages.listed(
        "Slower than Inductor's default, or less exact than eager, by more than 2 %:", found)


def read(paths):
    """Rows by block, tokens and contender, in the order in which they first came."""
    found = {}
    for text in csv_run.read(*paths)[1]:
        row = {name: NUMBERS[name](value) if value and name in NUMBERS else value
               for name, value in text.items()}
        found[row["block"], row["tokens"], row["contender"]] = row
    return list(found.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", nargs="+")
    parser.add_argument("--out", required=True, help="OUT.csv and OUT.md are written")
    args = parser.parse_args()
    rows = read(args.csv)
    csv_run.write(args.out + ".csv", COLUMNS, {}, rows)
    pages.write(args.out + ".md", page(rows))


if __name__ == "__main__":
    main()
