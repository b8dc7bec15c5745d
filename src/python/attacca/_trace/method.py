"""What a fused method reads of its object: numbers, which become constants of the graph, and
tensors, which become inputs."""
from __future__ import annotations

import enum
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .. import _frameworks
from .._errors import Error
from .._frameworks import View
from .traced import Recorder, Traced, frameworks_of, is_read_by_name

_FIXED = (types.FunctionType, types.ModuleType, type, bytes, complex, range, enum.Enum)
# Classes of frameworks whose objects do not change.
_FIXED_NAMES = {"numpy.generic", "numpy.dtype", "numpy.ufunc", "torch.dtype", "torch.device",
                "torch.layout", "torch.memory_format", "torch.qscheme"}


class _Absent:
    """Stands for an attribute that an object does not have."""


class Read(NamedTuple):
    """What a trace read: that an attribute had this identity, or was a tensor of this type."""

    path: tuple[str, ...]
    value: Any
    is_tensor: bool


class Reader:
    """Notes what a trace reads of an object.

    Attributes:
        reads: What was read.
        types: The types of the tensors among it, by input.
        function_of: The Python function of a fused one, which the trace calls instead; of others,
            None.
    """

    def __init__(self, record: Recorder, frameworks: Sequence[str], device: str,
                 type_of: Callable[[str, View], str],
                 function_of: Callable[[Any], Callable[..., Any] | None]):
        self._record, self._frameworks, self._device = record, frameworks, device
        self._type_of = type_of
        self.function_of = function_of
        self.reads: list[Read] = []
        self.types: dict[str, str] = {}
        self._noted: set[tuple[str, ...]] = set()
        self._tensors: dict[tuple[str, ...], Traced] = {}

    def note(self, path: tuple[str, ...], value: Any) -> None:
        if path not in self._noted:
            self._noted.add(path)
            self.reads.append(Read(path, identity(value), False))

    def note_class(self, path: tuple[str, ...], kind: type) -> None:
        """Notes a class's constants, any of which the method may read of ``self.__class__``."""
        for name in dir(kind):
            value = getattr(kind, name, _Absent)
            if not name.startswith("__") and is_constant(value):
                self.note((*path, name), value)

    def tensor(self, path: tuple[str, ...], value: Any) -> Traced:
        if path in self._tensors:
            return self._tensors[path]
        name = ".".join(("self", *path))
        view = _frameworks.of(value).view(value, name)
        if view.device != self._device:
            raise Error(f"{name} is on {view.device} and the arguments are on {self._device}", name,
                        "move them to one device")
        (framework,) = frameworks_of([value])
        if framework not in self._frameworks:
            raise Error(f"{name} is a {type(value).__name__}, and no argument is", name,
                        "give the method a tensor of the same library")
        self.types[name] = self._type_of(name, view)
        self.reads.append(Read(path, (framework, self.types[name]), True))
        dtype = self.types[name].partition("[")[0]
        self._record.tensors.append(value)
        self._tensors[path] = self._record.input(name, dtype, view.shape)
        return self._tensors[path]


class ReadList(list[Any]):
    """A copy of an object's list of constants, which the traced method cannot write."""

    def append(self, *_: Any, **__: Any) -> Any:
        raise Error("the method writes a list of self while tracing", "self",
                    "return what is new, and write it afterwards")

    extend = insert = pop = remove = clear = sort = reverse = append
    __setitem__ = __delitem__ = __iadd__ = __imul__ = append


class _OwnerClass(type):
    """The class of :class:`Owner`, of which a method reads nothing."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise Error(f"the method reads type(self).{name}", "self", f"read self.{name}")


class Owner(metaclass=_OwnerClass):
    """A stand-in for a method's object while the method is traced. To ``isinstance`` and ``super``
    it is of the object's class."""

    __slots__ = ("_attacca",)

    def __init__(self, target: Any, path: tuple[str, ...], reader: Reader):
        object.__setattr__(self, "_attacca", (target, path, reader))

    def __getattribute__(self, name: str) -> Any:
        target, path, reader = object.__getattribute__(self, "_attacca")
        if name == "__class__":
            if is_read_by_name():
                reader.note_class((*path, name), type(target))
            return type(target)
        path, value = (*path, name), getattr(target, name, _Absent)
        if _frameworks.is_tensor(value):
            return reader.tensor(path, value)
        check_not_random(value, ".".join(("self", *path)))
        reader.note(path, value)
        if value is _Absent:
            return getattr(target, name)  # raises what the class raises
        function = reader.function_of(value) or getattr(value, "__func__", None)
        if function is not None and getattr(value, "__self__", None) is target:
            return types.MethodType(function, self)
        if type(value) is list and is_constant(value):
            return ReadList(value)
        return value if is_constant(value) else Owner(value, path, reader)

    def __setattr__(self, name: str, value: Any) -> None:
        raise Error(f"the method writes self.{name}", name, "return it, and write it afterwards")

    def __delattr__(self, name: str) -> None:
        raise Error(f"the method deletes self.{name}", name, "delete it afterwards")

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise _unread(self, "is called", "call a function of tensors")

    def __bool__(self, *_: Any) -> Any:
        raise _unread(self, "is read as a whole", "read its attributes")

    __iter__ = __len__ = __getitem__ = __setitem__ = __delitem__ = __contains__ = __bool__
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __str__ = __format__ = __bool__
    __hash__ = __bool__


def _unread(owner: Owner, what: str, fix: str) -> Error:
    target, path, _ = object.__getattribute__(owner, "_attacca")
    name = ".".join(("self", *path))
    return Error(f"{name}, a {type(target).__name__}, {what} while tracing", name,
                 f"{fix}; of self, numbers, tensors and methods can be read")


def is_constant(value: Any) -> bool:
    """Whether a value becomes part of the code: a number, a text, a dtype, a function, or several
    of them."""
    if isinstance(value, (tuple, list)):
        return all(map(is_constant, value))
    return (value is None or isinstance(value, (bool, int, float, str, *_FIXED))
            or isinstance(value, frozenset) and all(map(is_constant, value))
            or isinstance(value, types.BuiltinFunctionType)
            and isinstance(value.__self__, (types.ModuleType, type, type(None)))
            or any(_name_of(base) in _FIXED_NAMES for base in type(value).__mro__))


def _name_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__name__}"


def check_not_random(value: Any, name: str) -> None:
    """Refuses a generator of random numbers, of which a trace would keep the first ones.

    Raises:
        Error: It is one.
    """
    kinds = map(_name_of, type(value).__mro__)
    if any(kind == "torch._C.Generator" or kind.startswith("numpy.random.") for kind in kinds):
        raise Error(f"{name} is a generator of random numbers", name,
                    "draw them outside, and pass them as a tensor")


def identity(value: Any) -> Any:
    """What a trace took from a value: of a constant itself, where 1, 1.0 and True differ, and so do
    0.0 and -0.0; of a method its function; of another object its class."""
    if isinstance(value, (tuple, list)) and is_constant(value):
        return (type(value).__name__, *map(identity, value))
    if isinstance(value, frozenset) and is_constant(value):
        return (type(value).__name__, frozenset(map(identity, value)))
    if hasattr(value, "tobytes") and not isinstance(value, type):
        return (type(value).__name__, value.tobytes())
    if is_constant(value):
        return (type(value).__name__, value.hex() if isinstance(value, float) else value)
    return (type(value), getattr(value, "__func__", None))


def tensors_of(target: Any, reads: list[Read], type_of: Callable[[str, View], str],
               device: str) -> list[Any] | None:
    """The tensors that a plan takes of an object; None: the object does not hold what the trace
    read, so that the plan is not for it."""
    tensors = []
    for path, known, is_tensor in reads:
        value = target
        for name in path:
            value = getattr(value, name, _Absent)
        if _frameworks.is_tensor(value) != is_tensor:
            return None
        if not is_tensor:
            if identity(value) != known:
                return None
            continue
        where = ".".join(("self", *path))
        view = _frameworks.of(value).view(value, where)
        if view.device != device or (*frameworks_of([value]), type_of(where, view)) != known:
            return None
        tensors.append(value)
    return tensors
