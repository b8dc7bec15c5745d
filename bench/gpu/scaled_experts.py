#!/usr/bin/env python3
"""DeepSeek-V3's layer of experts in 8-bit floats with scales of blocks, beside the same values in
bf16, in turns:

    bench/gpu/scaled_experts.py --attacca build/src/cli/attacca \\
        --library build/src/api/libattacca.so --out scaled.csv

Weights have a scale for each 128 x 128 values, rows of x one for each 128. `up` is the product with
both halves of the weights and SwiGLU; `down` the product times the router's weights. Rows of tokens
are sorted by expert, and routing draws each token's experts alike (uniform) or by Zipf's law with
exponent 1 (zipf).

`attacca_us` is Attacca with scaled blocks, `bf16_us` Attacca with x and weights in bf16,
`inductor_us` torch._grouped_mm of these and the ops that follow, under torch.compile. `over_bf16`
and `ratio` are the times of these two over ours. Errors are the largest against f64 of the scaled
blocks, for the first draw's experts with most, a middle number of and fewest rows, relative to each
one's largest value. A contender that fails leaves empty cells and its reason in `note`. Launches
walk several draws, so that experts differ."""

import sys
from typing import NamedTuple

import torch

import csv_run
import machine
import routed
import stopwatch
import torch_bench
import tuned_plan

EXPERTS, CHOSEN, WIDTH, INNER = 256, 8, 7168, 2048
BLOCK = 128
PARTS = ["up", "down"]
ROUTINGS = ["uniform", "zipf"]
COLUMNS = ["part", "tokens", "routing", "rows", "n", "k", "attacca_us", "kernel", "unfused_us",
           "bf16_us", "bf16_kernel", "inductor_us", "over_bf16", "ratio", "tflops", "error",
           "bf16_error", "inductor_error", "note"]
DRAWS = 4
ROUNDS = 15


class Case(NamedTuple):
    part: str
    tokens: int
    routing: str


def text_of(part, n, k, scaled):
    if scaled:
        parameters = (f"x: f8e4m3[R, {k}], u: f32[R, {k // BLOCK}], w: f8e4m3[{EXPERTS}, {n}, {k}],"
                      f" v: f32[{EXPERTS}, {n // BLOCK}, {k // BLOCK}]")
        product = (f"cast(grouped_matmul(scale_blocks(x, u, [1, {BLOCK}]), "
                   f"transpose(scale_blocks(w, v, [1, {BLOCK}, {BLOCK}])), o), bf16)")
    else:
        parameters = f"x: bf16[R, {k}], w: bf16[{EXPERTS}, {n}, {k}]"
        product = "grouped_matmul(x, transpose(w), o)"
    tail = "h * t" if part == "down" else f"silu(h[:, :{n // 2}]) * h[:, {n // 2}:]"
    scale = ", t: bf16[R, 1]" if part == "down" else ""
    return (f"graph {part}({parameters}, o: s32[{EXPERTS}]{scale}) {{\n"
            f"  h = {product}\n  return {tail}\n}}\n")


def follow(part, h, scale):
    return h * scale if part == "down" else torch_bench.swiglu_of(h)


def numbers_like(*shape):
    """Random f8e4m3, neither NaN nor large, as bytes."""
    return torch.randint(0, 256, shape, device="cuda", dtype=torch.uint8) & 0xbf


def scaled(numbers, scales, rows):
    """A matrix of f8e4m3 in f32, times the scales of its blocks of so many rows and 128 columns."""
    n, k = numbers.shape
    blocks = numbers.view(torch.float8_e4m3fn).float().view(n // rows, rows, k // BLOCK, BLOCK)
    return (blocks * scales[:, None, :, None]).view(n, k)


class Weights:
    """Of the part that was last asked for, as scaled blocks and in bf16."""

    def __init__(self):
        self.key = None

    def get(self, n, k):
        if self.key != (n, k):
            self.key = self.wide = None
            self.numbers = numbers_like(EXPERTS, n, k)
            self.scales = (torch.rand(EXPERTS, n // BLOCK, k // BLOCK, device="cuda") + 0.1) / k
            self.wide = torch.empty(EXPERTS, n, k, device="cuda", dtype=torch.bfloat16)
            for expert in range(EXPERTS):
                self.wide[expert] = scaled(self.numbers[expert], self.scales[expert], BLOCK)
            self.key = n, k
        return self


class Work:
    """A case with random numbers and several draws of the tokens' experts."""

    def __init__(self, case, weights):
        self.case = case
        self.shape = routed.shape_of(EXPERTS, CHOSEN, WIDTH, INNER, gate=case.part == "up")
        _, _, n, k, _ = self.shape
        self.weights = weights.get(n, k)
        self.rows = case.tokens * CHOSEN
        self.ends = [routed.draw(case.tokens, EXPERTS, CHOSEN, case.routing)[0]
                     for _ in range(DRAWS)]
        self.numbers = numbers_like(self.rows, k)
        self.scales = torch.rand(self.rows, k // BLOCK, device="cuda") + 0.1
        self.x = scaled(self.numbers, self.scales, 1).bfloat16()
        self.scale = (torch.rand(self.rows, 1, device="cuda").bfloat16() if case.part == "down"
                      else None)

    def ours(self, library, is_scaled, seconds, plans):
        """launch(i); the plan becomes plans[is_scaled]."""
        text = text_of(self.case.part, self.shape.n, self.shape.k, is_scaled)
        plan = plans[is_scaled] = tuned_plan.of_text(library, text, {"R": self.rows}, seconds)
        factors = ((self.numbers, self.scales, self.weights.numbers, self.weights.scales)
                   if is_scaled else (self.x, self.weights.wide))
        outs = [torch.full((self.rows, self.shape.out), torch.nan, device="cuda",
                           dtype=torch.bfloat16) for _ in self.ends]
        return plan.launches([(*factors, ends) + (() if self.scale is None else (self.scale,))
                              for ends in self.ends], outs)

    def inductor(self):
        """launch(i)."""
        def formula(x, wide, ends, scale):
            return follow(self.case.part, torch._grouped_mm(x, wide.transpose(1, 2), offs=ends),
                          scale)
        torch._dynamo.reset()
        compiled = torch.compile(formula)
        return lambda i: compiled(self.x, self.weights.wide, self.ends[i], self.scale)

    def error(self, result):
        """Of the first draw."""
        def exact(expert, rows):
            x = scaled(self.numbers[rows], self.scales[rows], 1)
            w = scaled(self.weights.numbers[expert], self.weights.scales[expert], BLOCK)
            return follow(self.case.part, x.double() @ w.double().t(),
                          None if self.scale is None else self.scale[rows].double())
        return routed.error(self.ends[0], result, exact)


ERRORS = {"ours": "error", "bf16": "bf16_error", "inductor": "inductor_error"}


def measure(library, weights, case, options):
    work, plans = Work(case, weights), {}
    contenders, reasons = stopwatch.attempts(
        {"ours": lambda: work.ours(library, True, options.limit, plans),
         "bf16": lambda: work.ours(library, False, options.limit, plans),
         "inductor": work.inductor}, DRAWS)
    us = stopwatch.medians_of(contenders, ROUNDS)
    row = {**case._asdict(), "rows": work.rows, "n": work.shape.n, "k": work.shape.k,
           "note": "; ".join(reasons),
           **{ERRORS[name]: f"{work.error(each.launch(0)):.2e}"
              for name, each in contenders.items()}}
    row |= stopwatch.beside(us, "ours", {"bf16": "over_bf16", "inductor": "ratio"})
    if "bf16" in us:
        row["bf16_kernel"] = plans[False].columns()["kernel"]
    if "ours" in us:
        operations = 2 * work.rows * work.shape.n * work.shape.k
        row |= {"attacca_us": f"{us['ours']:.2f}", **plans[True].columns(),
                "tflops": f"{operations / us['ours'] / 1e6:.0f}"}
    return row


def main():
    parser = tuned_plan.option_parser(__doc__, 1.4)
    parser.set_defaults(limit=5)
    parser.add_argument("--parts", nargs="*", default=PARTS, choices=PARTS)
    parser.add_argument("--tokens", nargs="*", type=int, default=[512, 4096])
    parser.add_argument("--routings", nargs="*", default=["uniform"], choices=ROUTINGS)
    arguments = parser.parse_args()
    torch.manual_seed(20261128)
    library = tuned_plan.open_library(arguments.library, arguments.attacca)
    weights = Weights()
    cases = [Case(part, tokens, routing) for part in arguments.parts
             for tokens in arguments.tokens for routing in arguments.routings]
    rows = csv_run.run(cases, lambda case: measure(library, weights, case, arguments), COLUMNS,
                       arguments.out, arguments.minutes, machine.facts(),
                       lambda case, reason: {**case._asdict(), "note": reason})
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
