"""Random graphs of products, pointwise ops, views and ops that nothing fuses: rewritten, they give
the same results, and no product is computed twice."""
import random
import unittest

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from attacca.torch._graph.importer import Importer
from attacca.torch._graph.nodes import is_product_op
from attacca.torch._rewrite import Options, rewrite

SIZE = 8
UNARY = [torch.relu, torch.sigmoid, torch.tanh, torch.neg, lambda x: x * 0.5,
         lambda x: torch.clamp(x, -1, 1),
         lambda x: x.reshape(2, SIZE // 2, SIZE).relu().reshape(SIZE, SIZE), lambda x: x.t(),
         lambda x: torch.cat([a.sigmoid() for a in x.split(SIZE // 2, 1)], 1)]
BINARY = [torch.add, torch.sub, torch.mul, torch.maximum, lambda x,
          y: torch.where(x > y, x, y * 0.5)]
OPAQUE = [lambda x: torch.cumsum(x, 0) * 0.1, lambda x: torch.softmax(x, 1),
          lambda x: x - x.mean(0)]


def graph(seed):
    """A function of three matrices, its results all that nothing else reads and some that something
    does."""
    rng = random.Random(seed)
    steps = []
    for i in range(rng.randint(4, 14)):
        kind = rng.choices(["product", "unary", "binary", "opaque"], [3, 4, 4, 1])[0]
        many = {"product": 2, "binary": 2}.get(kind, 1)
        op = None if kind == "product" else rng.choice({"unary": UNARY, "binary": BINARY,
                                                        "opaque": OPAQUE}[kind])
        # Mostly recent values, so that graphs are deep.
        steps.append((kind, op,
                      [max(rng.randrange(3 + i), rng.randrange(3 + i)) for _ in range(many)]))
    extra = rng.randrange(3, 3 + len(steps))

    def function(*inputs):
        values, read = list(inputs), set()
        for kind, op, operands in steps:
            given = [values[each] for each in operands]
            read.update(operands)
            values.append(given[0] @ given[1] / SIZE if kind == "product" else op(*given))
        return tuple(v for i, v in enumerate(values) if i >= 3 and (i not in read or i == extra))
    return function


class RandomGraphs(unittest.TestCase):
    def test_rewritten_they_are_the_same(self):
        fused = 0
        for seed in range(300):
            with self.subTest(seed=seed):
                torch.manual_seed(seed)
                inputs = [torch.randn(SIZE, SIZE) for _ in range(3)]
                module = make_fx(graph(seed), tracing_mode="fake")(*inputs)
                want = module(*inputs)
                before = sum(map(is_product_op, module.graph.nodes))
                count = rewrite(module.graph, Options(policy="always"))
                module.graph.lint()
                module.recompile()
                for got, expected in zip(module(*inputs), want):
                    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
                inside = [node.args[1].count(" @ ") for node in module.graph.nodes
                          if node.op == "call_function" and Importer.op(node) == "attacca.region"]
                after = sum(map(is_product_op, module.graph.nodes))
                self.assertLessEqual(after + sum(inside), before)
                fused += count
        self.assertGreater(fused, 300)


if __name__ == "__main__":
    unittest.main()
