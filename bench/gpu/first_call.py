#!/usr/bin/env python3
"""What a first call gets, without tuning, on random shapes: Attacca's choice by the model alone and
its choice after tuning, beside PyTorch eager and Inductor's default.

    first_call.py --csv first-call.csv --minutes 6 --seed 7
    first_call.py --page first-call.csv --out docs/benchmarks/first-call

Needs a GPU, PyTorch and the package `attacca`; the page needs neither.
"""

import argparse
import collections
import math
import os
import random
import sys
import time
from statistics import geometric_mean
from typing import NamedTuple

import csv_run
import machine
import pages

DTYPES = {"bf16": "bfloat16", "f16": "float16", "s8": "int8", "f32": "float32",
          "f8e4m3": "float8_e4m3fn"}
NK = "x @ transpose(w)"
SCALED = "cast({} * s * c, bf16)"


class Form(NamedTuple):
    """How often it is drawn, its inputs and Attacca's text; the peers' form is in formulas()."""
    weight: int
    inputs: str
    result: str
    before: str = ""  # a line that the result reads


FORMS = {
    "bias_gelu": Form(8, "x: bf16[M, {k}], w: bf16[{n}, {k}], b: bf16[{n}]",
                      f"gelu_tanh({NK} + b)"),
    "silu_mul": Form(8, "x: bf16[M, {k}], w: bf16[{n}, {k}], b: bf16[{n}], r: bf16[M, {n}]",
                     f"silu({NK} + b) * r"),
    "residual": Form(4, "x: bf16[M, {k}], w: bf16[{n}, {k}], r: bf16[M, {n}]", f"{NK} + r"),
    "swiglu": Form(6, "x: bf16[M, {k}], w: bf16[{n2}, {k}]",
                   "silu(z[:, :{n}]) * z[:, {n}:]", f"z = {NK}"),
    "f16_relu": Form(2, "x: f16[M, {k}], w: f16[{n}, {k}], b: f16[{n}]", f"relu({NK} + b)"),
    "kn_gelu": Form(3, "x: bf16[M, {k}], w: bf16[{k}, {n}], b: bf16[{n}]", "gelu_tanh(x @ w + b)"),
    "s8": Form(3, "x: s8[M, {k}], w: s8[{n}, {k}], s: f32[{n}], c: f32[M, 1]",
               SCALED.format(f"cast({NK}, f32)")),
    "fp8": Form(2, "x: f8e4m3[M, {k}], w: f8e4m3[{n}, {k}], s: f32[{n}], c: f32[M, 1]",
                SCALED.format("matmul(x, transpose(w), out=f32)")),
}


class Case(NamedTuple):
    form: str
    m: int
    n: int
    k: int

    def sizes(self):
        return {"n": self.n, "k": self.k, "n2": 2 * self.n}

    def graph(self):
        form, sizes = FORMS[self.form], self.sizes()
        return (f"graph g({form.inputs.format(**sizes)}) {{\n  {form.before}\n"
                f"  return {form.result.format(**sizes)}\n}}\n")

    def inputs(self):
        """Its inputs: (name, dtype, shape)."""
        for text in FORMS[self.form].inputs.format(**self.sizes()).split("], "):
            name, _, rest = text.partition(": ")
            dtype, _, shape = rest.rstrip("]").partition("[")
            yield name, dtype, [self.m if each == "M" else int(each) for each in shape.split(", ")]


def cases(seed):
    """Random cases without end; the same ones for the same seed. Extents are multiples of 8."""
    source = random.Random(seed)
    while True:
        form = source.choices(list(FORMS), [each.weight for each in FORMS.values()])[0]
        m = source.choice([source.randrange(64, 520), round(2**source.uniform(0, 13)),
                           round(2**source.uniform(0, 13)), 2**source.randrange(14)])
        n, k = (8 * round(2**source.uniform(6, 11)) for _ in "nk")
        if form in ("s8", "fp8"):  # torch._int_mm and torch._scaled_mm take these
            m, n, k = max(m, 17), n // 16 * 16, k // 16 * 16
        if 2 * m * n * k < 1e12:
            yield Case(form, m, n, k)


def tensor(torch, name, dtype, shape):
    """N(0, 1); weights N(0, 1/K); all of int8's values."""
    kind = getattr(torch, DTYPES[dtype])
    if dtype == "s8":
        return torch.randint(-128, 128, shape, device="cuda", dtype=torch.int8)
    values = torch.randn(shape, device="cuda", dtype=torch.float32)
    if name in "cs":
        return (values.abs() + 0.5).mul_(1e-3)
    if name == "w":
        values /= math.sqrt(max(shape))
    return values.to(kind)


def formulas(torch):
    """The peers' forms, each of the inputs in their order."""
    functional = torch.nn.functional

    def swiglu(x, w):
        gate, up = functional.linear(x, w).chunk(2, dim=-1)
        return functional.silu(gate) * up

    return {
        "bias_gelu": lambda x, w, b: functional.gelu(functional.linear(x, w, b),
                                                     approximate="tanh"),
        "silu_mul": lambda x, w, b, r: functional.silu(functional.linear(x, w, b)) * r,
        "residual": lambda x, w, r: functional.linear(x, w) + r,
        "swiglu": swiglu,
        "f16_relu": lambda x, w, b: functional.relu(functional.linear(x, w, b)),
        "kn_gelu": lambda x, w, b: functional.gelu(torch.addmm(b, x, w), approximate="tanh"),
        "s8": lambda x, w, s, c: (torch._int_mm(x, w.t()).float() * s * c).to(torch.bfloat16),
        "fp8": lambda x, w, s, c: torch._scaled_mm(x, w.t(), c, s[None, :],
                                                   out_dtype=torch.bfloat16),
    }


def exact(torch, case, inputs):
    """The result of the first rows, in f64."""
    given = {}
    for (name, _, shape), value in zip(case.inputs(), inputs):
        given[name] = (value[:32] if shape[0] == case.m and name in "xrc" else value).double()
    x, w, b, r = (given.get(name) for name in "xwbr")
    product = x @ (w if case.form.startswith("kn") else w.t())
    if case.form in ("s8", "fp8"):
        return product * given["s"] * given["c"]
    if case.form == "swiglu":
        gate, up = product.chunk(2, dim=-1)
        return torch.nn.functional.silu(gate) * up
    product = product + b if b is not None else product
    if case.form.endswith("gelu"):
        return torch.nn.functional.gelu(product, approximate="tanh")
    if case.form == "silu_mul":
        return torch.nn.functional.silu(product) * r
    return torch.relu(product) if case.form == "f16_relu" else product + r


class Bench:
    """Everything that needs a GPU."""

    def __init__(self, tuning_seconds, rounds):
        import torch

        import attacca
        import stopwatch
        self.torch, self.attacca, self.stopwatch = torch, attacca, stopwatch
        self.tuning_seconds, self.rounds = tuning_seconds, rounds
        self.formulas = formulas(torch)

    def sets(self, case):
        bytes_of_one = sum(math.prod(shape) * (4 if dtype == "f32" else 2)
                           for _, dtype, shape in case.inputs())
        return [[tensor(self.torch, *each) for each in case.inputs()]
                for _ in range(self.stopwatch.sets_beyond_cache(bytes_of_one))]

    def contender(self, name, call, sets, want):
        """Ready to be timed; its result was compared."""
        got = call(*sets[0])[:32].double()
        size = (want.abs() + want.abs().mean()).clamp(min=1e-30)
        worst = ((got - want).abs() / size).max().item()
        if not worst < 0.05:
            raise RuntimeError(f"a wrong result of {name}, off by {worst:.3g}")
        return self.stopwatch.Timed(lambda i: call(*sets[i]), len(sets))

    def measure(self, case):
        torch, sets = self.torch, self.sets(case)
        want = exact(torch, case, sets[0])
        formula = self.formulas[case.form]
        torch._dynamo.reset()
        calls = {"eager": formula, "inductor": torch.compile(formula, dynamic=False)}
        row = case._asdict()
        for name, tuning in (("first", "model"), ("tuned", "measure")):
            began = time.monotonic()
            plan = self.attacca.compile(case.graph(), device="cuda", tuning=tuning,
                                        tuning_seconds=self.tuning_seconds)
            [decision] = plan.prepare(M=case.m).decisions
            row[f"{name}_seconds"] = time.monotonic() - began
            row[name] = decision.candidate
            calls[name] = plan
        with torch.no_grad():
            timed = {name: self.contender(name, call, sets, want) for name, call in calls.items()}
            times = self.stopwatch.medians(timed, self.rounds)
        row.update({f"{name}_us": value for name, value in times.items()})
        peer = min(row["eager_us"], row["inductor_us"])
        print(f"{case}: first {peer / row['first_us']:.3f} tuned {peer / row['tuned_us']:.3f} "
              f"{row['first']} | {row['tuned']}", file=sys.stderr, flush=True)
        del timed, sets
        torch.cuda.empty_cache()
        return row


TIMES = ["eager_us", "inductor_us", "first_us", "tuned_us"]
COLUMNS = [*Case._fields, *TIMES, "first_seconds", "tuned_seconds", "first", "tuned"]


def collect(options):
    bench = Bench(options.tuning_seconds, options.rounds)

    def measure(case):
        try:
            return bench.measure(case)
        except Exception as error:  # A case that a peer refuses is named and left out.
            raise RuntimeError(csv_run.one_line(error)) from error

    source = cases(options.seed)
    listed = [next(source) for _ in range(options.cases)]
    csv_run.run(listed, measure, COLUMNS, options.csv, options.minutes,
                {**machine.facts(), "seed": options.seed})


def speeds(row):
    """Of the first call and of the tuned one, over the faster peer; of the first over the tuned."""
    eager, inductor, first, tuned = (float(row[name]) for name in TIMES)
    return min(eager, inductor) / first, min(eager, inductor) / tuned, tuned / first


def summary(name, rows):
    values = [speeds(row) for row in rows]
    mean = [pages.number(geometric_mean(each)) for each in zip(*values)]
    worst = [pages.number(min(each)) for each in zip(*values)]
    return [name, len(rows), mean[0], worst[0], mean[1], worst[1], mean[2], worst[2]]


HEADER = ["cases", "number", "first", "worst", "tuned", "worst", "first / tuned", "worst"]
BANDS = [(1, 16), (17, 63), (64, 127), (128, 255), (256, 519), (520, 2047), (2048, 8192)]


def page(path, out):
    facts, rows = csv_run.read(path)
    forms = collections.defaultdict(list)
    for row in rows:
        forms[row["form"]].append(row)
    bands = [(f"M {low} to {high}", [r for r in rows if low <= int(r["m"]) <= high])
             for low, high in BANDS]
    lines = [
        "# The first call, without tuning", "",
        pages.paragraph(f"""{machine.described(facts)}. Made by `bench/gpu/first_call.py`:
            {len(rows)} random cases of seed {facts.get('seed', '?')}, CUDA graphs in turns over
            buffers larger than the L2 cache, medians. *first*: what a call gets that finds nothing
            in the tuning database; *tuned*: after measuring. Both are speeds over the faster of
            PyTorch eager and Inductor's default; more than 1 is faster. Geometric means, and the
            worst case beside each."""), "",
        *pages.table(HEADER, [summary("all", rows),
                              *(summary(name, each) for name, each in sorted(forms.items())),
                              *(summary(name, each) for name, each in bands if each)]), "",
        "## Slowest first calls", "",
        *pages.table(["form", "M x N x K", "faster peer, us", "first, us", "tuned, us", "first"],
                     [[row["form"], pages.sizes(row),
                       pages.number(min(float(row["eager_us"]), float(row["inductor_us"])), 1),
                       pages.number(float(row["first_us"]), 1),
                       pages.number(float(row["tuned_us"]), 1),
                       f"`{row['first']}`"] for row in sorted(rows, key=speeds)[:12]]), ""]
    pages.write(out + ".md", "\n".join(lines))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", help="where the times go")
    parser.add_argument("--minutes", type=float, default=6)
    parser.add_argument("--cases", type=int, default=80, help="at most so many")
    parser.add_argument("--seed", type=int, default=20261123)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--tuning-seconds", type=float, default=4, help="for each case")
    parser.add_argument("--page", metavar="CSV", help="writes the page of these times")
    parser.add_argument("--out", default="docs/benchmarks/first-call", help="the page, without .md")
    options = parser.parse_args(arguments)
    if options.csv:
        os.makedirs(os.path.dirname(os.path.abspath(options.csv)), exist_ok=True)
        collect(options)
    if options.page:
        page(options.page, options.out)
    return 0 if options.csv or options.page else parser.error("give --csv or --page")


if __name__ == "__main__":
    sys.exit(main())
