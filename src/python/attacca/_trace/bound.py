"""The arguments of a call of a fused function: tensors, constants, and what they are parts of."""
from __future__ import annotations

import inspect
import sys
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import _frameworks
from .._arguments import signature, unwrapped
from .._errors import Error
from .method import check_not_random, is_constant
from .structure import Structure, is_branch, put_together, taken_apart

_usual: weakref.WeakSet[type] = weakref.WeakSet()  # classes whose operators are the framework's


class Signature(NamedTuple):
    """What a function takes.

    Attributes:
        own: Its parameters.
        names: Of a wrapper of ``(*args, **kwargs)``, the parameters of the function that it wraps,
            by their places: {"args[0]": "x", "kwargs[x]": "x"}.
    """

    own: inspect.Signature
    names: dict[str, str]

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Signature:
        own, inner = signature(function), unwrapped(function)
        if inner is function:
            return cls(own, {})
        *first, args, kwargs = own.parameters
        names = {}
        for i, each in enumerate([*signature(inner).parameters.values()][len(first):]):
            if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD):
                names[f"{args}[{i}]"] = each.name
            if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD):
                names[f"{kwargs}[{each.name}]"] = each.name
        return cls(own, names)

    def name(self, place: str) -> str:
        """What a part of the arguments is called; that of a list within them likewise."""
        first, bracket, rest = place.partition("]")
        return self.names.get(first + bracket, first + bracket) + rest

    def has(self, name: str) -> bool:
        return name in self.own.parameters or name in self.names.values()


class Bound(NamedTuple):
    """The arguments of a call.

    Attributes:
        tensors: Tensors by name. Those within a tuple, list or dict are called as in "xs[0]".
        views: Their memory.
        constants: What becomes part of the graph, likewise.
        nested: The tuples, lists and dicts by parameter, with the names of their leaves.
    """

    tensors: dict[str, Any]
    views: dict[str, _frameworks.View]
    constants: dict[str, Any]
    nested: dict[str, tuple[Structure, tuple[str, ...]]]

    def arguments(self, own: inspect.Signature, stand_ins: dict[str, Any],
                  owner: Any) -> inspect.BoundArguments:
        """The arguments with stand-ins for tensors; ``owner``: that of a method's object."""
        leaves = {**self.constants, **stand_ins}
        given: OrderedDict[str, Any] = OrderedDict()
        for name in own.parameters:
            if name in self.nested:
                structure, names = self.nested[name]
                given[name] = put_together(structure, (leaves.get(each, owner) for each in names))
            else:
                given[name] = leaves[name] if name in leaves else owner
        return inspect.BoundArguments(own, given)


def bind(takes: Signature, function: str, args: Any, keywords: Any,
         owner: Any = None) -> Bound:
    """Binds the arguments of a call.

    Args:
        takes: What the function takes.
        function: Its name.
        args: Arguments by position.
        keywords: Arguments by name.
        owner: The object of a method, whose parameter is left out.

    Raises:
        Error: The signature does not take them; a tensor cannot be used.
    """
    try:
        given = takes.own.bind(*args, **keywords)
    except TypeError as error:
        raise Error(f"{function}(): {error}", function, "give each argument") from None
    given.apply_defaults()
    first = next(iter(takes.own.parameters.values()), None)
    if owner is not None and first is not None and first.kind is not first.VAR_POSITIONAL:
        del given.arguments[first.name]
    bound = Bound({}, {}, {}, {})

    def take(name: str, value: Any) -> None:
        if owner is None or value is not owner:
            (bound.constants if _is_constant(value) else bound.tensors)[name] = value

    def take_apart(value: Any, name: str) -> tuple[Structure, tuple[str, ...]]:
        names: list[str] = []

        def take_part(place: str, value: Any) -> None:
            part = takes.name(place)
            if part in bound.tensors or part in bound.constants:
                raise Error(f"{function}(): multiple values for {part}", function, "give one")
            names.append(part)
            take(part, value)
        return taken_apart(value, name, take_part), tuple(names)

    for name, value in given.arguments.items():
        if is_branch(value):
            bound.nested[name] = take_apart(value, name)
        else:
            take(name, value)
    for name, tensor in bound.tensors.items():
        _check_class(tensor, name)
        bound.views[name] = _frameworks.of(tensor).view(tensor, name)
    return bound


def default_dtype(device: str) -> Any:
    """The dtype that torch gives to numbers on a device.

    Raises:
        Error: torch.autocast is on, which gives products other dtypes.
    """
    torch = sys.modules["torch"]
    if torch.is_autocast_enabled(device.partition(":")[0]):
        raise Error("torch.autocast is on", "fuse",
                    "cast in the function, or use torch.compile(backend=\"attacca\")")
    return torch.get_default_dtype()


def _is_constant(value: Any) -> bool:
    """Whether an argument becomes a constant of the graph."""
    if isinstance(value, type):  # only classes that are dtypes
        numpy = sys.modules.get("numpy")
        return value in (bool, int, float) or numpy is not None and issubclass(value, numpy.generic)
    return (not _frameworks.is_tensor(value) and not isinstance(value, types.ModuleType)
            and is_constant(value))


def _check_class(tensor: Any, name: str) -> None:
    """Refuses tensors whose class gives operators another meaning, and what draws random numbers.

    Raises:
        Error: It is one.
    """
    kind = type(tensor)
    if kind in _usual:
        return
    check_not_random(tensor, name)
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    unusual = numpy is not None and isinstance(tensor, numpy.matrix)
    if torch is not None and isinstance(tensor, torch.Tensor):
        own = getattr(kind.__torch_function__, "__func__", kind.__torch_function__)
        unusual = own not in (torch.Tensor.__torch_function__.__func__,
                              torch._C._disabled_torch_function_impl)
    if unusual:
        raise Error(f"a {kind.__name__}, whose class defines operators of its own", name,
                    "give a plain array or tensor: np.asarray(x), x.as_subclass(torch.Tensor)")
    _usual.add(kind)
