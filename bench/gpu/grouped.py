#!/usr/bin/env python3
"""Grouped products of layers of experts with what follows them, beside PyTorch, in turns:

    bench/gpu/grouped.py --attacca build/src/cli/attacca \\
        --library build/src/api/libattacca.so --out grouped.csv --minutes 6

`up` is the product with both halves of the weights, then SwiGLU; `gathered` the same where the rows
are gathered from the tokens' first; `down` the product times the router's weights; `bare` the
product of `down` alone. Rows of tokens are sorted by expert; routing draws each token's experts
alike (uniform) or by Zipf's law with exponent 1 (zipf). Of `gathered`, `before_us` is the tuner's
time for the fastest kernel before which another one gathers. `torch_us` is torch._grouped_mm and
the ops one by one, `inductor_us` the same under torch.compile, `ratio` the
faster one's time over ours, `limit_us` what memory (4.3 TB/s) or the tensor cores (700 TFLOP/s)
allow. `error` and `torch_error` are the largest errors against f64, relative to the largest value
of the first group's rows. Launches walk several draws, so that experts differ."""

import sys

import torch
import torch.nn.functional as F

import csv_run
import machine
import tuned_plan
from stopwatch import Timed, medians

# Name: experts, chosen for each token, width, inner width.
LAYERS = {"gpt-oss-20b": (32, 4, 2880, 2880), "qwen3-30b-a3b": (128, 8, 2048, 768),
          "mixtral-8x7b": (8, 2, 4096, 14336), "deepseek-v3": (256, 8, 7168, 2048)}
PARTS = ["up", "gathered", "down", "bare"]
TOKENS = [16, 64, 512, 4096, 1]
ROUTINGS = ["uniform", "zipf"]
COLUMNS = ["layer", "part", "layout", "tokens", "routing", "rows", "n", "k", "attacca_us", "kernel",
           "unfused_us", "torch_us", "inductor_us", "ratio", "limit_us", "share", "error",
           "torch_error", "before_us"]
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
        gate, up = h.chunk(2, dim=-1)
        return F.silu(gate) * up
    return h * scale if part == "down" else h


def draw(tokens, experts, chosen, routing):
    """The ends of the experts' rows, and the token of each row."""
    weights = torch.ones(experts, device="cuda")
    if routing == "zipf":
        weights = weights / torch.arange(1, experts + 1, device="cuda")
        weights = weights[torch.randperm(experts, device="cuda")]
    picked = torch.multinomial(weights.expand(tokens, experts), chosen)
    counts = torch.bincount(picked.reshape(-1), minlength=experts)
    order = torch.argsort(picked.reshape(-1), stable=True)
    return torch.cumsum(counts, 0).to(torch.int32), order // chosen


def error_of(result, part, x, w, ends, scale):
    """Of the rows of the largest group. `x`: the product's rows."""
    counts = torch.diff(ends, prepend=ends.new_zeros(1))
    group = int(counts.argmax())
    end = int(ends[group])
    rows = slice(end - int(counts[group]), end)
    exact = follow(part, x[rows].double() @ w[group].double(),
                   None if scale is None else scale[rows].double())
    return float((result[rows].double() - exact).abs().max() / exact.abs().max())


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


def limit(ends, n, k, out, read):
    """Microseconds, of the first draw. `read`: the rows of x."""
    rows = int(ends[-1])
    touched = int((torch.diff(ends, prepend=ends.new_zeros(1)) > 0).sum())
    moved = 2 * (touched * n * k + read * k + rows * out)
    return max(moved / 4.3e6, 2 * rows * n * k / 700e6)


def before(decision):
    """Microseconds of the fastest candidate that does not gather rows by itself."""
    seconds = [trial["seconds"] for trial in decision["trials"]
               if "seconds" in trial and "_gather_" not in trial["candidate"]]
    return f"{min(seconds) * 1e6:.2f}" if seconds else ""


def measure(library, weights, plans, case, options):
    layer, part, tokens, routing = case
    experts, chosen, width, inner = LAYERS[layer]
    gathers, gate = part == "gathered", part in ("up", "gathered")
    n, k = (2 * inner, width) if gate else (width, inner)
    rows, out = tokens * chosen, inner if gate else width
    w = weights.get(experts, n, k, options.layout)
    key = part, experts, n, k, rows
    if key not in plans:
        plans[key] = tuned_plan.of_text(library, text_of(part, options.layout, experts, n, k),
                                        {"R": rows, "T": tokens} if gathers else {"R": rows},
                                        options.limit)
    plan = plans[key]
    ends, index = zip(*(draw(tokens, experts, chosen, routing) for _ in range(DRAWS)))
    x = torch.randn(tokens if gathers else rows, k, device="cuda").bfloat16()
    scale = torch.rand(rows, 1, device="cuda").bfloat16() if part == "down" else None
    # [experts, n, k] or [experts, k, n] in memory.
    stored = w.transpose(1, 2) if options.layout == "nk" else w
    sets = [(x, stored, each) + (() if scale is None else (scale,)) +
            ((named,) if gathers else ()) for each, named in zip(ends, index)]
    outs = [torch.empty(rows, out, device="cuda", dtype=torch.bfloat16) for _ in ends]
    ours = plan.launches(sets, outs)

    def whole(x, w, ends, scale, named):
        return follow(part, torch._grouped_mm(x[named] if gathers else x, w, offs=ends), scale)

    def eager(i):
        return whole(x, w, ends[i], scale, index[i])
    contenders = {"ours": Timed(ours, DRAWS), "torch": Timed(eager, DRAWS)}
    if part != "bare" and not options.no_inductor:
        torch._dynamo.reset()
        compiled = torch.compile(whole)
        contenders["inductor"] = Timed(lambda i: compiled(x, w, ends[i], scale, index[i]), DRAWS)
    us = medians(contenders, 15)
    best = min(us[name] for name in us if name != "ours")
    allowed = limit(ends[0], n, k, out, len(x))
    of_rows = x[index[0]] if gathers else x
    return {"layer": layer, "part": part, "layout": options.layout, "tokens": tokens,
            "routing": routing, "rows": rows, "n": n, "k": k, "attacca_us": f"{us['ours']:.2f}",
            **plan.columns(), "torch_us": f"{us['torch']:.2f}",
            "inductor_us": f"{us['inductor']:.2f}" if "inductor" in us else "",
            "ratio": f"{best / us['ours']:.2f}", "limit_us": f"{allowed:.2f}",
            "share": f"{allowed / us['ours']:.2f}",
            "error": f"{error_of(ours(0), part, of_rows, w, ends[0], scale):.2e}",
            "torch_error": f"{error_of(eager(0), part, of_rows, w, ends[0], scale):.2e}",
            "before_us": before(plan.decision) if gathers else ""}


def main():
    parser = tuned_plan.option_parser(__doc__, 6)
    parser.add_argument("--layers", nargs="*", default=list(LAYERS), choices=list(LAYERS))
    parser.add_argument("--parts", nargs="*", default=PARTS, choices=PARTS)
    parser.add_argument("--tokens", nargs="*", type=int, default=TOKENS)
    parser.add_argument("--routings", nargs="*", default=ROUTINGS, choices=ROUTINGS)
    parser.add_argument("--layout", default="nk", choices=["nk", "kn"])
    parser.add_argument("--no-inductor", action="store_true")
    arguments = parser.parse_args()
    torch.manual_seed(20261124)
    library = tuned_plan.open_library(arguments.library, arguments.attacca)
    weights, plans = Weights(), {}
    cases = [(layer, part, tokens, routing) for layer in arguments.layers
             for part in arguments.parts for tokens in arguments.tokens
             for routing in arguments.routings]
    rows = csv_run.run(cases, lambda case: measure(library, weights, plans, case, arguments),
                       COLUMNS, arguments.out, arguments.minutes, machine.facts())
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
