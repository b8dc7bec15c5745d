"""What a cluster tunes: a list of models, each a graph and the sizes that it is tuned for."""
from __future__ import annotations

import json
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .. import _arguments, _core, _dispatch
from .._compile import graph_of
from .._errors import Error
from .._problems import Problem, combinations, problems_of, symbols_of

_ENDING = ".shapes"
_IMPORT_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


class Part(NamedTuple):
    """A graph of a model, at certain sizes."""

    graph: _core.Graph
    sizes: dict[str, int]


class Model(NamedTuple):
    """A model of the list.

    Attributes:
        name: For progress and errors.
        parts: By combination of sizes: its graphs.
    """

    name: str
    parts: list[list[Part]]
    sizes: list[dict[str, int]]


def models_of(given: Any, sizes: Mapping[str, Sequence[int]]) -> list[Model]:
    """The models that :func:`attacca.tune` is given, one or a list.

    Raises:
        Error: One of them cannot be read; a size belongs to none of them or has no value.
    """
    sources = list(given) if isinstance(given, (list, tuple)) else [given]
    if not sources:
        raise Error("there is no model", "graph", "give at least one")
    models: list[Model] = []
    used: set[str] = set()
    for i, source in enumerate(sources):
        name = _name(source, i)
        if _is_shapes(source):
            parts = _read_shapes(pathlib.Path(source))
            model = Model(name, [[part] for part in parts], [part.sizes for part in parts])
        elif _is_import_path(source):
            model = _of_torch(source)
        else:
            model, theirs = _of_graph(name, graph_of(source), sizes)
            used |= theirs
        models.append(model)
    unknown = [name for name in sizes if name not in used]
    if unknown:
        raise Error(f"no model has a size {unknown[0]}", unknown[0], "leave it out")
    return models


def _of_graph(name: str, graph: _core.Graph,
              sizes: Mapping[str, Sequence[int]]) -> tuple[Model, set[str]]:
    symbols = symbols_of(graph)
    lacking = [symbol for symbol in symbols if symbol not in sizes]
    if lacking:
        raise Error(f"size {lacking[0]} of {name} has no value", lacking[0],
                    f"give {lacking[0]} among the sizes")
    all_sizes = combinations({symbol: sizes[symbol] for symbol in symbols})
    return Model(name, [[Part(graph, each)] for each in all_sizes], all_sizes), set(symbols)


def _name(source: Any, index: int) -> str:
    short = isinstance(source, (str, os.PathLike)) and "{" not in str(source)
    name = str(source) if short else f"model {index + 1}"
    # Bytes of a file's name that are not UTF-8, surrogates here, are shown as "\xff".
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _is_shapes(source: Any) -> bool:
    return isinstance(source, (str, os.PathLike)) and str(source).endswith(_ENDING)


def _is_import_path(source: Any) -> bool:
    return isinstance(source, str) and _IMPORT_PATH.fullmatch(source) is not None


# A model's regions as texts, each with the sizes of its symbols.
Regions = list[tuple[str, dict[str, int]]]
_regions_of: Callable[[str], Regions] | None = None


def register_regions(of: Callable[[str], Regions]) -> None:
    """Makes :func:`models_of` accept models of PyTorch; :mod:`attacca.torch` calls this."""
    global _regions_of
    _regions_of = of


def _of_torch(path: str) -> Model:
    _dispatch.custom_ops()  # importing attacca.torch registers the function
    assert _regions_of is not None
    return Model(path, [[Part(_core.Graph.parse(text), sizes)
                         for text, sizes in _regions_of(path)]], [{}])


class Shape(NamedTuple):
    """A line of a file of shapes: a product and its epilogue, as :func:`attacca.matmul` takes
    them."""

    m: int
    n: int
    k: int
    dtype: str = "bf16"
    epilogue: str = "acc"
    b_layout: str = "nk"
    out_dtype: str | None = None


def _read_shapes(path: pathlib.Path) -> list[Part]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Error(f"the file of shapes cannot be read: {error}", str(path), "") from error
    parts = [_read_shape(line, f"{path}:{number}") for number, line in enumerate(lines, 1)
             if line.strip() and not line.lstrip().startswith("#")]
    if not parts:
        raise Error("the file has no shapes", str(path),
                    "write lines such as {\"m\": 16, \"n\": 4096, \"k\": 4096}")
    return parts


def _read_shape(line: str, where: str) -> Part:
    example = "write a JSON object such as {\"m\": 16, \"n\": 4096, \"k\": 4096, \"epilogue\": " \
              "\"silu(acc + row(bias))\"}"
    try:
        shape = Shape(**json.loads(line))
    except (ValueError, TypeError) as error:
        raise Error(f"the line is not a shape: {error}", where, example) from error
    m, n, k = (_arguments.size(value, f"{where} {name}")
               for name, value in zip("mnk", shape[:3]))
    try:
        dtype = _arguments.dtype(shape.dtype, "dtype")
        result = _arguments.result_dtype(shape.out_dtype or None, dtype)
        plan = _core.Plan.matmul(dtype, shape.b_layout, shape.epilogue, result, "cpu", "fp32",
                                 "known", 0, 1, False)
    except (Error, TypeError) as error:
        raise Error(f"the line is not a shape: {error}", where, example) from error
    return Part(_core.Graph.parse(plan.graph_text()), {"M": m, "N": n, "K": k})


def listed(models: Iterable[Model], device: str, mode: str,
           batch_invariant: bool) -> list[list[list[Problem]]]:
    """By model and combination of sizes: the problems for a GPU, which need not be here.

    Raises:
        Error: As :func:`attacca.compile`, with the model's name.
    """
    def problems(part: Part, name: str) -> list[Problem]:
        try:
            return problems_of(part.graph, device, mode, part.sizes, batch_invariant)
        except Error as error:
            raise Error(f"{name}: {error.what}", error.where, error.fix) from error
    return [[[problem for part in parts for problem in problems(part, model.name)]
             for parts in model.parts] for model in models]
