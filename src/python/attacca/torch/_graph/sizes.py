"""Writes the sizes of FX graphs in the text form."""
from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from ..._arguments import LONG_NAMES
from ..._functions.table import Refused

# these are not names in the text form
_RESERVED = {*LONG_NAMES, "return", "true", "false", "inf", "nan"}
_NONE: Mapping[Any, Any] = MappingProxyType({})


def dim_text(size: Any) -> str:
    """An extent or stride in the text form.

    Raises:
        Refused: It is not a sum of products of symbols.
    """
    return str(size) if isinstance(size, int) else _text(_expression(size))


class Sizes:
    """How one text writes sizes.

    What is not a sum of products, such as ``(s0 - 1)//2``, is a symbol, whose name holds a hash of
    it. So the text says less than torch knows, and nothing that is wrong.
    """

    def __init__(self, given: Mapping[Any, Any] = _NONE):
        self._given = given  # symbol -> what is written for it

    def text(self, size: Any) -> str:
        """An extent or stride in the text form."""
        return str(size) if isinstance(size, int) else _text(self._polynomial(size))

    def _polynomial(self, size: Any) -> Any:
        import sympy

        whole = sympy.expand(_polynomial(_expression(size)))
        if any(not term.as_coeff_Mul()[0].is_Integer for term in sympy.Add.make_args(whole)):
            whole = _symbol(whole)
        return sympy.expand(whole.xreplace(dict(self._given)))

    def with_symbol_for(self, extents: Iterable[Any], unknown: Collection[str]) -> Sizes | None:
        """Writes one of the extents, which is the sum of an unknown symbol and others, as one
        symbol, and the unknown one as the difference; None: no extent is such a sum."""
        for whole in (self._polynomial(size) for size in extents if not isinstance(size, int)):
            for symbol in sorted(whole.free_symbols, key=str):
                factor = whole.coeff(symbol)
                rest = whole - factor * symbol
                if _name(symbol) in unknown and abs(factor) == 1 \
                        and symbol not in rest.free_symbols:
                    new = {symbol: factor * (_symbol(whole) - rest)}
                    return Sizes({**{old: value.xreplace(new)
                                     for old, value in self._given.items()}, **new})
        return None


def _expression(size: Any) -> Any:
    import sympy

    return sympy.expand(size.node.shape_env.simplify(size.node.expr))


def _polynomial(expression: Any) -> Any:
    """The expression with symbols for what is neither a sum nor a product."""
    if expression.is_Symbol or expression.is_Rational:
        return expression
    if expression.is_Add or expression.is_Mul:
        return expression.func(*map(_polynomial, expression.args))
    if expression.is_Pow and expression.exp.is_Integer and expression.exp > 0:
        return _polynomial(expression.base) ** expression.exp
    return _symbol(expression)


def _symbol(expression: Any) -> Any:
    """A symbol for a whole expression, the same one for equal ones."""
    import sympy

    text = str(expression)
    words = re.sub(r"\W+", "_", text).strip("_")[:32]
    return sympy.Symbol(f"n_{words}_{hashlib.sha256(text.encode()).hexdigest()[:12]}",
                        integer=True)


def _name(symbol: Any) -> str:
    """A symbol's name in the text form."""
    name = str(symbol)  # torch counts symbols: s32, s64
    return f"{name}_size" if name in _RESERVED else name


def _text(expression: Any) -> str:
    """An expanded expression in the text form.

    Raises:
        Refused: It is not a sum of products of symbols.
    """
    import sympy

    terms = []
    for term in sympy.Add.make_args(expression):
        factor, rest = term.as_coeff_Mul()
        factors = [] if rest == 1 else list(sympy.Mul.make_args(rest))
        names: list[str] = []
        for each in factors:
            base, exponent = each.as_base_exp()
            if not base.is_Symbol or not exponent.is_Integer or exponent < 1:
                raise Refused(f"size {expression} is not a sum of products")
            names += [_name(base)] * int(exponent)
        if not factor.is_Integer:
            raise Refused(f"size {expression} is not a sum of products")
        numbers = [str(abs(int(factor)))] if abs(factor) != 1 or not names else []
        terms.append(("-" if factor < 0 else "+", "*".join(numbers + names)))
    terms.sort(key=lambda term: term[0])  # "+" first
    text = " ".join(f"{sign} {product}" for sign, product in terms)
    return text[2:] if text.startswith("+") else "-" + text[2:]
