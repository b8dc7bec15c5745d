"""FX graphs of ATen ops as texts: each node's statement, or the reason why it has none."""
from __future__ import annotations

import operator
from typing import Any, Iterable, Sequence

import torch

from .. import _frameworks
from ._table import ALLOWED, FLOATS, TABLE, Refused, literal, part

_DTYPES = {getattr(torch, long): short for short, long in _frameworks._NUMPY.items()
           if hasattr(torch, long)}
_ORDER = ["bool", "u8", "s8", "s32", "s64", "f16", "bf16", "f32", "f64"]


def dim_text(size: Any) -> str:
    """An extent or stride in the text form.

    Raises:
        Refused: It is no sum of products of symbols.
    """
    if isinstance(size, int):
        return str(size)
    import sympy

    expression = sympy.expand(size.node.shape_env.simplify(size.node.expr))
    terms = []
    for term in sympy.Add.make_args(expression):
        factor, rest = term.as_coeff_Mul()
        factors = [] if rest == 1 else list(sympy.Mul.make_args(rest))
        names: list[str] = []
        for each in factors:
            base, exponent = each.as_base_exp()
            if not base.is_Symbol or not exponent.is_Integer or exponent < 1:
                raise Refused(f"size {expression} is no sum of products")
            names += [str(base)] * int(exponent)
        if not factor.is_Integer:
            raise Refused(f"size {expression} is no sum of products")
        numbers = [str(abs(int(factor)))] if abs(factor) != 1 or not names else []
        terms.append(("-" if factor < 0 else "+", "*".join(numbers + names)))
    terms.sort(key=lambda term: term[0])  # "+" first
    text = " ".join(f"{sign} {product}" for sign, product in terms)
    return text[2:] if text.startswith("+") else "-" + text[2:]


def promoted(dtypes: Iterable[str]) -> str:
    """What PyTorch and the text form make of operands of these dtypes."""
    found = set(dtypes)
    if {"f16", "bf16"} <= found:
        found.add("f32")
    return max(found, key=_ORDER.index)


class Importer:
    """Translates the nodes of one graph; remembers what it found."""

    def __init__(self) -> None:
        self._statements: dict[torch.fx.Node, "str | Refused"] = {}

    def statement(self, node: torch.fx.Node) -> str:
        """The node's expression over the names of others, quoted.

        Raises:
            Refused: It has none.
        """
        known = self._statements.get(node)
        if known is None:
            try:
                known = self._translate(node)
            except Refused as reason:
                known = reason
            self._statements[node] = known
        if isinstance(known, Refused):
            raise known
        return known

    def type_text(self, node: torch.fx.Node) -> str:
        """The node as an input: "bf16[M, 64]", with its strides where it is not row-major."""
        value = node.meta["val"]
        shape = [dim_text(size) for size in value.shape]
        dtype = self.dtype(node)
        try:
            strides = [dim_text(stride) for stride in value.stride()]
        except Refused:
            strides = []  # taken row-major, copied where it is not
        step, dense = 1, []
        for size in reversed(value.shape):
            dense.append(step)
            step = step * size
        expected = [dim_text(stride) for stride in reversed(dense)]
        places = [i for i, size in enumerate(value.shape) if not (isinstance(size, int) and size == 1)]
        if not strides or "0" in strides or all(strides[i] == expected[i] for i in places):
            return f"{dtype}[{', '.join(shape)}]"
        return f"{dtype}[{', '.join(shape)}; {', '.join(strides)}]"

    # ---- For the table's rows

    def text(self, argument: Any) -> str:
        """An operand: a name, or a number."""
        if isinstance(argument, torch.fx.Node):
            if not isinstance(argument.meta.get("val"), torch.Tensor):
                raise Refused("a number that is not known")
            return f'"{argument.name}"'
        if isinstance(argument, (bool, int, float)):
            return literal(argument)
        raise Refused(f"an argument {argument!r}")

    def dtype(self, node: torch.fx.Node) -> str:
        dtype = node.meta["val"].dtype
        if dtype not in _DTYPES:
            raise Refused(f"dtype {dtype}")
        return _DTYPES[dtype]

    def sizes(self, node: torch.fx.Node) -> Sequence[Any]:
        return node.meta["val"].shape

    def shape(self, node: torch.fx.Node) -> str:
        return "[" + ", ".join(map(dim_text, self.sizes(node))) + "]"

    def device(self, node: torch.fx.Node) -> Any:
        return node.meta["val"].device

    def rounded(self, text: str, node: torch.fx.Node) -> str:
        """An f32 or f64 expression as the node's dtype."""
        dtype = self.dtype(node)
        return text if dtype in ("f32", "f64") else f"cast({text}, {dtype})"

    @staticmethod
    def op(node: torch.fx.Node) -> str:
        """"aten.add" of aten.add.Tensor."""
        target = node.target
        if isinstance(target, torch._ops.OpOverload):
            return f"{target.namespace}.{target._schema.name.split('::')[-1]}"
        return getattr(target, "__name__", str(target))

    @staticmethod
    def bound(node: torch.fx.Node) -> dict[str, Any]:
        """Arguments by the names of the op's schema; those at their default are left out."""
        schema = node.target._schema.arguments  # type: ignore[union-attr]
        values = {argument.name: value for argument, value in zip(schema, node.args)}
        values.update(node.kwargs)
        defaults = {a.name: a.default_value for a in schema if a.has_default_value()}
        return {n: v for n, v in values.items()
                if n not in defaults or isinstance(v, torch.fx.Node) or v != defaults[n]}

    def check_dtypes(self, allowed: str, operands: Iterable[Any]) -> None:
        if allowed == "any":
            return
        for operand in operands:
            if isinstance(operand, torch.fx.Node) and self.dtype(operand) not in ALLOWED[allowed]:
                raise Refused(f"an operand of dtype {self.dtype(operand)}")

    # ---- Nodes

    def _translate(self, node: torch.fx.Node) -> str:
        if node.op != "call_function":
            raise Refused("not an op")
        if "attacca_text" in node.meta:  # a user's kernel: _kernels.py
            return str(node.meta["attacca_text"])
        if node.target is operator.getitem:
            parts, index = node.args
            if isinstance(parts, torch.fx.Node) and self.op(parts) in _PARTS and parts in self._statements \
                    and not isinstance(self._statements[parts], Refused):
                return part(self, node, parts, index)  # type: ignore[arg-type]
            raise Refused("part of what is not translated")
        name = self.op(node)
        if name.endswith("_") or (isinstance(node.target, torch._ops.OpOverload)
                                  and node.target._schema.is_mutable):
            raise Refused("it writes in place")
        row = TABLE.get(name)
        if row is None:
            raise Refused(f"{name} is not in the table of FX ops")
        if name in _PARTS:
            return ""
        if not isinstance(node.meta.get("val"), torch.Tensor):
            raise Refused("it gives no tensor")
        self.dtype(node)
        self.shape(node)
        bound = self.bound(node)
        operands = [v for v in bound.values() if isinstance(v, torch.fx.Node)]
        for operand in operands:
            if isinstance(operand.meta.get("val"), torch.Tensor):
                self.dtype(operand)
        self.check_dtypes(row.dtypes, operands)
        if callable(row.formula):
            text = row.formula(self, node, *node.args, **node.kwargs)
        else:
            text = self._fill(row.formula, bound, node)
        return self._as(row.result, text, node, operands)

    def _fill(self, formula: str, bound: dict[str, Any], node: torch.fx.Node) -> str:
        schema = {a.name: a.default_value for a in node.target._schema.arguments}  # type: ignore[union-attr]
        for name, value in bound.items():
            if "{" + name + "}" not in formula and name not in ("memory_format", "layout", "pin_memory"):
                raise Refused(f"the argument {name}={value}")
        named = {name: self.text(bound.get(name, default)) for name, default in schema.items()
                 if "{" + name + "}" in formula}
        return formula.format(**named)

    def _as(self, result: str, text: str, node: torch.fx.Node, operands: Sequence[torch.fx.Node]) -> str:
        """With a cast where the text form's promotion would give another dtype than PyTorch's."""
        if result != "promoted":
            return text
        tensors = [self.dtype(o) for o in operands if isinstance(o.meta.get("val"), torch.Tensor)]
        values = [d for d in tensors if d != "bool"] or tensors
        if promoted(values) == self.dtype(node):
            return text
        if self.dtype(node) not in FLOATS:
            raise Refused(f"a result of dtype {self.dtype(node)}")
        return f"cast({text}, {self.dtype(node)})"


_PARTS = {"aten.split", "aten.split_with_sizes", "aten.chunk", "aten.unbind"}
