#!/usr/bin/env python3
"""Products of one input, as a layer's queries, keys and values, by one launch, beside others:

    bench/gpu/together.py --attacca build/src/cli/attacca \\
        --library build/src/api/libattacca.so --out together.csv --minutes 4

`together_us` is a plan of the products, which the cost model lets one launch compute where it
expects a gain (`launches` says how many there are), `apart_us` a plan for each product, tuned for
`--limit` seconds, `torch_us` PyTorch's products one by one, `ratio` the faster one's time over
`together_us`. `joined_us` is cuBLAS's product with the weights in one matrix: a copy of them that
the others do without. `error` and `torch_error` are the largest errors against f64, relative to the
largest value. Launches walk several sets of operands, more than the L2 cache holds."""

import sys

import torch

import csv_run
import machine
import tuned_plan
from stopwatch import Timed, medians, sets_beyond_cache

# Name: the width, the products' columns, whether they have biases.
LAYERS = {"llama-3-8b": (4096, (4096, 1024, 1024), False),
          "mistral-7b": (4096, (4096, 1024, 1024), False),
          "qwen3-4b": (2560, (4096, 1024, 1024), False),
          "llama-3.2-1b": (2048, (2048, 512, 512), False),
          "gemma-2-2b": (2304, (2048, 1024, 1024), False),
          "opt-1.3b": (2048, (2048, 2048, 2048), True),
          "bert-base": (768, (768, 768, 768), True),
          "vit-large": (1024, (1024, 1024, 1024), True),
          "llama-2-7b": (4096, (4096, 4096, 4096), False)}
ROWS = [1, 16, 128, 512, 2048]
COLUMNS = ["layer", "m", "k", "columns", "bias", "together_us", "launches", "kernel", "apart_us",
           "torch_us", "joined_us", "ratio", "error", "torch_error"]


def text_of(k, columns, bias):
    inputs = ", ".join(f"w{i}: bf16[{n}, {k}]" + (f", b{i}: bf16[{n}]" if bias else "")
                       for i, n in enumerate(columns))
    results = ", ".join(f"r{i} = x @ transpose(w{i})" + (f" + b{i}" if bias else "")
                        for i in range(len(columns)))
    return f"graph products(x: bf16[M, {k}], {inputs}) {{ return {results} }}\n"


def runner(library, plan, rows, inputs, outputs):
    """launch() of the plan on these tensors, and its decisions."""
    instance = library.instance(plan, {"M": rows})
    size = library.workspace_bytes(instance)
    workspace = torch.empty(max(size, 1), device="cuda", dtype=torch.uint8)
    run = library.runner(instance, [each.data_ptr() for each in inputs],
                         [each.data_ptr() for each in outputs], workspace.data_ptr(), size)

    def launch(keep=(instance, workspace, inputs, outputs)):
        run(torch.cuda.current_stream().cuda_stream)
    return launch, library.decisions(instance)


def operands(rows, k, columns, bias):
    def random(*shape):
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
    return (random(rows, k), [random(n, k) * k**-0.5 for n in columns],
            [random(n) for n in columns] if bias else None)


def error_of(results, x, weights, biases):
    worst = 0.0
    for i, (got, w) in enumerate(zip(results, weights)):
        want = x.double() @ w.double().T + (biases[i].double() if biases else 0)
        worst = max(worst, float((got.double() - want).abs().max() / want.abs().max()))
    return worst


def measure(library, case, options):
    layer, rows = case
    k, columns, bias = LAYERS[layer]
    total = sum(columns)
    sets = [operands(rows, k, columns, bias)
            for _ in range(sets_beyond_cache(2 * (total * k + rows * (k + total))))]
    whole = library.plan_of_text(text_of(k, columns, bias), "known", 0)
    alone = [library.plan_of_text(text_of(k, (n,), bias), "measure", options.limit)
             for n in columns]
    ours, apart, results = [], [], []
    for x, weights, biases in sets:
        out = [torch.full((rows, n), float("nan"), device="cuda", dtype=torch.bfloat16)
               for n in columns]
        results.append(out)
        each = [(w, *((biases[i],) if bias else ())) for i, w in enumerate(weights)]
        launch, decisions = runner(library, whole, rows, [x, *sum(each, ())], out)
        ours.append(launch)
        apart.append([runner(library, plan, rows, [x, *each[i]], [out[i]])[0]
                      for i, plan in enumerate(alone)])
    joined = [(torch.cat(weights), torch.cat(biases) if bias else None)
              for _, weights, biases in sets]

    def together(i):
        ours[i]()
        return results[i]

    def one_by_one(i):
        for launch in apart[i]:
            launch()

    def eager(i):
        x, weights, biases = sets[i]
        return [torch.addmm(b, x, w.T) if bias else x @ w.T
                for w, b in zip(weights, biases or weights)]

    def in_one_matrix(i):
        w, b = joined[i]
        return torch.addmm(b, sets[i][0], w.T) if bias else sets[i][0] @ w.T
    error = error_of(together(0), *sets[0])
    us = medians({name: Timed(launch, len(sets)) for name, launch in
                  [("together", together), ("apart", one_by_one), ("torch", eager),
                   ("joined", in_one_matrix)]}, 25)
    return {"layer": layer, "m": rows, "k": k, "columns": " ".join(map(str, columns)),
            "bias": int(bias), **{f"{name}_us": f"{value:.2f}" for name, value in us.items()},
            "launches": sum(1 / each.get("together", 1) for each in decisions).__round__(),
            "kernel": decisions[0]["candidate"],
            "ratio": f"{min(us['apart'], us['torch']) / us['together']:.3f}",
            "error": f"{error:.2e}", "torch_error": f"{error_of(eager(0), *sets[0]):.2e}"}


def main():
    parser = tuned_plan.option_parser(__doc__, 4)
    parser.set_defaults(limit=3)
    parser.add_argument("--layers", nargs="*", default=list(LAYERS), choices=list(LAYERS))
    parser.add_argument("--rows", nargs="*", type=int, default=ROWS)
    arguments = parser.parse_args()
    torch.manual_seed(20261126)
    library = tuned_plan.open_library(arguments.library, arguments.attacca)
    cases = [(layer, rows) for rows in arguments.rows for layer in arguments.layers]
    rows = csv_run.run(cases, lambda case: measure(library, case, arguments), COLUMNS,
                       arguments.out, arguments.minutes, machine.facts())
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
