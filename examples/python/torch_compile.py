"""torch.compile with fused regions, and the report on them.

On a GPU leave the policy out: a region is then fused only if that was measured to be faster.
"""
import torch
import torch.nn.functional as F
from torch import nn

import attacca.torch


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.wide, self.narrow = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tail: torch.Tensor = self.narrow(F.gelu(self.wide(self.norm(x))))
        return x + tail


torch.manual_seed(0)
model = Mlp().eval()
compiled = torch.compile(model, backend="attacca", options={"policy": "always"})
with torch.no_grad():
    x = torch.randn(2, 16, 64)
    print("close:", torch.allclose(compiled(x), model(x), atol=1e-5))
print(attacca.torch.report())

# prints:
# close: True
# graph 1
#   fused view, permute, addmm, view_1, mul_2, mul_3, erf, add_2, mul_4
#     region 1: gemm over [32, 256]
#       t5 = add_1:f32 @ arg3_1^T:f32, 32 x 256 x 64, accumulated in f32
#       row(arg4_1): f32
#       mul_4: f32[2, 16, 256] = gelu(acc + row(arg4_1))
#     kept: the policy is always; ran 1 times
#   fused view_2, permute_1, addmm_1, view_3, add_3
#     region 1: gemm over [32, 64]
#       t6 = mul_4:f32 @ arg5_1^T:f32, 32 x 64 x 256, accumulated in f32
#       row(arg6_1): f32
#       full(arg2_1): f32
#       add_3: f32[2, 16, 64] = full(arg2_1) + (acc + row(arg6_1))
#     kept: the policy is always; ran 1 times
#   left mul (mul): mul already belongs to another region
