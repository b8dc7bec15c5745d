"""Triton kernels for the checks on a GPU; Inductor copies their source, and knows ``tl`` of it."""
import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    total = tl.load(x + at, mask=inside).to(tl.float32) + tl.load(y + at,
                                                                  mask=inside).to(tl.float32)
    tl.store(out + at, total.to(out.dtype.element_ty), mask=inside)


@triton.jit
def matmul_kernel(a, b, out, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                  BLOCK_K: tl.constexpr):
    """Row-major a[m, k] @ b[k, n]; m and n are masked, k is a multiple of BLOCK_K."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    from_a = a + rows[:, None] * k + depth[None, :]
    from_b = b + depth[:, None] * n + columns[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, k, BLOCK_K):
        tile_a = tl.load(from_a, mask=rows[:, None] < m, other=0.0)
        tile_b = tl.load(from_b, mask=columns[None, :] < n, other=0.0)
        total = tl.dot(tile_a, tile_b, total)
        from_a += BLOCK_K
        from_b += BLOCK_K * n
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(out + rows[:, None] * n + columns[None, :], total.to(out.dtype.element_ty),
             mask=inside)


@triton.autotune(configs=[triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}, num_warps=4),
                          triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64},
                                        num_warps=8),
                          triton.Config({"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64},
                                        num_warps=8, num_stages=8)],  # too much shared memory
                 key=["m", "n", "k"])
@triton.jit
def tuned_matmul_kernel(a, b, out, m, n, k, a_row, a_depth, b_depth, b_column,
                        BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """a[m, k] @ b[k, n] with any strides; m and n are masked, k is a multiple of BLOCK_K."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    from_a = a + rows[:, None] * a_row + depth[None, :] * a_depth
    from_b = b + depth[:, None] * b_depth + columns[None, :] * b_column
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, k, BLOCK_K):
        tile_a = tl.load(from_a, mask=rows[:, None] < m, other=0.0)
        tile_b = tl.load(from_b, mask=columns[None, :] < n, other=0.0)
        total = tl.dot(tile_a, tile_b, total)
        from_a += BLOCK_K * a_depth
        from_b += BLOCK_K * b_depth
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(out + rows[:, None] * n + columns[None, :], total.to(out.dtype.element_ty),
             mask=inside)
