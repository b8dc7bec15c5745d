#!/usr/bin/env python3
"""The benchmarks of reference systems, on their shapes, in one run and in turns:

    int8     s8 products of full-range data, dequantised by row and token scales
    shapes   bias and SiLU at odd and large sizes: bf16; shapes_f8 and shapes_s8 dequantise first
    silu     bf16 and SiLU, without a bias
    tails    O-proj, QKV and MoE-down of DeepSeek-V3 and Llama: the library's product, then bias and
             SiLU as kernels of their own, against one kernel

    bench/gpu/references.py --attacca build/src/cli/attacca --library build/src/api/libattacca.so \\
        --out docs/benchmarks/gpu-references --minutes 6

`library_us`: torch.mm or torch._int_mm (cuBLASLt), then one kernel for each op of the tail.
`compiled_us`: Inductor. `autotuned_us`: Inductor's max-autotune, products in Triton allowed.
`unfused_us`: Attacca's own unfused path, timed by the tuner. Results are compared with f32 before
they are timed."""

import sys
from typing import NamedTuple

import torch
import torch.nn.functional as F

import csv_run
import machine
import references_page
import tuned_plan
from stopwatch import Timed, medians, sets_beyond_cache
from torch_bench import compare

INT8_LAYERS = [(4096, 11008), (12288, 4096), (22016, 4096), (4096, 4096)]
SHAPES = [(16, 5120, 8192), (33, 1024, 2048), (5120, 5120, 8320), (9728, 8192, 8320),
          (5133, 5120, 8320)]
LAYERS = {"O-proj of DeepSeek-V3": (7168, 16384), "MoE-down of DeepSeek-V3": (7168, 2048),
          "QKV of Llama-3 8B": (6144, 4096), "O-proj of Llama-3 8B": (4096, 4096),
          "QKV of Llama-3 70B": (10240, 8192), "O-proj of Llama-3 70B": (8192, 8192)}
COLUMNS = ["suite", "name", "m", "n", "k", "attacca_us", "kernel", "unfused_us",
           *references_page.PEERS]


class Case(NamedTuple):
    suite: str
    name: str
    m: int
    n: int
    k: int


def cases():
    """All cases, in an order in which every prefix has cases of each suite."""
    int8 = [Case("int8", "", m, n, k) for m in (16, 1024, 64, 256) for n, k in INT8_LAYERS]
    int8.append(Case("int8", "", 64, 65536, 4096))
    shapes = [Case(suite, "", *shape) for suite in ("shapes", "shapes_f8", "shapes_s8")
              for shape in SHAPES]
    silu = [Case("silu", "", 1024, 11008, 4096)]
    tails = [Case("tails", name, m, n, k) for m in (1, 16, 64, 256, 1024)
             for name, (n, k) in LAYERS.items()]
    spread = [(index / len(suite), case) for suite in (int8, shapes, silu, tails)
              for index, case in enumerate(suite)]
    return [case for _, case in sorted(spread, key=lambda each: each[0])]


KINDS = {"int8": "int8", "shapes_s8": "s8", "shapes_f8": "f8", "silu": "silu"}  # else bf16
GRAPHS = {
    "bf16": "graph tail(x: bf16[M, {k}], w: bf16[{n}, {k}], b: bf16[{n}]) {{\n"
            "  return silu(x @ transpose(w) + b)\n}}\n",
    "silu": "graph tail(x: bf16[M, {k}], w: bf16[{n}, {k}]) {{\n"
            "  return silu(x @ transpose(w))\n}}\n",
    "int8": "graph scaled(x: s8[M, {k}], w: s8[{n}, {k}], u: f32[M, 1], v: f32[{n}]) {{\n"
            "  return cast(cast(x @ transpose(w), f32) * u * v, bf16)\n}}\n",
    "s8": "graph scaled(x: s8[M, {k}], w: s8[{n}, {k}], u: f32[M, 1], v: f32[{n}], "
          "b: bf16[{n}]) {{\n"
          "  return cast(silu(cast(x @ transpose(w), f32) * u * v + cast(b, f32)), bf16)\n}}\n",
    "f8": "graph scaled(x: f8e4m3[M, {k}], w: f8e4m3[{n}, {k}], u: f32[M, 1], v: f32[{n}], "
          "b: bf16[{n}]) {{\n"
          "  return cast(silu(x @ transpose(w) * u * v + cast(b, f32)), bf16)\n}}\n",
}


def kind_of(suite):
    return KINDS.get(suite, "bf16")


FORMULAS = {
    "bf16": lambda x, w, b: F.silu(torch.mm(x, w.t()) + b),
    "silu": lambda x, w: F.silu(torch.mm(x, w.t())),
    "int8": lambda x, w, u, v: (torch._int_mm(x, w.t()).float() * u * v).bfloat16(),
    "s8": lambda x, w, u, v, b: F.silu(torch._int_mm(x, w.t()).float() * u * v + b).bfloat16(),
    "f8": lambda x, w, u, v, b: F.silu(torch._scaled_mm(x, w.t(), u, v[None], bias=b,
                                                        out_dtype=torch.bfloat16)),
}


def formula(suite):
    return FORMULAS[kind_of(suite)]


def operands(case):
    kind = kind_of(case.suite)

    def any_byte(rows, columns):
        if kind == "f8":
            return torch.randn(rows, columns, device="cuda").to(torch.float8_e4m3fn)
        return torch.randint(-128, 128, (rows, columns), device="cuda", dtype=torch.int8)

    bias = torch.randn(case.n, device="cuda").bfloat16()
    if kind in ("bf16", "silu"):
        factors = (torch.randn(case.m, case.k, device="cuda").bfloat16(),
                   (torch.randn(case.n, case.k, device="cuda") * case.k**-0.5).bfloat16())
        return factors if kind == "silu" else (*factors, bias)
    size = 1e-4 if kind != "f8" else case.k**-0.5
    scaled = (any_byte(case.m, case.k), any_byte(case.n, case.k),
              torch.rand(case.m, 1, device="cuda") * size, torch.rand(case.n, device="cuda"))
    return scaled if kind == "int8" else (*scaled, bias)


def check(case, some, got):
    """Raises if the first rows differ from the formula in f64."""
    x, w, *rest = some
    kind, product = kind_of(case.suite), x[:64].double() @ w.double().t()
    if kind in ("int8", "s8", "f8"):
        u, v, *rest = rest
        product = product * u[:64] * v
    want = sum(rest, product)
    compare(got[:64], want if kind == "int8" else F.silu(want))


def measure(library, case, options):
    kind = kind_of(case.suite)
    bytes_of_one = (case.m + case.n) * case.k * (2 if kind in ("bf16", "silu") else 1)
    sets = [operands(case) for _ in range(sets_beyond_cache(bytes_of_one))]
    text = GRAPHS[kind].format(n=case.n, k=case.k)
    plan = tuned_plan.of_text(library, text, {"M": case.m}, options.limit)
    outs = [torch.empty(case.m, case.n, device="cuda", dtype=torch.bfloat16) for _ in sets]
    plain = formula(case.suite)
    torch._dynamo.reset()
    peers = {"library_us": plain,
             "compiled_us": torch.compile(plain, dynamic=False, fullgraph=True)}
    if options.autotune:
        peers["autotuned_us"] = torch.compile(plain, dynamic=False, fullgraph=True,
                                              mode="max-autotune-no-cudagraphs")
    contenders = {"attacca_us": plan.launches(sets, outs),
                  **{name: lambda i, run=run: run(*sets[i]) for name, run in peers.items()}}
    timed = {}
    for name, launch in contenders.items():
        try:
            check(case, sets[0], launch(0))
            timed[name] = Timed(launch, len(sets))
        except Exception as error:  # pylint: disable=broad-exception-caught
            print(f"{case}: {name}: {csv_run.one_line(error)}", file=sys.stderr)
    return {**case._asdict(), **plan.columns(),
            **{name: f"{us:.2f}" for name, us in medians(timed).items()}}


def main():
    parser = tuned_plan.option_parser(__doc__, 6, "docs/benchmarks/gpu-references",
                                      "without .csv, .md and .svg")
    parser.add_argument("--suites", nargs="*", default=list(references_page.TITLES))
    parser.add_argument("--done", nargs="*", default=[], metavar="CSV",
                        help="leaves out the cases in these")
    parser.add_argument("--autotune", action="store_true", help="Inductor's max-autotune too, slow")
    options = parser.parse_args()
    library = tuned_plan.open_library(options.library, options.attacca)
    done = {tuple(row[field] for field in Case._fields)
            for row in references_page.read(options.done)[1]}
    todo = [case for case in cases()
            if case.suite in options.suites and tuple(map(str, case)) not in done]
    csv_run.run(todo, lambda case: measure(library, case, options), COLUMNS,
                options.out + ".csv", options.minutes, machine.facts())
    references_page.write(*references_page.read([*options.done, options.out + ".csv"]), None,
                          options.out)


if __name__ == "__main__":
    main()
