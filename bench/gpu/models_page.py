#!/usr/bin/env python3
"""The page of what models.py measured, from one CSV or several; what later rows of a case hold
replaces what earlier ones do.

    bench/gpu/models_page.py first.csv second.csv --out docs/benchmarks/models
"""

import argparse
import re
import statistics

import csv_run
import machine
import pages
from pages import number

# Of a call's time on the GPU, by what the names of kernels contain; the first that fits.
KINDS = {"attention": r"flash|fmha|attention|attn|softmax", "generated": r"^triton_",
         "products": r"gemm|gemv|cutlass|cublas|nvjet|xmma|splitk|wgmma|mma_|dot_|packed_|attacca"}
PARTS = ("products", "attention", "generated", "rest")
COLUMNS = ["model", "layers", "batch", "tokens", "inductor_us", "attacca_us", "ratio",
           "inductor_direct_us", "attacca_direct_us", "direct_ratio", "inductor_cold_s",
           "attacca_cold_s", "inductor_warm_s", "attacca_warm_s", "error", "regions", "left",
           *(f"{contender}_{part}_us" for contender in ("inductor", "attacca") for part in PARTS),
           "measuring", "note"]
TEXTS = {"model", "measuring", "note"}
# A case is a loss below the first; the goals of a first call over Inductor's.
NOISE, COLD, WARM = 0.99, 1.5, 1.1


def by_part(times):
    """The sums of (kernel's name, microseconds)."""
    found = dict.fromkeys(PARTS, 0.0)
    for name, us in times:
        part = next((part for part, pattern in KINDS.items()
                     if re.search(pattern, name, re.IGNORECASE)), "rest")
        found[part] += us
    return found


def named(row):
    return f"{row['model']}, {row['layers']:.0f} layers, {row['batch']:.0f} x {row['tokens']:.0f}"


def sizes(row):
    return [row["model"], *(f"{row[key]:.0f}" for key in ("layers", "batch", "tokens"))]


def known(rows, *columns):
    return [row for row in rows if all(row[column] is not None for column in columns)]


def over(row, what):
    """Attacca's seconds over Inductor's."""
    return row[f"attacca_{what}_s"] / row[f"inductor_{what}_s"]


def summary(rows):
    """Geometric means, worst cases, and all that miss a goal, by name."""
    lines, missed = [], []
    for column, what in (("ratio", "in a CUDA graph"), ("direct_ratio", "called directly")):
        found = known(rows, column)
        if found:
            worst = min(found, key=lambda row: row[column])
            mean = statistics.geometric_mean([row[column] for row in found])
            lines.append(f"over Inductor {what}: {mean:.3f}x in the geometric mean of {len(found)} "
                         f"cases, at least {worst[column]:.3f}x ({named(worst)})")
            missed += [f"{named(row)}: {row[column]:.3f}x {what}" for row in found
                       if row[column] < NOISE]
    found = known(rows, *(f"inductor_{part}_us" for part in PARTS))
    if found:
        bounds = {named(row): sum(row[f"inductor_{part}_us"] for part in PARTS)
                  / (row["inductor_products_us"] + row["inductor_attention_us"]) for row in found}
        most = max(bounds, key=bounds.get)
        lines.append("a bound: if all but Inductor's products and attention took no time, "
                     f"{statistics.geometric_mean(bounds.values()):.3f}x in the geometric mean, at "
                     f"most {bounds[most]:.3f}x ({most}); more is gained by faster products alone")
    for what, goal in (("cold", COLD), ("warm", WARM)):
        found = known(rows, f"attacca_{what}_s", f"inductor_{what}_s")
        if found:
            worst = max(found, key=lambda row: over(row, what))
            mean = statistics.geometric_mean([over(row, what) for row in found])
            lines.append(f"time to the first result, {what}: {mean:.2f} times Inductor's in the "
                         f"geometric mean of {len(found)} cases, at most {over(worst, what):.2f} "
                         f"times ({named(worst)})")
            missed += [f"{named(row)}: the first result, {what}, after {over(row, what):.2f} times "
                       "Inductor's time" for row in found if over(row, what) > goal]
    return [*pages.listed("In short:", lines),
            *pages.listed(f"Slower than Inductor by more than {100 * (1 - NOISE):.0f} %, or a "
                          f"first result later than {COLD} times Inductor's (cold) or {WARM} "
                          "times (warm):", missed)]


def page(rows, facts):
    lines = ["# Whole models under torch.compile", "",
             f"On one {machine.described(facts)}. Made by `bench/gpu/models.py`: models of "
             "transformers at their real widths with few layers and random weights, bf16, beside "
             "Inductor's default. Attacca carries measured choices for these models' layers with 1 "
             "to 256 rows, for those of llama, opt, qwen3, gemma2 and neox with 512 and 2048, too "
             "(`shipped.py --graphs`); others are tuned within the first call's time, or the cost "
             "model chooses.", "",
             *([facts["note"], ""] if "note" in facts else []), *summary(rows),
             "## A call", "",
             "Microseconds of the whole model, medians of turns: in a CUDA graph, and *direct*, "
             "with the host's part. *Error* is the root mean square "
             "of the difference from Inductor's result, over that of the result.", ""]
    lines += pages.table(
        ["model", "layers", "batch", "tokens", "Inductor", "Attacca", "ratio", "Inductor direct",
         "Attacca direct", "ratio", "regions", "error"],
        [[*sizes(row), number(row["inductor_us"], 1), number(row["attacca_us"], 1),
          number(row["ratio"]), number(row["inductor_direct_us"], 1),
          number(row["attacca_direct_us"], 1), number(row["direct_ratio"]),
          number(row["regions"], 0), "-" if row["error"] is None else f"{row['error']:.1e}"]
         for row in rows])
    lines += ["", "## The first call", "",
              "Seconds to the first result: *cold* with empty caches, *warm* from the caches on "
              "disk.", ""]
    lines += pages.table(
        ["model", "layers", "batch", "tokens", "Inductor cold", "Attacca cold", "Inductor warm",
         "Attacca warm", "measuring"],
        [[*sizes(row), *(number(row[f"{contender}_{what}_s"], 2) for what in ("cold", "warm")
                         for contender in ("inductor", "attacca")), row["measuring"] or "-"]
         for row in known(rows, "inductor_cold_s", "attacca_cold_s")])
    shares = known(rows, "inductor_products_us", "attacca_products_us")
    if shares:
        lines += ["", "## Where the time goes", "",
                  "Microseconds on the GPU of one call, by kernels: *products* with what is fused "
                  "into them, *attention*, what Inductor *generated*, and the *rest*, such as "
                  "copies.", ""]
        lines += pages.table(
            ["model", "layers", "batch", "tokens",
             *(f"{contender}: {part}" for contender in ("Inductor", "Attacca") for part in PARTS)],
            [[*sizes(row), *(number(row[f"{contender}_{part}_us"], 0)
                             for contender in ("inductor", "attacca") for part in PARTS)]
             for row in shares])
    notes = [f"{named(row)}: {row['note']}" for row in rows if row["note"]]
    return "\n".join([*lines, "", *pages.listed("Notes:", notes)])


def read(paths):
    """(facts, rows by model, layers, batch and tokens in the order in which they first came)."""
    facts, found = csv_run.read(*paths)
    rows = {}
    for text in found:
        row = {name: text.get(name, "") if name in TEXTS else
               float(text[name]) if text.get(name) else None for name in COLUMNS}
        key = row["model"], row["layers"], row["batch"], row["tokens"]
        given = {name: value for name, value in row.items() if value not in ("", None)}
        rows[key] = rows.get(key, row) | given
    return facts, list(rows.values())


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", nargs="+")
    parser.add_argument("--out", required=True, help="OUT.md is written")
    args = parser.parse_args(arguments)
    facts, rows = read(args.csv)
    pages.write(args.out + ".md", page(rows, facts))


if __name__ == "__main__":
    main()
