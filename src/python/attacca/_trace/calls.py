"""Calls of numpy's and torch's functions on stand-ins for tensors, written by the rows of the
table."""
from __future__ import annotations

import difflib
import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any

from .._errors import Error
from .._functions.binding import numpy_arguments, torch_arguments
from .._functions.table import BY_ATEN, BY_NUMPY, Made, Refused, Row
from . import composed
from .structure import leaves_of
from .trace_call import Record, TraceCall

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


# ---- Called by the stand-ins


def call_torch(record: Record, function: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """Records a call of a function of torch."""
    name = getattr(function, "__name__", str(function))
    module = getattr(function, "__module__", None) or "torch"
    own = module in _TORCH_MODULES or module.startswith("torch._C")
    if not own or not is_known(name, "torch"):
        raise unknown(name)
    return _finish(record, name, lambda: _torch(record, name, function, function, args, keywords))


def call_numpy(record: Record, function: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """Records a call of a function or ufunc of numpy."""
    name = function.__name__
    own = getattr(sys.modules["numpy"], name, function)
    if not is_known(name, "numpy") or own is not function:
        raise unknown(name)
    made = _finish(record, name, lambda: _numpy(record, name, function, function, args, keywords))
    return list(made) if name in ("split", "array_split") else made


def call_method(record: Record, name: str, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """Records an operator, a property or a method of a tensor; ``args[0]`` is the tensor."""
    readers = {"torch": _torch_method, "numpy": _numpy_method}
    ways = [readers[framework](record, name, args, keywords) for framework in record.frameworks]
    if None in ways:
        if any(ways):
            raise Error(f"{name} is a method of one framework's tensors alone, and those of "
                        "several are given", name, "call the framework's function")
        raise unknown(name)
    if len(ways) == 1 and not record.foreign:
        return _finish(record, name, ways[0])  # type: ignore[arg-type]
    if name in composed.BY_TORCH or name in composed.BY_NUMPY:
        raise Error(f"{name}: numpy and torch may define it differently, and tensors of both, or "
                    "of others, are given", name, "call the function of one: torch.NAME or np.NAME")
    return _finish(record, name, lambda: _agreed(record, ways, args))  # type: ignore[arg-type]


Way = Callable[[], "tuple[Any, str]"]


def _torch_method(record: Record, name: str, args: Sequence[Any],
                  keywords: dict[str, Any]) -> Way | None:
    aten = OPERATORS[name][0] if name in OPERATORS else _PROPERTIES.get(name, name)
    if not is_known(aten, "torch"):
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
    if not is_known(own, "numpy"):
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
    row, call = _row(record, "torch", name, run, args, keywords)
    if operands is not None:
        values = dict(zip(row.parameters, operands))
    else:
        values = torch_arguments(row, name, function, args, keywords, call.is_tensor)
    return _write(row, call, values)


def _numpy(record: Record, name: str, function: Any, run: Any, args: Sequence[Any],
           keywords: dict[str, Any]) -> tuple[Any, str]:
    row, call = _row(record, "numpy", name, run, args, keywords)
    return _write(row, call, numpy_arguments(row, function, args, keywords))


def _row(record: Record, framework: str, name: str, run: Any, args: Sequence[Any],
         keywords: dict[str, Any]) -> tuple[Row, TraceCall]:
    """The row of a function, and its call as the row's writer takes it."""
    known, others = (BY_ATEN, composed.BY_TORCH) if framework == "torch" else (BY_NUMPY,
                                                                               composed.BY_NUMPY)
    for each in leaves_of((*args, *keywords.values())):
        _plain(each)  # also of the parts of lists
    by_axis = f"{name}.dim"
    if by_axis in others and _has_axis(args, keywords):
        return others[by_axis], composed.Composer(record, framework, name, run, args, keywords)
    if name in known:
        return known[name], TraceCall(record, framework, name, run, args, keywords)
    return others[name], composed.Composer(record, framework, name, run, args, keywords)


def _has_axis(args: Sequence[Any], keywords: dict[str, Any]) -> bool:
    """Whether a call of torch's max or min is the overload that reduces one axis."""
    return isinstance(args[1], int) if len(args) > 1 else bool({"dim", "axis"} & set(keywords))


def is_known(name: str, framework: str) -> bool:
    """Whether a function or method of "torch" or "numpy" has a row."""
    if framework == "torch":
        return name in BY_ATEN or name in composed.BY_TORCH
    return name in BY_NUMPY or name in composed.BY_NUMPY


def _write(row: Row, call: TraceCall, values: dict[str, Any]) -> tuple[Any, str]:
    """What the row's writer returns, and the result's dtype."""
    values = {name: _plain(value) for name, value in values.items()}
    made = row.write(call, **values)
    if isinstance(call, composed.Composer):  # stand-ins
        call.check(made)
        return made, ""
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
        if not isinstance(made, (Made, list)):  # stand-ins
            return object()
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
        if isinstance(made, Made):
            return record.keep(made.text, dtype, made.sizes())
        return made
    except Error:
        raise
    except (Refused, TypeError, ValueError, RuntimeError, IndexError, AttributeError,
            OverflowError) as reason:
        plain = name.strip("_") if name in OPERATORS else name
        raise Error(f"{plain}: {reason}", plain,
                    "leave that argument out, or write it with functions that attacca.fuse knows"
                    ) from None


def unknown(name: str) -> Error:
    names = {*BY_ATEN, *BY_NUMPY, *composed.BY_TORCH, *composed.BY_NUMPY} - {name}
    near = difflib.get_close_matches(name, names, 1)
    return Error(f"{name} is not known while tracing", name,
                 f"did you mean {near[0]}?" if near
                 else "write it with functions that attacca.fuse knows (docs/python.md), or give "
                      "the whole function to torch.compile(backend=\"attacca\")")
