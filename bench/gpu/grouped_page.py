#!/usr/bin/env python3
"""The page of what grouped.py measured:

    bench/gpu/grouped_page.py one.csv two.csv --out docs/benchmarks/gpu-grouped
"""

import argparse
from statistics import geometric_mean

import csv_run
import machine
import pages

HOW = """
The two products of layers of experts in bf16. *Up*: with both halves of the weights, then SwiGLU;
*gathered*: the same from the tokens' rows, which an index names; *down*: times the router's
weights; *bare*: that product alone. Rows are sorted by expert; routing
draws experts alike (uniform) or by Zipf's law with exponent 1. *PyTorch*: `torch._grouped_mm`, then
the ops one by one; *Inductor*: the same under `torch.compile`; *Triton*: a fused kernel of the
design of vLLM and SGLang, the fastest of a list of configurations, and a kernel for SwiGLU, without
the time for padding each expert's rows to blocks; a dash: not measured. *Ratio*: the fastest peer's
time over
Attacca's, above 1 where Attacca is faster. *Limit*: what memory at 4.3 TB/s or tensor cores at 700
TFLOP/s allow. Microseconds, medians of CUDA graphs that walk several draws, in turns. Rows of
weights as (K, N) were measured before there were kernels whose tiles fit their groups' rows (*fit*
in a kernel's name). The last form of these, which does not load rows that a group does not have,
is in the rows of Qwen3 and of DeepSeek-V3's up for 4096 tokens, and of GPT-OSS and Mixtral for
512."""
PEERS = ["torch_us", "inductor_us", "triton_us"]  # CSVs from before Triton lack its columns
LAYOUTS = {"nk": "(N, K)", "kn": "(K, N)"}
LEAST, NEAR = 1.05, 0.8  # of the ratio, of the limit's speed from 16 tokens on


def line(row):
    return [row["layer"], row["part"], LAYOUTS[row["layout"]], row["tokens"], row["routing"],
            row["attacca_us"], *(row.get(peer) or "-" for peer in PEERS), row["ratio"],
            row["limit_us"], f"`{row['kernel']}`"]


def over(rows, *peers):
    """How many times as fast as the fastest of the peers, in the geometric mean."""
    times = [(min((float(row[peer]) for peer in peers if row.get(peer)), default=None),
              float(row["attacca_us"])) for row in rows]
    ratios = [theirs / ours for theirs, ours in times if theirs is not None]
    return f"{geometric_mean(ratios):.2f}" if ratios else "-"


def summary(rows):
    """A line for each number of tokens: the geometric mean of the ratios, the least, and the
    geometric means over PyTorch's ways and over Triton."""
    counts = sorted({int(row["tokens"]) for row in rows})
    parts = [[row for row in rows if int(row["tokens"]) == tokens] for tokens in counts] + [rows]
    return [[tokens, len(some), f"{geometric_mean(float(row['ratio']) for row in some):.2f}",
             f"{min(float(row['ratio']) for row in some):.2f}",
             over(some, "torch_us", "inductor_us"), over(some, "triton_us")]
            for tokens, some in zip([*counts, "all"], parts) if some]


def named(row):
    return (f"{row['layer']}, {row['part']}, {LAYOUTS[row['layout']]}, {row['tokens']} tokens, "
            f"{row['routing']}")


def below(rows):
    """What misses a goal."""
    slow = [f"{named(row)}: {row['ratio']}" for row in rows if float(row["ratio"]) < LEAST]
    far = [f"{named(row)}: {row['share']}" for row in rows
           if int(row["tokens"]) >= 16 and float(row["share"]) < NEAR]
    return [*pages.listed(f"Less than {LEAST} times as fast as the fastest peer:", slow),
            *pages.listed(f"Less than {NEAR} of the limit's speed, from 16 tokens on:", far)]


def notes(rows):
    """What failed."""
    return pages.listed("Notes:", [f"{named(row)}: {row['note']}" for row in rows
                                   if row.get("note")])


def page(facts, every):
    rows = [row for row in every if row["ratio"]]
    return "\n".join([
        "# Grouped products", "",
        f"On {machine.described(facts)}. Made by `bench/gpu/grouped.py` and `grouped_page.py`.", "",
        pages.paragraph(HOW), "", *([facts["note"], ""] if "note" in facts else []),
        *pages.table(["tokens", "cases", "ratio, geometric mean", "least",
                      "over PyTorch or Inductor", "over Triton"],
                     summary(rows), texts=0), "", *below(rows), *notes(every),
        *pages.table(["layer", "part", "weights", "tokens", "routing", "Attacca us", "PyTorch us",
                      "Inductor us", "Triton us", "ratio", "limit us", "what ran"],
                     [line(row) for row in rows], texts=3), ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", nargs="+")
    parser.add_argument("--out", required=True, help="OUT.md is written")
    options = parser.parse_args()
    pages.write(options.out + ".md", page(*csv_run.read(*options.csv)))


if __name__ == "__main__":
    main()
