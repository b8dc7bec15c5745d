"""``torch._scaled_grouped_mm`` as a loop over groups in f64. PyTorch has no kernel for CPU
tensors."""
import torch

_LIBRARY = torch.library.Library("aten", "IMPL")


def by_groups(x, w, scale_a, scale_b, offsets):
    """The result in f64; rows, or columns, of no group are 0."""
    if offsets is None:
        return x.double() @ w.double() * scale_a[..., None].double() * scale_b[:, None].double()
    if x.dim() == 3:
        return by_groups(w.mT, x.mT, scale_b, scale_a, offsets).mT
    result, begin = torch.zeros(x.shape[0], w.shape[2], dtype=torch.float64), 0
    for group, end in enumerate(offsets.tolist()):
        rows = x[begin:end].double() @ w[group].double()
        result[begin:end] = rows * scale_a[begin:end, None].double() * scale_b[group].double()
        begin = end
    return result


def register():
    """Makes it the op's kernel for CPU tensors in this process."""
    def on_cpu(x, w, scale_a, scale_b, offs=None, bias=None, scale_result=None, out_dtype=None,
               use_fast_accum=False):
        return by_groups(x, w, scale_a, scale_b, offs).to(out_dtype or torch.bfloat16)

    def on_cpu_v2(x, w, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, offs=None,
                  bias=None, out_dtype=None, contraction_dim=(), use_fast_accum=False):
        return on_cpu(x, w, scale_a[0], scale_b[0], offs, out_dtype=out_dtype)
    _LIBRARY.impl("_scaled_grouped_mm", on_cpu, "CPU")
    _LIBRARY.impl("_scaled_grouped_mm_v2", on_cpu_v2, "CPU")
