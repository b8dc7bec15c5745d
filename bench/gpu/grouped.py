#!/usr/bin/env python3
"""Grouped products of layers of experts with what follows them, beside PyTorch and a fused kernel
in Triton, in turns:

    bench/gpu/grouped.py --attacca build/src/cli/attacca \\
        --library build/src/api/libattacca.so --out grouped.csv --minutes 6

`up` is the product with both halves of the weights, then SwiGLU; `gathered` the same where the rows
are gathered from the tokens' first; `down` the product times the router's weights; `bare` the
product of `down` alone. Rows of tokens are sorted by expert; routing draws each token's experts
alike (uniform) or by Zipf's law with exponent 1 (zipf). Of `gathered`, `before_us` is the tuner's
time for the fastest kernel before which another one gathers. `torch_us` is torch._grouped_mm and
the ops one by one, `inductor_us` the same under torch.compile, `triton_us` the kernel of
triton_experts.py in the fastest of its configurations, `triton_config`. Its index of rows padded to
blocks is part of routing, as the rows' order is for all others, and not timed. `ratio` is the
fastest peer's time over ours, `limit_us` what memory (4.3 TB/s) or the tensor cores (700 TFLOP/s)
allow. `error`, `torch_error` and `triton_error` are the largest errors against f64 of the first
draw's experts with most, a middle number of and fewest rows, relative to each one's largest value.
A contender that fails leaves empty cells and its reason in `note`. Launches walk several draws, so
that experts differ."""

import sys

import torch

import csv_run
import machine
import routed
import stopwatch
import torch_bench
import triton_experts
import tuned_plan

# Name: experts, chosen for each token, width, inner width.
LAYERS = {"gpt-oss-20b": (32, 4, 2880, 2880), "qwen3-30b-a3b": (128, 8, 2048, 768),
          "mixtral-8x7b": (8, 2, 4096, 14336), "deepseek-v3": (256, 8, 7168, 2048)}
PARTS = ["up", "gathered", "down", "bare"]
TOKENS = [16, 64, 512, 4096, 1]
ROUTINGS = ["uniform", "zipf"]
COLUMNS = ["layer", "part", "layout", "tokens", "routing", "rows", "n", "k", "attacca_us", "kernel",
           "unfused_us", "torch_us", "inductor_us", "triton_us", "ratio", "limit_us", "share",
           "error", "torch_error", "triton_error", "before_us", "triton_config", "note"]
PEERS = ["torch", "inductor", "triton"]
DRAWS = 4


def text_of(part, layout, experts, n, k):
    shape = f"{n}, {k}" if layout == "nk" else f"{k}, {n}"
    weights = "transpose(w)" if layout == "nk" else "w"
    scale, columns = (", s: bf16[R, 1]", n) if part == "down" else ("", n)
    swiglu = f"silu(h[:, :{columns // 2}]) * h[:, {columns // 2}:]"
    tail = {"up": swiglu, "gathered": swiglu, "down": "h * s", "bare": "h"}[part]
    count, index, rows = "R", "", "x"
    if part == "gathered":
        count, index, rows = "T", ", i: s64[R]", "gather(x, i)"
    return (f"graph {part}(x: bf16[{count}, {k}], w: bf16[{experts}, {shape}], "
            f"o: s32[{experts}]{scale}{index})"
            f" {{\n  h = grouped_matmul({rows}, {weights}, o)\n  return {tail}\n}}\n")


def follow(part, h, scale):
    if part in ("up", "gathered"):
        return torch_bench.swiglu_of(h)
    return h * scale if part == "down" else h


class Weights:
    """Of the layer that was last asked for: one layer's may fill a quarter of the memory."""

    def __init__(self):
        self.key = self.made = None

    def get(self, experts, n, k, layout):
        """As [experts, k, n]."""
        if self.key != (experts, n, k, layout):
            self.made = None
            shape = (experts, n, k) if layout == "nk" else (experts, k, n)
            self.made = torch.empty(shape, device="cuda", dtype=torch.bfloat16)
            for matrix in self.made:
                matrix.normal_(std=k**-0.5)
            self.key = experts, n, k, layout
        return self.made.transpose(1, 2) if layout == "nk" else self.made


def before(decision):
    """Microseconds of the fastest candidate that does not gather rows by itself."""
    seconds = [trial["seconds"] for trial in decision["trials"]
               if "seconds" in trial and "_gather_" not in trial["candidate"]]
    return f"{min(seconds) * 1e6:.2f}" if seconds else ""


class Work:
    """A part of a layer for some tokens, with several draws of their experts."""

    def __init__(self, case, layout, weights):
        layer, self.part, self.tokens, routing = case
        self.layout, self.gathers = layout, self.part == "gathered"
        self.shape = routed.shape_of(*LAYERS[layer], gate=self.part in ("up", "gathered"))
        experts, chosen, n, k, out = self.shape
        self.rows = self.tokens * chosen
        self.w = weights.get(experts, n, k, layout)
        draws = [routed.draw(self.tokens, experts, chosen, routing) for _ in range(DRAWS)]
        self.ends, self.pairs = zip(*draws)
        self.index = [pairs // chosen for pairs in self.pairs]  # each row's token
        self.x = torch.randn(self.tokens if self.gathers else self.rows, k,
                             device="cuda").bfloat16()
        self.scale = (torch.rand(self.rows, 1, device="cuda").bfloat16()
                      if self.part == "down" else None)
        self.outs = [torch.full((self.rows, out), torch.nan, device="cuda", dtype=torch.bfloat16)
                     for _ in draws]

    def plan(self, library, seconds):
        experts, _, n, k, _ = self.shape
        return tuned_plan.of_text(library, text_of(self.part, self.layout, experts, n, k),
                                  {"R": self.rows, **({"T": self.tokens} if self.gathers else {})},
                                  seconds)

    def sets(self):
        """The operands of the plan's launches."""
        # [experts, n, k] or [experts, k, n] in memory.
        stored = self.w.transpose(1, 2) if self.layout == "nk" else self.w
        return [(self.x, stored, ends) + (() if self.scale is None else (self.scale,)) +
                ((index,) if self.gathers else ())
                for ends, index in zip(self.ends, self.index)]

    def launches(self, function):
        """launch(i) of PyTorch's formula, as it is or compiled."""
        return lambda i: function(self.x, self.w, self.ends[i], self.scale, self.index[i])

    def formula(self, x, w, ends, scale, index):
        return follow(self.part, torch._grouped_mm(x[index] if self.gathers else x, w, offs=ends),
                      scale)

    def compiled(self):
        torch._dynamo.reset()
        return torch.compile(self.formula)

    def triton(self):
        """The rows of `gathered` belong to pairs, in whose order its result lies; those of the
        other parts are numbered as they lie."""
        own = torch.arange(self.rows, device="cuda")
        return triton_experts.fastest(triton_experts.Work(
            self.x, self.w, [(ends, pairs if self.gathers else own)
                             for ends, pairs in zip(self.ends, self.pairs)],
            self.shape.chosen if self.gathers else 1, self.shape.out != self.shape.n, self.scale))

    def error(self, result):
        """Of the first draw, whose rows lie sorted by expert."""
        def exact(expert, rows):
            x = self.x[self.index[0][rows]] if self.gathers else self.x[rows]
            return follow(self.part, x.double() @ self.w[expert].double(),
                          None if self.scale is None else self.scale[rows].double())
        return routed.error(self.ends[0], result, exact)

    def errors(self, contenders):
        """name -> error."""
        results = {name: each.launch(0) for name, each in contenders.items()}
        if self.gathers and "triton" in results:
            results["triton"] = results["triton"][self.pairs[0]]
        return {name: f"{self.error(result):.2e}" for name, result in results.items()}


def measure(library, weights, plans, case, options):
    work = Work(case, options.layout, weights)
    key = work.part, work.shape, work.rows
    chosen = {}

    def ours():
        if key not in plans:
            plans[key] = work.plan(library, options.limit)
        return plans[key].launches(work.sets(), work.outs)

    def in_triton():
        launch, chosen["triton_config"] = work.triton()
        return launch
    makers = {"ours": ours, "torch": lambda: work.launches(work.formula)}
    if work.part != "bare" and not options.no_inductor:
        makers["inductor"] = lambda: work.launches(work.compiled())
    if not options.no_triton:
        makers["triton"] = in_triton
    contenders, reasons = stopwatch.attempts(makers, DRAWS)
    us = stopwatch.medians_of(contenders, 15)
    errors = work.errors(contenders)
    row = {**named(case, options), "rows": work.rows, "n": work.shape.n, "k": work.shape.k,
           **{f"{name}_us": f"{us[name]:.2f}" for name in PEERS if name in us},
           **{f"{name}_error": errors[name] for name in ("torch", "triton") if name in us},
           **chosen, "note": "; ".join(reasons)}
    return row | (columns_of(work, plans[key], us, errors["ours"]) if "ours" in us else {})


def columns_of(work, plan, us, error):
    """The columns that need our time."""
    allowed = routed.limit(work.ends[0], work.shape, 2 * work.shape.n * work.shape.k, len(work.x))
    peers = [us[name] for name in PEERS if name in us]
    return {"attacca_us": f"{us['ours']:.2f}", **plan.columns(),
            "ratio": f"{min(peers) / us['ours']:.2f}" if peers else "",
            "limit_us": f"{allowed:.2f}", "share": f"{allowed / us['ours']:.2f}", "error": error,
            "before_us": before(plan.decision) if work.gathers else ""}


def named(case, options):
    """The columns that name a case."""
    return {**dict(zip(("layer", "part", "tokens", "routing"), case)), "layout": options.layout}


def main():
    parser = tuned_plan.option_parser(__doc__, 6)
    parser.add_argument("--layers", nargs="*", default=list(LAYERS), choices=list(LAYERS))
    parser.add_argument("--parts", nargs="*", default=PARTS, choices=PARTS)
    parser.add_argument("--tokens", nargs="*", type=int, default=TOKENS)
    parser.add_argument("--routings", nargs="*", default=ROUTINGS, choices=ROUTINGS)
    parser.add_argument("--layout", default="nk", choices=["nk", "kn"])
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--no-triton", action="store_true")
    arguments = parser.parse_args()
    torch.manual_seed(20261124)
    library = tuned_plan.open_library(arguments.library, arguments.attacca)
    weights, plans = Weights(), {}
    cases = [(layer, part, tokens, routing) for layer in arguments.layers
             for part in arguments.parts for tokens in arguments.tokens
             for routing in arguments.routings]
    rows = csv_run.run(cases, lambda case: measure(library, weights, plans, case, arguments),
                       COLUMNS, arguments.out, arguments.minutes,
                       machine.facts() | triton_experts.facts(),
                       lambda case, reason: {**named(case, arguments), "note": reason})
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
