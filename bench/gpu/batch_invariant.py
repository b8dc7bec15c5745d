"""Products with batch_invariant=True beside the usual choice, on one GPU.

    python bench/gpu/batch_invariant.py [--rows 1,16,64,256,1024,4096] [--usual model]

For each shape and number of rows the time of a product with bias and SiLU by the template that the
model chooses among those that sum in the same order, that of the usual choice (--usual: how it is
tuned), and the cost, the quotient of both less 1. The goal is at most 10 %. Needs a GPU, kernel
templates and PyTorch.
"""
import argparse
import math

import torch

import attacca
import stopwatch

# N, K: layers of Llama-3 8B and 70B, Qwen-2.5 7B.
SHAPES = [(6144, 4096), (4096, 4096), (14336, 4096), (4096, 14336), (8192, 8192), (28672, 8192),
          (3584, 3584), (18944, 3584)]
GRAPH = ("graph g(x: bf16[M, {k}], w: bf16[{n}, {k}], b: f32[{n}]) {{\n"
         "  return cast(silu(matmul(x, transpose(w)) + b), bf16)\n}}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", default="1,16,64,256,1024,4096")
    parser.add_argument("--usual", default="measure", choices=["known", "measure", "model"])
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
    rows = [int(each) for each in given.rows.split(",")]
    print("| N | K | M | batch-invariant, us | usual, us | cost | batch-invariant "
          "| usual |")
    print("|---:|---:|---:|---:|---:|---:|---|---|")
    costs = []
    for n, k in SHAPES:
        text = GRAPH.format(n=n, k=k)
        plans = {"invariant": attacca.compile(text, device="cuda", batch_invariant=True),
                 "usual": attacca.compile(text, device="cuda", tuning=given.usual)}
        for m in rows:
            chosen = {name: plan.prepare(M=m).decisions[0].candidate
                      for name, plan in plans.items()}
            times = measured(n, k, m, plans)
            costs.append(times["invariant"] / times["usual"])
            print(f"| {n} | {k} | {m} | {times['invariant']:.1f} | {times['usual']:.1f} "
                  f"| {costs[-1] - 1:+.1%} | `{chosen['invariant']}` | `{chosen['usual']}` |",
                  flush=True)
    print()
    mean = math.exp(sum(map(math.log, costs)) / len(costs))
    print(f"geometric mean of {len(costs)}: {mean - 1:+.1%}; "
          f"{sum(cost <= 1.1 for cost in costs)} of {len(costs)} at most 10 %")


if __name__ == "__main__":
    main()
