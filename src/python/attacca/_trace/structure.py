"""Tensors and constants within tuples, lists and dicts, as arguments and as results."""
from __future__ import annotations

import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .._errors import Error


class Leaf(NamedTuple):
    """The place of a tensor or constant in a structure."""


class Branch(NamedTuple):
    """A tuple, list or dict in a structure.

    Attributes:
        kind: Its type: tuple, list, dict, OrderedDict, a named tuple, or a struct sequence such as
            those of torch.return_types.
        keys: Of a dict, its keys.
        parts: What it contains.
    """

    kind: type[Any]
    keys: tuple[Any, ...]
    parts: tuple[Structure, ...]


Structure = Leaf | Branch
LEAF = Leaf()
_WORD = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)


def is_branch(value: Any) -> bool:
    return isinstance(value, (tuple, list, dict))


def leaves_of(value: Any) -> Iterator[Any]:
    """The tensors and constants in a value.

    Raises:
        RecursionError: A list contains itself.
    """
    if not is_branch(value):
        yield value
        return
    for part in value.values() if isinstance(value, dict) else value:
        yield from leaves_of(part)


def taken_apart(value: Any, name: str, visit: Callable[[str, Any], None]) -> Structure:
    """The structure of a value.

    Args:
        value: The value.
        name: Its name; parts are called as in ``name[0]`` or ``name[key]``, those whose key is no
            integer and no word by their place in the dict, as in ``name[#0]``.
        visit: Called with the name and value of each leaf, in order.

    Raises:
        Error: A dict has keys that are no texts or numbers, or is of a subclass whose meaning is
            unknown; a list contains itself.
    """
    if not is_branch(value):
        visit(name, value)
        return LEAF
    kind = _dict_kind(value, name) if isinstance(value, dict) else type(value)
    keys = tuple(value) if isinstance(value, dict) else ()
    if not all(isinstance(key, (str, int)) for key in keys):
        raise Error(f"{name} is a dict whose keys are not all texts or integers", name,
                    "give texts or integers as keys")
    parts = value.values() if isinstance(value, dict) else value
    try:
        return Branch(kind, keys, tuple(
            taken_apart(part, f"{name}[{_written(key, place)}]", visit)
            for place, (key, part) in enumerate(zip(keys or range(len(value)), parts))))
    except RecursionError:
        raise Error(f"{name} contains itself, or is too deep", name, "give it flat") from None


def _dict_kind(value: dict[Any, Any], name: str) -> type:
    """The type of what the function is given for a dict. Dynamo makes its own read-only ones."""
    kind = type(value)
    immutable = getattr(sys.modules.get("torch.fx.immutable_collections"), "immutable_dict", dict)
    if kind is dict or kind is OrderedDict:
        return kind
    if kind is immutable:
        return dict
    raise Error(f"a {kind.__name__}, a subclass of dict", name, "give dict(x)")


def _written(key: str | int, place: int) -> str:
    """A key in a name; no two keys of a dict are written alike."""
    plain = type(key) is int or type(key) is str and _WORD.fullmatch(key)
    return str(key) if plain else f"#{place}"


def put_together(structure: Structure, leaves: Iterator[Any]) -> Any:
    """A value of this structure with the next of the leaves at its places."""
    if isinstance(structure, Leaf):
        return next(leaves)
    parts = [put_together(part, leaves) for part in structure.parts]
    if issubclass(structure.kind, dict):
        return structure.kind(zip(structure.keys, parts))
    if hasattr(structure.kind, "_fields"):  # a named tuple
        return structure.kind(*parts)
    return structure.kind(parts)
