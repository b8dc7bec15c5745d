"""A Python function becomes fused kernels; one plan serves every number of rows."""
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

import attacca

Array = NDArray[np.float32]


@attacca.fuse
def gated(x: Annotated[Array, "f32[M, 64]"], gate: Annotated[Array, "f32[128, 64]"],
          up: Annotated[Array, "f32[128, 64]"]) -> Any:
    g = x @ gate.T
    return g / (1 + np.exp(-g)) * (x @ up.T)


random = np.random.default_rng(0)
gate, up = (random.standard_normal((128, 64), np.float32) for _ in range(2))
for rows in (1, 16, 100):
    x = random.standard_normal((rows, 64), np.float32)
    print(gated(x, gate, up).shape)
print(gated.explain(x, gate, up))

# prints:
# (1, 128)
# (16, 128)
# (100, 128)
# folded swiglu: swiglu(v1, v7)
# graph gated
#
# region 1: gated gemm over [M, 128]
#   v1 = x:f32 @ gate^T:f32, M x 128 x 64, accumulated in f32
#   v7 = x:f32 @ up^T:f32, M x 128 x 64, accumulated in f32
#   acc0: v1
#   acc1: v7
#   v8: f32[M, 128] = swiglu(acc0, acc1)
#
