"""Sizes such as ``2*M + 1`` or ``floordiv(M + 1, 2)``: parsing and evaluating them, and finding
symbols' values from shapes."""
from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_]\w*)|([-+*]))")

_FORMULA = re.compile(r"(floordiv|min|max)\((.*)\)", re.DOTALL)
_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {"floordiv": operator.floordiv, "min": min,
                                                    "max": max}

# A product of symbols, sorted, with repetition: M*M*N is ("M", "M", "N"), and 1 is (). A function
# of two sizes is a symbol whose name is its text.
Monomial = tuple[str, ...]


class Dim:
    """An extent or stride: a sum of products of integers, symbols and functions of two sizes, such
    as "2*M + 1" or "min(M, 512)"."""

    __slots__ = ("terms", "text")

    def __init__(self, text: str):
        self.text = text
        self.terms: dict[Monomial, int] = {}
        for sign, product in _products(text):
            symbols: list[str] = []
            factor = sign
            for part in _split(product, "*"):
                part = part.strip()
                if part.lstrip("-").isdigit():
                    factor *= int(part)
                elif part.startswith("-"):
                    factor, symbols = -factor, [*symbols, part[1:].strip()]
                else:
                    symbols.append(part)
            key = tuple(sorted(symbols))
            self.terms[key] = self.terms.get(key, 0) + factor

    @property
    def symbols(self) -> set[str]:
        return {name for monomial in self.terms for symbol in monomial
                for name in (set().union(*(each.symbols for each in _operands(symbol)))
                             if symbol.endswith(")") else {symbol})}

    def value(self, sizes: Mapping[str, int]) -> int:
        """The value for given sizes, which may be symbolic integers of torch."""
        total = 0
        for monomial, factor in self.terms.items():
            product = factor
            for symbol in monomial:
                product = product * (_apply(symbol, sizes) if symbol.endswith(")")
                                     else sizes[symbol])
            total = product + total
        return total

    def linear(self) -> tuple[str, int, int] | None:
        """(symbol, factor, offset) of ``factor * symbol + offset``."""
        rest = [monomial for monomial in self.terms if monomial]
        if len(rest) != 1 or len(rest[0]) != 1 or rest[0][0].endswith(")"):
            return None
        return rest[0][0], self.terms[rest[0]], self.terms.get((), 0)


def _split(text: str, separator: str) -> list[str]:
    """The parts between separators that stand in no brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _operands(formula: str) -> list[Dim]:
    match = _FORMULA.fullmatch(formula)
    assert match is not None, formula
    return [Dim(each.strip()) for each in _split(match[2], ",")]


def _apply(formula: str, sizes: Mapping[str, int]) -> int:
    a, b = (each.value(sizes) for each in _operands(formula))
    result: int = _FUNCTIONS[formula[:formula.index("(")]](a, b)
    return result


def _products(text: str) -> Iterator[tuple[int, str]]:
    """For each product of the sum, its sign, 1 or -1, and its text, such as "2*M"."""
    sign, product, position = 1, "", 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            break
        token = match.group().strip()
        if match[2] and text[match.end():match.end() + 1] == "(":
            token = match[2] + _bracketed(text[match.end():])
            product += token
            position = match.start(2) + len(token)
            continue
        if token in "+-" and product and not product.rstrip().endswith("*"):
            yield sign, product
            sign, product = (1 if token == "+" else -1), ""
        elif token == "-" and not product:
            sign = -sign
        else:
            product += token
        position = match.end()
    if product:
        yield sign, product


def _bracketed(text: str) -> str:
    """Up to the bracket that closes the first one."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[:at + 1]
    return text


class Source(NamedTuple):
    """Where a symbol's value is read: shape[tensor][axis] == factor * symbol + offset."""

    tensor: int
    axis: int
    factor: int
    offset: int

    def read(self, shapes: Sequence[Sequence[Any]]) -> Any:
        """The symbol's value, for shapes that may be symbolic themselves."""
        extent = shapes[self.tensor][self.axis]
        return extent if (self.factor,
                          self.offset) == (1, 0) else (extent - self.offset) // self.factor


def sources(shapes: Sequence[Sequence[Dim]]) -> dict[str, Source]:
    """For each symbol, an input's extent from which it can be computed, which is a linear function
    of the symbol. An extent that is the symbol itself is preferred."""
    found: dict[str, Source] = {}
    for tensor, shape in enumerate(shapes):
        for axis, dim in enumerate(shape):
            linear = dim.linear()
            if linear is None:
                continue
            symbol, factor, offset = linear
            known = found.get(symbol)
            if known is None or (factor == 1 and offset == 0 and known[2:] != (1, 0)):
                found[symbol] = Source(tensor, axis, factor, offset)
    return found
