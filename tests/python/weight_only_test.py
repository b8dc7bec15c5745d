"""Products with weights of bytes, as models and quantisers write them: each is a region, and
computes what eager PyTorch does, for random shapes, dtypes and strides."""
import random
import unittest

import torch
import torch.ao.quantization.fx._decomposed
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

import attacca
import attacca.torch
from attacca.torch._rewrite import Options, rewrite

decomposed = torch.ops.quantized_decomposed
RANDOM = random.Random(11)
TOLERANCE = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def setUpModule():
    torch.manual_seed(11)


def codes(dtype, *shape):
    limits = torch.iinfo(dtype)
    return torch.randint(limits.min, limits.max + 1, shape, dtype=dtype)


def laid_out(tensor):
    """The same elements with random strides: dense, transposed, or a part of a larger tensor."""
    choice = RANDOM.randrange(3)
    if choice == 0:
        return tensor
    if choice == 1:
        return tensor.t().contiguous().t()
    rows, columns = tensor.shape
    whole = torch.zeros(rows + 2, 2 * columns + 3, dtype=tensor.dtype)
    part = whole[1:-1, 3::2]
    return part.copy_(tensor)


class Case:
    """Operands of random sizes: x [m, k]; w of bytes [n, k]."""

    def __init__(self, dtype, weights=torch.int8):
        self.m, self.n = RANDOM.randint(1, 40), RANDOM.randint(1, 70)
        self.groups, self.group = RANDOM.randint(1, 4), RANDOM.choice((32, 64, 128))
        self.k = self.groups * self.group
        self.x = laid_out(torch.randn(self.m, self.k, dtype=dtype))
        self.w = laid_out(codes(weights, self.n, self.k))
        self.column = (torch.rand(self.n) / 64).to(dtype)
        self.by_group = (torch.rand(self.n, self.groups) / 64).to(dtype)
        self.zero = codes(weights, self.n)
        self.bias = torch.randn(self.n).to(dtype)


def groups_of(c, w):
    return w.to(c.x.dtype).view(c.n, c.groups, c.group)


# What is computed of x, w, and the operands of a case that it names.
FORMS = {
    "cast": (lambda c, x, w: F.silu(x @ w.to(x.dtype).t()), ()),
    "cast, as (K, N)": (lambda c, x, w: F.silu(x @ w.t().contiguous().to(x.dtype)), ()),
    "as the left operand": (lambda c, x, w: F.silu(w.to(x.dtype) @ x.t()), ()),
    "linear": (lambda c, x, w, b: F.gelu(F.linear(x, w.to(x.dtype), b)), ("bias",)),
    "with leading dimensions": (
        lambda c, x, w, b: F.gelu(F.linear(x.reshape(1, c.m, c.k), w.to(x.dtype), b)), ("bias",)),
    "scaled by tensor after": (lambda c, x, w: torch.relu(x @ w.to(x.dtype).t() * 0.01), ()),
    "scaled by column after": (lambda c, x, w, s: torch.relu((x @ w.to(x.dtype).t()) * s),
                               ("column",)),
    "scaled by column before": (lambda c, x, w, s: torch.relu(x @ (w.to(x.dtype)
                                                                  * s[:, None]).t()), ("column",)),
    "zero points by column": (lambda c, x, w, s, z: torch.relu(
        x @ ((w.to(x.dtype) - z.to(x.dtype)[:, None]) * s[:, None]).t()), ("column", "zero")),
    "scaled by groups": (lambda c, x, w, s: torch.relu(
        x @ (groups_of(c, w) * s[:, :, None]).view(c.n, c.k).t()), ("by_group",)),
    # as torchao writes int8 weights alone
    "torchao": (lambda c, x, w, s, b: torch.relu((torch.mm(x.reshape(-1, c.k), w.t().to(x.dtype))
                                                  * s).reshape(c.m, c.n) + b), ("column", "bias")),
    "a gate": (lambda c, x, w, s: F.silu(x @ w.to(x.dtype).t() * s) * (x @ w.to(x.dtype).t()),
               ("column",)),
}


def check(case, function, *args, regions=1):
    """The graph has this many regions, and no reason why a product is left."""
    attacca.torch.reset()
    module = make_fx(function, tracing_mode="fake")(*args)
    wanted = module(*args)
    found = rewrite(module.graph, Options(policy="always"))
    module.recompile()
    got = module(*args)
    tolerance = TOLERANCE[wanted.dtype]
    case.assertEqual((got.dtype, got.shape), (wanted.dtype, wanted.shape))
    largest = float(wanted.abs().max()) if wanted.numel() else 1.0
    torch.testing.assert_close(got, wanted, rtol=tolerance, atol=tolerance * max(largest, 1e-3))
    case.assertEqual(found, regions, attacca.torch.report().details())


class Forms(unittest.TestCase):
    def test_every_form_is_one_region(self):
        for name, (function, operands) in FORMS.items():
            for weights in (torch.int8, torch.uint8):
                for dtype in TOLERANCE:
                    c = Case(dtype, weights)
                    given = [getattr(c, each) for each in operands]
                    with self.subTest(name, dtype=dtype, weights=weights, n=c.n, k=c.k,
                                      strides=(c.x.stride(), c.w.stride())):
                        check(self, lambda *args, c=c, f=function: f(c, *args), c.x, c.w, *given)

    def test_weight_int8pack_mm(self):
        for dtype in TOLERANCE:
            c = Case(dtype)
            with self.subTest(dtype=dtype):
                check(self, lambda x, w, s: F.silu(torch.ops.aten._weight_int8pack_mm(x, w, s)),
                      c.x.contiguous(), c.w.contiguous(), c.column)


    def test_weight_int4pack_mm_is_left_with_a_reason(self):
        x, groups = torch.randn(3, 64).bfloat16(), torch.rand(1, 32, 2).bfloat16()
        packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(
            torch.randint(0, 16, (32, 64), dtype=torch.int32), 1)
        attacca.torch.reset()
        module = make_fx(lambda *args: torch.relu(
            torch.ops.aten._weight_int4pack_mm_for_cpu(args[0], args[1], 64, args[2])),
            tracing_mode="fake")(x, packed, groups)
        self.assertEqual(rewrite(module.graph, Options(policy="always")), 0)
        self.assertIn("for each device and instruction set", attacca.torch.report().details())


class Exported(unittest.TestCase):
    """Graphs with the ops of quantized_decomposed, which torch.export's quantisers write."""

    def test_weights_by_tensor_by_column_and_by_groups(self):
        c = Case(torch.float32)
        zeros = c.zero.long()
        group_zeros = torch.randint(-8, 8, (c.n, c.groups), dtype=torch.int32)
        small = c.w % 8
        for function, args in (
                (lambda x, w: decomposed.dequantize_per_tensor(w, 0.02, 5, -128, 127, torch.int8),
                 (c.w,)),
                (lambda x, w, s, z: decomposed.dequantize_per_tensor(w, s, z, -128, 127,
                                                                     torch.int8),
                 (c.w, torch.tensor(0.03), torch.tensor(-7))),
                (lambda x, w, s, z: decomposed.dequantize_per_channel(w, s, z, 0, -128, 127,
                                                                      torch.int8),
                 (c.w, c.column, zeros)),
                (lambda x, w, s: decomposed.dequantize_per_channel(w, s, None, 0, -128, 127,
                                                                   torch.int8), (c.w, c.column)),
                (lambda x, w, s, z: decomposed.dequantize_per_channel_group(
                    w, s, z, -8, 7, torch.int8, c.group, torch.float32),
                 (small, c.by_group, group_zeros))):
            with self.subTest(args=[each.shape for each in args]):
                check(self, lambda x, b, *args, f=function: F.silu(F.linear(x, f(x, *args), b)),
                      c.x, c.bias, *args)

    def test_activations_too_make_a_product_of_bytes(self):
        c = Case(torch.float32)

        def function(x, w, s, b):
            q = decomposed.quantize_per_tensor(x, 0.05, 3, -128, 127, torch.int8)
            a = decomposed.dequantize_per_tensor(q, 0.05, 3, -128, 127, torch.int8)
            return torch.relu(F.linear(a, decomposed.dequantize_per_channel(
                w, s, None, 0, -127, 127, torch.int8), b))
        check(self, function, c.x, c.w.clamp(-127), c.column, c.bias)
        self.assertIn("accumulated in s32", attacca.torch.report().details())


if __name__ == "__main__":
    unittest.main()
