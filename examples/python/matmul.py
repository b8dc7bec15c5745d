"""One product and its epilogue, on numpy arrays."""
import numpy as np

import attacca

random = np.random.default_rng(0)
x = random.standard_normal((16, 64), np.float32)
weight = random.standard_normal((128, 64), np.float32)  # [N, K], as frameworks keep it
bias = random.standard_normal(128, np.float32)
res = random.standard_normal((16, 128), np.float32)

y = attacca.matmul(x, weight.T, "silu(acc + row(bias)) * full(res)", bias=bias, res=res)

h = x.astype(np.float64) @ weight.T + bias
print(y.shape, y.dtype, "close:", np.allclose(y, h / (1 + np.exp(-h)) * res, rtol=1e-4, atol=1e-4))

try:
    attacca.matmul(x, weight, "silu(acc)")
except attacca.Error as error:
    print(error)
try:
    attacca.matmul(x, weight.T, "siluu(acc)")
except attacca.Error as error:
    print(error)

# prints:
# (16, 128) float32 close: True
# a has K=64 and b K=128, at b: transpose b: b.T
# unknown op 'siluu', at <epilogue>:1:1: did you mean silu?
