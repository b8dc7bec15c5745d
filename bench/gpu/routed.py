"""Layers of experts whose rows are sorted by expert: routing, the errors of some experts' rows, and
the least time that a product of them may take."""

from typing import NamedTuple

import torch


class Shape(NamedTuple):
    """Of a part of a layer: its matrices are [experts, n, k], its result has `out` columns."""
    experts: int
    chosen: int  # for each token
    n: int
    k: int
    out: int


def shape_of(experts, chosen, width, inner, gate):
    """`gate`: of the product with both halves of the first weights; else of the second one."""
    n, k, out = (2 * inner, width, inner) if gate else (width, inner, width)
    return Shape(experts, chosen, n, k, out)


def draw(tokens, experts, chosen, routing):
    """The ends of the experts' rows, and of each row the number of its pair: tokens * chosen pairs
    of a token and one of its experts, token by token."""
    weights = torch.ones(experts, device="cuda")
    if routing == "zipf":
        weights = weights / torch.arange(1, experts + 1, device="cuda")
        weights = weights[torch.randperm(experts, device="cuda")]
    picked = torch.multinomial(weights.expand(tokens, experts), chosen).reshape(-1)
    counts = torch.bincount(picked, minlength=experts)
    return torch.cumsum(counts, 0).to(torch.int32), torch.argsort(picked, stable=True)


def counts_of(ends):
    return torch.diff(ends, prepend=ends.new_zeros(1))


def sample(ends):
    """The experts that have most rows, a middle number and the fewest, each with its rows."""
    counts = counts_of(ends)
    order = torch.argsort(counts, descending=True)[:int((counts > 0).sum())].tolist()
    return [(expert, slice(int(ends[expert] - counts[expert]), int(ends[expert])))
            for expert in dict.fromkeys((order[0], order[len(order) // 2], order[-1]))]


def error(ends, result, exact_rows):
    """The largest error of a sample of the experts, each relative to its largest exact value; NaN
    if there is one. exact_rows(expert, rows) -> f64, the exact values of an expert's rows."""
    errors = []
    for expert, rows in sample(ends):
        exact = exact_rows(expert, rows)
        errors.append((result[rows].double() - exact).abs().max() / exact.abs().max())
    return float(torch.stack(errors).max())


def bytes_of(ends, shape, bytes_of_expert, read):
    """The bytes that must move. `read`: the rows of x, which, like the result, is of 16 bits."""
    touched = int((counts_of(ends) > 0).sum())
    return touched * bytes_of_expert + 2 * (read * shape.k + int(ends[-1]) * shape.out)


def limit(ends, shape, bytes_of_expert, read):
    """Microseconds that memory (4.3 TB/s) or the tensor cores (700 TFLOP/s) allow; see bytes_of."""
    moved = bytes_of(ends, shape, bytes_of_expert, read)
    return max(moved / 4.3e6, 2 * int(ends[-1]) * shape.n * shape.k / 700e6)
