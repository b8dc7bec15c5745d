"""Texts as arguments of custom ops.

Inductor writes them into comments and string literals of the Python and C++ that it generates, without
escapes. So a text's double quotes become single ones, and other characters that would end a literal or
a line, or start an escape, become ``%XX``, a byte each. Where a text has a double quote it was not
written this way, and is taken as it is.
"""
from __future__ import annotations

import re
import urllib.parse

_SWAPPED = str.maketrans("\"'", "'\"")
_UNSAFE = re.compile(r'["\\?%]|[^ -~]')  # ? begins a trigraph


def written(text: str) -> str:
    """The text as an argument."""
    return _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match.group().encode()),
                       text.translate(_SWAPPED))


def plain(argument: str) -> str:
    """The text of an argument."""
    return argument if '"' in argument else urllib.parse.unquote(argument).translate(_SWAPPED)
