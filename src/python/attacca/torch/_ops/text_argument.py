"""Encodes texts as arguments of custom ops.

Inductor writes arguments into comments and string literals of the Python and C++ that it generates,
without escaping them. So double and single quotes are swapped, and characters that would end a
literal or a line, or start an escape, become ``%XX``, one for each byte. A text with a double quote
was not encoded; it is taken as it is.
"""
from __future__ import annotations

import re
import urllib.parse

_SWAPPED = str.maketrans("\"'", "'\"")
_UNSAFE = re.compile(r'["\\?%]|[^ -~]')  # ? begins a trigraph


def written(text: str) -> str:
    """Encodes a text."""
    return _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match.group().encode()),
                       text.translate(_SWAPPED))


def plain(argument: str) -> str:
    """Decodes an argument."""
    return argument if '"' in argument else urllib.parse.unquote(argument).translate(_SWAPPED)
