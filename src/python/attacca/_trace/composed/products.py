"""Rows of matrix products by other names."""
from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ..._functions.table import Refused
from ..._functions.values import FLOATS
from .contraction import Labelled, contracted, over_axes
from .table import Composer, composes, merged


@composes("mv", "matvec")
def _mv(call: Composer, self: Any, vec: Any) -> Any:
    if call.framework == "torch":
        return self @ vec
    _ranks_at_least(call, self, 2, vec, 1)
    return _without_last(call, self @ call.with_axis(vec, len(call.sizes(vec))))


@composes("", "vecmat")
def _vecmat(call: Composer, self: Any, mat: Any) -> Any:
    _ranks_at_least(call, self, 1, mat, 2)
    product = call.with_axis(self, len(call.sizes(self)) - 1) @ mat
    *batches, _, columns = call.sizes(product)
    return call.reshaped(product, [*batches, columns])


def _ranks_at_least(call: Composer, a: Any, of_a: int, b: Any, of_b: int) -> None:
    if len(call.sizes(a)) < of_a or len(call.sizes(b)) < of_b:
        raise Refused(f"shapes {tuple(call.sizes(a))} and {tuple(call.sizes(b))}")


def _without_last(call: Composer, x: Any) -> Any:
    return call.reshaped(x, list(call.sizes(x))[:-1])


@composes("dot vdot", "")
def _dot_of_vectors(call: Composer, self: Any, tensor: Any) -> Any:
    return self @ tensor


@composes("", "dot")
def _dot(call: Composer, self: Any, b: Any) -> Any:
    ranks = [len(call.sizes(x)) for x in (self, b)] if call.is_tensor(b) else [0, 0]
    if 0 in ranks:
        return call.cast(self * b, call.result)
    return over_axes(call, self, b, [ranks[0] - 1], [max(ranks[1] - 2, 0)])


@composes("", "vdot")
def _vdot(call: Composer, self: Any, b: Any) -> Any:
    return call.flat(self) @ call.flat(b)


@composes("inner", "inner")
def _inner(call: Composer, self: Any, other: Any) -> Any:
    ranks = [len(call.sizes(x)) for x in (self, other)]
    if 0 in ranks:
        return self * other
    return over_axes(call, self, other, [ranks[0] - 1], [ranks[1] - 1])


@composes("outer ger", "outer")
def _outer(call: Composer, self: Any, vec2: Any) -> Any:
    a, b = call.flat(self), call.flat(vec2)
    return call.with_axis(a, 1) * b


@composes("linalg_vecdot", "vecdot")
def _vecdot(call: Composer, self: Any, other: Any, dim: int = -1) -> Any:
    product = self * other
    if call.dtype(product) not in FLOATS:
        product = call.cast(product, "s64")
    axis = call.axis(product, dim)
    return call.cast(call.reduce("sum", product, axis, False), call.result)


@composes("addmv", "")
def _addmv(call: Composer, self: Any, mat: Any, vec: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    column = call.with_axis(self, 1) if len(call.sizes(self)) else self
    made = sys.modules["torch"].addmm(column, mat, call.with_axis(vec, 1), beta=beta, alpha=alpha)
    return _without_last(call, made)


@composes("addr", "")
def _addr(call: Composer, self: Any, vec1: Any, vec2: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    outer = call.with_axis(vec1, 1) * vec2
    scaled = outer if alpha == 1 else outer * alpha
    made = scaled if beta == 0 else (self if beta == 1 else self * beta) + scaled
    return call.cast(call.broadcasted(made, list(call.sizes(outer))), call.result)


@composes("addbmm", "")
def _addbmm(call: Composer, self: Any, batch1: Any, batch2: Any, beta: Any = 1,
            alpha: Any = 1) -> Any:
    batches, rows, inner = call.sizes(batch1)
    columns = call.sizes(batch2)[2]
    one = call.reshaped(call.permute(batch1, [1, 0, 2]), [rows, merged([batches, inner])])
    other = call.reshaped(batch2, [merged([batches, inner]), columns])
    return sys.modules["torch"].addmm(self, one, other, beta=beta, alpha=alpha)


@composes("linalg_multi_dot chain_matmul", "multi_dot")
def _multi_dot(call: Composer, tensors: Sequence[Any]) -> Any:
    tensors = list(tensors)
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = list(tensors[0])
    if not tensors or not all(map(call.is_tensor, tensors)):
        raise Refused("the argument tensors")
    ends = [list(call.sizes(x)) for x in tensors]
    extents = [int(e[0]) if len(e) == 2 else 1 for e in ends[:1]]
    extents += [int(e[0]) for e in ends[1:]]
    extents.append(int(ends[-1][-1]) if len(ends[-1]) == 2 else 1)
    return _chain(tensors, _splits(extents), 0, len(tensors) - 1)


def _chain(tensors: Sequence[Any], splits: dict[tuple[int, int], int], first: int,
           last: int) -> Any:
    if first == last:
        return tensors[first]
    middle = splits[first, last]
    return _chain(tensors, splits, first, middle) @ _chain(tensors, splits, middle + 1, last)


def _splits(extents: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where each part of a chain of matrices is cut so that the fewest multiplications are made
    (Cormen et al., Introduction to Algorithms, "Matrix-chain multiplication")."""
    count = len(extents) - 1
    cost = {(i, i): 0 for i in range(count)}
    splits: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for first in range(count - length):
            last = first + length
            def price(cut: int, first: int = first, last: int = last) -> int:
                return (cost[first, cut] + cost[cut + 1, last]
                        + extents[first] * extents[cut + 1] * extents[last + 1])
            splits[first, last] = min(range(first, last), key=price)
            cost[first, last] = price(splits[first, last])
    return splits


@composes("bilinear", "")
def _bilinear(call: Composer, input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    batch = list(range(len(call.sizes(input1)) - 1))
    one = contracted(call, Labelled(input1, [*batch, "i"]), Labelled(weight, ["k", "i", "j"]),
                     [*batch, "k", "j"])
    made = contracted(call, one, Labelled(input2, [*batch, "j"]), [*batch, "k"]).tensor
    return made if bias is None else made + bias
