"""Layers of experts whose rows are sorted by expert: routing, the exact values of the rows of one
expert, and the least time that a product of them may take."""

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


def largest(ends):
    """The expert that has most rows, and its rows."""
    counts = counts_of(ends)
    expert = int(counts.argmax())
    end = int(ends[expert])
    return expert, slice(end - int(counts[expert]), end)


def error(result, exact):
    """The largest one, relative to the largest exact value."""
    return float((result.double() - exact).abs().max() / exact.abs().max())


def limit(ends, shape, bytes_of_expert, read):
    """Microseconds that memory (4.3 TB/s) or the tensor cores (700 TFLOP/s) allow. `read`: the rows
    of x, which, like the result, is of 16 bits."""
    rows = int(ends[-1])
    touched = int((counts_of(ends) > 0).sum())
    moved = touched * bytes_of_expert + 2 * (read * shape.k + rows * shape.out)
    return max(moved / 4.3e6, 2 * rows * shape.n * shape.k / 700e6)
