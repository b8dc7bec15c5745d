"""Reads types of the text form from the annotations of a function's parameters."""
from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin

from .._arguments import LONG_NAMES

# "bf16[M, 4096]" or "[M, K]".
_TYPE = re.compile(rf"({'|'.join(LONG_NAMES)})?\s*\[[^\]]*\]")


def declared(function: Callable[..., Any]) -> dict[str, str]:
    """The types of the parameters annotated as ``x: Annotated[Tensor, "bf16[M, 4096]"]`` or
    ``x: "bf16[M, 4096]"``."""
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        for text in _texts(parameter.annotation):
            text = text.strip("\"' ")
            if _TYPE.fullmatch(text):
                found[name] = text
    return found


def _texts(annotation: Any) -> list[str]:
    if isinstance(annotation, str):
        if "Annotated[" not in annotation:
            return [annotation]
        # With `from __future__ import annotations` the whole annotation is a string.
        return re.findall(r"[\"']([^\"']*)[\"']", annotation.partition("Annotated[")[2])
    if get_origin(annotation) is Annotated:
        return [each for each in get_args(annotation)[1:] if isinstance(each, str)]
    return []
