"""Triton where it is installed: files with kernels import these names, and can themselves be
imported without Triton and a GPU."""

try:
    import triton
    import triton.language as tl
    jit, constexpr = triton.jit, tl.constexpr
except ImportError:
    triton, tl, constexpr = None, None, object

    def jit(function):
        return function

__all__ = ["constexpr", "jit", "tl", "triton"]
