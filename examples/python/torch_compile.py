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
# 2 regions fused in 1 graphs, 1 ops or regions left; saved 0.000 ms so far
# graph 1
# fused:
#   1x ran 1 times: gelu(acc + row(arg4_1))
#   1x ran 1 times: full(arg2_1) + (acc + row(arg6_1))
# report().details() has every region and reason
