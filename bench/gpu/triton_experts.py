"""A product of layers of experts in Triton, of the public design that vLLM and SGLang use: a block
of BLOCK_M ids belongs to one expert, whose rows are padded to whole blocks. An id names a pair of a
token and an expert: row id // DIVISOR of x is multiplied by the expert's matrix, and the result is
row id of `out`, times the router's weight of the pair where there is one. A gate's activation is a
kernel of its own.

Those projects tune the sizes of blocks by timing, for each shape and device; fastest() does that
with CONFIGS. The index of padded ids, padded(), is part of routing there: it is made before what is
timed."""

from typing import NamedTuple

import torch

import routed
import stopwatch
from optional_triton import constexpr, jit, tl, triton


class Config(NamedTuple):
    block_m: int
    block_n: int
    block_k: int
    band: int    # blocks of rows whose blocks of columns follow one another
    warps: int
    stages: int

    def __str__(self):
        return (f"{self.block_m}x{self.block_n}x{self.block_k} band={self.band} "
                f"warps={self.warps} stages={self.stages}")


CONFIGS = [Config(*each) for each in (
    (16, 32, 128, 1, 4, 5), (16, 64, 128, 1, 4, 4), (16, 64, 256, 1, 4, 4),
    (16, 128, 64, 1, 4, 5), (16, 128, 128, 1, 4, 4), (16, 256, 64, 1, 8, 4),
    (32, 64, 128, 1, 4, 4), (32, 128, 64, 8, 4, 4), (64, 64, 64, 8, 4, 4),
    (64, 128, 64, 16, 4, 4), (64, 128, 128, 8, 4, 4), (64, 256, 64, 16, 8, 4),
    (128, 128, 64, 16, 8, 4), (128, 256, 64, 16, 8, 3), (128, 256, 64, 16, 8, 4))]
SWIGLU_BLOCK = 1024
TUNING_ROUNDS = 5


@jit
def experts_kernel(x, w, out, ids, experts, used, router, pairs, n, k, w_expert, w_column, w_depth,
                   DIVISOR: constexpr, WEIGHTED: constexpr, WHOLE_K: constexpr,
                   BLOCK_M: constexpr, BLOCK_N: constexpr, BLOCK_K: constexpr, BAND: constexpr):
    """`used`: how many blocks have ids; an id of `pairs` or more is padding."""
    program = tl.program_id(0)
    row_blocks = tl.load(used)
    column_blocks = tl.cdiv(n, BLOCK_N)
    if program >= row_blocks * column_blocks:
        return
    in_band = BAND * column_blocks
    first = program // in_band * BAND
    height = tl.minimum(row_blocks - first, BAND)
    row_block = first + program % in_band % height
    column_block = program % in_band // height

    pair = tl.load(ids + row_block * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    there = pair < pairs
    columns = column_block * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    expert = tl.load(experts + row_block).to(tl.int64)
    # Columns behind the last one read the first ones again: their loads need no mask.
    from_x = x + (pair // DIVISOR)[:, None] * k + depth[None, :]
    from_w = (w + expert * w_expert + (columns % n).to(tl.int64)[None, :] * w_column
              + depth[:, None] * w_depth)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        if WHOLE_K:
            rows = tl.load(from_x, mask=there[:, None], other=0.0)
            matrix = tl.load(from_w)
        else:
            left = depth < k - start
            rows = tl.load(from_x, mask=there[:, None] & left[None, :], other=0.0)
            matrix = tl.load(from_w, mask=left[:, None], other=0.0)
        total = tl.dot(rows, matrix, total)
        from_x += BLOCK_K
        from_w += BLOCK_K * w_depth
    if WEIGHTED:
        weight = tl.load(router + pair, mask=there, other=0.0).to(tl.float32)
        total = total * weight[:, None]
    tl.store(out + pair[:, None] * n + columns[None, :], total.to(out.dtype.element_ty),
             mask=there[:, None] & (columns[None, :] < n))


@jit
def swiglu_kernel(h, out, inner, BLOCK: constexpr):
    """silu of a row's first half, times its second half."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < inner
    gate = tl.load(h + row * 2 * inner + at, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(h + row * 2 * inner + inner + at, mask=inside, other=0.0).to(tl.float32)
    result = gate / (1.0 + tl.exp(-gate)) * up
    tl.store(out + row * inner + at, result.to(out.dtype.element_ty), mask=inside)


def facts():
    """For the top of a CSV."""
    return {} if triton is None else {"triton": triton.__version__}


def ceil_div(x, y):
    return (x + y - 1) // y


class Padded(NamedTuple):
    ids: torch.Tensor      # s32 [blocks * block_m]; as many as there are pairs: padding
    experts: torch.Tensor  # s32 [blocks]
    used: torch.Tensor     # s32 [1]: blocks with ids; the others are behind them


def padded(ends, order, block_m):
    """The ids `order`, sorted by expert, in blocks of one expert each. The tensors' sizes are those
    that any ends need, so that a graph of launches may be replayed with others."""
    pairs, experts = len(order), len(ends)
    counts = routed.counts_of(ends)
    blocks = (counts + block_m - 1) // block_m
    block_ends = torch.cumsum(blocks, 0)  # s64
    shared = min(pairs, experts)
    most = shared + (pairs - shared) // block_m
    rows = torch.arange(pairs, device=ends.device)
    expert = torch.bucketize(rows, ends.long(), right=True)
    places = (block_ends - blocks)[expert] * block_m + rows - (ends - counts)[expert]
    ids = torch.full((most * block_m,), pairs, device=ends.device, dtype=torch.int32)
    ids[places] = order.to(torch.int32)
    of_block = torch.bucketize(torch.arange(most, device=ends.device), block_ends, right=True)
    return Padded(ids, of_block.clamp(max=experts - 1).to(torch.int32),
                  block_ends[-1:].to(torch.int32))


def multiply(x, w, out, blocks, config, divisor=1, router=None):
    """Launches one product. `w`: [experts, k, n], of any strides."""
    pairs, n = out.shape
    k = x.shape[1]
    grid = (len(blocks.experts) * ceil_div(n, config.block_n),)
    experts_kernel[grid](
        x, w, out, blocks.ids, blocks.experts, blocks.used, x if router is None else router, pairs,
        n, k, w.stride(0), w.stride(2), w.stride(1), DIVISOR=divisor, WEIGHTED=router is not None,
        WHOLE_K=k % config.block_k == 0, BLOCK_M=config.block_m, BLOCK_N=config.block_n,
        BLOCK_K=config.block_k, BAND=config.band, num_warps=config.warps,
        num_stages=config.stages)


def swiglu(h, out):
    """Launches the activation of a gate."""
    rows, inner = out.shape
    swiglu_kernel[(rows, ceil_div(inner, SWIGLU_BLOCK))](h, out, inner, BLOCK=SWIGLU_BLOCK,
                                                         num_warps=4)


class Work(NamedTuple):
    """A part of a layer, for several draws of the tokens' experts."""
    x: torch.Tensor
    w: torch.Tensor  # [experts, k, n]
    draws: list      # of routed.draw's; its second results are the ids
    divisor: int     # row id // divisor of x belongs to an id
    gate: bool
    router: torch.Tensor | None

    def buffers(self):
        """(results of the products, results): for each draw, but one product before a gate."""
        pairs, n = len(self.draws[0][1]), self.w.shape[2]
        outs = [self.x.new_empty(pairs, n // 2 if self.gate else n) for _ in self.draws]
        return ([self.x.new_empty(pairs, n)] * len(outs) if self.gate else outs), outs

    def launches(self, config, buffers):
        """launch(i): the result for draw i, whose rows lie in the ids' order."""
        blocks = [padded(ends, order, config.block_m) for ends, order in self.draws]
        products, outs = buffers

        def launch(i):
            multiply(self.x, self.w, products[i], blocks[i], config, self.divisor, self.router)
            if self.gate:
                swiglu(products[i], outs[i])
            return outs[i]
        return launch


def fastest(work):
    """(launch(i), its configuration). Raises RuntimeError if none runs."""
    if triton is None:
        raise RuntimeError("there is no Triton")
    buffers = work.buffers()
    made, failed = stopwatch.attempts(
        {config: lambda config=config: work.launches(config, buffers) for config in CONFIGS},
        len(work.draws))
    if not made:
        raise RuntimeError("; ".join(failed))
    us = stopwatch.medians_of(made, TUNING_ROUNDS)
    best = min(us, key=us.get)
    return made[best].launch, best
