"""What a fused function returns: tensors and constants, by themselves or within tuples, lists and
dicts."""
from __future__ import annotations

from typing import Any, NamedTuple

from .._errors import Error
from .structure import LEAF, Branch, Structure, put_together, taken_apart
from .traced import Traced

_TENSOR = object()


class Returned(NamedTuple):
    """What a function returned: the structure, and for each leaf a constant or ``_TENSOR``."""

    structure: Structure
    leaves: tuple[Any, ...]

    def is_plan_result(self) -> bool:
        """Whether a plan returns the same: a tensor, or a tuple of several."""
        return self.structure == LEAF or len(self.leaves) > 1 and self.kind() == "tuple"

    def kind(self) -> str:
        """ "tuple" or "list" of tensors; of others ""."""
        whole = self.structure
        if not isinstance(whole, Branch) or whole.kind not in (tuple, list):
            return ""
        flat = set(whole.parts) == {LEAF} and all(leaf is _TENSOR for leaf in self.leaves)
        return whole.kind.__name__ if flat else ""

    def of(self, results: Any) -> Any:
        """The function's result with these tensors, a plan's result."""
        tensors = iter(results if isinstance(results, tuple) else (results,))
        return put_together(self.structure, (next(tensors) if leaf is _TENSOR else leaf
                                             for leaf in self.leaves))


def returned_by(result: Any) -> tuple[list[Traced], Returned]:
    """The tensors that a function returned, and how it returned them.

    Raises:
        Error: It returned no tensor, or something else beside them.
    """
    tensors: list[Traced] = []
    leaves: list[Any] = []

    def visit(name: str, value: Any) -> None:
        is_tensor = type(value) is Traced
        constant = value is None or isinstance(value, (bool, int, float, str))
        if not is_tensor and (name == "result" or not constant):
            raise Error(f"the function returns a {type(value).__name__}", "fn",
                        "return a tensor, or a tuple, list or dict of tensors")
        if is_tensor:
            tensors.append(value)
        leaves.append(_TENSOR if is_tensor else value)
    structure = taken_apart(result, "result", visit)
    if not tensors:
        raise Error("the function must return a tensor", "fn", "return one, or several as a tuple")
    return tensors, Returned(structure, tuple(leaves))
