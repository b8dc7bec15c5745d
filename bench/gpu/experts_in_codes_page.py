#!/usr/bin/env python3
"""The page of what experts_in_codes.py measured, from one CSV or several:

    bench/gpu/experts_in_codes_page.py codes.csv --out docs/benchmarks/gpu-experts-in-codes
"""

import argparse
from statistics import geometric_mean

import csv_run
import machine
import pages
from pages import number

HOW = """
The two products of layers of experts, with weights in codes as they lie in memory: GPT-OSS's in
MXFP4, Qwen3's in integers of 4 and 8 bits with a zero point for all and a scale in bf16 for each
128 values of k (u4, u8). *Up*: with the gate, of GPT-OSS with biases, alternate columns and clamps,
of Qwen3 SwiGLU; *gathered*: the same from the tokens' rows, which an index names; *down*: of
GPT-OSS with biases, times the router's weights. Rows are sorted by expert; routing draws experts
alike. *bf16*: Attacca with the same weights, widened before; *Inductor*: `torch._grouped_mm` of
these, and the ops that follow under `torch.compile`. *Over bf16* and *over Inductor*: their times
over that with codes, above 1 where codes are faster. *Limit*: what memory at 4.3 TB/s allows for
the codes and rows, or tensor cores at 700 TFLOP/s. Microseconds, medians of CUDA graphs that walk
several draws, in turns. *Error*: the largest one against f64 of the widened weights, relative to
the largest value; Inductor's beside it."""
RATIOS = ["over_bf16", "ratio", "share"]
HEADER = ["layer", "weights", "part", "tokens", "Attacca us", "bf16 us", "Inductor us", "over bf16",
          "over Inductor", "limit us", "error", "Inductor's", "what ran"]


ORDER = ["layer", "codes", "part"]


def line(row):
    return [row["layer"], row["codes"], row["part"], row["tokens"],
            *(row[key] or "-" for key in ("attacca_us", "bf16_us", "inductor_us", "over_bf16",
                                          "ratio", "limit_us", "error", "inductor_error")),
            f"`{row['kernel']}`" if row["kernel"] else "-"]


def named(row):
    return f"{row['layer']}, {row['codes']}, {row['part']}, {row['tokens']} tokens"


def mean(rows, key):
    known = [float(row[key]) for row in rows if row[key]]
    return number(geometric_mean(known) if known else None, 2)


def summary(rows):
    """A line for each kind of codes and number of tokens: the geometric means."""
    keys = sorted({(row["codes"], int(row["tokens"])) for row in rows})
    lines = []
    for codes, tokens in keys:
        some = [row for row in rows if (row["codes"], int(row["tokens"])) == (codes, tokens)]
        lines.append([codes, tokens, len(some), *(mean(some, key) for key in RATIOS)])
    return pages.table(["weights", "tokens", "cases", "over bf16", "over Inductor",
                        "limit over time"], lines)


def slower(rows):
    return [f"{named(row)}: {row[key]} of {peer}" for row in rows
            for key, peer in (("over_bf16", "bf16's speed"), ("ratio", "Inductor's speed"))
            if row[key] and float(row[key]) < 1]


def page(facts, every):
    rows = sorted(every, key=lambda row: ([row[key] for key in ORDER], int(row["tokens"])))
    return "\n".join([
        "# Experts' weights in codes", "",
        f"On {machine.described(facts)}. Made by `bench/gpu/experts_in_codes.py` and "
        "`experts_in_codes_page.py`.", "",
        pages.paragraph(HOW), "", *([facts["note"], ""] if "note" in facts else []),
        "Geometric means:", "", *summary(rows), "",
        *pages.listed("Slower than a peer with weights in bf16:", slower(rows)),
        *pages.listed("Notes:", [f"{named(row)}: {row['note']}" for row in rows if row["note"]]),
        *pages.table(HEADER, [line(row) for row in rows], texts=3), ""])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", nargs="+")
    parser.add_argument("--out", required=True, help="OUT.md is written")
    options = parser.parse_args(arguments)
    pages.write(options.out + ".md", page(*csv_run.read(*options.csv)))


if __name__ == "__main__":
    main()
