"""Sums of products over labelled axes, as matrix products: einsum and tensordot."""
from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Any, NamedTuple

from ..._functions.table import Refused
from ..._functions.values import FLOATS, broadcast_shapes, integers
from .table import Composer, composes, merged

Label = Hashable


class Labelled(NamedTuple):
    """A tensor, and a label for each of its axes."""

    tensor: Any
    labels: list[Label]


def contracted(call: Composer, a: Labelled, b: Labelled, kept: Collection[Label]) -> Labelled:
    """The product of two tensors, summed over the labels that are not kept."""
    a, b = (_summed(call, x, [n for n in x.labels if n in kept or n in other.labels])
            for x, other in ((a, b), (b, a)))
    shared = [n for n in a.labels if n in b.labels]
    batch, inner = ([n for n in shared if (n in kept) is wanted] for wanted in (True, False))
    rows, columns = ([n for n in x.labels if n not in shared] for x in (a, b))
    extents = _extents(call, a, b, inner)
    if not inner:
        order = batch + rows + columns
        one, other = (_aligned(call, x, order) for x in (a, b))
        return Labelled(one * other, order)
    # Several labels of rows are batches over which the other matrix is broadcast, unless there are
    # others.
    several = not batch and len(rows) > 1
    one = _matrix(call, a, batch, [rows[-1:] if several else rows, inner],
                  rows[:-1] if several else [])
    other = _matrix(call, b, batch, [inner, columns], [])
    product = one @ other
    labels = [*batch, *rows, *columns]
    sizes = [extents[n] for n in labels]
    return Labelled(call.reshaped(product, sizes), labels)


def _summed(call: Composer, x: Labelled, kept: Sequence[Label]) -> Labelled:
    """Without the labels that are not kept."""
    axes = [i for i, n in enumerate(x.labels) if n not in kept]
    if not axes:
        return x
    wide = x.tensor if call.dtype(x.tensor) in FLOATS else call.cast(x.tensor, "s64")
    return Labelled(call.reduce("sum", wide, axes, False), [n for n in x.labels if n in kept])


def _extents(call: Composer, a: Labelled, b: Labelled, inner: Sequence[Label]) -> dict[Label, int]:
    found: dict[Label, int] = {}
    for x in (a, b):
        for label, extent in zip(x.labels, call.sizes(x.tensor)):
            if label in inner and found.get(label, extent) != extent:
                raise Refused(f"axes of {found[label]} and {extent} elements are multiplied")
            found[label] = broadcast_shapes([[found[label]], [extent]])[0] if label in found \
                else extent
    return found


def _ordered(call: Composer, x: Labelled, order: Sequence[Label]) -> Any:
    return call.permute(x.tensor, [x.labels.index(n) for n in order if n in x.labels])


def _aligned(call: Composer, x: Labelled, order: Sequence[Label]) -> Any:
    """The tensor with an axis for each label, of one element where it has none."""
    extents = dict(zip(x.labels, call.sizes(x.tensor)))
    return call.reshaped(_ordered(call, x, order), [extents.get(n, 1) for n in order])


def _matrix(call: Composer, x: Labelled, batch: Sequence[Label], sides: Sequence[Sequence[Label]],
            first: Sequence[Label]) -> Any:
    """Matrices whose two axes are the labels of each side, behind batches."""
    extents = dict(zip(x.labels, call.sizes(x.tensor)))
    ordered = _ordered(call, x, [*batch, *first, *sides[0], *sides[1]])
    return call.reshaped(ordered, [*(extents[n] for n in [*batch, *first]),
                                   *(merged([extents[n] for n in side]) if side else 1
                                     for side in sides)])


# ---- einsum


class _Equation(NamedTuple):
    inputs: list[list[Label]]
    output: list[Label]


def _parsed(call: Composer, equation: str, operands: Sequence[Any]) -> _Equation:
    given, arrow, result = equation.replace(" ", "").partition("->")
    texts = given.split(",")
    if len(texts) != len(operands):
        raise Refused(f"the argument equation={equation!r} for {len(operands)} operands")
    letters = given.replace(",", "").replace("...", "")
    inputs = [_labels(text, len(call.sizes(x)), equation) for text, x in zip(texts, operands)]
    dots = max((len(x) - len(t.replace("...", "")) for x, t in zip(inputs, texts)), default=0)
    if not arrow:
        result = "..." * ("..." in given) + "".join(
            sorted(n for n in set(letters) if letters.count(n) == 1))
    output = _labels(result, len(result.replace("...", "")) + dots * ("..." in result), equation)
    if unknown := [n for n in output if not any(n in x for x in inputs)]:
        raise Refused(f"the argument equation={equation!r}: no operand has {unknown[0]}")
    return _Equation(inputs, output)


def _labels(text: str, rank: int, equation: str) -> list[Label]:
    """A label for each axis: a letter, or a number that counts the axes of "..." from the last."""
    before, dots, after = text.partition("...")
    letters = before + after
    hidden = rank - len(letters)
    if (hidden != 0 and not dots) or hidden < 0 or not (letters == "" or letters.isalpha()):
        raise Refused(f"the argument equation={equation!r} for a tensor with {rank} axes")
    if len(set(letters)) < len(letters):
        raise Refused(f"the argument equation={equation!r} takes a diagonal")
    return [*before, *range(hidden - 1, -1, -1), *after]


@composes("einsum", "einsum")
def _einsum(call: Composer, operands: Sequence[Any]) -> Any:
    equation, *given = operands
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        given = list(given[0])
    if not isinstance(equation, str) or not given or not all(map(call.is_tensor, given)):
        raise Refused("the argument equation: give a text such as \"mk,kn->mn\", then tensors")
    inputs, output = _parsed(call, equation, given)
    terms = [Labelled(*each) for each in zip(given, inputs)]
    found = terms[0]
    for i, term in enumerate(terms[1:], 2):
        later = {n for each in terms[i:] for n in each.labels}
        found = contracted(call, found, term, {*output, *later})
    return call.cast(_ordered(call, _summed(call, found, output), output), call.result)


# ---- tensordot


def over_axes(call: Composer, a: Any, b: Any, of_a: Sequence[int], of_b: Sequence[int]) -> Any:
    """The sum of products over pairs of axes; the result has a's other axes, then b's."""
    one: list[Label] = [("a", i) for i in range(len(call.sizes(a)))]
    other: list[Label] = [("b", i) for i in range(len(call.sizes(b)))]
    for i, j in zip(of_a, of_b):
        other[j] = one[i]
    output = [n for i, n in enumerate(one) if i not in of_a]
    output += [n for j, n in enumerate(other) if j not in of_b]
    found = contracted(call, Labelled(a, one), Labelled(b, other), output)
    return _ordered(call, found, output)


@composes("tensordot", "tensordot")
def _tensordot(call: Composer, self: Any, b: Any, dims: Any = 2) -> Any:
    rank = len(call.sizes(self))
    if call.framework == "torch" and call.result == "bool":
        raise Refused("a product of dtype bool")
    if isinstance(dims, int):
        if not 0 <= dims <= min(rank, len(call.sizes(b))):
            raise Refused(f"the argument dims={dims}")
        pairs = [list(range(rank - dims, rank)), list(range(dims))]
    else:
        pairs = [integers(each, "dims") for each in dims]
    axes = [[call.axis(x, d, "dims") for d in each] for x, each in zip((self, b), pairs)]
    if len(axes) != 2 or len(axes[0]) != len(axes[1]) or any(len(set(a)) < len(a) for a in axes):
        raise Refused(f"the argument dims={dims}")
    return over_axes(call, self, b, *axes)
