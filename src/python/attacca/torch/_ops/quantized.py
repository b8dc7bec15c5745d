"""The custom op of a product with quantised weights.

    attacca::quantized_linear(Tensor x, Tensor[] weights, Tensor? bias, str form, int n) -> Tensor

It is ``x [M, K] @ w.T + bias`` with weights ``w [N, K]``, which ``form`` computes from the tensors
``weights``: an expression in the text form, in which w0, w1, ... are the tensors and ``xdtype`` is
the dtype of x. The FX importer writes the op as that product, so that what follows joins its
region; elsewhere the op runs the product's own plan.

The overload is ``import_attacca_torch``, for the reason that :mod:`.region` gives. The op has no
derivative.
"""
from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import torch

from ... import _dispatch
from ..._compile import compile_plan
from ..._errors import Error
from ..._frameworks import Torch
from ..._launch import Engine
from ..._plan import engine_of
from .region import OVERLOAD, TAGS, library
from .transforms import vmap_one_by_one, without_derivatives

FLOATS = ("f16", "bf16", "f32", "f64")
_TOKEN = re.compile(r"\bw(\d)\b|\bxdtype\b")


def weights_text(form: str, weights: Sequence[str], dtype: str) -> str:
    """The expression for the weights ``[N, K]``, in a dtype; ``weights``: the tensors' names.

    Raises:
        Error: The form is one of more or fewer tensors.
    """
    named = len({token[1] for token in _TOKEN.finditer(form) if token[1]})
    if named != len(weights):
        raise Error(f"{len(weights)} tensors of weights in a layer that was quantised as {named}",
                    "weights", "change codes, scales and zero points by load_state_dict")
    return _TOKEN.sub(lambda token: weights[int(token[1])] if token[1] else dtype, form)


def product_text(x: str, weights: str, bias: str | None, dtype: str) -> str:
    """The product in the dtype of x, rounded once; ``weights``: :func:`weights_text`."""
    narrow = dtype in ("f16", "bf16")
    if bias is None:
        return f"{x} @ transpose({weights})"
    text = f"matmul({x}, transpose({weights}){', out=f32' if narrow else ''}) + {bias}"
    return f"cast({text}, {dtype}, compute=f32)" if narrow else text


def dequantized(weights: Sequence[torch.Tensor], form: str, dtype: str) -> torch.Tensor:
    """The weights ``[N, K]`` in a float dtype of the text form."""
    types, device = _types(weights), weights[0].device
    text = _graph(types, weights_text(form, [*types], dtype))
    with _dispatch.inside():
        result: torch.Tensor = _engine(text, str(device)).call(weights, {}, None)
    return result


def _types(weights: Sequence[torch.Tensor]) -> dict[str, str]:
    return {f"w{i}": f"{Torch.names()[each.dtype]}{[*each.shape]}"
            for i, each in enumerate(weights)}


def _graph(types: dict[str, str], result: str) -> str:
    inputs = ", ".join(f"{name}: {text}" for name, text in types.items())
    return f"graph quantized_linear({inputs}) {{ return {result} }}"


@functools.lru_cache(maxsize=1024)
def _engine(text: str, device: str) -> Engine:
    return engine_of(compile_plan(text, device, "fp32", "known", 0, 0, None))


def _run(x: torch.Tensor, weights: Sequence[torch.Tensor], bias: torch.Tensor | None, form: str,
         n: int) -> torch.Tensor:
    dtype = _check(x, weights, bias)
    types = _types(weights)
    product = product_text("x", weights_text(form, [*types], dtype),
                           None if bias is None else "bias", dtype)
    types = {"x": f"{dtype}[M, {x.shape[1]}]", **types}
    inputs = [x, *weights]
    if bias is not None:
        types["bias"] = f"{Torch.names()[bias.dtype]}[{n}]"
        inputs.append(bias)
    with _dispatch.inside():
        result: torch.Tensor = _engine(_graph(types, product), str(x.device)).call(inputs, {}, None)
    return result


def _check(x: torch.Tensor, weights: Sequence[torch.Tensor], bias: torch.Tensor | None) -> str:
    """The dtype of x."""
    for each in (*weights, *(() if bias is None else (bias,))):
        if each.device != x.device:
            raise Error(f"x is on {x.device}, the layer on {each.device}", "x",
                        "move one to the other's device")
    dtype = Torch.names().get(x.dtype, "")
    if x.dim() != 2 or dtype not in FLOATS:
        raise Error(f"x is {x.dtype} of shape {tuple(x.shape)}", "x", "give a matrix of floats")
    return dtype


def _fake(x: torch.Tensor, weights: Sequence[torch.Tensor], bias: torch.Tensor | None, form: str,
          n: int) -> torch.Tensor:
    weights_text(form, [""] * len(weights), _check(x, weights, bias))
    return x.new_empty((x.shape[0], n))


_NAME = f"quantized_linear.{OVERLOAD}"
library.define(f"{_NAME}(Tensor x, Tensor[] weights, Tensor? bias, str form, int n) -> Tensor",
               tags=TAGS)
quantized_linear = torch.ops.attacca.quantized_linear.import_attacca_torch
for _key in ("CPU", "CUDA"):
    library.impl(_NAME, _run, _key)
library.impl(_NAME, without_derivatives(quantized_linear), "Autograd")
torch.library.register_fake(f"attacca::{_NAME}", _fake, lib=library)
torch.library.register_vmap(f"attacca::{_NAME}", vmap_one_by_one(quantized_linear), lib=library)
