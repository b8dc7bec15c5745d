#!/usr/bin/env python3
"""The page and plots of what references.py measured, from one CSV or several, and of what mixed.py
measured at the same layers:

    bench/gpu/references_page.py first.csv second.csv --mixed mixed.csv \\
        --out docs/benchmarks/gpu-references
"""

import argparse
from statistics import geometric_mean

import csv_run
import machine
import pages
import plot

PEERS = {"library_us": "library", "compiled_us": "Inductor", "autotuned_us": "max-autotune"}
TITLES = {
    "int8": "int8 products, dequantised by token and channel",
    "shapes": "bf16, bias and SiLU, odd and large sizes",
    "shapes_f8": "f8e4m3, dequantised by token and channel, bias and SiLU, odd and large sizes",
    "shapes_s8": "int8, dequantised by token and channel, bias and SiLU, odd and large sizes",
    "silu": "bf16 and SiLU",
    "tails": "bf16, bias and SiLU, of DeepSeek-V3's and Llama 3's layers",
}
PACKED_PEERS = {"s4": "PyTorch's int4 kernel", "s8": "Inductor's max-autotune"}
HOW = {
    "int8": "Library: torch._int_mm, which takes no fewer than 17 rows, and PyTorch's operators; "
            "data of the full range.",
    "shapes": "Library: torch.mm and PyTorch's operators.",
    "shapes_f8": "Library: torch._scaled_mm with the bias, then SiLU.",
    "shapes_s8": "Library: torch._int_mm, which takes no fewer than 17 rows, and PyTorch's "
                 "operators.",
    "silu": "Library: torch.mm, then SiLU. Reported for this shape: 179 us by the fused kernel "
            "and 137 us without fusion, on an H200.",
    "tails": "Library: torch.mm, then bias and SiLU as kernels of their own. Reported over the "
             "library, on an MI300X: 2.73 in the mean, and these of three layers. At most: its "
             "time over the time in which this GPU's memory moves the operands and its tensor "
             "cores multiply them, whichever is longer. No kernel gains more here; where it is "
             "below what was reported, the library was farther from the limit there.",
}
REPORTED = {"O-proj": 3.25, "MoE-down": 3.33, "QKV": 2.92}
# Bytes a second, and bf16 operations a second, from NVIDIA's data sheets.
LIMITS = {"NVIDIA H200": (4.8e12, 989e12), "NVIDIA H100 80GB HBM3": (3.35e12, 989e12)}


def read(paths):
    """(facts, rows). Of two rows of one case, the later one."""
    facts, every = csv_run.read(*paths)
    rows = {tuple(row[key] for key in ("suite", "name", "m", "n", "k")): row for row in every}
    return facts, [row for row in rows.values() if row["attacca_us"]]


def ratios(rows, peer):
    """(M, the peer's time by Attacca's) where it ran."""
    return [(int(row["m"]), float(row[peer]) / float(row["attacca_us"])) for row in rows
            if row[peer]]


def spread(title, points):
    values = [value for _, value in points]
    return (f"- {title}: {geometric_mean(values):.2f}, from {min(values):.2f} to {max(values):.2f} "
            f"({len(values)} cases)")


def at_most(row, device):
    """How many times as fast as the library a kernel may be on this GPU; none: not known."""
    if not row["library_us"] or device not in LIMITS:
        return None
    m, n, k = (int(row[key]) for key in "mnk")
    bandwidth, rate = LIMITS[device]
    least = max(2 * (m * k + n * k + m * n) / bandwidth, 2 * m * n * k / rate)
    return float(row["library_us"]) / (least * 1e6)


def beside_the_reported(row, device):
    """What was reported for the layer, what is measured, and the most that this GPU allows."""
    reported = [gain for layer, gain in REPORTED.items() if row["name"].startswith(layer)]
    measured = [gain for _, gain in ratios([row], "library_us")]
    return [f"{gain[0]:.2f}" if gain and gain[0] else "-"
            for gain in (reported, measured, [at_most(row, device)])]


def suite_of(name, rows, device):
    some = {title: ratios(rows, peer) for peer, title in PEERS.items()}
    limits = [(int(row["m"]), gain) for row in rows if name == "tails"
              and (gain := at_most(row, device))]
    lines = [f"## {TITLES[name]}", "", HOW[name], "",
             *(spread(title, points) for title, points in some.items() if points),
             *(spread("library, at most", bounds) for bounds in [limits] if bounds), "",
             *pages.table(["", "M x N x K", "Attacca", "unfused", *PEERS.values(),
                           *(["reported", "here", "at most"] if name == "tails" else []),
                           "kernel"],
                          [[row["name"], pages.sizes(row), row["attacca_us"], row["unfused_us"],
                            *(row[peer] or "-" for peer in PEERS),
                            *(beside_the_reported(row, device) if name == "tails" else []),
                            f"`{row['kernel']}`"]
                           for row in sorted(rows, key=lambda row: (int(row["m"]), row["name"]))],
                          texts=2), ""]
    panel = plot.Panel(TITLES[name], "M", "speed-up", {title: p for title, p in some.items() if p})
    return lines, panel


def mixed_of(path):
    _, rows = csv_run.read(path)
    points = {f"{codes} weights": [(int(row["m"]), float(row["ratio"])) for row in rows
                                   if row["codes"] == codes]
              for codes in sorted({row["codes"] for row in rows})}
    beside = {codes: [(int(row["m"]),
                       float(row["torch_us"]) / float(row["attacca_us"])) for row in rows
                      if row["codes"] == codes and row.get("torch_us")] for codes in PACKED_PEERS}
    lines = ["## Packed weights, bf16 activations", "",
             "Beside cuBLAS's bf16 product of the unpacked weights, and what PyTorch has for such "
             "weights: its own kernel of 4 bits, Inductor's max-autotune of 8; a bf16 scale for "
             "each 128 of k.", "",
             *(spread(title, some) for title, some in points.items()),
             *(spread(f"{codes} weights over {peer}",
                      beside[codes]) for codes, peer in PACKED_PEERS.items()
               if beside[codes]), "",
             *pages.table(["weights", "M x N x K", "Attacca", "cuBLAS bf16", "PyTorch's",
                           "speed-up", "GB/s",
                           "kernel"],
                          [[row["codes"], pages.sizes(row), row["attacca_us"], row["cublas_us"],
                            row.get("torch_us") or "-", row["ratio"], row["weights_gbps"],
                            f"`{row['kernel']}`"] for row in rows], texts=2), ""]
    return lines, plot.Panel("Packed weights over cuBLAS's bf16 product", "M", "speed-up", points)


def write(facts, rows, mixed, out):
    """OUT.md and OUT.svg. `mixed`: a CSV of mixed.py, or none."""
    suites = [suite_of(name, [row for row in rows if row["suite"] == name], facts.get("device"))
              for name in TITLES if any(row["suite"] == name for row in rows)]
    if mixed:
        suites.append(mixed_of(mixed))
    lines = ["# The reference systems' benchmarks", "",
             f"On {machine.described(facts)}. Made by `bench/gpu/references.py` and "
             "`references_page.py`; microseconds, medians of CUDA graphs in turns over operands "
             "that together exceed the L2 cache. Speed-ups are a peer's time over Attacca's, "
             "means are geometric.", "",
             *([facts["note"], ""] if "note" in facts else []),
             f"![Speed-ups by M]({out.rsplit('/', 1)[-1]}.svg)", ""]
    pages.write(out + ".md", "\n".join(lines + [line for suite, _ in suites for line in suite]))
    plot.write(out + ".svg", [panel for _, panel in suites])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", nargs="+", help="a line '# note: TEXT' goes into the page")
    parser.add_argument("--mixed", help="what mixed.py wrote")
    parser.add_argument("--out", default="docs/benchmarks/gpu-references")
    options = parser.parse_args()
    write(*read(options.csv), options.mixed, options.out)


if __name__ == "__main__":
    main()
