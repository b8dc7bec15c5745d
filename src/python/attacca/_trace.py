"""Tracing Python functions of tensors to the text form."""
from __future__ import annotations

import difflib
import inspect
from collections import OrderedDict
from functools import update_wrapper
from typing import Any, Callable, Sequence

from . import _frameworks
from ._errors import Error
from ._explain import Explanation
from ._functions import FUNCTIONS, number
from ._plan import Plan, compile as compile_graph

_MOST_PLANS = 64
# What names a dtype, in numpy, torch or as text.
_DTYPES = {name: short for short, name in _frameworks._NUMPY.items()}
_DTYPES |= {short: short for short in _frameworks._NUMPY} | {"float": "f32", "double": "f64",
                                                             "half": "f16", "int": "s32", "long": "s64"}


def _dtype_name(dtype: Any) -> "str | None":
    text = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return _DTYPES.get(text.removeprefix("torch."))


class Traced:
    """A tensor of a function being traced: what it will be, not yet what it is."""

    __slots__ = ("_record", "_text")
    __array_priority__ = 1000

    def __init__(self, record: "_Recorder", text: str):
        self._record, self._text = record, text

    def __bool__(self) -> bool:
        raise Error("the function asks for a tensor's value, which is not known while tracing",
                    self._text, "use where(condition, a, b) instead of if")

    __iter__ = None  # type: ignore[assignment]

    def __getitem__(self, index: Any) -> "Traced":
        parts = []
        for part in index if isinstance(index, tuple) else (index,):
            if part is Ellipsis:
                parts.append("...")
            elif isinstance(part, slice):
                bounds = ["" if b is None else str(int(b)) for b in (part.start, part.stop)]
                parts.append(":".join(bounds) + (f":{part.step}" if part.step not in (None, 1) else ""))
            else:
                raise Error(f"the index {part!r}", self._text, "use slices: x[1:2] for x[1]")
        return self._record(f"{{0}}[{', '.join(parts)}]", self)

    @property
    def T(self) -> "Traced":
        return self._record("transpose({0})", self)

    mT = T

    def to(self, dtype: Any, *_: Any, **__: Any) -> "Traced":
        name = _dtype_name(dtype)
        if name is None:
            raise Error(f"a cast to {dtype}", self._text, f"use one of {_frameworks.SUPPORTED}")
        return self._record(f"cast({{0}}, {name})", self)

    astype = type = to

    def float(self) -> "Traced":
        return self.to("f32")

    def half(self) -> "Traced":
        return self.to("f16")

    def bfloat16(self) -> "Traced":
        return self.to("bf16")

    def double(self) -> "Traced":
        return self.to("f64")

    def __neg__(self) -> "Traced":
        return self._record("-{0}", self)

    def __abs__(self) -> "Traced":
        return self._record("abs({0})", self)

    def __invert__(self) -> "Traced":
        return self._record("not({0})", self)

    def __getattr__(self, name: str) -> Any:
        writer = FUNCTIONS.get(name)
        if writer is None:
            if name.startswith("__"):
                raise AttributeError(name)
            raise Error(f"{name} is not known while tracing", self._text, _mend(name))
        return lambda *args, **keywords: writer(self._record, self, *args, **keywords)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        if method != "__call__" or keywords.get("out") is not None:
            raise Error(f"{ufunc.__name__}.{method}", "", "call the plain function, without out=")
        return _call(ufunc.__name__, inputs, keywords)

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        return _call(function.__name__, args, keywords)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _call(function.__name__, args, kwargs or {})


def _operators() -> None:
    def method(name: str) -> Callable[[Traced, Any], Traced]:
        def operate(self: Traced, other: Any) -> Traced:
            return FUNCTIONS[name](self._record, self, other)
        return operate

    for name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "matmul",
                 "rmatmul", "pow", "rpow", "lt", "le", "gt", "ge"):
        setattr(Traced, f"__{name}__", method(f"__{name}__"))
    for name, function in (("__eq__", "eq"), ("__ne__", "ne"), ("__and__", "logical_and"),
                           ("__or__", "logical_or"), ("__xor__", "logical_xor")):
        setattr(Traced, name, method(function))
    Traced.__hash__ = object.__hash__  # type: ignore[method-assign]


_operators()


def _mend(name: str) -> str:
    near = difflib.get_close_matches(name, FUNCTIONS, 1)
    return f"did you mean {near[0]}?" if near else "write it with functions that attacca.fuse knows"


def _call(name: str, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    writer = FUNCTIONS.get(name)
    if writer is None:
        raise Error(f"{name} is not known while tracing", name, _mend(name))
    flat = [a for arg in args for a in (arg if isinstance(arg, (tuple, list)) else (arg,))]
    record = next(a._record for a in [*flat, *keywords.values()] if isinstance(a, Traced))
    try:
        return writer(record, *args, **{k: v for k, v in keywords.items() if v is not False})
    except TypeError as error:
        raise Error(f"{name}: {str(error).rpartition('() ')[2]}", name,
                    "leave that argument out") from None


class _Recorder:
    """Records calls as statements, or (``inline``) as one expression."""

    def __init__(self, inline: bool = False):
        self.statements: list[str] = []
        self._inline = inline

    def __call__(self, pattern: str, *operands: Any) -> Traced:
        return self._keep(pattern.format(*map(self._operand, operands)))

    def several(self, pattern: str, count: int, *operands: Any) -> "tuple[Traced, ...]":
        if self._inline:
            raise Error("a split", "epilogue", "an epilogue computes one element")
        first = len(self.statements)
        names = [f"v{first}_{i}" for i in range(count)]
        self.statements.append(", ".join(names) + " = " + pattern.format(*map(self._operand, operands)))
        return tuple(Traced(self, name) for name in names)

    def _keep(self, text: str) -> Traced:
        if self._inline:
            return Traced(self, f"({text})")
        name = f"v{len(self.statements)}"
        self.statements.append(f"{name} = {text}")
        return Traced(self, name)

    def _operand(self, operand: Any) -> str:
        if isinstance(operand, Traced):
            if operand._record is not self:
                raise Error("a tensor of another trace", operand._text, "pass it as an argument")
            return operand._text
        if isinstance(operand, (bool, int, float)):
            text = number(operand)
            return f"({text})" if text.startswith("-") else text
        if hasattr(operand, "item") and getattr(operand, "ndim", 1) == 0:
            return self._operand(operand.item())
        raise Error(f"a {type(operand).__name__} inside the function", "fn",
                    "pass tensors as arguments, so that they are inputs")


def _results(returned: Any) -> list[Traced]:
    results = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    for result in results:
        if not isinstance(result, Traced):
            raise Error(f"the function returns a {type(result).__name__}", "fn",
                        "return a tensor, or several as a tuple")
    return results


def trace_epilogue(function: Callable[..., Any], views: dict[str, _frameworks.View],
                   lead: tuple[int, ...], columns: int) -> str:
    """The text of an epilogue from a function of ``acc`` and operands; roles by their shapes."""
    record = _Recorder(inline=True)
    rows = 1
    for extent in lead:
        rows *= extent
    operands: dict[str, Any] = {}
    for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
        if name not in views:
            if parameter.default is inspect.Parameter.empty:
                raise Error(f"operand {name} is missing", name, f"give {name}=")
            continue
        operands[name] = Traced(record, f"{_role(name, views[name].shape, lead, rows, columns)}({name})")
    results = _results(function(Traced(record, "acc"), **operands))
    return ", ".join(result._text for result in results)


def _role(name: str, shape: tuple[int, ...], lead: tuple[int, ...], rows: int, columns: int) -> str:
    roles = {(): "scalar", (rows, 1): "col", (*lead, 1): "col", (*lead, columns): "full",
             (rows, columns): "full", (columns,): "row"}
    if shape not in roles:
        raise Error(f"operand {name} has shape {shape}", name,
                    f"give it [], [{columns}], [{rows}, 1] or [{rows}, {columns}]")
    return roles[shape]


class Fused:
    """A function that runs fused; :func:`attacca.fuse` makes it."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]):
        self._function, self._options = function, options
        self._signature = inspect.signature(function)
        self._plans: OrderedDict[Any, Plan] = OrderedDict()
        self.__name__: str = getattr(function, "__name__", "fused")
        update_wrapper(self, function)

    def __call__(self, *args: Any, out: Any = None, **keywords: Any) -> Any:
        """Runs it; arguments are tensors, or numbers, which become part of the code."""
        plan, tensors = self._plan(args, keywords)
        return plan(*tensors, out=out)

    def plan(self, *args: Any, **keywords: Any) -> Plan:
        """The plan that a call with these arguments runs."""
        return self._plan(args, keywords)[0]

    def text(self, *args: Any, **keywords: Any) -> str:
        """The graph in the text form, as traced for these arguments."""
        _, views, numbers = self._bind(args, keywords)
        return self._trace(views, numbers)

    def explain(self, *args: Any, **keywords: Any) -> Explanation:
        """What is fused into what for these arguments, and why not more."""
        return self.plan(*args, **keywords).explain()

    def _bind(self, args: Any, keywords: Any) -> Any:
        try:
            bound = self._signature.bind(*args, **keywords)
        except TypeError as error:
            raise Error(f"{self.__name__}(): {error}", self.__name__, "give each argument") from None
        bound.apply_defaults()
        tensors: dict[str, Any] = {}
        numbers: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            constant = value is None or isinstance(value, (bool, int, float, str))
            (numbers if constant else tensors)[name] = value
        views = {name: _frameworks.of(t).view(t, name) for name, t in tensors.items()}
        return tensors, views, numbers

    def _plan(self, args: Any, keywords: Any) -> "tuple[Plan, list[Any]]":
        tensors, views, numbers = self._bind(args, keywords)
        devices = {view.device for view in views.values()}
        if len(devices) > 1:
            raise Error(f"arguments on {' and '.join(sorted(devices))}", self.__name__,
                        "move them to one device")
        key = (tuple((n, self._type(n, v)) for n, v in views.items()), tuple(numbers.items()), *devices)
        plan = self._plans.get(key)
        if plan is None:
            device = next(iter(devices), "cpu")
            plan = compile_graph(self._trace(views, numbers), **{"device": device, **self._options})
            self._plans[key] = plan
            if len(self._plans) > _MOST_PLANS:
                self._plans.popitem(last=False)
        return plan, list(tensors.values())

    def _type(self, name: str, view: _frameworks.View) -> str:
        """The annotation's type where it is one, else the argument's own."""
        annotation = self._signature.parameters[name].annotation
        if isinstance(annotation, str):
            annotation = annotation.strip("\"' ")
            if annotation.startswith("["):
                return view.dtype + annotation
            if "[" in annotation and annotation.split("[")[0] in _frameworks._NUMPY:
                return annotation
        shape = ", ".join(map(str, view.shape))
        if view.strides == _frameworks.dense_strides(view.shape) or 0 in view.shape:
            return f"{view.dtype}[{shape}]"
        return f"{view.dtype}[{shape}; {', '.join(map(str, view.strides))}]"

    def _trace(self, views: dict[str, _frameworks.View], numbers: dict[str, Any]) -> str:
        record = _Recorder()
        arguments = {name: Traced(record, f"\"{name}\"") for name in views}
        results = _results(self._function(**{**arguments, **numbers}))
        inputs = ", ".join(f"\"{name}\": {self._type(name, view)}" for name, view in views.items())
        body = "".join(f"  {statement}\n" for statement in record.statements)
        returned = ", ".join(result._text for result in results)
        return f"graph \"{self.__name__}\"({inputs}) {{\n{body}  return {returned}\n}}\n"


def fuse(function: "Callable[..., Any] | None" = None, **options: Any) -> Any:
    """Compiles a Python function of tensors; also as a decorator.

    The function is run once with stand-ins for its tensors, for each new combination of shapes and
    dtypes, and what it does to them becomes a graph: operators, slices, methods and functions of
    numpy and torch. Products and what follows them run fused.

    A parameter annotated with a type of the text form, ``x: "bf16[M, 4096]"`` or ``x: "[M, K]"``,
    has symbolic sizes: one plan serves them all.

    Args:
        function: The function. Its tensor arguments are of any framework; numbers become part of
            the code.
        **options: As :func:`attacca.compile` takes them. The device is the arguments'.

    Returns:
        A :class:`Fused`, called like the function.

    Raises:
        Error: While tracing: a function that is not known, a branch on a tensor's value, a tensor
            that is no argument. Calls: as :class:`attacca.Plan`'s.
    """
    if function is None:
        return lambda fn: Fused(fn, options)
    return Fused(function, options)
