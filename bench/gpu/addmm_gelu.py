#!/usr/bin/env python3
"""Linear layers with a bias and GELU, written as torch.compile writes them, beside cuBLASLt's own
epilogue: times in turns, and errors against f64.

    addmm_gelu.py --attacca build/src/cli/attacca --csv addmm-gelu.csv

`cublaslt_us`: torch._addmm_activation, which is cuBLASLt's bias and tanh GELU. `vendor_us`:
Attacca's best way without templates. `attacca_us`: what tuning chose. `compiled_us`: torch.compile
with backend="attacca", which finds that choice. The errors are mean squares over eager PyTorch's,
the largest of several kinds of data; more than 1 is worse than eager, and "inf" says that NaN or
infinities are elsewhere than in f64.

Needs a GPU, PyTorch and the package `attacca`.
"""

import argparse
import math
import os
import sys
import tempfile
from typing import NamedTuple

import torch
import torch.nn.functional as F

import attacca
import attacca.torch  # noqa: F401  registers the backend
import csv_run
import machine
import program
import stopwatch

SHAPES = [(1024, 11008, 4096), (256, 14336, 4096), (16, 14336, 4096), (8192, 32768, 512)]
CHECKED = 64  # rows
WORST = 1.02  # of the errors over eager's, which sums in another order
GRAPH = """graph linear_gelu(x: bf16[M, {k}], w: bf16[{n}, {k}], b: bf16[{n}]) {{
  sum = cast(matmul(x, transpose(w), out=f32) + b, bf16, compute=f32)
  return cast({gelu}(cast(sum, f32)), bf16)
}}
"""
TIMES = ["eager_us", "inductor_us", "cublaslt_us", "vendor_us", "attacca_us", "compiled_us"]
CHECKS = ["attacca", "vendor", "compiled", "cublaslt"]


class Case(NamedTuple):
    approximate: str
    m: int
    n: int
    k: int

    def graph(self):
        gelu = "gelu_tanh" if self.approximate == "tanh" else "gelu"
        return GRAPH.format(n=self.n, k=self.k, gelu=gelu)


def normal(*shape, scale=1.0):
    return torch.randn(shape, device="cuda").mul_(scale).bfloat16()


def operands(case):
    return (normal(case.m, case.k), normal(case.n, case.k, scale=1 / math.sqrt(case.k)),
            normal(case.n))


def kinds(case):
    """Operands of several kinds: (name, x, w, b)."""
    x, w, b = operands(case)
    yield "normal", x, w, b
    yield "large", x * 100, w, b
    yield "small", x * 1e-3, w, b * 1e-3
    # Sums that cancel, but for what rounding the product would lose.
    same = x[:1].expand_as(x).contiguous() * 30
    yield "cancelled", same, w, -(same[0].float() @ w.float().t() + 0.3).bfloat16()


def formula(case):
    return lambda x, w, b: F.gelu(F.linear(x, w, b), approximate=case.approximate)


def exact(case, x, w, b):
    """The result of the first rows, in f64."""
    return formula(case)(x[:CHECKED].double(), w.double(), b.double())


def ratios(case, calls):
    """name -> the largest error over eager's; infinite where NaN or infinities differ."""
    worst = dict.fromkeys(calls, 0.0)
    for _, x, w, b in kinds(case):
        want = exact(case, x, w, b)

        def error(call, given=(x, w, b), want=want):
            return (call(*given)[:CHECKED].double() - want).square().mean().item()
        eager = error(formula(case))
        for name, call in calls.items():
            worst[name] = max(worst[name], error(call) / eager)
    x, w, b = operands(case)
    b[3], b[4], b[5] = math.nan, math.inf, -math.inf
    want = exact(case, x, w, b)
    for name, call in calls.items():
        got = call(x, w, b)[:CHECKED]
        if not (torch.equal(got.isnan(), want.isnan()) and torch.equal(got.isinf(), want.isinf())):
            worst[name] = math.inf
    return worst


def plan(case, tuning, seconds=0.0):
    """(a plan whose kernel is chosen, what was chosen)"""
    made = attacca.compile(case.graph(), device="cuda", tuning=tuning, tuning_seconds=seconds)
    [decision] = made.prepare(M=case.m).decisions
    return made, decision.candidate


def contenders(case, options, row):
    calls = {"eager": formula(case)}
    torch._dynamo.reset()
    calls["inductor"] = torch.compile(formula(case), dynamic=False)
    if case.approximate == "tanh":
        calls["cublaslt"] = lambda x, w, b: torch._addmm_activation(b, x, w.t(), use_gelu=True)
    with tempfile.NamedTemporaryFile("w", suffix=".attacca") as file:
        file.write(case.graph())
        file.flush()
        program.answer(options.attacca, "tune", file.name, "--dim", f"M={case.m}", "--deny", "*")
    calls["vendor"], row["vendor"] = plan(case, "known")
    calls["attacca"], row["attacca"] = plan(case, "always", options.tuning_seconds)
    calls["compiled"] = torch.compile(formula(case), dynamic=False, backend="attacca",
                                      options={"policy": "always", "tuning": "known"})
    return calls


def measure(case, options):
    row = case._asdict()
    with torch.no_grad():
        calls = contenders(case, options, row)
        row.update({f"{name}_error": f"{value:.4f}" for name, value in ratios(
            case, {name: calls[name] for name in CHECKS if name in calls}).items()})
        bytes_of_one = 2 * (case.m * case.k + case.n * case.k + case.m * case.n)
        sets = [operands(case) for _ in range(stopwatch.sets_beyond_cache(bytes_of_one))]
        timed = {name: stopwatch.Timed(lambda i, call=call: call(*sets[i]), len(sets))
                 for name, call in calls.items()}
        times = stopwatch.medians(timed, options.rounds)
    row.update({f"{name}_us": f"{value:.2f}" for name, value in times.items()})
    peer = min(times[name] for name in ("eager", "inductor", "cublaslt") if name in times)
    wrong = [name for name in ("attacca", "vendor", "compiled")
             if float(row[f"{name}_error"]) > WORST]
    print(f"{case}: {peer / times['attacca']:.3f} of the fastest peer, compiled "
          f"{peer / times['compiled']:.3f}; {row}" + (f" WRONG: {wrong}" if wrong else ""),
          file=sys.stderr, flush=True)
    del timed, sets
    torch.cuda.empty_cache()
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    program.add_option(parser)
    parser.add_argument("--csv", required=True)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--tuning-seconds", type=float, default=15)
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()
    os.environ.setdefault("ATTACCA_TUNE_WORKER", os.path.abspath(options.attacca))
    torch.manual_seed(20261123)
    cases = [Case(approximate, *shape) for approximate in ("tanh", "none") for shape in SHAPES]
    columns = [*Case._fields, *TIMES, *(f"{name}_error" for name in CHECKS), "attacca", "vendor"]
    csv_run.run(cases, lambda case: measure(case, options), columns, options.csv, options.minutes,
                machine.facts())


if __name__ == "__main__":
    main()
