"""``attacca.fuse``: functions of tensors, traced for each combination of argument types."""
from __future__ import annotations

import inspect
import itertools
import sys
import types
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
from .method import Owner, Read, Reader, identity, tensors_of
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
        self._methods: OrderedDict[Any, list[tuple[Plan, list[Read]]]] = OrderedDict()
        self._identity = f"fused {next(_count)}"  # for Dynamo, which guards this attribute
        self.__name__: str = getattr(function, "__name__", "fused")
        update_wrapper(self, function)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Fused: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> FusedMethod: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """The function itself, or, of an object, a :class:`FusedMethod`."""
        if instance is None:
            return self
        if type(instance) is Owner:  # super() of a method that is traced
            return types.MethodType(self._function, instance)
        return FusedMethod(self, instance)

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
        _, frameworks, device = self._key(tensors, views, numbers, None)
        return self._trace(frameworks, device, views, numbers)[0]

    def explain(self, *args: Any, **keywords: Any) -> Explanation:
        """Which ops are fused for these arguments, and for each op left out the reason."""
        return self.plan(*args, **keywords).explain()

    def _argument(self, identity: str) -> str:
        """See :func:`argument_of`; Dynamo calls this while it traces."""
        _traced[identity] = self
        return identity

    _argument._dynamo_marked_constant = True  # type: ignore[attr-defined]

    def _bind(self, args: Any, keywords: Any, owner: Any = None) -> Any:
        try:
            bound = self._signature.bind(*args, **keywords)
        except TypeError as error:
            raise Error(f"{self.__name__}(): {error}", self.__name__,
                        "give each argument") from None
        bound.apply_defaults()
        if owner is not None:
            del bound.arguments[next(iter(self._signature.parameters))]
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
        key, frameworks, device = self._key(tensors, views, numbers, frameworks)
        plan = self._plans.get(key)
        if plan is None:
            plan, _ = self._compiled(frameworks, device, views, numbers)
            self._plans[key] = plan
            if len(self._plans) > _MOST_PLANS:
                self._plans.popitem(last=False)
        return plan, list(tensors.values())

    def _method_plan(self, owner: Any, args: Any, keywords: Any) -> tuple[Plan, list[Any]]:
        """The plan of a call of a method, and its tensors. One plan serves all objects that hold
        what its trace read."""
        tensors, views, numbers = self._bind((owner, *args), keywords, owner)
        key, frameworks, device = self._key(tensors, views, numbers, None)
        known = self._methods.setdefault((type(owner), key), [])
        for plan, reads in known:
            more = tensors_of(owner, reads, self._type, device)
            if more is not None:
                return plan, [*tensors.values(), *more]
        plan, reads = self._compiled(frameworks, device, views, numbers, owner)
        known.append((plan, reads))
        if len(known) > _MOST_PLANS:
            del known[0]
        if len(self._methods) > _MOST_PLANS:
            self._methods.popitem(last=False)
        return plan, [*tensors.values(), *(tensors_of(owner, reads, self._type, device) or [])]

    def _method_text(self, owner: Any, args: Any, keywords: Any) -> str:
        """As :meth:`text`, of a method of an object."""
        tensors, views, numbers = self._bind((owner, *args), keywords, owner)
        _, frameworks, device = self._key(tensors, views, numbers, None)
        return self._trace(frameworks, device, views, numbers, owner)[0]

    def _key(self, tensors: dict[str, Any], views: dict[str, _frameworks.View],
             numbers: dict[str, Any],
             frameworks: tuple[str, ...] | None) -> tuple[Any, tuple[str, ...], str]:
        """What plans are kept by, the frameworks and the device of a call."""
        devices = {view.device for view in views.values()}
        if len(devices) > 1:
            raise Error(f"arguments on {' and '.join(sorted(devices))}", self.__name__,
                        "move them to one device")
        frameworks = frameworks or frameworks_of(tensors.values())
        device = next(iter(devices), "cpu")
        return (tuple((n, self._type(n, v)) for n, v in views.items()),
                tuple((n, identity(v)) for n, v in numbers.items()), frameworks,
                device), frameworks, device

    def _compiled(self, frameworks: tuple[str, ...], device: str,
                  views: dict[str, _frameworks.View], numbers: dict[str, Any],
                  owner: Any = None) -> tuple[Plan, list[Read]]:
        with _dispatch.unwatched():
            text, reads = self._trace(frameworks, device, views, numbers, owner)
        return compile_graph(text, **{"device": device, **self._options}), reads

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

    def _trace(self, frameworks: Sequence[str], device: str, views: dict[str, _frameworks.View],
               numbers: dict[str, Any], owner: Any = None) -> tuple[str, list[Read]]:
        """The graph's text, and what the trace read of ``owner``."""
        record = Recorder(frameworks)
        typed = {name: self._type(name, view) for name, view in views.items()}
        arguments: dict[str, Any] = {name: record.input(name, typed[name].partition("[")[0],
                                                        _sizes(typed[name], view.shape))
                                     for name, view in views.items()}
        reader = Reader(record, frameworks, device, self._type, _function_of)
        if owner is not None:
            arguments[next(iter(self._signature.parameters))] = Owner(owner, (), reader)
        results = results_of(self._function(**{**arguments, **numbers}))
        inputs = ", ".join(f"\"{name}\": {each}" for name, each in {**typed,
                                                                    **reader.types}.items())
        body = "".join(f"  {statement}\n" for statement in record.statements)
        returned = ", ".join(outputs_text(record, results))
        text = f"graph \"{self.__name__}\"({inputs}) {{\n{body}  return {returned}\n}}\n"
        return text, reader.reads


class FusedMethod:
    """A fused function as the method of an object.

    Numbers that it reads of the object become constants of the graph, tensors inputs, and other
    methods are part of it. It is traced again where the object holds other numbers.
    """

    def __init__(self, fused: Fused, owner: Any):
        self.__func__, self.__self__ = fused, owner
        self.__name__, self.__doc__ = fused.__name__, fused.__doc__

    def __call__(self, *args: Any, out: Any = None, **keywords: Any) -> Any:
        """Runs the method, as :meth:`Fused.__call__` does."""
        if _frameworks.is_tensor(self.__self__):
            return self.__func__(self.__self__, *args, out=out, **keywords)
        plan, tensors = self.__func__._method_plan(self.__self__, args, keywords)
        return plan(*tensors, out=out)

    def plan(self, *args: Any, **keywords: Any) -> Plan:
        """As :meth:`Fused.plan`; the plan takes the object's tensors after the arguments."""
        return self.__func__._method_plan(self.__self__, args, keywords)[0]

    def text(self, *args: Any, **keywords: Any) -> str:
        """As :meth:`Fused.text`."""
        return self.__func__._method_text(self.__self__, args, keywords)

    def explain(self, *args: Any, **keywords: Any) -> Explanation:
        """As :meth:`Fused.explain`."""
        return self.plan(*args, **keywords).explain()


def _function_of(value: Any) -> Callable[..., Any] | None:
    function: Callable[..., Any] | None = getattr(value, "__func__", None) \
        if isinstance(value, FusedMethod) else None
    return getattr(function, "__wrapped__", None)


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


@overload
def fuse(function: Callable[..., Any], **options: Unpack[CompileOptions]) -> Fused: ...


@overload
def fuse(function: None = None, **options: Unpack[CompileOptions]) -> Callable[[Callable[..., Any]],
                                                                               Fused]: ...


def fuse(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compiles a Python function of tensors; ``@attacca.fuse`` does so as a decorator.

    For each new combination of shapes and dtypes, the function is called once with stand-ins for
    its tensors. The operators, slices, methods and functions of NumPy and PyTorch that it applies
    to them become a graph, in which matrix products and what follows them run fused. The functions
    that are known stand at the end of docs/python.md.

    A function of NumPy or PyTorch keeps its own arguments, defaults and dtypes of results;
    operators and methods have those of the tensors' framework. An argument that cannot be
    translated is an error unless it has its default value. Tensors cannot be modified:
    ``x += y`` is an error. ``shape``, ``ndim``, ``dtype`` and ``len`` are those of the call's
    tensors; a size that an annotation names by a symbol cannot be read.

    The annotation ``x: Annotated[Tensor, "bf16[M, 4096]"]`` or ``x: Annotated[Tensor, "[M, K]"]``
    gives a parameter symbolic sizes, so that one plan serves all values of M and K. The text may be
    the whole annotation, ``x: "bf16[M, 4096]"``, but type checkers reject that.

    A method of a class may be fused, too: numbers that it reads of ``self`` become constants,
    tensors inputs, and it is traced again where they differ. ``@staticmethod`` stands above
    ``@attacca.fuse``.

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
    if isinstance(function, staticmethod):
        raise Error("@attacca.fuse above @staticmethod", "fuse",
                    "write @staticmethod above @attacca.fuse")
    if isinstance(function, classmethod):
        raise Error("@attacca.fuse of a @classmethod", "fuse", "make it a static method")
    if function is None:
        return lambda fn: Fused(fn, options)
    return Fused(function, options)
