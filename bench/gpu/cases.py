"""The epilogues and shapes to measure, in an order in which every prefix is a fair sample."""

import random
from typing import NamedTuple

# Attacca's text of each epilogue; the peers' forms of the same are in peers.py.
EPILOGUES = {
    "bias_gelu": "gelu_tanh(acc + row(bias))",
    "bias_silu_mul": "silu(acc + row(bias)) * full(res)",
    "swiglu": "silu(acc0) * acc1",
    "gpt_oss": "min(acc0, 7.0) * sigmoid(1.702 * min(acc0, 7.0)) * (clamp(acc1, min=-7.0, max=7.0) "
               "+ 1.0)",
}
TITLES = {
    "bias_gelu": "bias + GELU (tanh)",
    "bias_silu_mul": "bias + SiLU, times a residual",
    "swiglu": "SwiGLU of packed halves",
    "gpt_oss": "clamped SwiGLU of alternate rows",
}
# The layout of a gate's two weights in one matrix of N rows; the result has N / 2 columns.
GATES = {"swiglu": "halves", "gpt_oss": "rows"}

# (M, N, K) that are measured first.
QUOTED = [(4096, 14336, 4096), (1024, 11008, 4096), (256, 14336, 4096), (16, 14336, 4096),
          (8192, 32768, 512)]

# (N, K) of the linear layers of well-known models.
LAYERS = [
    (4096, 11008), (12288, 4096), (22016, 4096), (4096, 4096), (65536, 4096),
    (6144, 4096), (28672, 4096), (4096, 14336),
    (10240, 8192), (8192, 8192), (57344, 8192), (8192, 28672),
    (4608, 3584), (3584, 3584), (37888, 3584), (3584, 18944),
    (2112, 7168), (24576, 1536), (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048),
    (5120, 2880), (2880, 4096), (5760, 2880), (2880, 2880),
    (14336, 4096), (11008, 4096),
]
# Measured at every M even in the short run: a wide layer, long K with few tiles, short K.
DENSE = [(14336, 4096), (4096, 11008), (32768, 512)]
# The gates of Llama-3 8B and 70B and of GPT-OSS, and those that are measured first.
GATE_LAYERS = {"swiglu": [(28672, 4096), (57344, 8192)], "gpt_oss": [(5760, 2880)]}
GATE_QUOTED = {"swiglu": [(4096, 28672, 4096), (256, 28672, 4096), (16, 28672, 4096)],
               "gpt_oss": [(2048, 5760, 2880)]}
ALL_M = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]
RAGGED_M = [17, 129, 2040]
FEW_M = [1, 16, 64, 256, 1024, 4096]


class Case(NamedTuple):
    epilogue: str
    m: int
    n: int
    k: int

    # n is the number of rows of the weights, the product's columns.
    def __str__(self):
        return f"{self.epilogue} {self.m}x{self.n}x{self.k}"

    @property
    def columns(self):
        """Columns of the result."""
        return self.n // 2 if self.epilogue in GATES else self.n

    @property
    def layout(self):
        """The weights' layout, by Attacca's name."""
        return GATES.get(self.epilogue, "nk")


def quoted(epilogue):
    return GATE_QUOTED[epilogue] if epilogue in GATES else QUOTED


def shapes(epilogue, full):
    for n, k in GATE_LAYERS.get(epilogue, LAYERS):
        dense = full or epilogue in GATES or (n, k) in DENSE
        yield from ((m, n, k) for m in (ALL_M + RAGGED_M if dense else FEW_M))


def cases(full=False, epilogues=tuple(EPILOGUES)):
    """Every case once: the quoted ones first, then a fixed shuffle of the others."""
    first = [Case(e, *shape) for e in epilogues for shape in quoted(e)]
    others = [Case(e, *shape) for e in epilogues for shape in shapes(e, full)
              if shape not in quoted(e)]
    random.Random(20260521).shuffle(others)
    return first + others


def shard(items, text):
    """`text` is "i/n": every n-th item from the i-th on, 0 <= i < n."""
    index, count = (int(part) for part in text.split("/"))
    if not 0 <= index < count:
        raise ValueError(f"no shard {text}: give i/n with 0 <= i < n")
    return items[index::count]
