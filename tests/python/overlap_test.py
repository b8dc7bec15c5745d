"""Regions that become one with the collectives beside them, with options={"overlap": True}: models
that parallelize_module cut, on gloo with CPU tensors, beside the whole model in f64.

Usage: overlap_test.py [CASE]: with a case, the process is a rank.
"""
import copy
import os
import sys
import unittest

os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")

import ranks

WIDTH, INNER = 32, 64
OVERLAP = {"policy": "always", "overlap": True}


def make_mlp(bias):
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Mlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.RMSNorm(WIDTH)
            self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=bias) for _ in range(2))
            self.down = nn.Linear(INNER, WIDTH, bias=bias)

        def forward(self, x):
            h = self.norm(x)
            return x + self.down(F.silu(self.gate(h)) * self.up(h))

    torch.manual_seed(0)
    return Mlp().eval()


def sharded(mlp, count, axis):
    """Cut over the ranks; ``axis``: of the rows that are cut between the products, or None."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    given = {} if axis is None else {"input_layouts": Shard(axis)}
    returned = {} if axis is None else {"output_layouts": Shard(axis)}
    return parallelize_module(mlp, init_device_mesh("cpu", (count,)), {
        "gate": ColwiseParallel(**given), "up": ColwiseParallel(**given),
        "down": RowwiseParallel(**returned)})


def compare(shapes, axis, bias, dynamic, reasons):
    """Compiles one model for all shapes of x, and compares with the whole model and with the same
    model without overlap; ``reasons``: of the fused regions."""
    import torch
    import torch.distributed as dist
    from torch._dynamo.utils import counters

    import attacca.torch

    rank, count = dist.get_rank(), dist.get_world_size()
    torch._dynamo.reset()
    counters.clear()
    attacca.torch.reset()
    mlp = make_mlp(bias)
    whole = copy.deepcopy(mlp).double()
    mlp = sharded(mlp, count, axis)
    run = torch.compile(mlp, backend="attacca", options=OVERLAP, dynamic=dynamic)
    for shape in shapes:
        x = torch.randn(shape)
        dist.broadcast(x, 0)
        mine = x if axis is None else x.chunk(count, axis)[rank].contiguous()
        with torch.no_grad():
            y, wanted = run(mine), whole(x.double())
        if axis is not None:
            wanted = wanted.chunk(count, axis)[rank]
        torch.testing.assert_close(y.double(), wanted, rtol=1e-4, atol=1e-5)
        every = [None] * count
        dist.all_gather_object(every, y)
        if axis is None:
            assert all(torch.equal(y, each) for each in every), "ranks differ"
    assert counters["stats"]["unique_graphs"] == 1 and not counters["graph_break"], counters
    graph = attacca.torch.report().graphs[-1]
    assert [each.reason for each in graph.fused] == reasons, graph
    assert all(each.calls == len(shapes) for each in graph.fused), graph


def models():
    _, count = ranks.join()
    always, gather, scatter, reduce = ("the policy is always", "one with all_gather",
                                       "one with reduce_scatter", "one with all_reduce")
    for bias in (False, True):
        # Rows that the ranks' number divides, and rows that it does not divide.
        compare([(4 * count, WIDTH), (count + 1, WIDTH)], None, bias, True, [reduce, always])
        compare([(2, 3 * count, WIDTH)], None, bias, False, [reduce, always])
        compare([(4 * count, WIDTH), (6 * count, WIDTH)], 0, bias, True, [gather, scatter])
        compare([(1, 4 * count, WIDTH)], 1, bias, False, [gather, scatter])
    # The sequence's parts of several sequences are not evenly spaced.
    compare([(2, 4 * count, WIDTH)], 1, False, False, [always])


def left():
    """Regions beside collectives that stay as they are, and why."""
    import torch
    import torch.distributed as dist
    import torch.distributed._functional_collectives as funcol

    import attacca.torch

    ranks.join()
    group = dist.group.WORLD
    w = torch.randn(16, 12)

    def gathered(x):
        return funcol.all_gather_tensor(x, 0, group)

    def read_twice(x):
        rows = gathered(x)
        return torch.relu(rows @ w), rows + 1

    def largest(x):
        return funcol.all_reduce(torch.relu(x @ w), "max", group)

    def right_operand(x):
        return torch.relu(w.t() @ gathered(x).t())

    for function, reason in ((read_twice, "the gathered rows are read elsewhere, too"),
                             (largest, "the ranks' results are reduced by max"),
                             (right_operand, "is read by rows and whole")):
        torch._dynamo.reset()
        attacca.torch.reset()
        x = torch.randn(4, 16)
        dist.broadcast(x, 0)
        with torch.no_grad():
            y = torch.compile(function, backend="attacca", options=OVERLAP)(x)
            wanted = function(x)
        torch.testing.assert_close(y, wanted, rtol=1e-4, atol=1e-5)
        graph = attacca.torch.report().graphs[-1]
        assert any(reason in each.reason for each in graph.left), (function.__name__, graph)
        assert not any("one with" in each.reason for each in graph.fused), graph


CASES = {"models": models, "left": left}


class Overlap(unittest.TestCase):
    def check(self, case, count):
        ranks.check(self, __file__, case, count, seconds=600)

    def test_models(self):
        self.check("models", 2)

    def test_what_is_left(self):
        self.check("left", 2)


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1] in CASES:
        CASES[sys.argv[1]]()
        ranks.leave("compared")
    else:
        unittest.main()
