#!/usr/bin/env python3
"""From the CSVs of peers.py: one CSV, a page with wins and losses, and a plot."""

import argparse
import os
from statistics import geometric_mean

import machine
import pages
import plot
import rows
from cases import GATES, TITLES
from pages import number

COLUMNS = {"bare_us": "bare GEMM", "eager_us": "eager", "inductor_us": "Inductor",
           "max_autotune_us": "max-autotune", "cublaslt_us": "cuBLASLt epilogue"}
HOW = {
    "cli": "Attacca's times are those of `attacca bench gemm`, a process of its own in the same "
           "run: equal data, buffers and graphs, but not the same turns; its own bare GEMM "
           "(cuBLASLt's best proposal, measured) stands beside PyTorch's to show how far the two "
           "stopwatches differ.",
    "c-abi": "Attacca's plans were tuned, then launched through the C ABI in the same process, "
             "checked, captured and timed in turns with the peers. Of the fused and the unfused "
             "way, the one that was not selected is not launched here: its time is the selected "
             "one's, scaled by the two times that the tuner measured in turns.",
}


class Row:
    """A case's times, and the ratios from which all tables are made; None where one is missing."""

    def __init__(self, row):
        self.row = row
        self.m, self.n, self.k = row["m"], row["n"], row["k"]
        self.epilogue = row["epilogue"]
        peers = {key: row[key] for key in rows.PEERS if row[key]}
        self.fastest = min(peers, key=peers.get) if peers else None
        peer = peers.get(self.fastest)
        bare = row["bare_us"]
        self.speedup = ratio(peer, row["attacca_us"])
        self.fused_speedup = ratio(peer, row["attacca_fused_us"])
        self.of_bare = ratio(row["attacca_us"], bare)
        self.fused_of_bare = ratio(row["attacca_fused_us"], bare)
        self.peer_of_bare = ratio(peer, bare)
        # cuBLASLt has no epilogue for SiLU.
        self.complete = all(key in peers for key in rows.PEERS if key != "cublaslt_us" or
                            self.epilogue == "bias_gelu")
        self.fused_selected = bool(row["selected"]) and not row["selected"].startswith("unfused")

    def __str__(self):
        return pages.sizes(self.row)


def ratio(over, under):
    return over / under if over and under else None


def known(values):
    return [value for value in values if value is not None]


def mean(values):
    some = known(values)
    return number(geometric_mean(some) if some else None)


def count(items, condition):
    return sum(1 for item in items if condition(item))


def summary(table):
    header = ["epilogue", "cases", "selected over fastest peer", "worst", "slower than 1.00",
              "fused over fastest peer", "fused wins", "fastest peer / bare", "selected / bare",
              "fused / bare", "fused / bare, K >= 2048"]
    groups = {TITLES[name]: [r for r in table if r.epilogue == name] for name in TITLES}
    groups["all"] = table
    if any(not r.complete for r in table):
        groups["all where every peer ran"] = [r for r in table if r.complete]
    lines = []
    for title, group in groups.items():
        if not group:
            continue
        speedups = known(r.speedup for r in group)
        lines.append([title, str(len(group)), mean(speedups), number(min(speedups, default=None)),
                      str(count(speedups, lambda s: s < 1)),
                      mean(r.fused_speedup for r in group), fused_wins(group),
                      mean(r.peer_of_bare for r in group), mean(r.of_bare for r in group),
                      mean(r.fused_of_bare for r in group),
                      mean(r.fused_of_bare for r in group if r.k >= 2048)])
    return pages.table(header, lines)


def fused_wins(group):
    return f"{count(known(r.fused_speedup for r in group), lambda s: s >= 1)} of {len(group)}"


def by_m(table):
    header = ["M", "cases", "fused wins", "fused selected", "fused over fastest peer",
              "selected over fastest peer", "worst selected", "fastest peer / bare", "fused / bare"]
    lines = []
    for m in sorted({r.m for r in table}):
        group = [r for r in table if r.m == m]
        lines.append([str(m), str(len(group)), fused_wins(group),
                      str(count(group, lambda r: r.fused_selected)),
                      mean(r.fused_speedup for r in group), mean(r.speedup for r in group),
                      number(min(known(r.speedup for r in group), default=None)),
                      mean(r.peer_of_bare for r in group), mean(r.fused_of_bare for r in group)])
    return pages.table(header, lines)


def losses(table):
    lost = sorted((r for r in table if r.speedup is not None and r.speedup < 1),
                  key=lambda r: r.speedup)
    if not lost:
        return ["No case is slower than the fastest peer."]
    return [f"Slower than the fastest peer in {len(lost)} of {len(table)} cases:", "", *pages.table(
        ["case", "epilogue", "fastest peer", "its us", "Attacca us", "speed-up", "selected"],
        [[str(r), TITLES[r.epilogue], COLUMNS[r.fastest], number(r.row[r.fastest], 1),
          number(r.row["attacca_us"], 1), number(r.speedup), f"`{r.row['selected']}`"]
         for r in lost])]


def everything(table):
    header = ["M x N x K", *COLUMNS.values(), "Attacca", "fused", "unfused", "Attacca's bare",
              "over fastest peer", "fused over fastest peer", "fused / bare", "selected"]
    out = []
    for name, title in TITLES.items():
        group = sorted((r for r in table if r.epilogue == name), key=lambda r: (r.n, r.k, r.m))
        if not group:
            continue
        lines = []
        for r in group:
            times = [number(r.row[key], 1) for key in [*COLUMNS, "attacca_us", "attacca_fused_us",
                                                       "attacca_unfused_us", "attacca_bare_us"]]
            lines.append([str(r), *times, number(r.speedup), number(r.fused_speedup),
                          number(r.fused_of_bare), f"`{r.row['selected']}`"])
        out += [f"### {title}", "", *pages.table(header, lines), ""]
    return out


def failures(all_rows):
    """The notes grouped by reason: a peer that cannot do an epilogue gives one line."""
    reasons = {}
    for row in all_rows:
        for note in filter(None, row["notes"].split("; ")):
            reasons.setdefault(note, []).append(pages.sizes(row))
    lines = []
    for note, where in sorted(reasons.items(), key=lambda item: -len(item[1])):
        shown = ", ".join(where[:6]) + (f" and {len(where) - 6} more" if len(where) > 6 else "")
        lines.append(f"- {note} ({shown})")
    return lines


def title(table):
    return "Gated products" if {r.epilogue for r in table} <= set(GATES) else "GEMM and epilogue"


def page(facts, all_rows, table, plot_name):
    through = sorted({row["through"] for row in all_rows})
    partial = count(table, lambda r: not r.complete)
    lines = [
        f"# {title(table)} in one kernel, on a GPU", "",
        f"On {machine.described(facts)}. Made by `bench/gpu/peers.py` and `table.py`.", "",
        *([facts["note"], ""] if "note" in facts else []),
        "bf16 operands, weights as (N, K), f32 accumulation. Data are N(0, 1), weights N(0, 1/K). "
        "Every contender is a CUDA graph of about 2 ms of launches over as many operand sets as "
        "exceed twice the L2 cache (at most 8); one graph of each in turns, without pauses, in "
        f"another order each round, {facts.get('rounds', '?')} rounds, medians in microseconds a "
        "launch. The peers' results were checked against f32 before they were timed. "
        + " ".join(HOW.get(each, "") for each in through), "",
        "*Selected* is what Attacca runs after tuning, the unfused path included; *fused* is its "
        "fastest fused kernel, chosen or not. *Over* a peer: the peer's time by Attacca's, above 1 "
        "where Attacca is faster. */ bare*: time by that of PyTorch's GEMM alone, below 1 where "
        "the epilogue came for nothing; the fastest peer's is what a kernel would win that took as "
        "long as that GEMM. Means are geometric. The fastest peer of a case is the best of eager, "
        "Inductor, Inductor max-autotune and cuBLASLt's own epilogue.", "",
        *summary(table), "",
    ]
    if len(table) < len(all_rows):
        lines += [f"{len(all_rows) - len(table)} more cases could not be compared (see the end).",
                  ""]
    if partial:
        lines += [f"In {partial} of {len(table)} cases a peer is missing (see the end).", ""]
    lines += [f"![By M]({plot_name})", "", "## By M", "", *by_m(table), "", "## Losses", "",
              *losses(table), "", "## All cases", "", *everything(table)]
    failed = failures(all_rows)
    if failed:
        lines += ["## What did not run", "", *failed, ""]
    return "\n".join(lines)


def panels(table):
    def series(value):
        return {TITLES[name]: [(r.m, value(r)) for r in table
                               if r.epilogue == name and value(r) is not None] for name in TITLES}
    return [plot.Panel("Selected against the fastest peer", "M", "times as fast",
                       series(lambda r: r.speedup)),
            plot.Panel("Fused kernel against the fastest peer", "M", "times as fast",
                       series(lambda r: r.fused_speedup)),
            plot.Panel("Fused kernel against the bare GEMM", "M", "its time",
                       series(lambda r: r.fused_of_bare))]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("csv", nargs="+",
                        help="what peers.py wrote; several shards are merged; a line "
                        "'# note: TEXT' goes into the page")
    parser.add_argument("--out", default="docs/benchmarks/gpu-epilogues",
                        help="the page is OUT.md, the plot OUT.svg, the merged rows OUT.csv")
    options = parser.parse_args(arguments)
    facts, all_rows = {}, {}
    for path in options.csv:
        more, found = rows.read(path)
        facts.update(more)
        all_rows.update({rows.case_of(row): row for row in found})
    merged = list(all_rows.values())
    # Cases that Attacca or every peer failed have no ratio; the page names them at the end.
    table = [r for r in map(Row, merged) if r.speedup is not None]
    os.makedirs(os.path.dirname(os.path.abspath(options.out)), exist_ok=True)
    if [os.path.abspath(p) for p in options.csv] != [os.path.abspath(options.out + ".csv")]:
        if os.path.exists(options.out + ".csv"):
            os.remove(options.out + ".csv")
        writer = rows.Writer(options.out + ".csv", facts)
        for row in merged:
            writer.write(row)
    pages.write(options.out + ".md",
                page(facts, merged, table, os.path.basename(options.out) + ".svg"))
    plot.write(options.out + ".svg", panels(table))


if __name__ == "__main__":
    main()
