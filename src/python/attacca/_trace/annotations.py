"""Types of the text form that annotate a function's parameters."""
from __future__ import annotations

import inspect
import re
from typing import Annotated, Any, Callable, get_args, get_origin

from .._arguments import LONG_NAMES

# "bf16[M, 4096]" or "[M, K]".
_TYPE = re.compile(rf"({'|'.join(LONG_NAMES)})?\s*\[[^\]]*\]")


def declared(function: Callable[..., Any]) -> dict[str, str]:
    """The parameters that say their type: ``x: Annotated[Tensor, "bf16[M, 4096]"]``, or the text alone."""
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
        # Under `from __future__ import annotations` the annotation is a text as a whole.
        return re.findall(r"[\"']([^\"']*)[\"']", annotation.partition("Annotated[")[2])
    if get_origin(annotation) is Annotated:
        return [each for each in get_args(annotation)[1:] if isinstance(each, str)]
    return []
