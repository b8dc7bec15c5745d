"""Products with batch_invariant=True beside the usual choice, on one GPU.

    bench/gpu/batch_invariant.py --out FILE.csv [--rows 1,16,64,256,1024,4096] [--tuning model]

For each shape and number of rows the time of a product with bias and SiLU in both ways.
batch_invariant_page.py makes the page. Needs a GPU, kernel templates and PyTorch; Attacca's package
must be importable.
"""
import argparse
import math
import time

import torch

import attacca
import csv_run
import machine
import stopwatch

COLUMNS = ["n", "k", "m", "invariant_us", "usual_us", "invariant", "usual"]
# N, K: layers of Llama-3 8B and 70B, Qwen-2.5 7B.
SHAPES = [(6144, 4096), (4096, 14336), (8192, 8192), (3584, 3584), (4096, 4096), (14336, 4096),
          (28672, 8192), (18944, 3584)]
GRAPH = ("graph g(x: bf16[M, {k}], w: bf16[{n}, {k}], b: f32[{n}]) {{\n"
         "  return cast(silu(matmul(x, transpose(w)) + b), bf16)\n}}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", required=True, help="a CSV")
    parser.add_argument("--rows", default="1,16,64,256,1024,4096")
    parser.add_argument("--tuning", default="measure", choices=["measure", "model"])
    parser.add_argument("--tuning-seconds", type=float, default=0, help="for each product; 0: 60")
    parser.add_argument("--minutes", type=float, default=9)
    return parser.parse_args()


def contender(plan, x, w, b):
    outs = [torch.empty(each.shape[0], w[0].shape[0], device="cuda", dtype=torch.bfloat16)
            for each in x]
    return stopwatch.Timed(lambda i: plan(x[i], w[i], b, out=outs[i]), len(x))


def measured(n, k, rows, plans):
    """Microseconds of each plan."""
    count = stopwatch.sets_beyond_cache(2 * (rows * k + n * k + rows * n))
    x, w = ([torch.randn(size, k, device="cuda").mul_(1 / math.sqrt(k)).bfloat16()
             for _ in range(count)] for size in (rows, n))
    b = torch.randn(n, device="cuda")
    return stopwatch.medians({name: contender(plan, x, w, b) for name, plan in plans.items()})


def main():
    given = arguments()
    end = time.monotonic() + 60 * given.minutes
    tuning = {"tuning": given.tuning}
    if given.tuning == "measure":
        tuning["tuning_seconds"] = given.tuning_seconds
    rows = []
    for n, k in SHAPES:
        text = GRAPH.format(n=n, k=k)
        plans = {"invariant": attacca.compile(text, device="cuda", batch_invariant=True, **tuning),
                 "usual": attacca.compile(text, device="cuda", **tuning)}
        for m in map(int, given.rows.split(",")):
            if time.monotonic() > end:
                break
            chosen = {name: plan.prepare(M=m).decisions[0].candidate
                      for name, plan in plans.items()}
            times = measured(n, k, m, plans)
            rows.append({"n": n, "k": k, "m": m, **chosen,
                         **{f"{name}_us": f"{us:.2f}" for name, us in times.items()}})
            print(rows[-1], flush=True)
            csv_run.write(given.out, COLUMNS, {**machine.facts(), "tuning": given.tuning}, rows)


if __name__ == "__main__":
    main()
