"""Weights of experts in codes: their tensors, the text form of them, and the values as bf16."""

import math
from typing import NamedTuple

import torch

E2M1 = [0, .5, 1, 1.5, 2, 3, 4, 6]


class Codes(NamedTuple):
    """How a matrix [N, K] lies in memory. `text`: of the weights, from w and their scales s."""
    bits: int
    group: int        # of k, that share a scale
    scale: str        # dtype
    text: str
    zero: int = 0     # the code of 0


FORMATS = {"mxfp4": Codes(4, 32, "u8", "mxfp4(w, s)"),
           "u4": Codes(4, 128, "bf16", "decode(w, s, bits=4, zero=8)", 8),
           "u8": Codes(8, 128, "bf16", "decode(w, s, bits=8, zero=128)", 128)}


def bytes_of(name, n, k):
    """Of a matrix."""
    codes = FORMATS[name]
    return n * k * codes.bits // 8 + n * k // codes.group * (1 if codes.scale == "u8" else 2)


def parameters(name, experts, n, k):
    """(parameters of a graph, the weights [experts, n, k])."""
    if name == "bf16":
        return f"w: bf16[{experts}, {n}, {k}]", "w"
    codes = FORMATS[name]
    return (f"w: u8[{experts}, {n}, {k * codes.bits // 8}], "
            f"s: {codes.scale}[{experts}, {n}, {k // codes.group}]", codes.text)


def made(name, experts, n, k):
    """Random codes and scales, for weights with a standard deviation of about k^-0.5."""
    codes = FORMATS[name]
    values = torch.randint(0, 256, (experts, n, k * codes.bits // 8), device="cuda",
                           dtype=torch.uint8)
    shape = experts, n, k // codes.group
    if name == "mxfp4":  # the codes' deviation is about 3
        exponent = 127 + round(math.log2(k**-0.5 / 3))
        return values, torch.randint(exponent - 1, exponent + 2, shape, device="cuda",
                                     dtype=torch.uint8)
    step = k**-0.5 / (2**codes.bits / math.sqrt(12))
    return values, (step * (0.5 + torch.rand(shape, device="cuda"))).bfloat16()


def widened(name, values, scales):
    """bf16 [experts, n, k], expert by expert: that takes less memory. MXFP4 is exact in bf16;
    integers are rounded, as decode() says."""
    codes = FORMATS[name]
    table = torch.tensor(E2M1 + [-value for value in E2M1], device="cuda")
    experts, n, groups = scales.shape
    result = torch.empty(experts, n, groups * codes.group, device="cuda", dtype=torch.bfloat16)
    for out, value, scale in zip(result, values, scales):
        if codes.bits == 4:
            value = torch.stack([value & 15, value >> 4], -1)
        if name == "mxfp4":
            number, factor = table[value.int()], torch.exp2(scale.float() - 127)
        else:
            number, factor = value.float() - codes.zero, scale.float()
        out.copy_((number.view(n, groups, -1) * factor[..., None]).view(n, -1))
    return result
