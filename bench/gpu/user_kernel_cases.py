"""The Triton kernels and the tails of user_kernels.py.

A tail's `reference` computes each op in f64 and rounds it to f32 and to the dtype, as eager mode is
defined (docs/user-kernels.md); where PyTorch's own op rounds correctly, PyTorch gives the same
result. `eager` is the plain PyTorch code that is timed.
"""

from optional_triton import constexpr, jit, tl


@jit
def add_kernel(x, y, out, count, BLOCK: constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    total = tl.load(x + at, mask=inside).to(tl.float32) + tl.load(y + at,
                                                                  mask=inside).to(tl.float32)
    tl.store(out + at, total.to(out.dtype.element_ty), mask=inside)


@jit
def copy_kernel(x, out, count, BLOCK: constexpr):
    """For tests: a thread has more operands of a tail than wait for one load."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < count), mask=at < count)


@jit
def masked_rows_kernel(x, keep, out, columns, BLOCK: constexpr):
    """Each row scaled by its largest, where `keep` says so; 0 elsewhere."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    kept = tl.load(keep + row * columns + at, mask=inside, other=0) != 0
    value = tl.load(x + row * columns + at, mask=inside & kept, other=0.0).to(tl.float32)
    largest = tl.max(tl.abs(value), axis=0)
    scaled = tl.where(kept, value / (largest + 1e-6), 0.0)
    tl.store(out + row * columns + at, scaled.to(out.dtype.element_ty), mask=inside)


@jit
def matmul_kernel(a, b, out, m, n, k, BLOCK_M: constexpr, BLOCK_N: constexpr, BLOCK_K: constexpr):
    """Row-major a[m, k] @ b[k, n]; m and n are masked."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    from_a = a + rows[:, None] * k + depth[None, :]
    from_b = b + depth[:, None] * n + columns[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        left = depth + start < k
        tile_a = tl.load(from_a, mask=(rows[:, None] < m) & left[None, :], other=0.0)
        tile_b = tl.load(from_b, mask=left[:, None] & (columns[None, :] < n), other=0.0)
        total = tl.dot(tile_a, tile_b, total)
        from_a += BLOCK_K
        from_b += BLOCK_K * n
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(out + rows[:, None] * n + columns[None, :], total.to(out.dtype.element_ty),
             mask=inside)


def ceil_div(x, y):
    return (x + y - 1) // y


class Case:
    """A kernel at a shape: `arguments` in the order of its parameters, constants left out."""

    def __init__(self, name, function, shape, dtype, output, grid, constants, warps, make):
        self.name, self.function, self.shape, self.dtype = name, function, shape, dtype
        self.output, self.grid, self.constants, self.warps = output, grid, constants, warps
        self.make = make
        self.arguments = None

    def prepare(self, torch):
        dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[self.dtype]
        self.arguments = self.make(torch, dtype)

    def release(self):
        self.arguments = None

    def check(self, torch, got):
        """What the kernel alone computes is taken as it is."""

    def compile(self):
        """Launches once; returns the kernel that Triton compiled."""
        return self.function[self.grid](*self.arguments, **self.constants, num_warps=self.warps)


def add_case(rows, columns, dtype):
    count, block = rows * columns, 1024

    def make(torch, kind):
        x, y = (torch.randn(count, device="cuda").to(kind) for _ in range(2))
        return [x, y, torch.empty_like(x), count]

    return Case("add", add_kernel, (rows, columns), dtype, 2, (ceil_div(count, block), 1, 1),
                {"BLOCK": block}, 4, make)


def masked_rows_case(rows, columns, dtype):
    block = 1 << (columns - 1).bit_length()

    def make(torch, kind):
        x = torch.randn(rows * columns, device="cuda").to(kind)
        keep = (torch.rand(rows * columns, device="cuda") < 0.7).to(torch.int8)
        return [x, keep, torch.empty_like(x), columns]

    return Case("masked rows", masked_rows_kernel, (rows, columns), dtype, 2, (rows, 1, 1),
                {"BLOCK": block}, 8, make)


def matmul_case(m, n, k, dtype):
    tile_m, tile_n, tile_k = 128, 128, 64

    def make(torch, kind):
        a, b = torch.randn((m, k), device="cuda"), torch.randn((k, n), device="cuda") / k**0.5
        return [a.to(kind), b.to(kind), torch.empty((m, n), dtype=kind, device="cuda"), m, n, k]

    return Case(f"matmul, K = {k}", matmul_kernel, (m, n), dtype, 2,
                (ceil_div(m, tile_m), ceil_div(n, tile_n), 1),
                {"BLOCK_M": tile_m, "BLOCK_N": tile_n, "BLOCK_K": tile_k}, 8, make)


def cases():
    return [add_case(4096, 4096, "bf16"), add_case(1000, 1003, "f32"),
            masked_rows_case(8192, 3000, "bf16"), masked_rows_case(4096, 1024, "f16"),
            matmul_case(4096, 4096, 1024, "bf16"), matmul_case(1000, 1048, 520, "bf16")]


# ---- Tails

class Tail:
    def __init__(self, text, eager, reference=None):
        self.text, self.eager = text, eager
        self.reference = reference or eager


def silu_exactly(torch, x):
    wide = x.double()
    return (wide * (1 / (1 + torch.exp(-wide)))).float().to(x.dtype)


TAILS = [
    Tail("relu(out + row(bias))", lambda torch, x, o: torch.relu(x + o["bias"])),
    Tail("out * row(gain) + full(res)", lambda torch, x, o: x * o["gain"] + o["res"]),
    Tail("(out - col(shift)) * scalar(scale)",
         lambda torch, x, o: (x - o["shift"]) * o["scale"]),
    Tail("silu(out + row(bias)) * full(res)",
         lambda torch, x, o: torch.nn.functional.silu(x + o["bias"]) * o["res"],
         lambda torch, x, o: silu_exactly(torch, x + o["bias"]) * o["res"]),
]
