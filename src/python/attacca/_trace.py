"""Tracing Python functions of tensors to the text form."""
from __future__ import annotations

import inspect
import itertools
import operator
import struct
import sys
import weakref
from collections import OrderedDict
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Callable, Iterable, Sequence, overload

from . import _arguments, _dispatch, _frameworks
from ._annotations import declared
from ._errors import Error
from ._explain import Explanation
from ._calls import OPERATORS, call_method, call_numpy, call_torch, unknown
from ._dims import Dim
from ._functions import BY_ATEN, BY_NUMPY
from ._plan import CompileOptions, Plan, check_options, compile as compile_graph
from ._shapes import Extent, slice_size

if TYPE_CHECKING:
    from typing_extensions import Unpack

_MOST_PLANS = 64
# What names a dtype, in numpy, torch or as text.
_DTYPES = {name: short for short, name in _frameworks._NUMPY.items()}
_DTYPES |= {short: short for short in _frameworks._NUMPY} | {"float": "f32", "double": "f64",
                                                             "half": "f16", "int": "s32", "long": "s64"}
# Python's own types as dtypes of numpy.
_PYTHON = {float: "f64", int: "s64", bool: "bool"}


def _dtype_name(dtype: Any) -> "str | None":
    if dtype in _PYTHON:
        return _PYTHON[dtype]
    text = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return _DTYPES.get(text.removeprefix("torch."))


class Traced:
    """A tensor of a function being traced: what it will be, not yet what it is."""

    __slots__ = ("_record", "_text", "_dtype", "_sizes")
    __array_priority__ = 1000

    def __init__(self, record: "_Recorder", text: str, dtype: str, sizes: Sequence[int]):
        self._record, self._text, self._dtype, self._sizes = record, text, dtype, tuple(sizes)

    def __repr__(self) -> str:
        return f"<tensor {self._text}>"

    def __bool__(self) -> bool:
        raise Error("the function asks for a tensor's value, which is not known while tracing",
                    self._text, "use where(condition, a, b) instead of if")

    __float__ = __int__ = __index__ = __len__ = __bool__

    def __array__(self, *_: Any, **__: Any) -> Any:
        return self.__bool__()

    __iter__ = None

    def __getitem__(self, index: Any) -> "Traced":
        given = list(index) if isinstance(index, tuple) else [index]
        after = given.index(Ellipsis) if any(part is Ellipsis for part in given) else len(given)
        rest = len(self._sizes) - sum(part is not Ellipsis for part in given)
        if rest < 0:
            raise Error(f"{len(given)} indices of a tensor with {len(self._sizes)} axes", self._text, "leave some out")
        whole = given[:after] + [slice(None)] * rest + given[after + 1:]
        parts, sizes = [], []
        for part, extent in zip(whole, self._sizes):
            text, size = self._range(part, extent)
            parts.append(text)
            sizes.append(size)
        if after < len(given):
            parts[after:after + rest] = ["..."]
        elif rest:
            del parts[len(given):]
        return self._record.keep(f"{self._text}[{', '.join(parts)}]", self._dtype, sizes)

    def _range(self, part: Any, extent: int) -> "tuple[str, int]":
        try:
            if not isinstance(part, slice):
                raise TypeError
            begin, end, step = (None if b is None else operator.index(b) for b in (part.start, part.stop, part.step))
        except TypeError:
            raise Error(f"the index {part!r}", self._text, "use slices: x[1:2] for x[1]") from None
        if step == 0 or (step is not None and step < 0 and "torch" in self._record.frameworks):
            raise Error(f"a slice with step {step}", self._text, "use a step of 1 or more")
        size = slice_size(extent, begin, end, step or 1)
        if type(extent) is int and (step or 1) > 0:  # Python's bounds may lie outside
            begin, end, _ = (None if b is None else min(max(b, -extent), extent) for b in (begin, end, None))
            if size == 0:
                begin, end = 0, 0
        bounds = ":".join("" if b is None else str(b) for b in (begin, end))
        return bounds + (f":{step}" if step not in (None, 1) else ""), size

    def _cast(self, dtype: Any) -> "Traced":
        name = _dtype_name(dtype)
        if name is None:
            raise Error(f"a cast to {dtype}", self._text, f"use one of {_frameworks.SUPPORTED}")
        return self._record.keep(f"cast({self._text}, {name})", name, self._sizes)

    def to(self, dtype: Any = None, *, non_blocking: bool = False, copy: bool = False,
           memory_format: Any = None) -> "Traced":
        if isinstance(dtype, Traced):
            dtype = dtype._dtype
        if isinstance(dtype, str) and dtype not in _DTYPES:
            raise Error(f"to: the argument device={dtype!r}", self._text, "move the tensor before the call")
        return self._cast(dtype)

    def type(self, dtype: Any, non_blocking: bool = False) -> "Traced":
        return self._cast(dtype)

    def astype(self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True,
               copy: bool = True) -> "Traced":
        if casting != "unsafe":
            raise Error(f"astype: the argument casting={casting!r}", self._text, "leave that argument out")
        return self._cast(dtype)

    def float(self) -> "Traced":
        return self._cast("f32")

    def half(self) -> "Traced":
        return self._cast("f16")

    def bfloat16(self) -> "Traced":
        return self._cast("bf16")

    def double(self) -> "Traced":
        return self._cast("f64")

    @property
    def T(self) -> Any:
        return call_method(self._record, "T", (self,), {})

    @property
    def mT(self) -> Any:
        return call_method(self._record, "mT", (self,), {})

    def __getattr__(self, name: str) -> Any:
        if name not in BY_ATEN and name not in BY_NUMPY:
            if name.startswith("__"):
                raise AttributeError(name)
            raise unknown(name)
        return lambda *args, **keywords: call_method(self._record, name, (self, *args), keywords)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        if method != "__call__":
            raise Error(f"{ufunc.__name__}.{method}", "", "call the plain function")
        return call_numpy(self._record, ufunc, inputs, keywords)

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        return call_numpy(self._record, function, args, keywords)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        flat = [a for arg in [*args, *keywords.values()] for a in (arg if isinstance(arg, (tuple, list)) else (arg,))]
        return call_torch(next(a._record for a in flat if isinstance(a, cls)), function, args, keywords)


def _operators() -> None:
    def method(name: str) -> Callable[..., Traced]:
        def operate(self: Traced, *others: Any) -> Any:
            return call_method(self._record, name, (self, *others), {})
        return operate

    def refused(name: str) -> Callable[..., Any]:
        def operate(self: Traced, *others: Any) -> Any:
            raise Error(f"the operator {name.strip('_')} is not known while tracing", self._text,
                        "write x = x + y for x += y; other operators with functions that attacca.fuse knows")
        return operate

    for name in OPERATORS:
        setattr(Traced, name, method(name))
    for name in ("mod", "floordiv", "divmod", "lshift", "rshift", "iadd", "isub", "imul", "itruediv", "ipow",
                 "imatmul", "iand", "ior", "ixor"):
        setattr(Traced, f"__{name}__", refused(name))
        if not name.startswith("i"):
            setattr(Traced, f"__r{name}__", refused(name))
    Traced.__hash__ = object.__hash__  # type: ignore[method-assign]


_operators()


class _Recorder:
    """Records calls as statements, or (``inline``) as one expression.

    Attributes:
        frameworks: Whose rules operators and methods follow: "torch", "numpy" or both.
        foreign: Whether tensors of other frameworks are given, which follow numpy in most things.
    """

    stand_in = Traced

    def __init__(self, frameworks: Sequence[str], inline: bool = False):
        self.foreign = "other" in frameworks
        self.frameworks = sorted({"numpy" if f == "other" else f for f in frameworks})
        self.statements: list[str] = []
        self._inline = inline
        self._named: set[str] = set()

    def input(self, name: str, dtype: str, sizes: Sequence[int]) -> Traced:
        self._named.add(f'"{name}"')
        return Traced(self, f'"{name}"', dtype, sizes)

    def several(self, text: str, count: int) -> list[str]:
        """The names of a split's parts."""
        if self._inline:
            raise Error("a split", "epilogue", "an epilogue computes one element")
        first = len(self.statements)
        names = [f"v{first}_{i}" for i in range(count)]
        self.statements.append(", ".join(names) + " = " + text)
        self._named.update(names)
        return names

    def keep(self, text: str, dtype: str, sizes: Sequence[int]) -> Traced:
        if self._inline:
            return Traced(self, f"({text})", dtype, sizes)
        if text in self._named:
            return Traced(self, text, dtype, sizes)
        name = f"v{len(self.statements)}"
        self.statements.append(f"{name} = {text}")
        self._named.add(name)
        return Traced(self, name, dtype, sizes)

    def text_of(self, tensor: Traced) -> str:
        if tensor._record is not self:
            raise Error("a tensor of another trace", tensor._text, "pass it as an argument")
        return tensor._text

    # ---- For trying a call under the rules of several frameworks

    def mark(self) -> int:
        return len(self.statements)

    def since(self, mark: int) -> list[str]:
        return self.statements[mark:]

    def rewind(self, mark: int) -> None:
        del self.statements[mark:]

    def restore(self, statements: list[str]) -> None:
        self.statements += statements


def _results(returned: Any) -> list[Traced]:
    results = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    for result in results:
        if not isinstance(result, Traced):
            raise Error(f"the function returns a {type(result).__name__}", "fn",
                        "return a tensor, or several as a tuple")
    return results


def _frameworks_of(tensors: Iterable[Any]) -> "tuple[str, ...]":
    """Whose rules operators and methods follow: "torch", "numpy" or both; "other" follows numpy's where
    all frameworks agree on the result's dtype."""
    names = {_frameworks.Torch: "torch", _frameworks.Numpy: "numpy", _frameworks.Cupy: "numpy"}
    return tuple(sorted({names.get(_frameworks.of(tensor), "other") for tensor in tensors})) or ("other",)


def trace_epilogue(function: Callable[..., Any], views: dict[str, _frameworks.View], lead: tuple[int, ...],
                   columns: int, accumulator: str, tensors: Sequence[Any]) -> str:
    """The text of an epilogue from a function of ``acc`` and operands; roles by their shapes.

    ``accumulator`` is acc's dtype, ``tensors`` all that the product is called with.
    """
    record = _Recorder(_frameworks_of(tensors), inline=True)
    rows = 1
    for extent in lead:
        rows *= extent
    operands: dict[str, Any] = {}
    for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
        if name not in views:
            if parameter.default is inspect.Parameter.empty:
                raise Error(f"operand {name} is missing", name, f"give {name}=")
            continue
        view = views[name]
        operands[name] = Traced(record, f"{_role(name, view.shape, lead, rows, columns)}({name})", view.dtype, view.shape)
    results = _results(function(Traced(record, "acc", accumulator, (*lead, columns)), **operands))
    return ", ".join(_outputs([result._text for result in results]))


def _role(name: str, shape: tuple[int, ...], lead: tuple[int, ...], rows: int, columns: int) -> str:
    roles = {(): "scalar", (rows, 1): "col", (*lead, 1): "col", (*lead, columns): "full",
             (rows, columns): "full", (columns,): "row"}
    if shape not in roles:
        raise Error(f"operand {name} has shape {shape}", name,
                    f"give it [], [{columns}], [{rows}, 1] or [{rows}, {columns}]")
    return roles[shape]


_count = itertools.count()
_traced: "weakref.WeakValueDictionary[str, Fused]" = weakref.WeakValueDictionary()


class Fused:
    """A function that runs fused; :func:`attacca.fuse` makes it."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]):
        self._function, self._options = function, options
        self._signature = inspect.signature(_arguments.function(function, "function"))
        self._declared = declared(function)
        self._plans: OrderedDict[Any, Plan] = OrderedDict()
        self._identity = f"fused {next(_count)}"  # for Dynamo, which guards attributes
        self.__name__: str = getattr(function, "__name__", "fused")
        update_wrapper(self, function)

    def __call__(self, *args: Any, out: Any = None, **keywords: Any) -> Any:
        """Runs it; arguments are tensors, or numbers, which become part of the code."""
        if _dispatch.wanted((*args, *keywords.values()) if keywords else args):
            return _dispatch.torch_part().fused(self, args, keywords, out)
        plan, tensors = self._plan(args, keywords)
        return plan(*tensors, out=out)

    def plan(self, *args: Any, **keywords: Any) -> Plan:
        """The plan that a call with these arguments runs."""
        return self._plan(args, keywords)[0]

    def text(self, *args: Any, **keywords: Any) -> str:
        """The graph in the text form, as traced for these arguments."""
        tensors, views, numbers = self._bind(args, keywords)
        return self._trace(_frameworks_of(tensors.values()), views, numbers)

    def explain(self, *args: Any, **keywords: Any) -> Explanation:
        """What is fused into what for these arguments, and why not more."""
        return self.plan(*args, **keywords).explain()

    def _argument(self, identity: str) -> str:
        """The function as an argument of what Dynamo's graphs call; it runs while Dynamo traces."""
        _traced[identity] = self
        return identity

    _argument._dynamo_marked_constant = True  # type: ignore[attr-defined]

    def _bind(self, args: Any, keywords: Any) -> Any:
        try:
            bound = self._signature.bind(*args, **keywords)
        except TypeError as error:
            raise Error(f"{self.__name__}(): {error}", self.__name__, "give each argument") from None
        bound.apply_defaults()
        tensors: dict[str, Any] = {}
        numbers: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            constant = value is None or isinstance(value, (bool, int, float, str)) or _is_scalar(value)
            (numbers if constant else tensors)[name] = value
        views = {name: _frameworks.of(t).view(t, name) for name, t in tensors.items()}
        return tensors, views, numbers

    def _plan(self, args: Any, keywords: Any, frameworks: "tuple[str, ...] | None" = None) -> "tuple[Plan, list[Any]]":
        """The plan, and the tensors that it takes, whose ``frameworks`` may be named."""
        tensors, views, numbers = self._bind(args, keywords)
        devices = {view.device for view in views.values()}
        if len(devices) > 1:
            raise Error(f"arguments on {' and '.join(sorted(devices))}", self.__name__,
                        "move them to one device")
        frameworks = frameworks or _frameworks_of(tensors.values())
        key = (tuple((n, self._type(n, v)) for n, v in views.items()),
               tuple((n, _identity(v)) for n, v in numbers.items()), frameworks, *devices)
        plan = self._plans.get(key)
        if plan is None:
            device = next(iter(devices), "cpu")
            with _dispatch.unwatched():
                text = self._trace(frameworks, views, numbers)
            plan = compile_graph(text, **{"device": device, **self._options})
            self._plans[key] = plan
            if len(self._plans) > _MOST_PLANS:
                self._plans.popitem(last=False)
        return plan, list(tensors.values())

    def _type(self, name: str, view: _frameworks.View) -> str:
        """The annotation's type where it is one, else the argument's own."""
        annotation = self._declared.get(name)
        if annotation is not None:
            return view.dtype + annotation if annotation.startswith("[") else annotation
        extents, strides = tuple(map(int, view.shape)), tuple(map(int, view.strides))  # torch's may be symbolic
        shape = ", ".join(map(str, extents))
        if strides == _frameworks.dense_strides(extents) or 0 in extents:
            return f"{view.dtype}[{shape}]"
        return f"{view.dtype}[{shape}; {', '.join(map(str, strides))}]"

    def _trace(self, frameworks: Sequence[str], views: dict[str, _frameworks.View], numbers: dict[str, Any]) -> str:
        record = _Recorder(frameworks)
        types = {name: self._type(name, view) for name, view in views.items()}
        arguments = {name: record.input(name, types[name].partition("[")[0], _sizes(types[name], view.shape))
                     for name, view in views.items()}
        results = _results(self._function(**{**arguments, **numbers}))
        inputs = ", ".join(f"\"{name}\": {each}" for name, each in types.items())
        body = "".join(f"  {statement}\n" for statement in record.statements)
        returned = ", ".join(_outputs([result._text for result in results]))
        return f"graph \"{self.__name__}\"({inputs}) {{\n{body}  return {returned}\n}}\n"


def _outputs(texts: Sequence[str]) -> list[str]:
    """The results as outputs: one that comes again gets a name of its own."""
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


def _sizes(type_text: str, shape: Sequence[int]) -> list[int]:
    """A shape whose symbolic sizes are marked."""
    dims = [dim.strip() for dim in type_text.partition("[")[2].partition(";")[0].rstrip("] ").split(",") if dim.strip()]
    if len(dims) != len(shape):
        return list(map(int, shape))  # the plan refuses it
    return [Extent(_example(size), dim) if Dim(dim).symbols else int(size) for dim, size in zip(dims, shape)]


def _example(size: Any) -> int:
    """A size; of a symbolic one of torch's the value it was traced with, which stays free."""
    value = getattr(getattr(size, "node", None), "hint", None)
    return int(size if value is None else value)


def _is_scalar(value: Any) -> bool:
    """Whether it is a number of numpy's."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.bool_, numpy.integer, numpy.floating))


def _identity(value: Any) -> Any:
    """What tells a number that is part of the code from all others: 1, 1.0, True, 0.0 and -0.0 differ."""
    if _is_scalar(value):
        return (type(value).__name__, value.tobytes())
    return (type(value).__name__, struct.pack("<d", value) if isinstance(value, float) else value)


@overload
def fuse(function: Callable[..., Any], **options: "Unpack[CompileOptions]") -> Fused: ...


@overload
def fuse(function: None = None, **options: "Unpack[CompileOptions]") -> Callable[[Callable[..., Any]], Fused]: ...


def fuse(function: "Callable[..., Any] | None" = None, **options: Any) -> Any:
    """Compiles a Python function of tensors; also as a decorator.

    The function is run once with stand-ins for its tensors, for each new combination of shapes and
    dtypes, and what it does to them becomes a graph: operators, slices, methods and functions of
    numpy and torch. Products and what follows them run fused.

    A function means what its own framework says, an operator or a method what the framework of the
    tensors says: dtypes of results, arguments and their defaults. An argument that has no
    translation is an error unless it is at its default. Tensors are not changed: ``x += y`` is an error.

    A parameter annotated with a type of the text form, ``x: Annotated[Tensor, "bf16[M, 4096]"]`` or
    ``x: Annotated[Tensor, "[M, K]"]``, has symbolic sizes: one plan serves them all. The text alone,
    ``x: "bf16[M, 4096]"``, does too, but type checkers do not know it.

    Args:
        function: The function. Its tensor arguments are of any framework; numbers, numpy's too,
            become part of the code.
        **options: As :func:`attacca.compile` takes them. The device is the arguments'.

    Returns:
        A :class:`Fused`, called like the function.

    Raises:
        Error: Something that is no function; an unknown option. While tracing: a function that is not known, a branch on a tensor's value, a tensor
            that is no argument. Calls: as :class:`attacca.Plan`'s.
    """
    check_options(options)
    if function is None:
        return lambda fn: Fused(fn, options)
    return Fused(function, options)
