"""``parallelize_module`` under torch.compile(backend="attacca"): each rank is a process with CPU
tensors on gloo, and results are compared with the whole model in f64.

Usage: tensor_parallel_test.py [CASE]: with a case, the process is a rank.
"""
import copy
import os
import sys
import time
import unittest

# Inductor's check for vector instructions compiles for half a minute; its scalar code does here.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")

import ranks

WIDTH, INNER, HEADS, SEQUENCE = 32, 64, 4, 12
DIES, TIMEOUT = 7, 5.0


def make_block():
    """A block of Llama's form, as users write one, with random weights."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

        def forward(self, x):
            q, k, v = (each(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2)
                       for each in (self.q, self.k, self.v))
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(attended.transpose(1, 2).flatten(2))

    class Mlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
            self.down = nn.Linear(INNER, WIDTH, bias=False)

        def forward(self, x):
            return self.down(F.silu(self.gate(x)) * self.up(x))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(2))
            self.attention, self.mlp = Attention(), Mlp()

        def forward(self, x):
            x = x + self.attention(self.norms[0](x))
            return x + self.mlp(self.norms[1](x))

    torch.manual_seed(0)
    return Block().eval()


def sharded(block, mesh, by_sequence):
    """The block cut column-wise and row-wise over the mesh; with ``by_sequence``, what is between
    the products is cut along the sequence."""
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    given = {"input_layouts": Shard(1)} if by_sequence else {}
    returned = {"output_layouts": Shard(1)} if by_sequence else {}
    plan = {f"attention.{name}": ColwiseParallel(**given) for name in "qkv"}
    plan |= {f"mlp.{name}": ColwiseParallel(**given) for name in ("gate", "up")}
    plan |= {name: RowwiseParallel(**returned) for name in ("attention.out", "mlp.down")}
    if by_sequence:
        plan |= {f"norms.{i}": SequenceParallel(use_local_output=True) for i in range(2)}
    return parallelize_module(block, mesh, plan)


def compare():
    rank, count = ranks.join()
    for by_sequence in (False, True) if count == 2 else (True,):
        compare_block(rank, count, by_sequence)
    ranks.leave("compared")


def compare_block(rank, count, by_sequence):
    """Compiles the sharded block once and compares results for several batches."""
    import torch
    import torch.distributed as dist
    from torch._dynamo.utils import counters
    from torch.distributed.device_mesh import init_device_mesh

    import attacca.torch

    torch._dynamo.reset()
    counters.clear()
    block = make_block()
    whole = copy.deepcopy(block).double()
    compiled = torch.compile(sharded(block, init_device_mesh("cpu", (count,)), by_sequence),
                             backend="attacca", options={"policy": "always"}, dynamic=True)
    for batch in (2, 4, 5):  # none is the length of a rank's part of the sequence
        torch.manual_seed(batch)
        x = torch.randn(batch, SEQUENCE, WIDTH)
        with torch.no_grad():
            y = compiled(x.chunk(count, 1)[rank].contiguous() if by_sequence else x)
            wanted = whole(x.double())
        every = [torch.empty_like(y) for _ in range(count)]
        dist.all_gather(every, y.contiguous())
        if by_sequence:
            y = torch.cat(every, 1)
        else:
            assert all(torch.equal(y, other) for other in every), "ranks differ"
        torch.testing.assert_close(y.double(), wanted, rtol=1e-4, atol=1e-5)
    assert not counters["graph_break"], counters["graph_break"]
    assert counters["stats"]["unique_graphs"] == 1, counters["stats"]
    graph = attacca.torch.report().graphs[-1]
    # q, k, v and out with their biases, and both products of the gate. What follows the last one
    # is behind a collective.
    products = [sum(name.startswith(("mm", "addmm")) for name in region.nodes)
                for region in graph.fused]
    assert sorted(products) == [1, 1, 1, 1, 2], [region.nodes for region in graph.fused]
    every = [None] * count
    dist.all_gather_object(every, [region.outputs for region in graph.fused])
    assert all(each == every[0] for each in every), every


def failing(fail):
    """The last rank fails after the first call; the others' next call must raise an error."""
    import torch
    import torch.distributed as dist
    import torch.distributed._functional_collectives as funcol

    import attacca.torch  # noqa: F401

    rank, count = ranks.join(TIMEOUT)

    def product(x):
        return funcol.all_reduce(torch.relu(x @ x), "sum", dist.group.WORLD)
    compiled = torch.compile(product, backend="attacca", options={"policy": "always"})
    x = torch.randn(8, 8)
    with torch.no_grad():
        compiled(x)
        if rank == count - 1:
            fail()
        begin = time.monotonic()
        try:
            for _ in range(3):
                compiled(x)
        except RuntimeError as error:
            print(f"failed after {time.monotonic() - begin:.1f} s: {error}", flush=True)
            os._exit(0)
    raise AssertionError("no error")


def hang():
    time.sleep(4 * TIMEOUT)
    os._exit(DIES)


CASES = {"compare": compare, "dies": lambda: failing(lambda: os._exit(DIES)),
         "hangs": lambda: failing(hang)}


class TensorParallel(unittest.TestCase):
    def check(self, count):
        ranks.check(self, __file__, "compare", count)

    def test_two_ranks(self):
        self.check(2)

    def test_four_ranks(self):
        self.check(4)

    def check_failure(self, case):
        *others, failed = ranks.run(__file__, case, 2)
        self.assertEqual(failed.status, DIES, failed.output)
        for ended in others:
            self.assertEqual(ended.status, 0, ended.output)
            said = ended.output.partition("failed after ")[2]
            self.assertLess(float(said.partition(" s")[0]), TIMEOUT + 3, ended.output)

    def test_a_rank_that_dies_ends_the_others(self):
        self.check_failure("dies")

    def test_a_rank_that_hangs_ends_the_others(self):
        self.check_failure("hangs")


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1] in CASES:
        CASES[sys.argv[1]]()
    else:
        unittest.main()
