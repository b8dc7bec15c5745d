"""Calls of numpy's and torch's functions on stand-ins for tensors, written by the rows of the
table."""
from __future__ import annotations

import difflib
import operator
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Protocol

from .. import _frameworks
from .._arguments import LONG_NAMES, SHORT_NAMES
from .._errors import Error
from .._functions.binding import numpy_arguments, torch_arguments
from .._functions.table import BY_ATEN, BY_NUMPY, Call, Made, Refused, Row
from .._functions.values import Extent, list_text

# Python's operators -> (name in ATen, name in numpy, whether the operands are swapped).
OPERATORS: dict[str, tuple[str, str, bool]] = {}
for _name, _torch_name, _numpy_name in [
        ("add", "add", "add"), ("sub", "sub", "subtract"), ("mul", "mul", "multiply"),
        ("truediv", "true_divide", "divide"), ("pow", "pow", "power"),
        ("mod", "remainder", "remainder"), ("floordiv", "floor_divide", "floor_divide"),
        ("matmul", "matmul", "matmul"),
        ("and", "bitwise_and", "bitwise_and"), ("or", "bitwise_or", "bitwise_or"),
        ("xor", "bitwise_xor", "bitwise_xor")]:
    OPERATORS[f"__{_name}__"] = (_torch_name, _numpy_name, False)
    OPERATORS[f"__r{_name}__"] = (_torch_name, _numpy_name, True)
for _name, _numpy_name in [("lt", "less"), ("le", "less_equal"), ("gt", "greater"),
                           ("ge", "greater_equal"),
                      ("eq", "equal"), ("ne", "not_equal")]:
    OPERATORS[f"__{_name}__"] = (_name, _numpy_name, False)
for _name, _torch_name, _numpy_name in [("neg", "neg", "negative"), ("abs", "abs", "absolute"),
                             ("invert", "bitwise_not", "invert"), ("pos", "positive", "positive")]:
    OPERATORS[f"__{_name}__"] = (_torch_name, _numpy_name, False)
_PROPERTIES = {"T": "numpy_T", "mT": "mT"}
_SYMBOLS = {"__and__": operator.and_, "__or__": operator.or_, "__xor__": operator.xor}
# The modules of torch's functions that are written in Python and have rows.
_TORCH_MODULES = {"torch.nn.functional", "torch.functional", "torch._tensor", "torch"}


class Record(Protocol):
    """What calls need of :class:`.traced.Recorder`."""

    frameworks: list[str]
    foreign: bool

    @property
    def stand_in(self) -> type: ...

    def text_of(self, tensor: Any) -> str: ...

    def dtype_of(self, tensor: Any) -> str: ...

    def sizes_of(self, tensor: Any) -> tuple[int, ...]: ...

    def several(self, text: str, count: int) -> list[str]: ...

    def keep(self, text: str, dtype: str, sizes: Sequence[int]) -> Any: ...

    def mark(self) -> int: ...

    def since(self, mark: int) -> list[str]: ...

    def rewind(self, mark: int) -> None: ...

    def restore(self, statements: list[str]) -> None: ...


class TraceCall(Call):
    """A call on stand-ins by the rules of one framework.

    Attributes:
        run: The framework's own function, which is asked for the result's dtype.
    """

    def __init__(self, record: Record, framework: str, name: str, run: Callable[..., Any],
                 args: Sequence[Any],
                 keywords: dict[str, Any]):
        self.record, self.framework, self.name = record, framework, name
        self._run, self._args, self._keywords = run, args, keywords

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, self.record.stand_in)

    def text(self, tensor: Any) -> str:
        return self.record.text_of(tensor)

    def dtype(self, tensor: Any) -> str:
        return self.record.dtype_of(tensor)

    def sizes(self, tensor: Any) -> Sequence[Any]:
        return self.record.sizes_of(tensor)

    def extent_text(self, extent: Any) -> str:
        text = extent.text if isinstance(extent, Extent) else str(extent)
        if text is None:
            raise Refused("a size that has no name")
        return text

    @cached_property
    def result(self) -> str:
        made = self._run(*map(self._like, self._args),
                         **{n: self._like(v) for n, v in self._keywords.items()})
        if isinstance(made, (tuple, list)):
            raise Refused("several results")
        return self._name_of(made.dtype)

    def common(self, operands: Sequence[Any]) -> str:
        likes = [self._like(value) for value in operands]
        if self.framework == "torch":
            return self._name_of(sys.modules["torch"].result_type(*likes))
        return self._name_of(sys.modules["numpy"].add(*likes).dtype)

    def reshape(self, text: str, sizes: Callable[[], Sequence[int]]) -> Made:
        return Made(f"reshape({text}, {list_text([self.extent_text(e) for e in sizes()])})", sizes)

    def broadcast_to(self, tensor: Any, sizes: Callable[[], Sequence[int]]) -> Made:
        return Made(
            f"broadcast({self.text(tensor)}, {list_text([self.extent_text(e) for e in sizes()])})",
            sizes)

    def parts(self, tensor: Any, dim: int, sizes: Callable[[], Sequence[int] | int]) -> list[Made]:
        given, have = sizes(), list(self.sizes(tensor))
        if not have:
            raise Refused("parts of a scalar")
        if isinstance(given, int):
            if have[dim] % given:
                raise Refused(f"{given} equal parts of an axis of {have[dim]}")
            part: int = have[dim] // given
            each = [part if type(have[dim]) is int else Extent(part)] * given
        else:
            each = list(given)
        names = self.record.several(
            f"split({self.text(tensor)}, {given if isinstance(given, int) else list_text(each)}"
                                    f", axis={dim - len(have)})", len(each))
        def sized(size: int) -> Callable[[], Sequence[int]]:
            return lambda: [*have[:dim], size, *have[dim + 1:]]
        return [Made(name, sized(size)) for name, size in zip(names, each)]

    def _like(self, value: Any) -> Any:
        """A tensor of one element with a stand-in's dtype and rank, on which the framework's own
        function runs."""
        if isinstance(value, (tuple, list)):
            return type(value)(map(self._like, value))
        if not self.is_tensor(value):
            return value
        name, shape = LONG_NAMES[self.dtype(value)], (1,) * len(self.sizes(value))
        if self.framework == "torch":
            torch = sys.modules["torch"]
            return torch.ones(shape, dtype=getattr(torch, name), device="cpu")
        return sys.modules["numpy"].ones(shape, numpy_dtype(name))

    def _name_of(self, dtype: Any) -> str:
        known = _frameworks.Torch.names().get(dtype) if self.framework == "torch" \
            else SHORT_NAMES.get(dtype.name)
        if known is None:
            raise Refused(f"a result of dtype {dtype}")
        return known


def numpy_dtype(name: str) -> Any:
    """The dtype of numpy or ml_dtypes with a name.

    Raises:
        Refused: There is none.
    """
    import numpy

    if hasattr(numpy, name) or name == "bool":
        return numpy.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise Refused(f"numpy has no {name}") from None
    return numpy.dtype(getattr(ml_dtypes, name))


# ---- Called by the stand-ins


def call_torch(record: Record, function: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """Records a call of a function of torch."""
    name = getattr(function, "__name__", str(function))
    row = BY_ATEN.get(name)
    module = getattr(function, "__module__", None) or "torch"
    if row is None or (module not in _TORCH_MODULES and not module.startswith("torch._C")):
        raise unknown(name)
    return _finish(record, name, lambda: _torch(record, name, function, function, args, keywords))


def call_numpy(record: Record, function: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """Records a call of a function or ufunc of numpy."""
    name = function.__name__
    own = getattr(sys.modules["numpy"], name, function)
    if name not in BY_NUMPY or own is not function:
        raise unknown(name)
    return _finish(record, name, lambda: _numpy(record, name, function, function, args, keywords))


def call_method(record: Record, name: str, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """Records an operator, a property or a method of a tensor; ``args[0]`` is the tensor."""
    readers = {"torch": _torch_method, "numpy": _numpy_method}
    ways = [readers[framework](record, name, args, keywords) for framework in record.frameworks]
    if None in ways:
        raise unknown(name)
    if len(ways) == 1 and not record.foreign:
        return _finish(record, name, ways[0])  # type: ignore[arg-type]
    return _finish(record, name, lambda: _agreed(record, ways, args))  # type: ignore[arg-type]


Way = Callable[[], "tuple[Any, str]"]


def _torch_method(record: Record, name: str, args: Sequence[Any],
                  keywords: dict[str, Any]) -> Way | None:
    aten = OPERATORS[name][0] if name in OPERATORS else _PROPERTIES.get(name, name)
    if aten not in BY_ATEN:
        return None
    if name in OPERATORS:
        given = args[::-1] if OPERATORS[name][2] else args
        return lambda: _torch(record, aten, None, _operator(name), args, keywords, given)
    import torch

    own = getattr(torch.Tensor, name, None)
    if own is None:
        return None
    run = (lambda x: getattr(x, name)) if name in _PROPERTIES else own
    return lambda: _torch(record, aten, own, run, args, keywords)


def _numpy_method(record: Record, name: str, args: Sequence[Any],
                  keywords: dict[str, Any]) -> Way | None:
    own = OPERATORS[name][1] if name in OPERATORS else name
    if own not in BY_NUMPY:
        return None
    if name in OPERATORS or name in _PROPERTIES:
        given = args[::-1] if name in OPERATORS and OPERATORS[name][2] else args
        row = BY_NUMPY[own]
        run = _operator(name) if name in OPERATORS else (lambda x: getattr(x, name))
        return lambda: _write(row, TraceCall(record, "numpy", name, run, args, keywords),
                              dict(zip(row.parameters, given)))
    import numpy

    if not hasattr(numpy.ndarray, name):
        return None
    return lambda: _numpy(record, name, name, lambda x, *a, **k: getattr(x, name)(*a, **k), args,
                          keywords)


def _operator(name: str) -> Callable[..., Any]:
    plain = name.replace("__r", "__", 1) if name in OPERATORS and OPERATORS[name][2] else name
    found = getattr(operator, plain.strip("_"), None) or _SYMBOLS[plain]
    return (lambda x, y: found(y, x)) if OPERATORS[name][2] else found


def _torch(record: Record, name: str, function: Any, run: Any, args: Sequence[Any],
           keywords: dict[str, Any],
           operands: Sequence[Any] | None = None) -> tuple[Any, str]:
    call = TraceCall(record, "torch", name, run, args, keywords)
    row = BY_ATEN[name]
    if operands is not None:
        values = dict(zip(row.parameters, operands))
    else:
        values = torch_arguments(row, name, function, args, keywords, call.is_tensor)
    return _write(row, call, values)


def _numpy(record: Record, name: str, function: Any, run: Any, args: Sequence[Any],
           keywords: dict[str, Any]) -> tuple[Any, str]:
    call = TraceCall(record, "numpy", name, run, args, keywords)
    row = BY_NUMPY[name]
    return _write(row, call, numpy_arguments(row, function, args, keywords))


def _write(row: Row, call: TraceCall, values: dict[str, Any]) -> tuple[Any, str]:
    """What the row's writer returns, and the result's dtype."""
    values = {name: _plain(value) for name, value in values.items()}
    made = row.write(call, **values)
    # the writer did not ask for it: the result has the first tensor's dtype
    if "result" not in vars(call):
        source = values[row.parameters[0]]
        return made, call.dtype(source if call.is_tensor(source) else source[0])
    return made, call.result


def _plain(value: Any) -> Any:
    """A scalar of numpy as one of Python; other values unchanged."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        return value.item()
    if not isinstance(value, type) and (hasattr(value, "__dlpack__")
                                        or hasattr(value, "__array_interface__")):
        raise Error(f"a {type(value).__name__} inside the function", "fn",
                    "pass tensors as arguments, so that they are inputs")
    return value


def _agreed(record: Record, ways: Sequence[Way], args: Sequence[Any]) -> tuple[Any, str]:
    """What a method means in every framework of the tensors.

    Raises:
        Refused: The frameworks differ.
    """
    found = []
    for way in ways:
        mark = record.mark()
        found.append((way(), record.since(mark)))
        record.rewind(mark)

    def seen(each: Any) -> Any:
        (made, dtype), statements = each
        return [(m.text, list(m.sizes()))
                for m in (made if isinstance(made, list) else [made])], dtype, statements
    if any(seen(each) != seen(found[0]) for each in found[1:]):
        raise Refused("numpy and torch define it differently, and tensors of both are given")
    dtype = found[0][0][1]
    own = {record.dtype_of(a) for a in args if isinstance(a, record.stand_in)}
    if dtype != "bool" and dtype not in own:
        raise Refused(f"a result of dtype {dtype}, which frameworks decide differently")
    record.restore(found[0][1])
    return found[0][0]


def _finish(record: Record, name: str, way: Way) -> Any:
    """Records what a writer returns; reports a refusal as an error of the call."""
    try:
        made, dtype = way()
        if isinstance(made, list):
            return tuple(record.keep(each.text, dtype, each.sizes()) for each in made)
        return record.keep(made.text, dtype, made.sizes())
    except Error:
        raise
    except (Refused, TypeError, ValueError, RuntimeError, IndexError, AttributeError,
            OverflowError) as reason:
        plain = name.strip("_") if name in OPERATORS else name
        raise Error(f"{plain}: {reason}", plain,
                    "leave that argument out, or write it with functions that attacca.fuse knows"
                    ) from None


def unknown(name: str) -> Error:
    near = difflib.get_close_matches(name, [*BY_ATEN, *BY_NUMPY], 1)
    return Error(f"{name} is not known while tracing", name,
                 f"did you mean {near[0]}?" if near
                 else "write it with functions that attacca.fuse knows")
