"""Stand-ins for tensors, and the record of what a function does to them."""
from __future__ import annotations

import builtins
import contextlib
import dis
import math
import operator
import os
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from numbers import Integral
from typing import Any

from .. import _frameworks
from .._arguments import LONG_NAMES, SHORT_NAMES
from .._errors import Error, MissingAttribute
from .._functions.parts import slice_size
from .._functions.values import Extent
from .calls import OPERATORS, call_method, call_numpy, call_torch, is_known, unknown
from .shape import Shape
from .trace_call import numpy_dtype

# Names of dtypes in numpy, in torch and in the text form.
_DTYPES = SHORT_NAMES | {short: short for short in LONG_NAMES}
# Python's types as numpy's and torch's dtypes.
_PYTHON = {"float": "f64", "int": "s64", "bool": "bool"}


def _dtype_name(dtype: Any) -> str | None:
    if isinstance(dtype, type) and dtype.__module__ == "builtins":
        return _PYTHON.get(dtype.__name__)
    if not getattr(dtype, "isnative", True):
        return None
    text = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return _DTYPES.get(text.removeprefix("torch."))


def _as_numpy_reads(dtype: Any) -> Any:
    """numpy's dtype for what ``astype`` was given; what is none for numpy, unchanged."""
    try:
        return sys.modules["numpy"].dtype(dtype)
    except (KeyError, TypeError, ValueError):
        return dtype


class Traced:
    """A stand-in for a tensor while a function is traced: it has a dtype and sizes, but no
    elements."""

    __slots__ = ("_record", "_text", "_dtype", "_sizes")
    __array_priority__ = 1000

    def __init__(self, record: Recorder, text: str, dtype: str, sizes: Sequence[int]):
        self._record, self._text, self._dtype, self._sizes = record, text, dtype, tuple(sizes)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """Of the tensors that it stands for, where the function asks for it."""
        return self._record.framework_type() if is_asked_for() else Traced

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in Traced.__slots__:
            raise Error(f"the function sets {name} of a tensor", self._text,
                        "keep it in a variable")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise Error(f"the function deletes {name} of a tensor", self._text, "leave it there")

    def __repr__(self) -> str:
        return f"<tensor {self._text}>"

    def __format__(self, form: str) -> str:
        if form:  # how a number is written
            raise self._unknown_value()
        return str(self)

    def _unknown_value(self) -> Error:
        return Error("the function reads a tensor's value, which is unknown while tracing",
                     self._text, "use where(condition, a, b) instead of if")

    def __bool__(self) -> bool:
        raise self._unknown_value()

    __float__ = __int__ = __index__ = __bool__

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise self._unknown_value()

    def __iter__(self) -> Any:
        raise Error("the function iterates over a tensor", self._text,
                    "take parts with slices, unbind or split")

    def __setitem__(self, index: Any, value: Any = None) -> None:
        raise Error("the function writes to a tensor", self._text,
                    "use where(condition, a, b), or concatenate parts")

    __delitem__ = __setitem__

    def __len__(self) -> int:
        if not self._sizes:
            raise Error("the function reads the length of a tensor without axes", self._text,
                        "use the tensor itself; make one of several with stack, not with "
                        "torch.tensor")
        length: int = self.shape[0]
        return length

    @property
    def shape(self) -> Shape:
        if self._record.inline:
            raise Error("an epilogue reads a size, which differs from call to call", self._text,
                        "multiply by an operand, scalar(name)")
        return Shape(self._sizes)

    @property
    def ndim(self) -> int:
        return len(self._sizes)

    def dim(self) -> int:
        return len(self._sizes)

    def numel(self) -> int:
        return self.shape.numel()

    nelement = numel

    def is_floating_point(self) -> bool:
        return self._dtype.startswith(("f", "bf"))

    @property
    def size(self) -> Any:
        """torch's method, or the property of numpy's arrays."""
        if "torch" not in self._record.frameworks:
            return math.prod(self.shape)
        return lambda dim=None: self.shape if dim is None else self.shape[dim]

    @property
    def dtype(self) -> Any:
        return self._record.framework_dtype(self._dtype)

    def __getitem__(self, index: Any) -> Traced:
        given = list(index) if isinstance(index, tuple) else [index]
        of_axes = sum(part is not Ellipsis and part is not None for part in given)
        rest = len(self._sizes) - of_axes
        if rest < 0:
            raise Error(f"{of_axes} indices of a tensor with {len(self._sizes)} axes",
                        self._text, "leave some out")
        after = next((i for i, part in enumerate(given) if part is Ellipsis), None)
        if sum(part is Ellipsis for part in given) > 1:
            raise Error("an index with several ...", self._text, "write one")
        whole = [*given[:after], *[slice(None)] * rest, *([] if after is None
                                                          else given[after + 1:])]
        if any(isinstance(part, Traced) for part in whole):
            return self._picked(whole)
        parts, sliced, sizes, axes = [], [], [], iter(self._sizes)
        for part in whole:
            if part is None:  # a new axis
                sizes.append(1)
                continue
            text, size = self._range(part, next(axes))
            parts.append(text)
            sliced.append(size)
            if isinstance(part, slice):
                sizes.append(size)
        if after is not None:
            before = sum(part is not None for part in given[:after])
            parts[before:before + rest] = ["..."]
        elif rest:
            del parts[of_axes:]
        kept = self
        if len(sizes) == len(sliced) == len(whole) or not {":", "..."}.issuperset(parts):
            kept = self._record.keep(f"{self._text}[{', '.join(parts)}]", self._dtype, sliced)
        return kept if all(isinstance(part, slice) for part in whole) else kept._reshaped(sizes)

    def _picked(self, index: Sequence[Any]) -> Traced:
        """Elements of one axis by a tensor of indices, beside whole axes."""
        axis = next(i for i, part in enumerate(index) if isinstance(part, Traced))
        picked = index[axis]
        if any(not isinstance(part, slice) or part != slice(None)
               for i, part in enumerate(index) if i != axis):
            raise Error("an index of a tensor beside other indices", self._text,
                        "index one axis, then the others: x[i][:, 0]")
        if picked._dtype not in ("s32", "s64"):
            raise Error(f"an index of dtype {picked._dtype}", self._text,
                        "index by integers of 32 or 64 bits; use where(mask, x, 0) for x[mask]")
        text = f"gather({self._text}, {self._record.text_of(picked)}, axis={axis})"
        sizes = [*self._sizes[:axis], *picked._sizes, *self._sizes[axis + 1:]]
        return self._record.keep(text, self._dtype, sizes)

    def _reshaped(self, sizes: Sequence[int]) -> Traced:
        if self._record.inline:
            raise Error("an index that removes or adds axes in an epilogue", self._text,
                        "index operands before the call: an epilogue sees one element at a time")
        texts = [each.text if isinstance(each, Extent) else str(each) for each in sizes]
        if None in texts:
            raise Error("an index of a tensor with a size that has no name", self._text,
                        "use slices: x[1:2] for x[1]")
        return self._record.keep(f"reshape({self._text}, [{', '.join(map(str, texts))}])",
                                 self._dtype, sizes)

    def _range(self, part: Any, extent: int) -> tuple[str, int]:
        """A slice's text and size. A number is the slice that has it."""
        try:
            if not isinstance(part, slice):
                if isinstance(part, bool) or not isinstance(part, Integral):
                    raise TypeError
                at = int(part)
                if type(extent) is int and not -extent <= at < extent:
                    raise Error(f"the index {at} of an axis of {extent}", self._text,
                                "use one within the axis")
                part = slice(at, at + 1 or None)
            begin, end, step = (None if b is None else operator.index(b)
                                for b in (part.start, part.stop, part.step))
        except TypeError:
            raise Error(f"the index {part!r}", self._text, "use slices, numbers and None") from None
        if step == 0 or (step is not None and step < 0 and "torch" in self._record.frameworks):
            raise Error(f"a slice with step {step}", self._text, "use a step of 1 or more")
        size = slice_size(extent, begin, end, step or 1)
        if type(extent) is int and (step or 1) > 0:  # Python allows bounds outside of the axis
            begin, end, _ = (None if b is None else min(max(b, -extent), extent)
                             for b in (begin, end, None))
            if size == 0:
                begin, end = 0, 0
        bounds = ":".join("" if b is None else str(b) for b in (begin, end))
        return bounds + (f":{step}" if step not in (None, 1) else ""), size

    def _cast(self, dtype: Any) -> Traced:
        name = _dtype_name(dtype)
        if name is None:
            raise Error(f"a cast to {dtype}", self._text, f"use one of {_frameworks.SUPPORTED}")
        return self._record.keep(f"cast({self._text}, {name})", name, self._sizes)

    def to(self, *given: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False,
           copy: bool = False, memory_format: Any = None) -> Traced:
        """torch's forms: a dtype, a tensor that has it, or a device, which is refused."""
        for each in given:
            if isinstance(each, bool):  # non_blocking, copy
                continue
            named = isinstance(each, (int, str)) or type(each).__name__ == "device"
            if named and _dtype_name(each) is None:
                device = each
            else:
                dtype = each
        dtype = dtype._dtype if isinstance(dtype, Traced) else dtype
        if device is not None:
            raise Error(f"to: the argument device={device!r}", self._text,
                        "move the tensor before the call")
        return self._cast(dtype)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Traced:
        if dtype is None:
            raise Error("type without a dtype", self._text, "read x.dtype")
        return self._cast(dtype)

    def astype(self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True,
               copy: bool = True) -> Traced:
        if casting != "unsafe":
            raise Error(f"astype: the argument casting={casting!r}", self._text,
                        "leave that argument out")
        return self._cast(_as_numpy_reads(dtype))

    @property
    def __dlpack_device__(self) -> Any:
        raise Error("a tensor of a traced function in a call that computes at once", self._text,
                    "call it outside, or write a product as x @ w")

    @property
    def T(self) -> Any:
        return call_method(self._record, "T", (self,), {})

    @property
    def mT(self) -> Any:
        return call_method(self._record, "mT", (self,), {})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in Traced.__slots__:
            raise AttributeError(name)
        if not self._record.tensors_have(name):
            self._record.absent.add(name)
            raise MissingAttribute(f"{name} is no attribute of the call's tensors", name,
                                   unknown(name).fix)
        if not is_known(name, "torch") and not is_known(name, "numpy"):
            raise unknown(name)
        return lambda *args, **keywords: call_method(self._record, name, (self, *args), keywords)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        if method != "__call__":
            raise Error(f"{ufunc.__name__}.{method}", "", "call the plain function")
        reflected = _REFLECTED.get(ufunc.__name__)
        if (reflected is not None and type(inputs[0]) is not Traced and not keywords
                and getattr(inputs[0], "ndim", None) == 0 and self._record.is_of_torch()):
            # a NumPy scalar before a tensor of torch
            return call_method(self._record, reflected, (self, inputs[0].item()), {})
        return call_numpy(self._record, ufunc, inputs, keywords)

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        return call_numpy(self._record, function, args, keywords)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (),
                           kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        flat = [a for arg in [*args, *keywords.values()]
                for a in (arg if isinstance(arg, (tuple, list)) else (arg,))]
        return call_torch(next(a._record for a in flat if isinstance(a, cls)), function, args,
                          keywords)


# torch's methods that cast.
_CASTS = {"float": "f32", "half": "f16", "bfloat16": "bf16", "double": "f64", "int": "s32",
          "long": "s64", "bool": "bool", "char": "s8", "byte": "u8"}


def _casts() -> None:
    def method(dtype: str) -> Callable[..., Traced]:
        return lambda self, memory_format=None: self._cast(dtype)

    for name, dtype in _CASTS.items():
        setattr(Traced, name, method(dtype))


_casts()


def _operators() -> None:
    def method(name: str) -> Callable[..., Traced]:
        def operate(self: Traced, *others: Any) -> Any:
            return call_method(self._record, name, (self, *others), {})
        return operate

    def refused(name: str) -> Callable[..., Any]:
        def operate(self: Traced, *others: Any) -> Any:
            raise Error(f"the operator {name.strip('_')} is not known while tracing", self._text,
                        "write x = x + y for x += y; other operators with functions that "
                        "attacca.fuse knows")
        return operate

    for name in OPERATORS:
        setattr(Traced, name, method(name))
    for name in ("divmod", "lshift", "rshift", "iadd", "isub", "imul", "itruediv", "ifloordiv",
                 "imod", "ipow", "imatmul", "iand", "ior", "ixor", "ilshift", "irshift"):
        setattr(Traced, f"__{name}__", refused(name))
        if not name.startswith("i"):
            setattr(Traced, f"__r{name}__", refused(name))
    for name in ("round", "trunc", "reversed"):
        setattr(Traced, f"__{name}__", refused(name))
    Traced.__hash__ = object.__hash__  # type: ignore[method-assign]


_operators()

# numpy's function -> the operator of its second operand.
_SWAPPED = {"__lt__": "__gt__", "__le__": "__ge__", "__gt__": "__lt__", "__ge__": "__le__",
            "__eq__": "__eq__", "__ne__": "__ne__"}
_REFLECTED = {numpy_name: _SWAPPED.get(name, f"__r{name[2:]}")
              for name, (_, numpy_name, swapped) in OPERATORS.items()
              if not swapped and (name in _SWAPPED or f"__r{name[2:]}" in OPERATORS)}

_asking = threading.local()  # .now: this thread is in a call of isinstance by a traced function
_isinstance = isinstance
_patching = threading.Lock()  # a fork waits for it, since the child would inherit it
os.register_at_fork(before=_patching.acquire, after_in_parent=_patching.release,
                    after_in_child=_patching.release)
_traces = 0  # of all threads


def _is_ours(frame: types.FrameType) -> bool:
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0] == "attacca"


def _asked_isinstance(value: Any, classes: Any, /) -> bool:
    """The builtin function while any function is traced."""
    if not _isinstance(value, Traced) or _is_ours(sys._getframe(1)):
        return _isinstance(value, classes)
    _asking.now = True
    try:
        return _isinstance(value, classes)
    finally:
        _asking.now = False


# Instructions that read an object's __class__ for Python code: x.__class__, and match's patterns.
_BY_NAME = {dis.opmap[name] for name in ("LOAD_ATTR", "LOAD_METHOD") if name in dis.opmap}
_READERS = _BY_NAME | {dis.opmap["MATCH_CLASS"]}


def is_asked_for() -> bool:
    """Whether what calls this, a ``__class__``, is read by isinstance, or by Python code."""
    if getattr(_asking, "now", False):
        return True
    return _is_read_in(sys._getframe(2), _READERS)


def is_read_by_name() -> bool:
    """Whether what calls this, a ``__class__``, is read by ``x.__class__`` in Python code, which
    may read the class's attributes afterwards; ``isinstance`` and ``match`` do not."""
    return _is_read_in(sys._getframe(2), _BY_NAME)


def _is_read_in(frame: types.FrameType, readers: set[int]) -> bool:
    return not _is_ours(frame) and frame.f_code.co_code[frame.f_lasti] in readers


@contextlib.contextmanager
def asked_for_types() -> Iterator[None]:
    """While a function is traced: ``isinstance(x, torch.Tensor)`` is true of stand-ins that are for
    tensors of torch, and likewise of arrays.

    An object's ``__class__`` decides that. Code in C reads it, too, and would take a stand-in for a
    tensor in memory, so it is the tensors' class only for ``isinstance``, which is replaced
    meanwhile, and for code that reads it itself: ``x.__class__``, ``match``, ``singledispatch``.
    """
    global _traces
    with _patching:
        _traces += 1
        builtins.isinstance = _asked_isinstance
    try:
        yield
    finally:
        with _patching:
            _traces -= 1
            if _traces == 0:
                builtins.isinstance = _isinstance


# The classes of the tensors whose framework is called so, by module.
_CLASSES = {"torch": [("torch", "Tensor")], "numpy": [("numpy", "ndarray"), ("cupy", "ndarray")]}


class Recorder:
    """Records calls as statements, or (``inline``) as one expression.

    Attributes:
        inline: Whether it records one expression.
        frameworks: The frameworks whose rules operators and methods follow: "torch", "numpy" or
            both.
        foreign: Whether tensors of other frameworks are given, which mostly follow numpy's rules.
        tensors: The tensors that stand-ins are for.
        absent: The attributes that the function asked stand-ins for and that no tensor has.
    """

    stand_in = Traced

    def __init__(self, frameworks: Sequence[str], tensors: Iterable[Any], inline: bool = False):
        self.tensors = [*tensors]
        self.absent: set[str] = set()
        self.foreign = "other" in frameworks
        self.frameworks = sorted({"numpy" if f == "other" else f for f in frameworks})
        self.statements: list[str] = []
        self.inline = inline
        self._named: set[str] = set()
        self._prefix = "v"  # of the names of statements

    def input(self, name: str, dtype: str, sizes: Sequence[int]) -> Traced:
        while name.startswith(self._prefix):
            self._prefix += "_"
        self._named.add(f'"{name}"')
        return Traced(self, f'"{name}"', dtype, sizes)

    def several(self, text: str, count: int) -> list[str]:
        """Records an expression of several results; returns their names."""
        if self.inline:
            raise Error("a split", "epilogue", "an epilogue computes one element")
        first = len(self.statements)
        names = [f"{self._prefix}{first}_{i}" for i in range(count)]
        self.statements.append(", ".join(names) + " = " + text)
        self._named.update(names)
        return names

    def keep(self, text: str, dtype: str, sizes: Sequence[int]) -> Traced:
        if self.inline:
            return Traced(self, f"({text})", dtype, sizes)
        if text in self._named:
            return Traced(self, text, dtype, sizes)
        name = f"{self._prefix}{len(self.statements)}"
        self.statements.append(f"{name} = {text}")
        self._named.add(name)
        return Traced(self, name, dtype, sizes)

    def is_of_torch(self) -> bool:
        return self.frameworks == ["torch"] and not self.foreign

    def tensors_have(self, name: str) -> bool:
        """Whether one of the tensors that stand-ins are for, or the class of their framework, has
        an attribute; of tensors of other frameworks, always."""
        return self.foreign or any(hasattr(tensor, name) for tensor in self.tensors) or any(
            module in sys.modules and hasattr(getattr(sys.modules[module], kind), name)
            for framework in self.frameworks for module, kind in _CLASSES[framework])

    def framework_type(self) -> Any:
        """The class of the tensors that stand-ins are for."""
        if self.is_of_torch():
            return sys.modules["torch"].Tensor
        if self.foreign or self.frameworks != ["numpy"]:
            raise Error("the function asks for a tensor's class, and tensors of several "
                        "frameworks, or of others than NumPy and PyTorch, are given", "isinstance",
                        "give tensors of one")
        return sys.modules["numpy"].ndarray

    def framework_dtype(self, name: str) -> Any:
        """The dtype as the framework whose rules hold has it."""
        if self.is_of_torch():
            return getattr(sys.modules["torch"], LONG_NAMES[name])
        if self.foreign or self.frameworks != ["numpy"]:
            raise Error("the function reads a dtype, and tensors of several frameworks are given",
                        "dtype", "name the dtype, as in x.to(\"float32\")")
        return numpy_dtype(LONG_NAMES[name])

    def text_of(self, tensor: Traced) -> str:
        if tensor._record is not self:
            raise Error("a tensor of another trace", tensor._text, "pass it as an argument")
        return tensor._text

    @staticmethod
    def dtype_of(tensor: Traced) -> str:
        return tensor._dtype

    @staticmethod
    def sizes_of(tensor: Traced) -> tuple[int, ...]:
        return tensor._sizes

    # ---- For writing a call by the rules of several frameworks

    def mark(self) -> int:
        return len(self.statements)

    def since(self, mark: int) -> list[str]:
        return self.statements[mark:]

    def rewind(self, mark: int) -> None:
        del self.statements[mark:]

    def restore(self, statements: list[str]) -> None:
        self.statements += statements


def results_of(returned: Any) -> list[Traced]:
    results = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    if not results:
        raise Error("the function must return a tensor", "fn", "return one, or several as a tuple")
    for result in results:
        if not isinstance(result, Traced):
            raise Error(f"the function returns a {type(result).__name__}", "fn",
                        "return a tensor, or several as a tuple")
    return results


def frameworks_of(tensors: Iterable[Any]) -> tuple[str, ...]:
    """The frameworks whose rules operators and methods of tensors follow: "torch", "numpy",
    "other".

    "other" follows numpy's rules where all frameworks agree on the result's dtype.
    """
    names: dict[Any, str] = {_frameworks.Torch: "torch", _frameworks.Numpy: "numpy",
                             _frameworks.Cupy: "numpy"}
    return tuple(sorted({names.get(_frameworks.of(tensor), "other")
                         for tensor in tensors})) or ("other",)


def outputs_text(record: Recorder, results: Sequence[Traced]) -> list[str]:
    """The results as outputs of a graph; a repeated one gets a name of its own."""
    texts = [record.text_of(result) for result in results]
    names = {text.strip('"') for text in texts}
    outputs = []
    for place, text in enumerate(texts):
        if text in texts[:place]:
            name = f"out{place}"
            while name in names:
                name += "_"
            names.add(name)
            text = f"{name} = {text}"
        outputs.append(text)
    return outputs
