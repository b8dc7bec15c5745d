"""PyTorch's own kernels for weights of few bits with a scale for each group of k, on random
weights. Each is launch(i) -> the product with set i of `count`."""

import torch


def int4_kernel(x, n, group, count):
    """PyTorch's own kernel of 4-bit weights (aten::_weight_int4pack_mm); k is a multiple of 128."""
    k = x.shape[1]
    weights = [torch.ops.aten._convert_weight_to_int4pack(
        torch.randint(0, 256, (n, k // 2), device=x.device, dtype=torch.uint8),
        8) for _ in range(count)]
    scales = torch.rand(k // group, n, device=x.device) * 0.01 + 0.001
    scales_and_zeros = torch.stack([scales, torch.zeros_like(scales)], dim=2).bfloat16()
    return lambda i: torch.ops.aten._weight_int4pack_mm(x, weights[i], group, scales_and_zeros)


def autotuned_int8(x, n, group, count):
    """Inductor's max-autotune of a product that converts 8-bit weights, which Triton may do inside
    it."""
    k = x.shape[1]
    weights = [torch.randint(-128, 128, (n, k), device=x.device,
                             dtype=torch.int8) for _ in range(count)]
    scales = (torch.rand(n, k // group, device=x.device) * 0.01 + 0.001).bfloat16()

    def formula(x, codes, scales):
        wide = codes.to(x.dtype).view(n, k // group, group) * scales.unsqueeze(-1)
        return x @ wide.view(n, k).t()
    torch._dynamo.reset()
    compiled = torch.compile(formula, dynamic=False, fullgraph=True,
                             mode="max-autotune-no-cudagraphs")
    return lambda i: compiled(x, weights[i], scales)
