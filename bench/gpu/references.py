#!/usr/bin/env python3
"""The benchmarks of reference systems, on their shapes, in one run and in turns:

    int8     s8 products of full-range data, dequantised by row and token scales (E4)
    shapes   bf16 bias and SiLU at odd and large sizes (C5)
    tails    O-proj, QKV and MoE-down of DeepSeek-V3 and Llama: the library's product, then bias and SiLU
             as kernels of their own, against one kernel (C6)

    bench/gpu/references.py --attacca build/src/cli/attacca --library build/src/api/libattacca.so \\
        --out docs/benchmarks/gpu-references --minutes 6

`library_us`: torch.mm or torch._int_mm (cuBLASLt) and each op of the tail apart. `compiled_us`: Inductor's.
`autotuned_us`: Inductor's max-autotune, products in Triton allowed. `unfused_us`: Attacca's own unfused path by the
tuner's clock. Results are compared with f32 before they are timed."""

import argparse
import os
import sys
import time
from typing import NamedTuple

import csv_run
from plot import geometric_mean

INT8_LAYERS = [(4096, 11008), (12288, 4096), (22016, 4096), (4096, 4096)]
SHAPES = [(16, 5120, 8192), (33, 1024, 2048), (5120, 5120, 8320), (9728, 8192, 8320), (5133, 5120, 8320)]
LAYERS = {"O-proj of DeepSeek-V3": (7168, 16384), "MoE-down of DeepSeek-V3": (7168, 2048),
          "QKV of Llama-3 8B": (6144, 4096), "O-proj of Llama-3 8B": (4096, 4096),
          "QKV of Llama-3 70B": (10240, 8192), "O-proj of Llama-3 70B": (8192, 8192)}
PEERS = ["library_us", "compiled_us", "autotuned_us"]
COLUMNS = ["suite", "name", "m", "n", "k", "attacca_us", "kernel", "unfused_us", *PEERS]


class Case(NamedTuple):
    suite: str
    name: str
    m: int
    n: int
    k: int


def cases():
    """In an order of which every beginning has something of each suite."""
    int8 = [Case("int8", "", m, n, k) for m in (16, 1024, 64, 256) for n, k in INT8_LAYERS]
    int8.append(Case("int8", "", 64, 65536, 4096))
    shapes = [Case("shapes", "", *shape) for shape in SHAPES]
    tails = [Case("tails", name, m, n, k) for m in (1, 16, 64, 256, 1024)
             for name, (n, k) in LAYERS.items()]
    spread = [(index / len(suite), case) for suite in (int8, shapes, tails)
              for index, case in enumerate(suite)]
    return [case for _, case in sorted(spread, key=lambda each: each[0])]


GRAPHS = {
    "bf16": "graph tail(x: bf16[M, {k}], w: bf16[{n}, {k}], b: bf16[{n}]) {{\n"
            "  return silu(x @ transpose(w) + b)\n}}\n",
    "int8": "graph scaled(x: s8[M, {k}], w: s8[{n}, {k}], u: f32[M, 1], v: f32[{n}]) {{\n"
            "  return cast(cast(x @ transpose(w), f32) * u * v, bf16)\n}}\n",
}


def formula(torch, suite):
    if suite == "int8":
        return lambda x, w, u, v: (torch._int_mm(x, w.t()).float() * u * v).bfloat16()
    return lambda x, w, b: torch.nn.functional.silu(torch.mm(x, w.t()) + b)


def operands(torch, case):
    if case.suite == "int8":
        def any_byte(rows, columns):
            return torch.randint(-128, 128, (rows, columns), device="cuda", dtype=torch.int8)
        return (any_byte(case.m, case.k), any_byte(case.n, case.k),
                torch.rand(case.m, 1, device="cuda") * 1e-4, torch.rand(case.n, device="cuda"))
    return (torch.randn(case.m, case.k, device="cuda").bfloat16(),
            (torch.randn(case.n, case.k, device="cuda") * case.k**-0.5).bfloat16(),
            torch.randn(case.n, device="cuda").bfloat16())


def check(torch, case, some, got):
    """Raises where the first rows are not the formula's by f32."""
    x, w, *rest = some
    product = x[:64].double() @ w.double().t()
    want = product * rest[0][:64] * rest[1] if case.suite == "int8" else \
        torch.nn.functional.silu(product + rest[0])
    worst = ((got[:64].double() - want).abs() / (want.abs() + 1)).max().item()
    if not worst < 0.03:
        raise RuntimeError(f"wrong result: off by {worst:.3g}")


class Attacca:
    def __init__(self, torch, library, case, sets, seconds):
        plan = library.plan_of_text(GRAPHS["int8" if case.suite == "int8" else "bf16"].format(
            n=case.n, k=case.k), "always", seconds)
        self.instance = library.instance_of(plan, {"M": case.m})
        self.decision = library.decisions(self.instance)[0]
        needed = library.functions.attacca_instance_workspace(self.instance.value)
        self.workspace = torch.empty(max(1, needed), device="cuda", dtype=torch.uint8)
        self.outs = [torch.empty(case.m, case.n, device="cuda", dtype=torch.bfloat16) for _ in sets]
        self.runs = [library.runner(self.instance, [each.data_ptr() for each in some],
                                    [out.data_ptr()], self.workspace.data_ptr(), needed)
                     for some, out in zip(sets, self.outs)]
        self.stream = torch.cuda.current_stream

    def __call__(self, i):
        self.runs[i](self.stream().cuda_stream)
        return self.outs[i]


def measure(torch, timed, library, case, options):
    cache = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 50 << 20)
    bytes_of_one = (case.m + case.n) * case.k * (1 if case.suite == "int8" else 2)
    sets = [operands(torch, case) for _ in range(max(1, min(8, 2 * cache // bytes_of_one + 1)))]
    ours = Attacca(torch, library, case, sets, options.limit)
    plain = formula(torch, case.suite)
    torch._dynamo.reset()
    contenders = {"attacca_us": ours, "library_us": plain,
                  "compiled_us": torch.compile(plain, dynamic=False, fullgraph=True)}
    if options.autotune:
        contenders["autotuned_us"] = torch.compile(plain, dynamic=False, fullgraph=True,
                                                   mode="max-autotune-no-cudagraphs")
    row = {**case._asdict(), "kernel": ours.decision["candidate"],
           "unfused_us": f"{ours.decision.get('unfused_seconds', 0) * 1e6:.2f}"}
    stopwatches = {}
    for name, run in contenders.items():
        launch = run if name == "attacca_us" else (lambda i, run=run: run(*sets[i]))
        try:
            check(torch, case, sets[0], launch(0))
            stopwatches[name] = timed(launch, len(sets))
        except Exception as error:  # pylint: disable=broad-exception-caught
            print(f"{case}: {name}: {str(error).splitlines()[0]}", file=sys.stderr)
    rounds = [{name: each.once() for name, each in stopwatches.items()} for _ in range(9)]
    for name in stopwatches:
        row[name] = f"{sorted(each[name] for each in rounds)[4]:.2f}"
    return row


def page(rows):
    lines = ["# The reference systems' benchmarks", "",
             f"One NVIDIA H200, {time.strftime('%Y-%m-%d')}, `bench/gpu/references.py`; microseconds, medians of "
             "CUDA graphs in turns. Speed-ups are a peer's time over Attacca's, means are geometric.", ""]
    for suite in dict.fromkeys(row["suite"] for row in rows):
        mine = [row for row in rows if row["suite"] == suite and row.get("attacca_us")]
        lines += [f"## {suite}", ""]
        for peer in PEERS:
            ratios = [float(row[peer]) / float(row["attacca_us"]) for row in mine if row.get(peer)]
            if ratios:
                lines.append(f"- {peer.removesuffix('_us')}: {geometric_mean(ratios):.2f}, from "
                             f"{min(ratios):.2f} to {max(ratios):.2f} ({len(ratios)} cases)")
        lines += ["", "| | M x N x K | Attacca | unfused | library | Inductor | max-autotune | kernel |",
                  "|---|---|---:|---:|---:|---:|---:|---|"]
        lines += [f"| {row['name']} | {row['m']} x {row['n']} x {row['k']} | {row['attacca_us']} | "
                  f"{row['unfused_us']} | " + " | ".join(row.get(peer) or "-" for peer in PEERS) +
                  f" | `{row['kernel']}` |" for row in mine]
        lines.append("")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attacca", required=True, help="the program: it times candidates")
    parser.add_argument("--library", required=True, help="libattacca.so")
    parser.add_argument("--out", default="docs/benchmarks/gpu-references", help="without .csv and .md")
    parser.add_argument("--minutes", type=float, default=6)
    parser.add_argument("--limit", type=float, default=20, help="seconds of tuning a case")
    parser.add_argument("--suites", nargs="*", default=["int8", "shapes", "tails"])
    parser.add_argument("--autotune", action="store_true", help="Inductor's max-autotune too, slow")
    options = parser.parse_args()
    os.environ.setdefault("ATTACCA_TUNE_WORKER", os.path.abspath(options.attacca))
    import torch
    from c_abi import Library
    from torch_bench import Timed
    library = Library(options.library)
    todo = [case for case in cases() if case.suite in options.suites]
    rows = csv_run.run(todo, lambda case: measure(torch, Timed, library, case, options), COLUMNS,
                       options.out + ".csv", options.minutes)
    with open(options.out + ".md", "w", encoding="utf-8") as file:
        file.write(page(rows))


if __name__ == "__main__":
    main()
