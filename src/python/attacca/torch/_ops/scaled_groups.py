"""What PyTorch lacks to trace ``torch.nn.functional.scaled_grouped_mm``.

PyTorch 2.11 has kernels of ``aten::_scaled_grouped_mm_v2`` for CUDA tensors alone, and neither its
result's shape nor a rule of Dynamo: a call parts the graph that ``torch.compile`` traces.
"""
from __future__ import annotations

from collections.abc import Sequence

import torch

_NAME = "_scaled_grouped_mm_v2"
_LIBRARY = torch.library.Library("aten", "IMPL")


def _shape(self: torch.Tensor, mat2: torch.Tensor, scale_a: Sequence[torch.Tensor],
           recipe_a: Sequence[int], swizzle_a: Sequence[int], scale_b: Sequence[torch.Tensor],
           recipe_b: Sequence[int], swizzle_b: Sequence[int], offs: torch.Tensor | None = None,
           bias: torch.Tensor | None = None, out_dtype: torch.dtype | None = None,
           contraction_dim: Sequence[int] = (), use_fast_accum: bool = False) -> torch.Tensor:
    """A result as PyTorch's kernels make it: each row begins at a multiple of 16 bytes."""
    dtype = out_dtype or torch.bfloat16
    rows, columns = self.shape[-2], mat2.shape[-1]
    if self.dim() == 2 and mat2.dim() == 2:
        groups = [0 if offs is None else offs.shape[0]]
    else:
        groups = [self.shape[0]] if self.dim() == 3 and mat2.dim() == 3 else []
    line = 16 // dtype.itemsize
    pitch = (columns + line - 1) // line * line
    strides = [rows * pitch, pitch, 1]
    return torch.empty_strided([*groups, rows, columns], strides[-2 - len(groups):], dtype=dtype,
                               device=self.device)


def install() -> None:
    """Gives PyTorch the shape and the rule where it has none of its own."""
    if not hasattr(torch.ops.aten, _NAME):
        return
    if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{_NAME}", "Meta"):
        _LIBRARY.impl(_NAME, _shape, "Meta")
        torch.compiler.allow_in_graph(torch._scaled_grouped_mm_v2)
