"""Plans that run on a GPU, called with NumPy arrays as those on the CPU are."""
from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch

import attacca

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


class GpuPlan:
    """Copies a call's arrays to the GPU and its results back."""

    def __init__(self, data: bytes, mode: str) -> None:
        self.plan = attacca.compile(data, mode=mode, device="cuda")
        self.inputs = self.plan.inputs

    def __call__(self, **arrays: Any) -> Any:
        got = self.plan(**{name: to_gpu(each) for name, each in arrays.items()})
        return tuple(map(to_host, got)) if isinstance(got, tuple) else to_host(got)


def to_gpu(array: Any) -> torch.Tensor:
    array = np.array(array, order="C")  # a copy that may be written, of at least its own rank
    if array.dtype == BFLOAT16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).cuda()
    return torch.from_numpy(array).cuda()


def to_host(tensor: Any) -> Any:
    if isinstance(tensor, np.ndarray):  # of a plan without inputs
        return tensor
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).cpu().numpy().view(BFLOAT16)
    return tensor.cpu().numpy()
