"""Graphs of products that add other ranks' parts of a sum."""
from __future__ import annotations

import re
from functools import lru_cache

from ... import _core
from .._ops.text_argument import plain, written

_QUOTED = re.compile(r'"([^"]*)"')
_INPUT = re.compile(r'"[^"]*": [^\]]*\]')  # with its type
# A printed graph: its inputs, its statements, and its one result, which may be named.
_PRINTED = re.compile(r'graph [^(]*\((?P<inputs>.*?)\) \{\n(?P<statements>.*?)'
                      r'  return (?:(?:"[^"]*"|\w+) = )?(?P<result>[^\n]*)\n\}\n?', re.DOTALL)


@lru_cache(maxsize=1024)
def added_to(product: str, tail: str, own: int) -> str:
    """The graph of a product that is one part of a sum.

    Args:
        product: A graph with one result, as an op's argument.
        tail: The graph of the sum of the parts and what follows it, as an op's argument. Its first
            inputs are the parts, "part0" and so on, and all its names are quoted.
        own: Which part the product is.

    Returns:
        The graph as an op's argument. Its inputs are the product's, then the tail's without that
        part.
    """
    first = _printed(plain(product))
    # No name in a product's graph begins so.
    behind = _printed(_QUOTED.sub(r'"after.\1"', plain(tail)))
    inputs = [first["inputs"], *_INPUT.findall(behind["inputs"])]
    del inputs[1 + own]
    return written("\n".join([
        f'graph sum({", ".join(inputs)}) {{',
        f'{first["statements"]}"after.part{own}" = {first["result"]}',
        f'{behind["statements"]}return {behind["result"]}', "}"]))


def _printed(graph: str) -> dict[str, str]:
    match = _PRINTED.fullmatch(_core.Graph.parse(graph).text())
    assert match is not None, graph
    return match.groupdict()
