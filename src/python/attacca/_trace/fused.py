"""``attacca.fuse``: functions of tensors, traced for each combination of argument types."""
from __future__ import annotations

import inspect
import itertools
import operator
import sys
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from .. import _arguments, _core, _dispatch, _frameworks
from .._compile import CompileOptions, check_options, compile as compile_graph
from .._dims import Dim
from .._errors import Error
from .._explain import Explanation
from .._functions.values import Extent
from .._plan import Plan, run_remembering
from .annotations import declared
from .bound import Bound, Signature, bind, default_dtype
from .calls import unknown
from .method import Owner, Read, Reader, identity, tensors_of
from .returned import Returned, returned_by
from .structure import leaves_of
from .traced import Recorder, Traced, asked_for_types, frameworks_of, outputs_text

if TYPE_CHECKING:
    from typing_extensions import Unpack

_MOST_PLANS = 64
_count = itertools.count()
_traced: weakref.WeakValueDictionary[str, Fused] = weakref.WeakValueDictionary()


class _Made(NamedTuple):
    """A plan, and what it depends on beside the types of its tensors.

    Attributes:
        plan: The plan.
        returned: What the function makes of its results; None: nothing.
        absent: The attributes that the trace asked tensors for, and that none had.
    """

    plan: Plan
    returned: Returned | None
    absent: frozenset[str]

    def check(self, tensors: Sequence[Any]) -> None:
        """Refuses tensors with attributes of their own that the trace found absent.

        Raises:
            Error: One has.
        """
        for name in self.absent:
            if any(hasattr(tensor, name) for tensor in tensors):
                raise unknown(name)

    def __call__(self, tensors: Sequence[Any], out: Any) -> Any:
        results = self.plan(*tensors, out=out)
        return results if self.returned is None or out is not None else self.returned.of(results)


class _Trace(NamedTuple):
    """What tracing a function gives.

    Attributes:
        text: The graph's text.
        returned: What the function returns.
        reads: What the trace read of a method's object.
        absent: The attributes that it asked tensors for, and that none had.
    """

    text: str
    returned: Returned
    reads: list[Read]
    absent: frozenset[str]


class Fused:
    """A function whose matrix products and what follows them run fused; :func:`attacca.fuse`
    returns it."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]):
        self._function, self._options = function, options
        self._signature = Signature.of(_arguments.function(function, "function"))
        self._declared = declared(function)
        # A default that can be changed is read in each call.
        self._remembers = all(_is_lasting(each.default)
                              for each in self._signature.own.parameters.values())
        self._plans: OrderedDict[Any, _Made] = OrderedDict()
        self._methods: OrderedDict[Any, list[tuple[_Made, list[Read]]]] = OrderedDict()
        self._calls: dict[Any, _core.CallCache] = {}  # by torch's default dtype
        self._class: type | None = None  # whose method it is
        self._latest: Returned | None = None  # of the call that Dynamo traces
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

    def __set_name__(self, owner: type, name: str) -> None:
        self._class = owner

    def _unbound(self, args: Sequence[Any], keywords: dict[str, Any]) -> tuple[
            Any, Sequence[Any], dict[str, Any]] | None:
        """Of a method that is called through its class, the object and the other arguments; None:
        it is none, or its object is a tensor."""
        if self._class is None:
            return None
        rest = dict(keywords)
        owner = args[0] if args else rest.pop(next(iter(self._signature.own.parameters), ""), None)
        if not isinstance(owner, self._class) or _frameworks.is_tensor(owner):
            return None
        return owner, args[1:], rest

    def __reduce__(self) -> Any:
        """Pickled by name, as functions are."""
        return self.__qualname__  # type: ignore[attr-defined]

    def __call__(self, /, *args: Any, out: Any = None, **keywords: Any) -> Any:
        """Runs the function. The first call with a new combination of types traces and compiles it.

        Args:
            *args: The function's arguments: tensors on one device; numbers, texts, bools, dtypes,
                members of enumerations or None, which become constants of the graph; and tuples,
                lists and dicts of these.
            out: Where to write, as for :meth:`attacca.Plan.__call__`.
            **keywords: Arguments by name.

        Returns:
            What the function returns: a tensor, or a tuple, list or dict of tensors and constants.
            Where ``out`` is given, it, as from :meth:`attacca.Plan.__call__`.

        Raises:
            Error: As :func:`attacca.fuse` lists.
        """
        remembers = self._remembers and not keywords and not _dispatch.traced()
        cache = self._cache() if remembers else None
        known = None if cache is None else cache.run(args, out)
        if known is not None:
            return known
        if out is not None and self._signature.has("out"):
            keywords, out = {**keywords, "out": out}, None
        if _dispatch.wanted((*args, *keywords.values()) if keywords else args):
            return _dispatch.custom_ops().fused(self, args, keywords, out)
        if out is None and _has_stand_in(args, keywords):
            return self._function(*args, **keywords)  # another function, which is traced, calls it
        made, tensors = self._plan(args, keywords)
        # Where the arguments are the plan's inputs and its results what is returned, calls with
        # the same layouts go from the cache to the kernels, unless attributes must be checked.
        same = (made.returned is None and not made.absent and len(args) == len(tensors)
                and all(map(operator.is_, args, tensors)))
        if cache is not None and same:
            return run_remembering(made.plan, tensors, out, cache)
        return made(tensors, out)

    def _cache(self) -> _core.CallCache | None:
        """The calls that torch's state allows; None: all are checked."""
        torch, default = sys.modules.get("torch"), None
        if torch is not None:
            if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
                return None
            default = torch.get_default_dtype()
        cache = self._calls.get(default)
        if cache is None:
            cache = self._calls.setdefault(default, _core.CallCache())
        return cache

    def plan(self, /, *args: Any, **keywords: Any) -> Plan:
        """The plan that a call with these arguments runs; compiles it if there is none yet."""
        return self._plan(args, keywords)[0].plan

    def text(self, /, *args: Any, **keywords: Any) -> str:
        """The graph that a call with these arguments is traced to, in the text form."""
        unbound = self._unbound(args, keywords)
        if unbound is not None:
            return self._method_text(*unbound)
        bound = bind(self._signature, self.__name__, args, keywords)
        _, frameworks, device = self._key(bound, None)
        return self._trace(frameworks, device, bound).text

    def explain(self, /, *args: Any, **keywords: Any) -> Explanation:
        """Which ops are fused for these arguments, and for each op left out the reason."""
        return self.plan(*args, **keywords).explain()

    def _argument(self, identity: str) -> str:
        """See :func:`argument_of`; Dynamo calls this while it traces."""
        _traced[identity] = self
        return identity

    _argument._dynamo_marked_constant = True  # type: ignore[attr-defined]

    def _plan(self, args: Any, keywords: Any,
              frameworks: tuple[str, ...] | None = None) -> tuple[_Made, list[Any]]:
        """The plan of a call, and its tensors; ``frameworks`` None: those of the tensors."""
        unbound = self._unbound(args, keywords)
        if unbound is not None:
            return self._method_plan(*unbound)
        bound = bind(self._signature, self.__name__, args, keywords)
        key, frameworks, device = self._key(bound, frameworks)
        made = self._plans.get(key)
        if made is None:
            made, _ = self._compiled(frameworks, device, bound)
            self._plans[key] = made
            if len(self._plans) > _MOST_PLANS:
                self._plans.popitem(last=False)
        tensors = list(bound.tensors.values())
        made.check(tensors)
        return made, tensors

    def _method_plan(self, owner: Any, args: Any, keywords: Any) -> tuple[_Made, list[Any]]:
        """Likewise, of a method of an object. One plan serves all objects that hold what its trace
        read."""
        bound = bind(self._signature, self.__name__, (owner, *args), keywords, owner)
        key, frameworks, device = self._key(bound, None)
        known = self._methods.setdefault((type(owner), key), [])
        given = list(bound.tensors.values())
        for made, reads in known:
            more = tensors_of(owner, reads, self._type, device)
            if more is not None:
                made.check([*given, *more])
                return made, [*given, *more]
        made, reads = self._compiled(frameworks, device, bound, owner)
        known.append((made, reads))
        if len(known) > _MOST_PLANS:
            del known[0]
        if len(self._methods) > _MOST_PLANS:
            self._methods.popitem(last=False)
        tensors = [*given, *(tensors_of(owner, reads, self._type, device) or [])]
        made.check(tensors)
        return made, tensors

    def _method_text(self, owner: Any, args: Any, keywords: Any) -> str:
        """As :meth:`text`, of a method of an object."""
        bound = bind(self._signature, self.__name__, (owner, *args), keywords, owner)
        _, frameworks, device = self._key(bound, None)
        return self._trace(frameworks, device, bound, owner).text

    def _key(self, bound: Bound, frameworks: tuple[str, ...] | None) -> tuple[
            Any, tuple[str, ...], str]:
        """What plans are kept by, the frameworks and the device of a call."""
        devices = {view.device for view in bound.views.values()}
        if len(devices) > 1:
            raise Error(f"arguments on {' and '.join(sorted(devices))}", self.__name__,
                        "move them to one device")
        frameworks = frameworks or frameworks_of(bound.tensors.values())
        device = next(iter(devices), "cpu")
        default = default_dtype(device) if "torch" in frameworks else None
        return (tuple((n, self._type(n, v)) for n, v in bound.views.items()),
                tuple((n, identity(v)) for n, v in bound.constants.items()),
                tuple(bound.nested.items()), tuple(_firsts(bound).items()), frameworks, device,
                default), frameworks, device

    def _compiled(self, frameworks: tuple[str, ...], device: str, bound: Bound,
                  owner: Any = None) -> tuple[_Made, list[Read]]:
        with _dispatch.unwatched():
            trace = _dispatch.uncompiled(self._trace)(frameworks, device, bound, owner)
        try:
            plan = compile_graph(trace.text, **{"device": device, **self._options})
        except Error as error:
            if not error.where.startswith("<text>:"):
                raise
            line = error.where.split(":")[1]
            raise Error(error.what, f"line {line} of {self.__name__}.text(...)",
                        error.fix) from None
        returned = None if trace.returned.is_plan_result() else trace.returned
        return _Made(plan, returned, trace.absent), trace.reads

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

    def _trace(self, frameworks: Sequence[str], device: str, bound: Bound,
               owner: Any = None) -> _Trace:
        """Calls the function with stand-ins for the tensors, and for ``owner``, a method's
        object."""
        record = Recorder(frameworks, bound.tensors.values())
        typed = {name: self._type(name, view) for name, view in bound.views.items()}
        stand_ins = {name: record.input(name, typed[name].partition("[")[0],
                                        _sizes(typed[name], view.shape))
                     for name, view in bound.views.items()}
        for name, first in _firsts(bound).items():  # x is y of one tensor given twice
            if typed[name] == typed[first]:
                stand_ins[name] = stand_ins[first]
        reader = Reader(record, frameworks, device, self._type, _function_of)
        arguments = bound.arguments(self._signature.own, stand_ins, Owner(owner, (), reader))
        with asked_for_types():
            result = self._function(*arguments.args, **arguments.kwargs)
        results, returned = returned_by(result)
        inputs = ", ".join(f"\"{name}\": {each}" for name, each in {**typed,
                                                                    **reader.types}.items())
        body = "".join(f"  {statement}\n" for statement in record.statements)
        texts = ", ".join(outputs_text(record, results))
        text = f"graph \"{self.__name__}\"({inputs}) {{\n{body}  return {texts}\n}}\n"
        return _Trace(text, returned, reader.reads, frozenset(record.absent))


class FusedMethod:
    """A fused function as the method of an object.

    Numbers that it reads of the object become constants of the graph, tensors inputs, and other
    methods are part of it. It is traced again where the object holds other numbers.
    """

    def __init__(self, fused: Fused, owner: Any):
        self.__func__, self.__self__ = fused, owner
        self.__name__, self.__doc__ = fused.__name__, fused.__doc__

    def __call__(self, /, *args: Any, out: Any = None, **keywords: Any) -> Any:
        """Runs the method, as :meth:`Fused.__call__` does."""
        if _frameworks.is_tensor(self.__self__):
            return self.__func__(self.__self__, *args, out=out, **keywords)
        if out is None and _has_stand_in(args, keywords):
            return self.__func__._function(self.__self__, *args, **keywords)
        made, tensors = self.__func__._method_plan(self.__self__, args, keywords)
        return made(tensors, out)

    def plan(self, /, *args: Any, **keywords: Any) -> Plan:
        """As :meth:`Fused.plan`; the plan takes the object's tensors after the arguments."""
        return self.__func__._method_plan(self.__self__, args, keywords)[0].plan

    def text(self, /, *args: Any, **keywords: Any) -> str:
        """As :meth:`Fused.text`."""
        return self.__func__._method_text(self.__self__, args, keywords)

    def explain(self, /, *args: Any, **keywords: Any) -> Explanation:
        """As :meth:`Fused.explain`."""
        return self.plan(*args, **keywords).explain()


def _has_stand_in(args: Sequence[Any], keywords: dict[str, Any]) -> bool:
    """Whether a function that is traced gave these arguments."""
    given = (*args, *keywords.values())
    try:
        return (any(type(each) is Owner for each in given)
                or any(type(each) is Traced for each in leaves_of(given)))
    except RecursionError:
        return False  # bind reports it


def _is_lasting(default: Any) -> bool:
    try:
        hash(default)
    except TypeError:  # a list, dict or set, or a tuple with one
        return False
    return True


def _firsts(bound: Bound) -> dict[str, str]:
    """Of each tensor that is given more than once, the later names with the first one."""
    names: dict[int, str] = {}
    firsts = {name: names.setdefault(id(tensor), name) for name, tensor in bound.tensors.items()}
    return {name: first for name, first in firsts.items() if name != first}


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
    called = _traced[argument]
    made, tensors = called._plan(args, keywords, frameworks)
    if made.returned is not None and not made.returned.kind():
        raise Error("the function returns a dict, a nested tuple or a constant in code that torch "
                    "traces", called.__name__, "return a tuple of tensors")
    called._latest = made.returned
    return made.plan, tensors


def kind_of(argument: str) -> str:
    """What the function returned in the call that :func:`plan_of` was asked for last: "plan" if
    what its plan returns, else "tuple" or "list"."""
    latest = _traced[argument]._latest
    return latest.kind() if latest is not None else "plan"


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
    tensors; a size that an annotation names by a symbol cannot be read. ``isinstance`` and
    ``x.__class__`` tell the tensors' class; ``type(x)`` does not.

    The annotation ``x: Annotated[Tensor, "bf16[M, 4096]"]`` or ``x: Annotated[Tensor, "[M, K]"]``
    gives a parameter symbolic sizes, so that one plan serves all values of M and K. The text may be
    the whole annotation, ``x: "bf16[M, 4096]"``, but type checkers reject that.

    A method of a class may be fused, too, as ``@attacca.fuse`` in the class or as
    ``attacca.fuse(x.method)``: numbers that it reads of ``self`` become constants, tensors inputs,
    and it is traced again where they differ. ``@staticmethod`` stands above ``@attacca.fuse``.
    Numbers of other objects, of modules and of enclosing functions are read while tracing, and
    stay what they were.

    Args:
        function: The function. Its tensors may be of any framework; numbers, including NumPy's,
            become constants of the graph.
        **options: The options of :func:`attacca.compile`. By default the device is that of the
            arguments.

    Returns:
        A :class:`Fused`, which is called like the function; of a method of an object, or of an
        object whose class defines ``__call__``, a :class:`FusedMethod`.

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
        return lambda fn: fuse(fn, **options)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(function, torch.nn.Module):
        raise Error("attacca.fuse of a module of torch", "fuse",
                    "write torch.compile(module, backend=\"attacca\")")
    if inspect.ismethod(function):
        return FusedMethod(Fused(function.__func__, options), function.__self__)
    if isinstance(function, (Fused, FusedMethod)):
        raise Error("attacca.fuse of a fused function", "fuse", "give the plain function")
    called = vars(type(function)).get("__call__")
    if isinstance(called, types.FunctionType):
        return FusedMethod(Fused(called, options), function)
    return Fused(function, options)
