"""A layer of experts: each token goes to two of eight, and rows sorted by expert are multiplied in
groups whose sizes only the data says."""
import numpy as np

import attacca

plan = attacca.compile("""
graph experts(x: f32[T, 64], token: s64[R], ends: s32[8], weight: f32[R, 1],
              w_up: f32[8, 64, 64], w_down: f32[8, 64, 32]) {
  gate, up = split(grouped_matmul(gather(x, token), transpose(w_up), ends), 2)
  return y = grouped_matmul(silu(gate) * up, transpose(w_down), ends) * weight
}""")

random = np.random.default_rng(0)
w_up, w_down = (random.standard_normal((8, 64, n), np.float32) / 8 for n in (64, 32))
for tokens in (1, 100):
    x, scores = (random.standard_normal((tokens, n), np.float32) for n in (64, 8))
    chosen = np.argsort(-scores, axis=1)[:, :2].reshape(-1)
    order = np.argsort(chosen, kind="stable")
    ends = np.cumsum(np.bincount(chosen, minlength=8), dtype=np.int32)
    weight = np.full((2 * tokens, 1), 0.5, np.float32)
    rows = plan(x=x, token=order // 2, ends=ends, weight=weight, w_up=w_up, w_down=w_down)
    result = rows[np.argsort(order)].reshape(tokens, 2, 64).sum(axis=1)

    wanted = np.zeros((tokens, 64))
    for row, expert in enumerate(chosen):
        gate, up = np.split(w_up[expert] @ x[row // 2], 2)
        wanted[row // 2] += 0.5 * w_down[expert] @ (gate / (1 + np.exp(-gate)) * up)
    print(result.shape, np.abs(result - wanted).max() < 1e-4)
print(plan.explain())

# prints:
# (1, 64) True
# (100, 64) True
# folded swiglu: swiglu(gate, up)
# graph experts
#
# region 1: single
#   t6: f32[R, 64] = gather(x, token)
#
# region 2: gated gemm over [R, 32]
#   t8 = t6:f32 @ w_up^T:f32, R x 64 x 64, accumulated in f32, rows of 8 groups that end at ends
#   acc0: columns 0:32 of t8
#   acc1: columns 32:64 of t8
#   t11: f32[R, 32] = swiglu(acc0, acc1)
#
# region 3: gemm over [R, 64]
#   t13 = t11:f32 @ w_down^T:f32, R x 64 x 32, accumulated in f32, rows of 8 groups that end at ends
#   col(weight): f32
#   y: f32[R, 64] = acc * col(weight)
#
# not fused:
#   t13 (grouped_matmul) after region 2: a matrix product starts a region of its own
#   t6 (gather): gather reads elements at places known only at run time
#
