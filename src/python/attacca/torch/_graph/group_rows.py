"""Finds rows that are chosen by the groups of a grouped product's rows, such as the biases of
experts.

Layers of experts sort the numbers of the tokens' experts, count how often each occurs, and give a
grouped product the cumulative sums of the counts as the ends of its groups. They index biases by
the sorted numbers, which are the groups of the product's rows. Where the graph proves that,
:func:`mark` makes the index an ``attacca::rows_of_groups``, whose text reads no index, and
:func:`restore` makes it an index again.

The proof, for E groups: an index and what is counted are all elements of one tensor of integers,
each perhaps at most E - 1; the index has them in ascending order; none is negative; those of the
index are below E; and what is counted is how often each of 0 ... E - 1 occurs. Elements from E on
are then counted nowhere, and stand at the end: rows of no group, whose number is E - 1.
"""
from __future__ import annotations

import operator
from typing import Any, NamedTuple

import torch

from .._ops.rows_of_groups import rows_of_groups
from .importer import Importer

# Ops that keep all elements, and their order in memory.
_VIEWS = {"aten.view", "aten.reshape", "aten._unsafe_view", "aten.unsqueeze", "aten.squeeze",
          "aten.clone", "aten.alias", "aten.detach"}
# Ops that keep all elements, in another order.
_MOVES = {"aten.permute", "aten.transpose", "aten.t"}
# Ops that keep some elements, or repeat them.
_PARTS = {"aten.expand", "aten.slice", "aten.select"}
_CASTS = {"prims.convert_element_type", "aten._to_copy"}
_INDEXED = {"aten.index", "aten.index_select"}
_CLAMPS = {"aten.clamp", "aten.clamp_min", "aten.clamp_max"}
_INTEGERS = {torch.int32: 1 << 31, torch.int64: 1 << 63}  # and the first number that is too large
# Up to so many bins the position of an integer in histc is exact, however it is rounded.
_MOST_BINS = 2048
_EXACT_IN_F32 = 1 << 24


def mark(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """Makes indices that are the numbers of groups ``attacca::rows_of_groups``; returns them."""
    ends = list(dict.fromkeys(each for node in graph.nodes if (each := _ends_of(node))))
    marked: list[torch.fx.Node] = []
    if not ends:
        return marked
    for node in graph.nodes:
        chosen = _chosen_rows(node)
        if chosen is None:
            continue
        proven = next((each for each in ends if _is_group(*chosen, each)), None)
        if proven is None or not _comes_behind(node, proven):
            continue
        node.target, node.args, node.kwargs = rows_of_groups, (chosen[0], proven, chosen[1]), {}
        marked.append(node)
    return marked


def restore(marked: list[torch.fx.Node]) -> None:
    """Makes what :func:`mark` returned indices again, where it is still in the graph."""
    for node in marked:
        if not node._erased:
            as_index(node)


def as_index(node: torch.fx.Node) -> None:
    """Makes a node an index again if it is an ``attacca::rows_of_groups``."""
    if node.target is rows_of_groups:
        rows, _, ids = node.args
        node.target, node.args = torch.ops.aten.index.Tensor, (rows, [ids])


def reads(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The nodes that a node's text names: not the index that the groups' numbers are."""
    if node.target is rows_of_groups:
        return [each for each in node.args[:2] if isinstance(each, torch.fx.Node)]
    return node.all_input_nodes


def _comes_behind(node: torch.fx.Node, ends: torch.fx.Node) -> bool:
    """Whether a node comes behind the ends, or can be moved there."""
    if ends < node:
        return True
    if any(not ends < user for user in node.users):
        return False
    ends.append(node)
    return True


# ---- Nodes and their arguments


def _value(node: Any) -> torch.Tensor | None:
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    return value if isinstance(value, torch.Tensor) else None


def _op(node: Any) -> str:
    is_call = isinstance(node, torch.fx.Node) and node.op == "call_function"
    return Importer.op(node) if is_call else ""


def _arguments(node: torch.fx.Node) -> dict[str, Any]:
    """Those given, by name, and the defaults of the others."""
    schema: Any = node.target._schema.arguments  # type: ignore[union-attr]
    found = {each.name: each.default_value for each in schema if each.has_default_value()}
    found.update({each.name: value for each, value in zip(schema, node.args)})
    found.update(node.kwargs)
    return found


def _ends_of(node: torch.fx.Node) -> torch.fx.Node | None:
    """The ends of the groups, if the node is a grouped product."""
    if not _op(node).startswith(("aten._grouped_mm", "aten._scaled_grouped_mm")):
        return None
    ends = _arguments(node).get("offs")
    return ends if isinstance(ends, torch.fx.Node) else None


def _chosen_rows(node: torch.fx.Node) -> tuple[torch.fx.Node, torch.fx.Node] | None:
    """The matrix and the index of an index along its first axis."""
    if _op(node) not in _INDEXED:
        return None
    given = _arguments(node)
    ids: Any
    if "indices" in given:
        ids = given["indices"][0] if len(given["indices"]) == 1 else None
    else:
        ids = given["index"] if given["dim"] == 0 else None
    rows, index = _value(given["self"]), _value(ids)
    if rows is None or index is None or rows.dim() != 2 or index.dim() != 1:
        return None
    matrix: torch.fx.Node = given["self"]
    return matrix, ids


def _part(node: Any) -> tuple[Any, Any]:
    """The op of which a node is a result, and which one; ("", None): it is of no op of several."""
    if _op(node) != "getitem" or node.target is not operator.getitem:
        return "", None
    parts, which = node.args
    return parts, which


# ---- Whether an index is the row's group


class _Derived(NamedTuple):
    """What integers are: all elements of the root, perhaps at most E - 1."""

    root: torch.fx.Node
    limited: bool
    ascending: bool


def _is_group(rows: torch.fx.Node, ids: torch.fx.Node, ends: torch.fx.Node) -> bool:
    experts, shape = rows.meta["val"].shape[0], ends.meta["val"].shape
    if not isinstance(experts, int) or tuple(shape) != (experts,):
        return False
    if ends.meta["val"].dtype != torch.int32 or ids.meta["val"].dtype not in _INTEGERS:
        return False
    counted = _counted(ends, experts)
    if counted is None:
        return False
    index, other = _derived(ids, experts), _derived(counted, experts)
    least, most = _range(index.root)
    return (index.root is other.root and index.ascending and least is not None and least >= 0
            and (index.limited or (most is not None and most < experts)))


def _derived(node: torch.fx.Node, experts: int) -> _Derived:
    limited, ascending, in_order = False, False, True
    below: Any
    while True:
        op = _op(node)
        parts, which = _part(node)
        if op in _VIEWS or op in _MOVES:
            in_order &= op in _VIEWS
            below = node.args[0]
        elif _op(parts) == "aten.sort" and which == 0:
            ascending |= in_order and _is_ascending(parts)
            in_order &= ascending
            below = parts.args[0]
        elif (sorted_by := _sort_of(node)) is not None:
            ascending |= in_order and _is_ascending(sorted_by)
            in_order &= ascending
            below = sorted_by.args[0]
        elif op in _CLAMPS and _limits(node, experts):
            limited = True
            below = node.args[0]
        elif op in _CASTS and _keeps_integers(node):
            below = node.args[0]
        else:
            return _Derived(node, limited, ascending)
        node = below


def _is_ascending(sort: torch.fx.Node) -> bool:
    """Whether a sort gives all elements in ascending order."""
    value = _value(sort.args[0])
    return value is not None and value.dim() == 1 and not _arguments(sort)["descending"]


def _sort_of(node: torch.fx.Node) -> torch.fx.Node | None:
    """The sort whose places a node takes from what was sorted; None: it is no such node."""
    if _op(node) not in _INDEXED:
        return None
    given = _arguments(node)
    index = [given["index"]] if "index" in given else list(given["indices"])
    if len(index) != 1 or given.get("dim", 0) != 0:
        return None
    sort, which = _part(index[0])
    value = _value(given["self"])
    is_own = _op(sort) == "aten.sort" and which == 1 and sort.args[0] is given["self"]
    return sort if is_own and value is not None and value.dim() == 1 else None


def _limits(node: torch.fx.Node, experts: int) -> bool:
    """Whether a clamp changes at most what is above E - 1, to that."""
    given = _arguments(node)
    least, most = given.get("min"), given.get("max")
    of_operand = _range(given["self"])[0]
    keeps_low = least is None or (_is_int(least) and of_operand is not None
                                  and least <= of_operand)
    return keeps_low and _is_int(most) and most == experts - 1


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _keeps_integers(node: torch.fx.Node) -> bool:
    """Whether a cast is of integers to integers that hold all their values."""
    before, after = _value(node.args[0]), _value(node)
    if before is None or after is None or not {before.dtype, after.dtype} <= set(_INTEGERS):
        return False
    if before.dtype == after.dtype or after.dtype == torch.int64:
        return True
    least, most = _range(node.args[0])
    limit = _INTEGERS[after.dtype]
    return least is not None and most is not None and -limit <= least and most < limit


# ---- What an integer may be


def _range(node: Any) -> tuple[int | None, int | None]:
    """The least and the most value of a tensor of integers; None: not known."""
    op = _op(node)
    parts, which = _part(node)
    if _op(parts) in ("aten.topk", "aten.sort"):
        return _range(parts.args[0]) if which == 0 else (0, _last_place(parts))
    if op in ("aten.argmax", "aten.argmin") and _arguments(node)["dim"] is not None:
        return 0, _last_place(node)
    if op in _VIEWS | _MOVES | _PARTS | _INDEXED:
        return _range(node.args[0])
    if op in _CASTS:
        return _range(node.args[0]) if _keeps_integers(node) else (None, None)
    if op in _CLAMPS and (value := _value(node)) is not None and value.dtype in _INTEGERS:
        return _clamped(node)
    return None, None


def _last_place(node: torch.fx.Node) -> int | None:
    """The last place along the axis of which an op gives places."""
    given = _arguments(node)
    value = _value(given["self"])
    if value is None or value.dim() == 0:
        return None
    extent = value.shape[given["dim"]]
    return extent - 1 if isinstance(extent, int) else None


def _clamped(node: torch.fx.Node) -> tuple[int | None, int | None]:
    given = _arguments(node)
    low, high = given.get("min"), given.get("max")
    if not all(bound is None or _is_int(bound) for bound in (low, high)):
        return None, None
    least, most = _range(given["self"])
    if low is not None:
        least = low if least is None else max(least, low)
        most = None if most is None else max(most, low)
    if high is not None:
        most = high if most is None else min(most, high)
        least = None if least is None else min(least, high)
    return least, most


# ---- What the ends of groups count


def _counted(ends: torch.fx.Node, experts: int) -> torch.fx.Node | None:
    """The integers of which the ends are the cumulative numbers of each of 0 ... E - 1."""
    sums: Any = ends
    while _op(sums) in _CASTS and _keeps_counts(sums):
        sums = sums.args[0]
    value = _value(sums)
    if _op(sums) != "aten.cumsum" or value is None or value.dim() != 1 \
            or value.dtype not in _INTEGERS:
        return None
    counts = _arguments(sums)["self"]
    while _op(counts) in _CASTS and _keeps_counts(counts):
        counts = counts.args[0]
    return _counted_by_histc(counts, experts) or _counted_by_equality(counts, experts)


def _keeps_counts(node: torch.fx.Node) -> bool:
    """Whether a cast keeps counts of rows: of integers, or of floats that hold them, to
    integers."""
    before, after = _value(node.args[0]), _value(node)
    return before is not None and after is not None and after.dtype in _INTEGERS \
        and before.dtype in (torch.float32, torch.float64, *_INTEGERS)


def _counted_by_histc(node: torch.fx.Node, experts: int) -> torch.fx.Node | None:
    if _op(node) != "aten.histc" or not 2 <= experts <= _MOST_BINS:
        return None
    given = _arguments(node)
    if (given["bins"], given["min"], given["max"]) != (experts, 0, experts - 1):
        return None
    counted = given["self"]
    value = _value(counted)
    if value is None or value.dtype not in (torch.float32, torch.float64, *_INTEGERS):
        return None
    if value.dtype == torch.float32 and (not isinstance(value.numel(), torch.SymInt)
                                         and value.numel() >= _EXACT_IN_F32):
        return None
    # Integers that a float rounds stay above E - 1.
    if _op(counted) in _CASTS and value.dtype.is_floating_point:
        counted = counted.args[0]
    of = _value(counted)
    return counted if of is not None and of.dtype in _INTEGERS else None


def _counted_by_equality(node: torch.fx.Node, experts: int) -> torch.fx.Node | None:
    """Of the sums of ``ids[..., None] == arange(E)`` over all axes but the last, as ``one_hot``
    writes it."""
    if _op(node) != "aten.sum":
        return None
    given = _arguments(node)
    counts, equal = _value(node), given["self"]
    if counts is None or counts.dtype not in (torch.float32, torch.float64, *_INTEGERS):
        return None
    while _op(equal) in _CASTS and (value := _value(equal)) is not None \
            and value.dtype in _INTEGERS:
        equal = equal.args[0]
    found = _value(equal)
    if _op(equal) != "aten.eq" or found is None or given.get("keepdim"):
        return None
    rank = found.dim()
    axes = {axis % rank for axis in given.get("dim") or ()}
    if rank < 2 or axes != set(range(rank - 1)) or found.shape[-1] != experts:
        return None
    for ids, numbers in (equal.args, reversed(equal.args)):
        own = _value(ids)
        if own is not None and own.dtype in _INTEGERS and _counts_up(numbers, experts) and \
                tuple(own.shape) == (*found.shape[:-1], 1):
            return ids  # type: ignore[no-any-return]
    return None


def _counts_up(node: Any, experts: int) -> bool:
    """Whether a tensor is 0 ... E - 1 along its last axis, its only one."""
    value = _value(node)
    if value is None or value.numel() != experts or value.shape[-1] != experts:
        return False
    while _op(node) in _VIEWS:
        node = node.args[0]
    if _op(node) == "prims.iota":
        given = _arguments(node)
        return (given["length"], given["start"], given["step"]) == (experts, 0, 1)
    return _op(node) == "aten.arange" and _is_from_zero(node, experts)


def _is_from_zero(node: torch.fx.Node, experts: int) -> bool:
    given = _arguments(node)
    return (given.get("start", 0), given["end"], given.get("step", 1)) == (0, experts, 1)
