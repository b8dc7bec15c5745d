#!/usr/bin/env python3
"""Writes docs/python.md, the Python package's reference, from its docstrings.

Usage: python_docs.py [--check]. With --check: fails where the page is not current. PYTHONPATH leads
to the built package; PyTorch and ONNX Runtime are needed for attacca.torch and
attacca.onnxruntime.
"""
import inspect
import pathlib
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

import numpy
import torch

import attacca
import attacca.onnxruntime
import attacca.torch
from attacca._functions.table import BY_ATEN, BY_NUMPY
from attacca._trace import composed
from generated_file import COLUMNS, keep_current, wrapped

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs/python.md"
INTRO = """# The Python package

Written by `tools/python_docs.py` from the docstrings.

`pip install .` builds and installs it; the command line is then `attacca` or `python -m attacca`.
In a build tree the package is in `build/python`. PyTorch and ONNX Runtime are optional: only
`attacca.torch` and `attacca.onnxruntime` import them.

The dtypes are f64, f32, f16, bf16, f8e4m3, f8e5m2, s8, u8, s32, s64 and bool. Types are written as
in [the text form](text-format.md): `bf16[M, 4096]`.
"""
SECTIONS = ("Args", "Returns", "Raises", "Attributes")


def section(docstring: "str | None") -> str:
    """Google's docstring sections as Markdown."""
    lines, inside = [], None
    for line in inspect.cleandoc(docstring or "").splitlines():
        stripped = line.strip()
        if stripped.rstrip(":") in SECTIONS and stripped.endswith(":"):
            inside = stripped.rstrip(":")
            lines += ["", f"**{inside}**", ""]
        elif inside and stripped:
            item = re.match(r"    (\*{0,2}\w+): (.*)", line)
            if item and inside != "Returns":
                lines.append(entry(item[1], item[2]))
            else:
                lines.append(("  " if inside != "Returns" else "") + stripped)
        else:
            inside = None if not line.startswith(" ") and stripped else inside
            lines.append(f"    {stripped}" if line.startswith("    ") else line)
    text = re.sub(r":(?:class|func|meth|attr|mod):`~?([^`]+)`", r"`\1`", "\n".join(lines))
    return re.sub(r"``([^`]+)``", r"`\1`", re.sub(r"\n{3,}", "\n\n", text)).strip()


def entry(name: str, text: str) -> str:
    return textwrap.fill(f"- `{name}`: {text}", COLUMNS, subsequent_indent="  ",
                         break_long_words=False, break_on_hyphens=False)


def described(heading: str, name: str, function: Callable[..., Any]) -> str:
    """The heading, the signature and the docstring."""
    return (f"{heading} `{name}`\n\n```python\n{wrapped(signature(name, function))}\n```\n\n"
            f"{section(function.__doc__)}")


def signature(name: str, function: Callable[..., Any]) -> str:
    text = str(inspect.signature(function))
    for _ in range(2):  # annotations that are texts
        text = re.sub(r"(: |-> )([\"'])(.*?)\2(?=[,)]| = | ->|$)", r"\1\3", text)
    text = re.sub(r"\((self|cls)(, )?", "(", text)
    if "_Forward" in text or " at 0x" in text:
        text = "(...)"
    return f"{name}{text}"


def entries(module: ModuleType, prefix: str) -> Iterator[str]:
    for name in module.__all__:
        thing = getattr(module, name)
        title = f"{prefix}.{name}"
        if inspect.isclass(thing):
            yield f"### `{title}`\n\n{section(thing.__doc__)}"
            for member, value in vars(thing).items():
                if member.startswith("_") and member != "__call__":
                    continue
                value = value.__func__ if isinstance(value, classmethod) else value
                if isinstance(value, property) and value.__doc__:
                    yield entry(f"{title}.{member}", section(value.fget.__doc__))
                elif inspect.isfunction(value) and value.__doc__:
                    called = title if member == "__call__" else f"{title}.{member}"
                    yield described("####", called, value)
        else:
            yield described("###", title, thing)


def listed(names: Iterable[str]) -> str:
    text = ", ".join(f"`{name}`" for name in sorted(names))
    return textwrap.fill(text, COLUMNS, break_on_hyphens=False, break_long_words=False)


def has(modules: Iterable[Any], name: str) -> bool:
    return any(hasattr(module, name) for module in modules)


def known_functions() -> str:
    """The names in the tables of functions by which a user can call them."""
    of_aten = [name.removesuffix(".dim") for name in (*BY_ATEN, *composed.BY_TORCH)]
    torch_names = {name.replace("linalg_", "linalg.").replace("special_", "special.")
                   for name in of_aten if not name.startswith("_")}
    modules = {"": (torch, torch.nn.functional, torch.Tensor), "linalg": (torch.linalg,),
               "special": (torch.special,)}
    of_torch = [name for name in torch_names
                if has(modules[name.rpartition(".")[0]], name.rpartition(".")[2])]
    of_numpy = {name for name in (*BY_NUMPY, *composed.BY_NUMPY)
                if has((numpy, numpy.ndarray, numpy.linalg), name)}
    return "\n\n".join((
        "## Functions that `attacca.fuse` knows",
        textwrap.fill("Beside Python's operators, slices, indices and casts. PyTorch's, as "
                      "functions of `torch` and `torch.nn.functional` and as methods:", COLUMNS),
        listed(of_torch),
        "NumPy's, as functions, also of `numpy.linalg`, and as methods of its arrays:",
        listed(of_numpy)))


def page() -> str:
    parts = [INTRO]
    for module in (attacca, attacca.onnxruntime, attacca.torch):
        prefix = module.__name__
        parts.append(f"## {prefix}\n\n{section(module.__doc__)}")
        parts += entries(module, prefix)
    parts.append(known_functions())
    return "\n\n".join(part.strip() for part in parts) + "\n"


def main() -> int:
    return keep_current(PAGE, page())


if __name__ == "__main__":
    sys.exit(main())
