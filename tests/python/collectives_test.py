"""Products beside collectives under torch.compile(backend="attacca"), with PyTorch's fake process
group: one process stands for a group of two."""

import unittest

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.nn.functional as F
from torch.testing._internal.distributed.fake_pg import FakeStore

import attacca.torch

OVERLAP = {"_micro_pipeline_tp": True}


def gathered(x, w):
    return torch.relu(funcol.all_gather_tensor(x, 0, dist.group.WORLD) @ w)


def gathered_columns(x, w):
    """The gathered parts stand beside each other, which is a split and a cat."""
    parts = torch.chunk(funcol.all_gather_tensor(x, 0, dist.group.WORLD), 2)
    return torch.relu(torch.cat(parts, 1) @ torch.cat([w, w]))


def scattered(x, w):
    return torch.relu(funcol.reduce_scatter_tensor(x @ w, "sum", 0, dist.group.WORLD))


def with_both(x, w):
    """Only the first product is beside a collective."""
    h = torch.relu(funcol.all_gather_tensor(x, 0, dist.group.WORLD) @ w)
    return torch.relu(h @ w.t() + 1)


def doubled(x, w):
    """Each product of the gate gathers its rows, beside each other, by itself."""
    def rows():
        parts = torch.chunk(funcol.all_gather_tensor(x, 0, dist.group.WORLD), 2)
        return torch.cat(parts, 1)
    wide = torch.cat([w, w])
    return F.silu(rows() @ wide) * (rows() @ (2 * wide))


def crossing(x, w):
    """The product's result is summed over the ranks before the other sum, which is added to it, is
    begun."""
    y = torch.relu(funcol.all_reduce(x, "sum", dist.group.WORLD) @ w)
    first = funcol.all_reduce(y, "sum", dist.group.WORLD)
    return first, y + funcol.all_reduce(x[:, :12], "sum", dist.group.WORLD)


class Collectives(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
        cls.addClassCleanup(dist.destroy_process_group)

    def compile(self, function, options):
        """The report's last graph."""
        torch._dynamo.reset()
        attacca.torch.reset()
        x, w = torch.randn(8, 16), torch.randn(16, 12)
        with torch.no_grad():
            torch.compile(function, backend="attacca", options={"policy": "always", **options},
                          dynamic=False)(x, w)
        return attacca.torch.report().graphs[-1]

    def test_products_that_inductor_overlaps_are_left(self):
        for function, collective in ((gathered, "all_gather"), (gathered_columns, "all_gather"),
                                     (scattered, "reduce_scatter")):
            with self.subTest(function.__name__):
                graph = self.compile(function, OVERLAP)
                self.assertEqual(graph.fused, ())
                self.assertIn(f"Inductor overlaps it with {collective}",
                              [left.reason for left in graph.left])

    def test_equal_gathers_are_one(self):
        fused, = self.compile(doubled, {}).fused
        self.assertEqual(sum(name.startswith("mm") for name in fused.nodes), 2)
        self.assertEqual(self.compile(doubled, OVERLAP).fused, ())

    def test_collectives_keep_their_order(self):
        graph = self.compile(crossing, {})
        self.assertEqual(graph.fused, ())
        self.assertIn("its call would move a collective behind another",
                      [left.reason for left in graph.left])

    def test_others_are_fused(self):
        self.assertEqual(len(self.compile(with_both, OVERLAP).fused), 1)
        self.assertEqual(len(self.compile(with_both, {}).fused), 2)
        self.assertEqual(len(self.compile(gathered, {}).fused), 1)


if __name__ == "__main__":
    unittest.main()
