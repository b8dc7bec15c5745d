#!/usr/bin/env python3
"""Layers of experts whose weights are codes, beside the same weights widened once, in turns:

    bench/gpu/experts_in_codes.py --attacca build/src/cli/attacca \\
        --library build/src/api/libattacca.so --out codes.csv --minutes 6

GPT-OSS's weights are in MXFP4, with its biases and its clamped gate of alternate columns; Qwen3's
are integers of 4 and 8 bits with a scale in bf16 for 128 values of k (u4, u8), with SwiGLU of
halves. `up` is the first product with the gate, `down` the second one times the router's weights;
of `gathered`, `up` reads the tokens' rows by an index. Rows are sorted by expert, and routing draws
experts alike.

`attacca_us` is Attacca with the weights in codes, `bf16_us` with weights in bf16, `inductor_us`
torch._grouped_mm of weights in bf16 and the ops that follow, under torch.compile. `over_bf16` and
`ratio` are the times of these two over ours, `limit_us` is what memory at 4.3 TB/s allows for the
codes of the experts that have rows and for the rows, or the tensor cores at 700 TFLOP/s, if that is
more. Errors are the largest against f64 of the widened values, for the first draw's experts with
most, a middle number of and fewest rows, relative to each one's largest value. A contender that
fails leaves empty cells and its reason in `note`. Launches walk so many draws that the codes which
they read exceed twice the L2 cache, or all experts."""

import sys
from typing import NamedTuple

import torch

import csv_run
import expert_codes
import machine
import routed
import stopwatch
import torch_bench
import tuned_plan


class Layer(NamedTuple):
    experts: int
    chosen: int  # for each token
    width: int
    inner: int
    gpt_oss: bool
    codes: tuple


LAYERS = {"gpt-oss-20b": Layer(32, 4, 2880, 2880, True, ("mxfp4",)),
          "qwen3-30b-a3b": Layer(128, 8, 2048, 768, False, ("u4", "u8"))}
PARTS = ["up", "down", "gathered"]
TOKENS = [16, 512, 1, 64, 4096]
COLUMNS = ["layer", "codes", "part", "tokens", "rows", "n", "k", "attacca_us", "kernel",
           "unfused_us", "bf16_us", "bf16_kernel", "inductor_us", "over_bf16", "ratio", "limit_us",
           "share", "error", "bf16_error", "inductor_error", "note"]
ERRORS = {"codes": "error", "bf16": "bf16_error", "inductor": "inductor_error"}
FEWEST_DRAWS, MOST_DRAWS = 4, 24
ROUNDS = 15


class Case(NamedTuple):
    layer: str
    codes: str
    part: str
    tokens: int


def text_of(case, layer, shape, codes):
    """`codes`: those of the weights, or bf16."""
    experts, _, n, k, _ = shape
    parameters, weights = expert_codes.parameters(codes, experts, n, k)
    gathered, down = case.part == "gathered", case.part == "down"
    own = [f"x: bf16[{'T' if gathered else 'R'}, {k}]", parameters, f"o: s32[{experts}]"]
    product = f"grouped_matmul({'gather(x, i)' if gathered else 'x'}, transpose({weights}), o)"
    if layer.gpt_oss:
        own += [f"b: bf16[{experts}, {n}]", "e: s64[R]"]
        product += " + gather(b, e)"
    own += ["t: bf16[R, 1]"] * down + ["i: s64[R]"] * gathered
    if down:
        body = "  return h * t\n"
    elif layer.gpt_oss:
        body = ("  gate = clamp(h[:, ::2], max=7.0)\n"
                "  up = clamp(h[:, 1::2], min=-7.0, max=7.0)\n"
                "  return gate * sigmoid(1.702 * gate) * (up + 1.0)\n")
    else:
        body = f"  return silu(h[:, :{n // 2}]) * h[:, {n // 2}:]\n"
    return f"graph {case.part}({', '.join(own)}) {{\n  h = {product}\n{body}}}\n"


def follow(part, gpt_oss, h, bias, scale):
    """`bias`: each row's, None without one."""
    h = h if bias is None else h + bias
    if part == "down":
        return h * scale
    return torch_bench.gpt_oss_of(h) if gpt_oss else torch_bench.swiglu_of(h)


class Work:
    """A case with random weights and several draws of the tokens' experts."""

    def __init__(self, case):
        self.case, self.layer = case, LAYERS[case.layer]
        self.gathers = case.part == "gathered"
        experts, chosen, width, inner = self.layer[:4]
        self.shape = routed.shape_of(experts, chosen, width, inner, gate=case.part != "down")
        _, _, n, k, _ = self.shape
        self.codes = expert_codes.made(case.codes, experts, n, k)
        self.wide = expert_codes.widened(case.codes, *self.codes)
        self.bias = (torch.randn(experts, n, device="cuda").bfloat16() if self.layer.gpt_oss
                     else None)
        self.rows = case.tokens * chosen
        self.bytes = expert_codes.bytes_of(case.codes, n, k)
        count = stopwatch.sets_beyond_cache(min(self.rows, experts) * self.bytes, MOST_DRAWS)
        draws = [routed.draw(case.tokens, experts, chosen, "uniform")
                 for _ in range(max(count, FEWEST_DRAWS))]
        self.ends = [ends for ends, _ in draws]
        self.index = [pairs // chosen for _, pairs in draws]  # each row's token
        numbers = torch.arange(self.rows, device="cuda")
        self.expert = [torch.bucketize(numbers, ends.long(), right=True) for ends in self.ends]
        self.x = torch.randn(case.tokens if self.gathers else self.rows, k,
                             device="cuda").bfloat16()
        self.scale = (torch.rand(self.rows, 1, device="cuda").bfloat16()
                      if case.part == "down" else None)

    def plan(self, library, codes, seconds):
        return tuned_plan.of_text(library, text_of(self.case, self.layer, self.shape, codes),
                                  {"R": self.rows, **({"T": self.case.tokens} if self.gathers
                                                      else {})}, seconds)

    def sets(self, weights):
        """The operands of a plan's launches, `weights` among them."""
        return [(self.x, *weights, ends) + (() if self.bias is None else (self.bias, expert)) +
                (() if self.scale is None else (self.scale,)) +
                ((index,) if self.gathers else ())
                for ends, expert, index in zip(self.ends, self.expert, self.index)]

    def outs(self):
        return [torch.full((self.rows, self.shape.out), torch.nan, device="cuda",
                           dtype=torch.bfloat16) for _ in self.ends]

    def inductor(self):
        """launch(i)."""
        def formula(x, wide, ends, bias, expert, scale, index):
            h = torch._grouped_mm(x[index] if self.gathers else x, wide.transpose(1, 2), offs=ends)
            return follow(self.case.part, self.layer.gpt_oss, h,
                          None if bias is None else bias[expert], scale)
        torch._dynamo.reset()
        compiled = torch.compile(formula)
        return lambda i: compiled(self.x, self.wide, self.ends[i], self.bias, self.expert[i],
                                  self.scale, self.index[i])

    def error(self, result):
        """Of the first draw."""
        def exact(expert, rows):
            x = self.x[self.index[0][rows]] if self.gathers else self.x[rows]
            return follow(self.case.part, self.layer.gpt_oss,
                          x.double() @ self.wide[expert].double().t(),
                          None if self.bias is None else self.bias[expert].double(),
                          None if self.scale is None else self.scale[rows].double())
        return routed.error(self.ends[0], result, exact)

    def limit(self):
        return routed.limit(self.ends[0], self.shape, self.bytes, len(self.x))


def measure(library, case, options):
    work, plans = Work(case), {}

    def ours(name, codes, operands):
        plans[name] = work.plan(library, codes, options.limit)
        return plans[name].launches(work.sets(operands), work.outs())
    contenders, reasons = stopwatch.attempts(
        {"codes": lambda: ours("codes", case.codes, work.codes),
         "bf16": lambda: ours("bf16", "bf16", (work.wide,)), "inductor": work.inductor},
        len(work.ends))
    us = stopwatch.medians_of(contenders, ROUNDS)
    allowed = work.limit()
    row = {**case._asdict(), "rows": work.rows, "n": work.shape.n, "k": work.shape.k,
           "limit_us": f"{allowed:.2f}", "note": "; ".join(reasons),
           **{ERRORS[name]: f"{work.error(each.launch(0)):.2e}"
              for name, each in contenders.items()}}
    row |= stopwatch.beside(us, "codes", {"bf16": "over_bf16", "inductor": "ratio"})
    if "bf16" in us:
        row["bf16_kernel"] = plans["bf16"].columns()["kernel"]
    if "codes" in us:
        row |= {"attacca_us": f"{us['codes']:.2f}", **plans["codes"].columns(),
                "share": f"{allowed / us['codes']:.3g}"}
    return row


def cases(options):
    """Those of one number of tokens after another: where time is up, the rows are a fair sample."""
    return [Case(layer, codes, part, tokens) for tokens in options.tokens
            for layer in options.layers for codes in LAYERS[layer].codes if codes in options.codes
            for part in options.parts]


def main():
    parser = tuned_plan.option_parser(__doc__, 6)
    parser.add_argument("--layers", nargs="*", default=list(LAYERS), choices=list(LAYERS))
    parser.add_argument("--codes", nargs="*", default=list(expert_codes.FORMATS),
                        choices=list(expert_codes.FORMATS))
    parser.add_argument("--parts", nargs="*", default=["up", "down"], choices=PARTS)
    parser.add_argument("--tokens", nargs="*", type=int, default=TOKENS)
    arguments = parser.parse_args()
    torch.manual_seed(20261127)
    library = tuned_plan.open_library(arguments.library, arguments.attacca)
    rows = csv_run.run(cases(arguments), lambda case: measure(library, case, arguments),
                       COLUMNS, arguments.out, arguments.minutes, machine.facts(),
                       lambda case, reason: {**case._asdict(), "note": reason})
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
