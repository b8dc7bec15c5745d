"""Epilogues that are Python functions under torch.compile: what they read elsewhere is what it is
in each call, as without torch.compile."""
import functools
import os
import unittest

os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")

import torch
import torch.distributed as dist
import torch.nn.functional as F

import attacca
import attacca.torch

SLOPE = 1.5
slope = 2.0


class settings:
    factor = 2.0


def halved(acc):
    return acc * 0.5


def scaled(acc, by=2.0):
    return acc * by


def steep(acc, bias):
    return halved(F.silu(acc + bias)) * SLOPE


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.factor, self.w = 2.0, torch.randn(16, 8)

    def tail(self, acc):
        return acc * self.factor

    def forward(self, x):
        return (attacca.matmul(x, self.w, lambda acc: acc * self.factor)
                + attacca.matmul(x, self.w, self.tail))


class UnderTorchCompile(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch._dynamo.reset()
        self.x, self.w = torch.randn(6, 16), torch.randn(16, 8)

    def close(self, got, expected):
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)

    def test_numbers_that_change_between_calls(self):
        def restore():
            global slope
            slope, settings.factor, scaled.__defaults__ = 2.0, 2.0, (2.0,)
        self.addCleanup(restore)

        def change(to):
            global slope
            slope, settings.factor, scaled.__defaults__ = to, to, (to,)
        F = settings  # not torch.nn.functional
        for epilogue in (lambda acc: acc * slope, lambda acc: acc * F.factor,
                         lambda acc: acc * settings.factor, scaled, lambda acc: scaled(acc)):
            compiled = torch.compile(lambda x, epilogue=epilogue: attacca.matmul(
                x, self.w, epilogue) + 1, backend="eager")
            for number in (2.0, 9.0, -1.0):
                change(number)
                self.close(compiled(self.x), self.x @ self.w * number + 1)

    def test_variables_of_the_compiled_function(self):
        ways = {
            "a closure": lambda x, by: attacca.matmul(x, self.w, lambda acc: acc * by),
            "a default": lambda x, by: attacca.matmul(x, self.w, lambda acc, by=by: acc * by),
            "a partial": lambda x, by: attacca.matmul(x, self.w, functools.partial(scaled, by=by)),
        }
        for way, function in ways.items():
            compiled = torch.compile(function, backend="eager")
            for by in (2.0, 3.0, 4.0, 5):
                with self.subTest(way, by=by):
                    self.close(compiled(self.x, by), self.x @ self.w * by)
        by_rows = torch.compile(lambda x: attacca.matmul(
            x, self.w, lambda acc, by=x.shape[0] * 0.5: acc * by), backend="eager")
        for rows in (6, 5, 4):
            self.close(by_rows(self.x[:rows]), self.x[:rows] @ self.w * (rows * 0.5))

    def test_methods_and_modules(self):
        layer = Layer()
        compiled = torch.compile(layer, backend="eager")
        for layer.factor in (2.0, 3.0):
            self.close(compiled(self.x), self.x @ layer.w * (2 * layer.factor))
        for module in (torch.nn.ReLU(), torch.nn.GELU()):
            compiled = torch.compile(lambda x: attacca.matmul(x, self.w, module), backend="eager")
            self.close(compiled(self.x), module(self.x @ self.w))
            self.close(attacca.matmul(self.x, self.w, module), module(self.x @ self.w))

    def test_fixed_functions_stay_in_the_graph(self):
        import math
        bias = torch.randn(8)
        for epilogue, expected in (
                (steep, lambda y: F.silu(y + bias) * 0.5 * SLOPE),
                (lambda acc, bias: torch.relu(acc + bias), lambda y: torch.relu(y + bias)),
                (lambda acc, bias: acc * math.pi + bias, lambda y: y * math.pi + bias),
                (lambda acc, bias, gain=None: max(SLOPE, 1) * acc + bias,
                 lambda y: y * SLOPE + bias)):
            compiled = torch.compile(lambda x, epilogue=epilogue: attacca.matmul(
                x, self.w, epilogue, bias=bias), backend="eager", fullgraph=True)
            self.close(compiled(self.x), expected(self.x @ self.w))

    def test_one_graph_cannot_have_others(self):
        compiled = torch.compile(lambda x: attacca.matmul(x, self.w, lambda acc: acc * slope),
                                 backend="eager", fullgraph=True)
        with self.assertRaisesRegex(Exception, "give it numbers as operands"):
            compiled(self.x)

    def test_products_with_collectives(self):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        self.addCleanup(dist.destroy_process_group)
        parallel = attacca.torch
        for function in (
                lambda x, by: parallel.all_gather_matmul(x, self.w, lambda acc: acc * by),
                lambda x, by: parallel.matmul_all_reduce(x, self.w, after=lambda acc: acc * by),
                lambda x, by: parallel.matmul_reduce_scatter(x, self.w, epilogue=halved,
                                                             after=lambda acc: acc * by * 2)):
            compiled = torch.compile(function, backend="eager")
            for by in (2.0, 3.0, 4.0):
                self.close(compiled(self.x, by), self.x @ self.w * by)
        fixed = torch.compile(lambda x: parallel.matmul_all_reduce(x, self.w, halved, halved),
                              backend="eager", fullgraph=True)
        self.close(fixed(self.x), self.x @ self.w * 0.25)


if __name__ == "__main__":
    unittest.main()
