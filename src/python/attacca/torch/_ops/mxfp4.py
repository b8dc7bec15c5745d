"""The custom op that widens weights in MXFP4.

    attacca::mxfp4(Tensor blocks, Tensor scales) -> Tensor

The FX importer writes it as the text form's ``mxfp4``, so that products that read it may widen the
weights themselves; elsewhere the op runs a plan of its own. The overload is
``import_attacca_torch``, for the reason that :mod:`.region` gives. The op has no derivative.
"""
from __future__ import annotations

import functools

import torch

from ... import _dispatch
from ..._compile import compile_plan
from ..._errors import Error
from ..._launch import Engine
from ..._plan import engine_of
from .region import OVERLOAD, TAGS, library
from .transforms import vmap_one_by_one, without_derivatives

_BLOCK = 32  # weights that share a scale


def mxfp4(blocks: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Weights in MXFP4 as bfloat16, in the form in which GPT-OSS's checkpoints have them.

    Under ``torch.compile(backend="attacca")``, products on the CPU that read the result, such as
    ``torch._grouped_mm(x, attacca.torch.mxfp4(blocks, scales).mT, offs=offsets)``, read the codes:
    the weights are never in memory as bfloat16. So do grouped products on Hopper GPUs. Other
    products on a GPU read weights that are widened in memory first.

    Args:
        blocks: uint8 ``[..., K / 32, 16]`` or ``[..., K / 2]``: e2m1 codes, two a byte, the first
            in the lower half.
        scales: uint8 ``[..., K / 32]``: the exponent of each 32 weights, plus 127; 255 is NaN.

    Returns:
        A tensor ``[..., K]`` of bfloat16, which holds all such weights exactly, except for those
        that are too large for float32: they are infinite.

    Raises:
        Error: Shapes or dtypes do not fit together.
    """
    out: torch.Tensor = torch.ops.attacca.mxfp4.import_attacca_torch(blocks, scales)
    return out


def _shape(blocks: torch.Tensor, scales: torch.Tensor) -> list[int]:
    """The result's shape."""
    if blocks.device != scales.device:
        raise Error(f"blocks are on {blocks.device} and scales on {scales.device}", "blocks",
                    "move one to the other's device")
    shape = [*scales.shape[:-1], scales.shape[-1] * _BLOCK] if scales.dim() else []
    fits = tuple(blocks.shape) in ((*scales.shape, _BLOCK // 2),
                                   (*scales.shape[:-1], shape[-1] // 2 if shape else 0))
    if not shape or not fits or blocks.dtype != torch.uint8 or scales.dtype != torch.uint8:
        raise Error(f"blocks are {blocks.dtype} {[*blocks.shape]} and scales {scales.dtype} "
                    f"{[*scales.shape]}", "blocks",
                    "give uint8 blocks [..., K / 32, 16] and uint8 scales [..., K / 32]")
    return shape


def _run(blocks: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    shape = _shape(blocks, scales)
    codes = blocks.reshape(-1, _BLOCK // 2).contiguous()
    with _dispatch.inside():
        widened: torch.Tensor = _engine(str(blocks.device)).call(
            [codes, scales.reshape(-1, 1).contiguous()], {}, None)
    return widened.reshape(shape)


@functools.cache
def _engine(device: str) -> Engine:
    text = "graph mxfp4(codes: u8[B, 16], scales: u8[B, 1]) { return mxfp4(codes, scales) }"
    return engine_of(compile_plan(text, device, "fp32", "known", 0, 0, None))


def _fake(blocks: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return blocks.new_empty(_shape(blocks, scales), dtype=torch.bfloat16)


_NAME = f"mxfp4.{OVERLOAD}"
library.define(f"{_NAME}(Tensor blocks, Tensor scales) -> Tensor", tags=TAGS)
_op = torch.ops.attacca.mxfp4.import_attacca_torch
for _key in ("CPU", "CUDA"):
    library.impl(_NAME, _run, _key)
library.impl(_NAME, without_derivatives(_op), "Autograd")
torch.library.register_fake(f"attacca::{_NAME}", _fake, lib=library)
torch.library.register_vmap(f"attacca::{_NAME}", vmap_one_by_one(_op), lib=library)
