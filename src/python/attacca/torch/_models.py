"""Models of PyTorch, named by import path, as a cluster's driver tunes them."""
from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import torch

from .._compile import compile_plan
from .._errors import Error
from ._graph.regions import find
from ._ops.region import nameless
from ._rewrite import sizes_at_hand

_RESULT = "return a module and a tuple of its arguments, or a torch.export.ExportedProgram"


def regions_of(path: str) -> list[tuple[str, dict[str, int]]]:
    """The regions of a model as texts, each with the sizes of its symbols.

    Args:
        path: "package.module:function". The function takes no arguments; it returns a module and a
            tuple of its arguments, or a ``torch.export.ExportedProgram``.

    Raises:
        Error: There is no such function; it or the export fails.
    """
    found = find(_exported(path).run_decompositions().module().graph).regions
    texts = []
    for region in found:
        text = nameless(region.graph)
        plan = compile_plan(text, "cpu", "fp32", "known", 0, 1, None)
        texts.append((text, sizes_at_hand(region, plan)))
    return texts


def _exported(path: str) -> Any:
    name, _, function = path.partition(":")
    try:
        made = getattr(importlib.import_module(name), function)()
    except Exception as error:
        raise Error(f"{path} failed: {type(error).__name__}: {error}", "graph",
                    f"let the function take no arguments and {_RESULT}") from error
    if isinstance(made, torch.export.ExportedProgram):
        return made
    if not isinstance(made, tuple) or len(made) != 2 or not isinstance(made[0], torch.nn.Module):
        raise Error(f"{path} returned a {type(made).__name__}", "graph", _RESULT)
    model, arguments = made
    try:
        with torch.no_grad():
            if isinstance(arguments, Mapping):
                return torch.export.export(model, (), dict(arguments))
            return torch.export.export(model, tuple(arguments))
    except Exception as error:
        raise Error(f"{path} cannot be exported: {type(error).__name__}: {error}", "graph",
                    "see torch.export") from error
