"""Reads types of the text form from the annotations of a function's parameters."""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin

from .._arguments import LONG_NAMES, signature, unwrapped
from .._errors import Error

# "bf16[M, 4096]" or "[M, K]".
_TYPE = re.compile(rf"({'|'.join(LONG_NAMES)})?\s*\[[^\]]*\]")
# The same of a dtype that there is not, such as "float32[M, 4]". Annotations such as "list[int]"
# have no digits before the bracket.
_NO_TYPE = re.compile(r"[a-z]+\d+\w*\s*\[[^\[\]]*\]")


def declared(function: Callable[..., Any]) -> dict[str, str]:
    """The types of the parameters annotated as ``x: Annotated[Tensor, "bf16[M, 4096]"]`` or
    ``x: "bf16[M, 4096]"``, also as parts of others, such as Optional.

    Raises:
        Error: An annotation looks like a type of the text form, but its dtype is none.
    """
    found, function = {}, unwrapped(function)
    for name, parameter in signature(function).parameters.items():
        for text in _texts(parameter.annotation, getattr(function, "__globals__", {})):
            text = text.strip("\"' ")
            if _TYPE.fullmatch(text):
                found[name] = text
            elif _NO_TYPE.fullmatch(text):
                raise Error(f"{name} is annotated {text}, whose dtype is unknown", name,
                            f"use one of {', '.join(LONG_NAMES)}")
    return found


def _texts(annotation: Any, names: dict[str, Any]) -> list[str]:
    """The texts in an annotation; ``names``: those of its function's module."""
    if isinstance(annotation, str):
        text = annotation.strip("\"' ")
        if _TYPE.fullmatch(text) or _NO_TYPE.fullmatch(text):
            return [text]
        # With `from __future__ import annotations` annotations are strings of code.
        try:
            return _texts(eval(annotation, dict(names)), {})
        except Exception:  # noqa: BLE001  a name that only type checkers import, or no code
            return re.findall(r"[\"']([^\"']*)[\"']", annotation.partition("Annotated[")[2])
    if get_origin(annotation) is Annotated:
        return [each for each in get_args(annotation)[1:] if isinstance(each, str)]
    return [text for part in get_args(annotation) for text in _texts(part, names)]
