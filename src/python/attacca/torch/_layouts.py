"""Reads the layouts of GPTQ's and AWQ's checkpoints, which ``QuantizedLinear`` documents."""
from __future__ import annotations

from numbers import Integral
from typing import Any

import torch

from .. import _arguments
from .._errors import Error
from .._pack import Quantized, check_bits

# The columns of a word of AWQ's codes, from its lowest bits on.
_AWQ_COLUMNS = (0, 2, 4, 6, 1, 3, 5, 7)


def on_cpu(value: Any, where: str) -> torch.Tensor:
    """A tensor's values on the CPU.

    Raises:
        Error: It is no tensor, or has no values.
    """
    if not isinstance(value, torch.Tensor):
        raise Error(f"{where} is {_arguments.shown(value)}", where, "give a torch.Tensor")
    if value.is_meta:
        raise Error(f"{where} is on the meta device, without values", where,
                    "give a tensor with values")
    return value.detach().cpu()


def from_gptq(qweight: torch.Tensor, qzeros: torch.Tensor, scales: torch.Tensor,
              g_idx: torch.Tensor | None, bits: int,
              zero_offset: int) -> tuple[Quantized, int | None, torch.Tensor | None]:
    """The weights on the CPU, the group's size, and the order in which groups are contiguous.

    Raises:
        Error: Shapes or dtypes do not fit together; a zero point is outside of 8 bits; an argument
            is no tensor with values.
    """
    check_bits(bits)
    per_word = 32 // bits
    if not isinstance(zero_offset, Integral) or abs(zero_offset) > 255:
        raise Error(f"zero_offset is {_arguments.shown(zero_offset)}", "zero_offset", "give 0 or 1")
    qweight, qzeros = on_cpu(qweight, "qweight"), on_cpu(qzeros, "qzeros")
    scales = on_cpu(scales, "scales")
    k, n, groups = _sizes(qweight, qzeros, scales, (per_word, 1), per_word)
    codes = _codes_of(qweight, bits).permute(0, 2, 1).reshape(k, n).T
    zeros = _codes_of(qzeros, bits).reshape(groups, n).T.int() + zero_offset
    order = None if g_idx is None else _order(on_cpu(g_idx, "g_idx").long(), k, groups)
    if order is not None:
        codes = codes[:, order]
    return _quantized(codes, scales, zeros, bits), _group(k, groups), order


def from_awq(qweight: torch.Tensor, qzeros: torch.Tensor,
             scales: torch.Tensor) -> tuple[Quantized, int | None]:
    """The weights on the CPU, and the group's size.

    Raises:
        Error: Shapes or dtypes do not fit together; an argument is no tensor with values.
    """
    qweight, qzeros = on_cpu(qweight, "qweight"), on_cpu(qzeros, "qzeros")
    scales = on_cpu(scales, "scales")
    k, n, groups = _sizes(qweight, qzeros, scales, (1, 8), 8)
    place = torch.tensor([_AWQ_COLUMNS.index(column) for column in range(8)])
    codes = _codes_of(qweight, 4)[:, :, place].reshape(k, n).T
    zeros = _codes_of(qzeros, 4)[:, :, place].reshape(groups, n).T
    return _quantized(codes, scales, zeros.int(), 4), _group(k, groups)


def _sizes(qweight: torch.Tensor, qzeros: torch.Tensor, scales: torch.Tensor,
           per_word: tuple[int, int], zeros_per_word: int) -> tuple[int, int, int]:
    """K, N and the number of groups."""
    for name, tensor in (("qweight", qweight), ("qzeros", qzeros)):
        if tensor.dtype != torch.int32 or tensor.dim() != 2:
            raise Error(f"{name} is {tensor.dtype} of shape {tuple(tensor.shape)}", name,
                        "give int32 of two dimensions")
    k, n = (size * count for size, count in zip(qweight.shape, per_word))
    groups = scales.shape[0] if scales.dim() == 2 else 0
    if groups < 1 or scales.shape[1] != n or k % groups:
        raise Error(f"scales has shape {tuple(scales.shape)}", "scales",
                    f"give (groups, {n}), with groups that divide {k}")
    if tuple(qzeros.shape) != (groups, n // zeros_per_word) or n % zeros_per_word:
        raise Error(f"qzeros has shape {tuple(qzeros.shape)}", "qzeros",
                    f"{(groups, n // zeros_per_word)} is wanted, of N a multiple of "
                    f"{zeros_per_word}")
    return k, n, groups


def _codes_of(words: torch.Tensor, bits: int) -> torch.Tensor:
    """The fields of each word in a further dimension, the lowest bits first, as uint8."""
    shifts = torch.arange(0, 32, bits, dtype=torch.int32)
    fields: torch.Tensor = (words.unsqueeze(-1) >> shifts) & (2**bits - 1)
    return fields.to(torch.uint8)


def _group(k: int, groups: int) -> int | None:
    return None if groups == 1 else k // groups


def _order(groups_of_k: torch.Tensor, k: int, groups: int) -> torch.Tensor | None:
    """The values of k, those of each group together; None if they are."""
    order = torch.argsort(groups_of_k, stable=True) if groups_of_k.dim() == 1 else groups_of_k
    in_order = torch.arange(k) // (k // groups)
    if tuple(groups_of_k.shape) != (k,) or not torch.equal(groups_of_k[order], in_order):
        raise Error("groups of different sizes", "g_idx",
                    f"give (K,) with each of {groups} groups {k // groups} times")
    return None if torch.equal(order, torch.arange(k)) else order


def _quantized(codes: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor,
               bits: int) -> Quantized:
    """Codes with zero points in the middle become signed codes without."""
    middle, rows = 2**(bits - 1), scales.T
    if bool((zeros == middle).all()):
        return Quantized((codes.int() - middle).to(torch.int8), rows)
    if int(zeros.min()) < 0 or int(zeros.max()) > 255:
        raise Error(f"zero points from {int(zeros.min())} to {int(zeros.max())}", "qzeros",
                    "give a zero_offset of 0 or 1, and zero points of 0 to 255")
    return Quantized(codes, rows, zeros.to(torch.uint8))
