"""``attacca.fuse``: functions of tensors, traced for each combination of argument types."""
from __future__ import annotations

import inspect
import itertools
import struct
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, overload

from .. import _arguments, _dispatch, _frameworks
from .._compile import CompileOptions, check_options, compile as compile_graph
from .._dims import Dim
from .._errors import Error
from .._explain import Explanation
from .._functions.values import Extent
from .._plan import Plan
from .annotations import declared
from .traced import Recorder, frameworks_of, outputs_text, results_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

_MOST_PLANS = 64
_count = itertools.count()
_traced: weakref.WeakValueDictionary[str, Fused] = weakref.WeakValueDictionary()


class Fused:
    """A function whose matrix products and what follows them run fused; :func:`attacca.fuse`
    returns it."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]):
        self._function, self._options = function, options
        self._signature = inspect.signature(_arguments.function(function, "function"))
        self._declared = declared(function)
        self._plans: OrderedDict[Any, Plan] = OrderedDict()
        self._identity = f"fused {next(_count)}"  # for Dynamo, which guards this attribute
        self.__name__: str = getattr(function, "__name__", "fused")
        update_wrapper(self, function)

    def __call__(self, *args: Any, out: Any = None, **keywords: Any) -> Any:
        """Runs the function. The first call with a new combination of types traces and compiles it.

        Args:
            *args: The function's arguments: tensors on one device, and numbers, texts, bools or
                None, which become constants of the graph.
            out: Where to write, as for :meth:`attacca.Plan.__call__`.
            **keywords: Arguments by name.

        Returns:
            What the function returns: a tensor or a tuple of tensors, as from
            :meth:`attacca.Plan.__call__`.

        Raises:
            Error: As :func:`attacca.fuse` lists.
        """
        if _dispatch.wanted((*args, *keywords.values()) if keywords else args):
            return _dispatch.custom_ops().fused(self, args, keywords, out)
        plan, tensors = self._plan(args, keywords)
        return plan(*tensors, out=out)

    def plan(self, *args: Any, **keywords: Any) -> Plan:
        """The plan that a call with these arguments runs; compiles it if there is none yet."""
        return self._plan(args, keywords)[0]

    def text(self, *args: Any, **keywords: Any) -> str:
        """The graph that a call with these arguments is traced to, in the text form."""
        tensors, views, numbers = self._bind(args, keywords)
        return self._trace(frameworks_of(tensors.values()), views, numbers)

    def explain(self, *args: Any, **keywords: Any) -> Explanation:
        """Which ops are fused for these arguments, and for each op left out the reason."""
        return self.plan(*args, **keywords).explain()

    def _argument(self, identity: str) -> str:
        """See :func:`argument_of`; Dynamo calls this while it traces."""
        _traced[identity] = self
        return identity

    _argument._dynamo_marked_constant = True  # type: ignore[attr-defined]

    def _bind(self, args: Any, keywords: Any) -> Any:
        try:
            bound = self._signature.bind(*args, **keywords)
        except TypeError as error:
            raise Error(f"{self.__name__}(): {error}", self.__name__,
                        "give each argument") from None
        bound.apply_defaults()
        tensors: dict[str, Any] = {}
        numbers: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            constant = value is None or isinstance(value,
                                                   (bool, int, float, str)) or _is_scalar(value)
            (numbers if constant else tensors)[name] = value
        views = {name: _frameworks.of(t).view(t, name) for name, t in tensors.items()}
        return tensors, views, numbers

    def _plan(self, args: Any, keywords: Any,
              frameworks: tuple[str, ...] | None = None) -> tuple[Plan, list[Any]]:
        """The plan of a call, and its tensors; ``frameworks`` None: those of the tensors."""
        tensors, views, numbers = self._bind(args, keywords)
        devices = {view.device for view in views.values()}
        if len(devices) > 1:
            raise Error(f"arguments on {' and '.join(sorted(devices))}", self.__name__,
                        "move them to one device")
        frameworks = frameworks or frameworks_of(tensors.values())
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
        """The parameter's annotated type, or else the argument's own."""
        annotation = self._declared.get(name)
        if annotation is not None:
            return view.dtype + annotation if annotation.startswith("[") else annotation
        # torch's sizes may be symbolic
        extents, strides = tuple(map(int, view.shape)), tuple(map(int, view.strides))
        shape = ", ".join(map(str, extents))
        if strides == _frameworks.dense_strides(extents) or 0 in extents:
            return f"{view.dtype}[{shape}]"
        return f"{view.dtype}[{shape}; {', '.join(map(str, strides))}]"

    def _trace(self, frameworks: Sequence[str], views: dict[str, _frameworks.View],
               numbers: dict[str, Any]) -> str:
        record = Recorder(frameworks)
        types = {name: self._type(name, view) for name, view in views.items()}
        arguments = {name: record.input(name, types[name].partition("[")[0],
                                        _sizes(types[name], view.shape))
                     for name, view in views.items()}
        results = results_of(self._function(**{**arguments, **numbers}))
        inputs = ", ".join(f"\"{name}\": {each}" for name, each in types.items())
        body = "".join(f"  {statement}\n" for statement in record.statements)
        returned = ", ".join(outputs_text(record, results))
        return f"graph \"{self.__name__}\"({inputs}) {{\n{body}  return {returned}\n}}\n"


def argument_of(fused: Fused) -> str:
    """A text that stands for a fused function in Dynamo's graphs; :func:`plan_of` reads it. Dynamo
    traces this function."""
    return fused._argument(fused._identity)


def plan_of(argument: str, args: Sequence[Any], keywords: dict[str, Any],
            frameworks: tuple[str, ...]) -> tuple[Plan, list[Any]]:
    """The plan of a call, and the tensors that it takes.

    Args:
        argument: What :func:`argument_of` gave.
        args: The call's arguments by position.
        keywords: Those by name.
        frameworks: Whose rules operators follow, as :func:`frameworks_of` gives them.
    """
    return _traced[argument]._plan(args, keywords, frameworks)


def _sizes(type_text: str, shape: Sequence[int]) -> list[int]:
    """The shape; sizes that the type names by symbols are :class:`Extent`."""
    dims = [dim.strip() for dim in type_text.partition("[")[2].partition(";")[0].rstrip("] ").split(
        ",") if dim.strip()]
    if len(dims) != len(shape):
        return list(map(int, shape))  # the plan reports the wrong rank
    return [Extent(_example(size), dim) if Dim(dim).symbols else int(size)
            for dim, size in zip(dims, shape)]


def _example(size: Any) -> int:
    """A size as an int. A symbolic size of torch gives its value while tracing, and gets no guard
    by being read."""
    value = getattr(getattr(size, "node", None), "hint", None)
    return int(size if value is None else value)


def _is_scalar(value: Any) -> bool:
    """Whether a value is a number of numpy."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.bool_, numpy.integer, numpy.floating))


def _identity(value: Any) -> Any:
    """A key for a constant of the graph: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if _is_scalar(value):
        return (type(value).__name__, value.tobytes())
    return (type(value).__name__, struct.pack("<d", value) if isinstance(value, float) else value)


@overload
def fuse(function: Callable[..., Any], **options: Unpack[CompileOptions]) -> Fused: ...


@overload
def fuse(function: None = None, **options: Unpack[CompileOptions]) -> Callable[[Callable[..., Any]],
                                                                               Fused]: ...


def fuse(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compiles a Python function of tensors; ``@attacca.fuse`` does so as a decorator.

    For each new combination of shapes and dtypes, the function is called once with stand-ins for
    its tensors. The operators, slices, methods and functions of NumPy and PyTorch that it applies
    to them become a graph, in which matrix products and what follows them run fused.

    A function of NumPy or PyTorch keeps its own arguments, defaults and dtypes of results;
    operators and methods have those of the tensors' framework. An argument that cannot be
    translated is an error unless it has its default value. Tensors cannot be modified:
    ``x += y`` is an error. ``shape``, ``ndim``, ``dtype`` and ``len`` are those of the call's
    tensors; a size that an annotation names by a symbol cannot be read.

    The annotation ``x: Annotated[Tensor, "bf16[M, 4096]"]`` or ``x: Annotated[Tensor, "[M, K]"]``
    gives a parameter symbolic sizes, so that one plan serves all values of M and K. The text may be
    the whole annotation, ``x: "bf16[M, 4096]"``, but type checkers reject that.

    Args:
        function: The function. Its tensors may be of any framework; numbers, including NumPy's,
            become constants of the graph.
        **options: The options of :func:`attacca.compile`. By default the device is that of the
            arguments.

    Returns:
        A :class:`Fused`, which is called like the function.

    Raises:
        Error: The argument is not a function; an option is unknown. In the first call with a
            combination of types: the function calls one that Attacca does not know, branches on a
            tensor's value, or reads a tensor that is not an argument. In every call: as for
            :meth:`attacca.Plan.__call__`.
    """
    check_options(options)
    if function is None:
        return lambda fn: Fused(fn, options)
    return Fused(function, options)
