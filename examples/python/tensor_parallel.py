"""A gated MLP cut over the ranks of torch.distributed: torchrun --nproc-per-node 2 THIS_FILE."""
import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import attacca.torch


class Mlp(nn.Module):
    def __init__(self, width: int = 64, inner: int = 128):
        super().__init__()
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = x + self.down(F.silu(self.gate(x)) * self.up(x))
        return y


cuda = torch.cuda.is_available()
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
dist.init_process_group("nccl" if cuda else "gloo", device_id=device if cuda else None)
torch.manual_seed(0)  # the same weights and rows on all ranks
whole, x = Mlp().to(device), torch.randn(8, 64, device=device)
with torch.no_grad():
    wanted = whole(x)
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    mlp: nn.Module = parallelize_module(
        whole, mesh, {"gate": ColwiseParallel(), "up": ColwiseParallel(),
                      "down": RowwiseParallel()})
    # On a GPU, leave the policy out: regions are then measured.
    compiled = torch.compile(mlp, backend="attacca", options={"policy": "always"})
    y = compiled(x)
close = torch.allclose(y, wanted, atol=1e-4)
if dist.get_rank() == 0:
    print(f"{dist.get_world_size()} ranks, equal to the whole model: {close}")
    for region in attacca.torch.report().graphs[-1].fused:
        print(region.epilogue)
dist.barrier()
dist.destroy_process_group()
sys.stdout.flush()
# Python itself is not ended: a thread of gloo that still held a tensor then would abort it.
os._exit(0)

# prints:
# 2 ranks, equal to the whole model: True
# region 1: gated gemm over [8, 64]
#   mm = arg0_1:f32 @ arg1_1^T:f32, 8 x 64 x 64, accumulated in f32
#   mm_1 = arg0_1:f32 @ arg2_1^T:f32, 8 x 64 x 64, accumulated in f32
#   acc0: mm
#   acc1: mm_1
#   mul: f32[8, 64] = swiglu(acc0, acc1)
