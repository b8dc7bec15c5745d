"""GPT-OSS's layer of experts in two regions: rows sorted by expert gather their tokens, and are
added to them again. The weights are in MXFP4: codes of 4 bits, and a scale for 32 of them."""
import numpy as np

import attacca

plan = attacca.compile("""
graph experts(x: f32[T, 64], token: s64[R], expert: s64[R], ends: s32[8], weight: f32[R, 1],
              up: u8[8, 64, 32], up_scales: u8[8, 64, 2], up_bias: f32[8, 64],
              down: u8[8, 64, 16], down_scales: u8[8, 64, 1], down_bias: f32[8, 64]) {
  product = grouped_matmul(gather(x, token), transpose(mxfp4(up, up_scales)), ends)
  h = product + gather(up_bias, expert)
  gate = clamp(h[:, ::2], max=7.0)
  inner = gate * sigmoid(1.702 * gate) * (clamp(h[:, 1::2], min=-7.0, max=7.0) + 1.0)
  out = grouped_matmul(inner, transpose(mxfp4(down, down_scales)), ends)
  rows = (out + gather(down_bias, expert)) * weight
  return y = scatter_add(broadcast(0.0, [T, 64]), token, rows)
}""")

random = np.random.default_rng(0)
codes = {name: random.integers(0, 256, (8, 64, k // 2), np.uint8)
         for name, k in (("up", 64), ("down", 32))}
scales = {name: random.integers(121, 125, (8, 64, each.shape[2] // 16), np.uint8)
          for name, each in codes.items()}
bias = {name: random.standard_normal((8, 64), np.float32) for name in codes}
values = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6])
weights = {name: values[np.stack([each & 15, each >> 4], -1)].reshape(8, 64, -1)
           * np.exp2(scales[name] - 127.0).repeat(32, 2) for name, each in codes.items()}

for tokens in (1, 100):
    x, scores = (random.standard_normal((tokens, n), np.float32) for n in (64, 8))
    chosen = np.argsort(-scores, axis=1)[:, :4].reshape(-1)
    order = np.argsort(chosen, kind="stable")
    token, expert = order // 4, chosen[order]
    ends = np.cumsum(np.bincount(chosen, minlength=8), dtype=np.int32)
    weight = random.random((len(token), 1), np.float32)
    got = plan(x=x, token=token, expert=expert, ends=ends, weight=weight, **codes,
               **{f"{name}_scales": each for name, each in scales.items()},
               **{f"{name}_bias": each for name, each in bias.items()})

    wanted = np.zeros((tokens, 64))
    for t, e, w in zip(token, expert, weight):
        h = weights["up"][e] @ x[t] + bias["up"][e]
        gate, up = h[::2].clip(max=7), h[1::2].clip(-7, 7)
        inner = gate / (1 + np.exp(-1.702 * gate)) * (up + 1)
        wanted[t] += w * (weights["down"][e] @ inner + bias["down"][e])
    print(got.shape, np.abs(got - wanted).max() < 1e-4 * np.abs(wanted).max())
for line in str(plan.explain()).splitlines():
    if line.startswith(("region", "  y:")):
        print(line)

# prints:
# (1, 64) True
# (100, 64) True
# region 1: gated gemm over [R, 32]
# region 2: gemm over [R, 64]
#   y: f32[T, 64] = scatter_add(0, token, (acc + full(down_bias[expert])) * col(weight))
