"""Regions that a GPU may compute by one launch, on the CPU, as whose plans' decisions made-up ones
stand: what forms a group, its region's results, its place in the graph, and what decides about
it."""
import contextlib
import copy
import os
import pathlib
import random
import tempfile
import types
import unittest
from unittest import mock

os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")
FOLDER = tempfile.TemporaryDirectory()
os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(FOLDER.name, "inductor")
os.environ["ATTACCA_CACHE_DIR"] = os.path.join(FOLDER.name, "attacca")

import torch
import torch.nn.functional as F
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

import attacca
import attacca.torch
import judging
from attacca._plan import Decision
from attacca.torch import _agree, _compare, _rewrite, _timing
from attacca.torch._graph import regions, static, surroundings
from attacca.torch._graph.importer import Importer
from attacca.torch._graph.nodes import is_product_op
from attacca.torch._graph.region import region_of
from attacca.torch._graph.replace import moves_collectives, remove_unused, replace
from attacca.torch._graph.together import MOST, find_together
from attacca.torch._timing import Seconds

torch.manual_seed(0)
ALWAYS = _rewrite.Options(policy="always")
X, C = torch.randn(6, 16), torch.randn(6, 24)
WQ, WK, WV = torch.randn(24, 16), torch.randn(8, 16), torch.randn(8, 16)


def products(text):
    return text.count(" @ ") + text.count("matmul(")


def computed(graph):
    """How many products a graph computes, in regions or not."""
    return sum(products(node.args[1]) if Importer.op(node) == "attacca.region"
               else is_product_op(node)
               for node in graph.nodes if node.op == "call_function")


def launched_together(region, options):
    """Decisions as of a plan that launches all products of a region together."""
    count = products(region.graph)
    return (Decision("kernel", "measured", 1e-6, 2e-6, count),) * count


def launched_alone(region, options):
    return (Decision("kernel", "measured", 1e-6, 2e-6),) * products(region.graph)


@contextlib.contextmanager
def as_on_a_gpu(decide=launched_together):
    with mock.patch.object(_rewrite, "_LAUNCHED", ("cpu",)), \
            mock.patch.object(_rewrite, "_decisions", decide):
        yield


def traced(function, *args, mode="fake"):
    return make_fx(function, tracing_mode=mode)(*args)


def groups_of(function, *args, mode="fake"):
    graph = traced(function, *args, mode=mode).graph
    return find_together(regions.find(graph).regions)


def names(group):
    return [node.name for node in group.region.outputs]


def rotated(x):
    half = x.shape[-1] // 2
    return torch.cat([-x[..., half:], x[..., :half]], -1) * 0.5 + x


class Attention(nn.Module):
    """Llama's, with fewer heads of keys and values, or with biases as BERT's."""

    def __init__(self, bias=False):
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.q, self.o = (nn.Linear(32, 32, bias=bias) for _ in range(2))
        self.k, self.v = (nn.Linear(32, 16, bias=bias) for _ in range(2))

    def forward(self, x):
        batch, tokens, _ = x.shape
        rows = self.norm(x)
        q, k, v = (layer(rows).view(batch, tokens, -1, 8).transpose(1, 2)
                   for layer in (self.q, self.k, self.v))
        out = F.scaled_dot_product_attention(rotated(q), rotated(k), v, enable_gqa=True)
        return x + self.o(out.transpose(1, 2).reshape(batch, tokens, 32))


class Finding(unittest.TestCase):
    def test_products_of_one_input(self):
        group, = groups_of(lambda x, q, k, v: (x @ q.t(), x @ k.t(), x @ v.t()), X, WQ, WK, WV)
        self.assertEqual(names(group), ["mm", "mm_1", "mm_2"])
        self.assertEqual(group.members, (0, 1, 2))
        self.assertEqual([node.name for node in group.region.inputs],
                         ["q_1", "x_1", "k_1", "v_1"])
        self.assertTrue(group.region.bare)
        self.assertEqual([[node.name for node in part.outputs] for part in group.parts],
                         [["mm"], ["mm_1"], ["mm_2"]])

    def test_equal_views_of_one_input_are_one(self):
        def layers(x, q, k):
            return [torch.relu(F.linear(x, w)).view(2, 3, 2, -1) for w in (q, k)]
        x = torch.randn(2, 3, 16)
        group, = groups_of(layers, x, WQ, WK)
        self.assertEqual(len(group.members), 2)
        self.assertEqual(group.region.graph.count('reshape("x_1"'), 1)
        # The same shape, but not the same elements.
        self.assertEqual(groups_of(lambda x, q, k: (x.view(6, 16) @ q.t(),
                                                    x.transpose(0, 1).reshape(6, 16) @ k.t()),
                                   x, WQ, WK), [])
        self.assertEqual(groups_of(lambda x, q, k: (x[:, :3] @ q.t(), x[:, 3:] @ k.t()),
                                   torch.randn(4, 6), WQ[:, :3], WK[:, :3]), [])

    def test_with_biases(self):
        def layer(x, q, k, b, c):
            return F.linear(x, q, b), F.linear(x, k, c)
        group, = groups_of(layer, X, WQ, WK, torch.randn(24), torch.randn(8))
        self.assertFalse(group.region.bare)

    def test_symbolic_sizes(self):
        def layer(x, q, k):
            return F.linear(x, q).view(x.shape[0], x.shape[1], 4, -1), F.linear(x, k) * 2
        def both(x, q, k):
            return F.linear(x, q).view(x.shape[0], x.shape[1], 4, -1), F.linear(x, k)
        x = torch.randn(3, 5, 16)
        self.assertEqual(groups_of(layer, x, WQ, WK, mode="symbolic"), [])
        group, = groups_of(both, x, WQ, WK, mode="symbolic")
        self.assertEqual(len(group.members), 2)

    def test_what_is_not_alike(self):
        bf16 = torch.bfloat16
        for function, *weights in [
                (lambda x, q, k: (torch.relu(x @ q.t()), torch.tanh(x @ k.t())), WQ, WK),
                (lambda x, q, k: (x @ q.t() * 2, x @ k.t() * 3), WQ, WK),
                (lambda x, q, k: (x @ q.t(), x @ k), WQ, WK.t().contiguous()),
                (lambda x, q, k: (x @ q.t(), (x @ k.t()).to(bf16)), WQ, WK),
                (lambda x, q, k: (x @ q.t(), x.to(bf16) @ k.t()), WQ, WK.to(bf16)),
                (lambda x, q, k: (x @ q.t(), (x * 2) @ k.t()), WQ, WK),
                (lambda x, q, k: (x @ q.t() + q[0, 0], x @ k.t() + k[:, 0]), WQ, WK)]:
            self.assertEqual(groups_of(function, X, *weights), [])

    def test_views_of_results_are_stored_once(self):
        """Each region, too, leaves views of what it stores to others."""
        def layer(x, q, k):
            q = F.linear(x, q)
            return q.cumsum(0), q.view(6, -1, 4).cumsum(0), F.linear(x, k).view(6, -1, 4).cumsum(0)
        graph = traced(layer, X, WQ, WK).graph
        found = regions.find(graph).regions
        self.assertEqual([[node.name for node in region.outputs] for region in found],
                         [["mm"], ["view_1"]])
        group, = find_together(found)
        self.assertEqual(names(group), ["mm", "mm_1"])

    def test_a_product_that_is_stored_in_any_case(self):
        """Query and key with norms of their own, as Qwen3's: their squares are left to others."""
        def layer(x, q, k, v):
            q, k = (F.linear(x, w).view(6, -1, 4) for w in (q, k))
            q, k = (each * each.pow(2).mean(-1, keepdim=True) for each in (q, k))
            return q, k, F.linear(x, v)
        graph = traced(layer, X, WQ, WK, WV).graph
        found = regions.find(graph).regions
        self.assertIn("pow", str(found[0].outputs))
        group, = find_together(found)
        self.assertEqual(names(group), ["mm", "mm_1", "mm_2"])

    def test_the_others_of_a_projection_with_a_scale(self):
        group, = groups_of(lambda x, q, k, v: (x @ q.t() * 0.25, x @ k.t(), x @ v.t()), X, WQ, WK,
                           WV)
        self.assertEqual(names(group), ["mm_1", "mm_2"])

    def test_grouped_products_are_none(self):
        def layer(x, w, scales, of_w, ends):
            return torch.relu(torch._scaled_grouped_mm(
                x, w.mT, scales, of_w, ends, out_dtype=torch.bfloat16, use_fast_accum=True))
        eighth = torch.float8_e4m3fn
        self.assertEqual(groups_of(layer, torch.randn(6, 16).to(eighth),
                                   torch.randn(3, 32, 16).to(eighth), torch.rand(6),
                                   torch.rand(3, 32), torch.tensor([2, 2, 6], dtype=torch.int32)),
                         [])

    def test_many(self):
        weights = [torch.randn(n, 16) for n in range(2, 21)]
        found = groups_of(lambda x, *ws: [x @ w.t() for w in ws], X, *weights)
        self.assertEqual([len(group.members) for group in found], [MOST, MOST, 3])
        self.assertEqual(sorted(m for group in found for m in group.members), list(range(19)))

    def test_members_do_not_depend_on_each_other(self):
        square = [torch.randn(16, 16) for _ in range(3)]
        for function in [
                lambda x, w, c: (x @ w) + torch.cumsum(x @ w.t(), 0),
                lambda x, w, c: x @ torch.cumsum(x @ c, 0),
                # An operand of the later one, made of the earlier one or merely later.
                lambda x, w, c: ((y := x @ w + c), x @ w.t() + torch.cumsum(y, 0)),
                lambda x, w, c: (x @ w + c, x @ w.t() + torch.cumsum(c, 0)),
                lambda x, w, c: ((y := x @ w), x @ torch.cumsum(w @ y, 0)),
                lambda x, w, c: ((y := x @ w), x @ y.view(4, 4, 16).view(16, 16))]:
            self.assertEqual(groups_of(function, *square), [])

    def test_a_region_around_a_group(self):
        """One of its results is read by a member, and it reads what another member gives."""
        def function(x, y, w):
            early = torch.relu(y @ w)
            first, second = x @ early, x @ y
            return first, second, early, early + second.t()
        graph = traced(function, *[torch.randn(16, 16) for _ in range(3)]).graph
        found = regions.find(graph).regions
        self.assertCountEqual([[node.name for node in region.outputs] for region in found],
                              [["relu", "add"], ["mm_1"], ["mm_2"]])
        self.assertEqual(find_together(found), [])


class Results(unittest.TestCase):
    """The region of a group, as a plan on the CPU."""

    def check(self, function, *args, groups=1, error=1e-4):
        module = traced(function, *args)
        found = find_together(regions.find(module.graph).regions)
        self.assertEqual(len(found), groups)
        for group in found:
            given = {node.name: value for node, value in zip(
                (n for n in module.graph.nodes if n.op == "placeholder"), args)}
            values = Recorded(module).values(*args)
            inputs = [given.get(node.name, values[node.name]) for node in group.region.inputs]
            wanted = [values[node.name] for node in group.region.outputs]
            outs = [torch.full_like(want, float("nan")).contiguous() for want in wanted]
            attacca.compile(group.region.graph)(*inputs, out=outs)
            for got, want in zip(outs, wanted):
                self.assertEqual((got.shape, got.dtype), (want.shape, want.dtype))
                torch.testing.assert_close(got.double(), want.double(), rtol=error, atol=error)

    def test_random_sizes(self):
        rng = random.Random(1)
        for dtype, error in ((torch.float32, 1e-4), (torch.bfloat16, 5e-2), (torch.float16, 1e-2)):
            for _ in range(8):
                m, k = rng.randint(1, 40), rng.randint(1, 70)
                widths = [rng.randint(2, 50) for _ in range(rng.randint(2, 5))]
                x = torch.randn(m, k).to(dtype)
                weights = [(torch.randn(n, k) / k**0.5).to(dtype) for n in widths]
                biases = [torch.randn(n).to(dtype) for n in widths]
                count = len(widths)

                def bare(x, *given):
                    return [F.linear(x, w) for w in given[:count]]

                def biased(x, *given):
                    return [F.linear(x, *each) for each in zip(given[:count], given[count:])]

                def active(x, *given):
                    return [F.silu(F.linear(x, *each)) + each[1]
                            for each in zip(given[:count], given[count:])]
                for function in (bare, biased, active):
                    self.check(function, x, *weights, *biases, error=error)

    def test_views(self):
        def function(x, q, k):
            return [F.linear(x, w).view(x.shape[0], -1, 2, w.shape[0] // 2).permute(0, 2, 1, 3)
                    for w in (q, k)]
        self.check(function, torch.randn(3, 5, 16), WQ, WK)
        self.check(lambda x, q, k: [part.t() @ w for part in x.split(8)[1:] for w in (q, k)],
                   torch.randn(16, 7), torch.randn(8, 5), torch.randn(8, 9))


class Recorded(torch.fx.Interpreter):
    """Remembers the values of all nodes."""

    def values(self, *args):
        self.found = {}
        self.run(*args)
        return self.found

    def run_node(self, node):
        value = super().run_node(node)
        self.found[node.name] = value.clone() if isinstance(value, torch.Tensor) else value
        return value


class Placing(unittest.TestCase):
    def replaced(self, function, *args, mode="fake", made=None):
        """The ops of the graph with the call of its group, after its results were compared.
        ``made``: makes the region of a graph instead."""
        module = traced(function, *args, mode=mode)
        want = module(*args)
        if made is None:
            group, = find_together(regions.find(module.graph).regions)
            region = group.region
        else:
            region = made(module.graph)
        self.assertFalse(moves_collectives(region))
        replace(module.graph, region, "fp32", "known")
        remove_unused(module.graph, set(region.covers))
        module.graph.lint()
        module.recompile()
        for got, expected in zip(module(*args), want):
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
        self.assertFalse(any(is_product_op(node) for node in module.graph.nodes))
        return [Importer.op(node) for node in module.graph.nodes if node.op == "call_function"]

    def test_weights_that_are_transposed_between_the_products(self):
        def function(x, q, k):
            return torch.cumsum(x @ q.t(), 0), x @ k.view(4, 2, 16).view(8, 16).t()

        def with_views_as_inputs(graph):
            nodes = [node for node in graph.nodes if is_product_op(node)]
            return region_of(Importer(), nodes, nodes, True)
        ops = self.replaced(function, X, WQ, WK, made=with_views_as_inputs)
        self.assertEqual(ops, ["aten.t", "aten.view", "aten.view", "aten.t", "attacca.region",
                               "getitem", "getitem", "aten.cumsum"])

    def test_users_are_moved_behind_inputs_that_are_no_views(self):
        def function(x, q, k):
            return torch.cumsum(x @ q.t(), 0), x @ torch.cumsum(k, 0).t()

        def both(graph):
            nodes = [node for node in graph.nodes if is_product_op(node)]
            return region_of(Importer(), nodes, nodes, True)
        ops = self.replaced(function, X, WQ, WK, made=both)
        self.assertEqual(ops[-4:], ["attacca.region", "getitem", "getitem", "aten.cumsum"])

    def test_symbolic_views_between_the_products(self):
        def function(x, q, k):
            first = F.linear(x, q)
            return (torch.cumsum(first, 0).view(x.shape[0] * x.shape[1], -1),
                    F.linear(x, k).view(x.shape[1], x.shape[0], -1))
        ops = self.replaced(function, torch.randn(3, 5, 16), WQ, WK, mode="symbolic")
        self.assertLess(ops.index("attacca.region"), ops.index("aten.cumsum"))

    def test_users_that_come_before_another_product(self):
        def function(x, q, k, c):
            first = x @ q.t()
            early = torch.cumsum(first, 1) + c
            return early.sort()[0], first, x @ k.t()
        self.replaced(function, X, WQ, WK, C)


class RandomGraphs(unittest.TestCase):
    """Groups beside other regions in random graphs: what is rewritten gives the same results."""

    SIZE = 8

    def graph(self, rng):
        unary = [torch.relu, torch.tanh, lambda x: x * 0.5, lambda x: x.t(),
                 lambda x: x.reshape(2, 4, 8).relu().reshape(8, 8)]
        opaque = [lambda x: torch.cumsum(x, 0) * 0.1, lambda x: torch.softmax(x, 1)]
        steps = []
        for _ in range(rng.randint(4, 9)):
            kind = rng.choice(["products", "products", "unary", "sum", "opaque"])
            steps.append((kind, [rng.random() for _ in range(5)],
                          rng.choice(opaque if kind == "opaque" else unary)))

        def function(*inputs):
            values = list(inputs)
            for kind, draws, op in steps:
                given = [values[int(draw**0.5 * len(values))] for draw in draws]
                if kind == "products":
                    made = [given[0] @ (w.t() if draw > 0.5 else w) / self.SIZE
                            for w, draw in zip(given[1:4], draws)]
                    values += [op(each) if draws[4] > 0.5 else each for each in made]
                elif kind == "sum":
                    values.append(given[0] + given[1])
                else:
                    values.append(op(given[0]))
            return tuple(values[len(inputs):])
        return function

    def test_rewritten_they_are_the_same(self):
        launched = 0
        for seed in range(250):
            with self.subTest(seed=seed), as_on_a_gpu():
                torch.manual_seed(seed)
                inputs = [torch.randn(self.SIZE, self.SIZE) for _ in range(4)]
                module = traced(self.graph(random.Random(seed)), *inputs)
                want = module(*inputs)
                attacca.torch.reset()
                with mock.patch.object(_rewrite, "_LAUNCHED", ()):
                    alone = copy.deepcopy(module.graph)
                    _rewrite.rewrite(alone, ALWAYS)
                _rewrite.rewrite(module.graph, ALWAYS)
                module.graph.lint()
                module.recompile()
                for got, expected in zip(module(*inputs), want):
                    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
                self.assertLessEqual(computed(module.graph), computed(alone))
                launched += sum(fused.together > 1 for graph in attacca.torch.report().graphs
                                for fused in graph.fused)
        self.assertGreater(launched, 100)


# ---- What decides


def seconds(*microseconds):
    return [Seconds(us * 1e-6, us * 1e-6) for us in microseconds]


WINS, LOSES, UNDECIDED = seconds(10, 20), seconds(50, 20), seconds(21, 20)
THRICE = seconds(10, 30)


class Judged(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch._dynamo.reset()
        attacca.torch.reset()

    def compile(self, times, decide=launched_together, rows=5, model=None, dtype=torch.float32,
                **options):
        """The graph's report, with what each comparison is to find: our time, then the other."""
        model = (model or Attention()).eval().to(dtype)
        torch._dynamo.reset()
        options.setdefault("measuring_seconds", 60)
        if options.get("policy") == "always":
            del options["measuring_seconds"]
        x = torch.randn(2, rows, 32, dtype=dtype)

        def by_policy(region, options):
            return None
        policy = contextlib.nullcontext() if "policy" in options else mock.patch.object(
            _rewrite, "_judge_by_policy", by_policy)
        with as_on_a_gpu(decide), policy, \
                mock.patch.object(static, "compiled", lambda made: None), \
                judging.one_by_one(), \
                torch._inductor.config.patch(fx_graph_cache=False), \
                torch._functorch.config.patch(enable_autograd_cache=False), \
                mock.patch.object(_timing, "compete", side_effect=times) as compete, \
                torch.no_grad():
            got = torch.compile(model, backend="attacca", options=options, dynamic=False)(x)
            torch.testing.assert_close(got, model(x), rtol=1e-4, atol=1e-4)
        self.assertEqual(compete.call_count, len(times))
        return attacca.torch.report().graphs[-1]

    def together(self, graph):
        return [fused for fused in graph.fused if fused.together > 1]

    def left_together(self, graph):
        return [left for left in graph.left if "together" in left.op]

    def test_a_group_that_is_kept(self):
        """Beside calls of each, then beside ATen's products; then the last product alone."""
        graph = self.compile([WINS, THRICE, WINS])
        fused, = self.together(graph)
        self.assertEqual(fused.together, 3)
        self.assertEqual(fused.reason, "3 products in one launch: it took 10.0 us, its products "
                                       "alone 30.0 us")
        self.assertEqual((fused.seconds, fused.other_seconds, fused.against),
                         (*(each.captured for each in THRICE), "ATen"))
        self.assertEqual(fused.calls, 1)
        self.assertEqual(len(graph.fused), 2)
        self.assertEqual(self.left_together(graph), [])
        # Its members are not listed as left.
        self.assertEqual([left for left in graph.left if left.op == "region"], [])
        # Four products, of which key and value differ in the views of their results, and the group.
        self.assertEqual(graph.measuring[1:], (5, 0, 5, 0))
        self.assertIn("3 together", str(attacca.torch.report()))
        self.assertIn("4 regions fused", str(attacca.torch.report()))
        self.assertIn("3 products in one launch", attacca.torch.report().details())

    def test_the_verdict_is_kept_and_equal_groups_are_measured_once(self):
        two = nn.Sequential(Attention(), Attention())
        # Behind the first last product there is a norm, behind the second none.
        for times in ([WINS] * 4, []):
            graph = self.compile(times, rows=6, model=two)
            self.assertEqual([fused.together for fused in graph.fused], [3, 1, 3, 1])
        self.assertEqual(graph.measuring[1:], (6, 6, 0, 0))
        for times in ([WINS, *[LOSES] * 6], []):
            graph = self.compile(times, rows=8, model=two)
            self.assertEqual((len(graph.fused), len(self.left_together(graph))), (0, 2))

    def test_launches_of_each_that_are_faster(self):
        """The members are judged as if there were no group."""
        graph = self.compile([seconds(20, 15), WINS, WINS, LOSES, LOSES], rows=9)
        self.assertEqual([fused.together for fused in graph.fused], [1, 1])
        left, = self.left_together(graph)
        self.assertEqual(left.op, "3 products together")
        self.assertIn("a launch for each product is not slower: 20.0 us, one by one 15.0 us",
                      left.reason)
        self.assertEqual((left.own_seconds, left.seconds, left.against),
                         (*(each.captured for each in seconds(20, 15)), "launches of each"))

    def test_products_of_atens_that_are_faster(self):
        graph = self.compile([WINS, *[LOSES] * 5], rows=10)
        self.assertEqual(graph.fused, ())
        left, = self.left_together(graph)
        self.assertIn("no kernel is faster than ATen's: 50.0 us", left.reason)

    def test_what_the_plan_does_not_launch_together_is_not_timed(self):
        for times in ([WINS, WINS, LOSES, LOSES], []):
            graph = self.compile(times, launched_alone, rows=11)
            left, = self.left_together(graph)
            self.assertEqual(left.reason, "its products are not launched together")
            self.assertEqual([fused.together for fused in graph.fused], [1, 1])
        self.assertEqual(graph.measuring.known, 5)

    def test_some_of_the_products_in_one_launch(self):
        def some(region, options):
            count = products(region.graph)
            return tuple(Decision("kernel", "measured", 1e-6, 2e-6, n)
                         for n in ((1, 2, 2) if count == 3 else (1,) * count))
        graph = self.compile([WINS, WINS, LOSES], some, rows=12)
        fused, = self.together(graph)
        self.assertTrue(fused.reason.startswith("3 products in 2 launches: "), fused.reason)

    def test_epilogues_are_compared_with_inductors(self):
        class Layers(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(32, 16), nn.Linear(32, 24)

            def forward(self, x):
                return torch.cat([F.relu(self.a(x)).sort()[0], F.relu(self.b(x)).sort()[0]], -1)
        # Beside each; beside the products; beside Inductor's code.
        graph = self.compile([WINS, UNDECIDED, seconds(21, 25)], rows=13, model=Layers())
        fused, = graph.fused
        self.assertEqual((fused.together, fused.against), (2, "Inductor"))
        self.assertIn("2 products in one launch: it took 21.0 us, Inductor's own 25.0",
                      fused.reason)

    def test_kernels_of_the_members_are_tuned_first(self):
        asked = []

        def decide(region, options):
            asked.append((products(region.graph), options.tuning))
            return launched_together(region, options)
        self.compile([WINS, WINS, WINS], decide, rows=14)
        self.assertEqual(asked, [(1, "measure")] * 4 + [(3, "known")])

    def test_a_verdict_for_want_of_time(self):
        """It holds until there is more; one that the plan's choice decided, until that changes."""
        short = {"measuring_seconds": 1e-6}

        def modelled(region, options):
            return tuple(each._replace(source="model") for each in launched_together(region,
                                                                                     options))
        for times, options in [([WINS] * 3, short), ([], short), ([WINS, LOSES, WINS], {}),
                               ([], {})]:
            graph = self.compile(times, modelled, rows=18, **options)
            self.assertEqual(bool(self.together(graph)), options == short)
        database = pathlib.Path(os.environ["ATTACCA_CACHE_DIR"]) / "tuned.sqlite"
        self.addCleanup(database.unlink, missing_ok=True)
        self.compile([WINS] * 4, launched_alone, rows=19)
        database.write_bytes(b"0")
        graph = self.compile([WINS, WINS], rows=19)
        self.assertEqual([fused.together for fused in graph.fused], [3, 1])

    def test_a_member_whose_verdict_is_known(self):
        """The group is decided, and the member's verdict is used if the group is left."""
        self.compile([LOSES, *[WINS] * 4], rows=15)
        asked = []

        def decide(region, options):
            asked.append(products(region.graph))
            return launched_together(region, options)
        for path in os.scandir(os.path.join(os.environ["ATTACCA_CACHE_DIR"], "torch")):
            with open(path) as file:
                if "one by one" in file.read():
                    os.unlink(path)
        graph = self.compile([LOSES], decide, rows=15)
        self.assertEqual(asked, [3])
        self.assertEqual([fused.together for fused in graph.fused], [1, 1, 1, 1])

    def test_failures(self):
        def fails(region, options):
            if products(region.graph) > 1:
                raise attacca.Error("no template")
            return launched_alone(region, options)
        graph = self.compile([WINS] * 4, fails, rows=16)
        self.assertEqual(len(graph.fused), 4)
        self.assertEqual(self.left_together(graph)[0].reason, "no template")

    def test_the_policy_always(self):
        graph = self.compile([], rows=17, policy="always")
        fused, = self.together(graph)
        self.assertEqual(fused.reason, "3 products in one launch: the policy is always")
        graph = self.compile([], launched_alone, rows=17, policy="always")
        self.assertEqual(self.together(graph), [])
        # Products without an epilogue are left as before.
        self.assertEqual([left.reason for left in graph.left if left.op == "product"],
                         ["a product without an epilogue"] * 3)

        def some(region, options):
            return tuple(Decision("kernel", "model", 0, 0, count) for count in (2, 2, 1))
        self.assertEqual(self.together(self.compile([], some, rows=17, policy="always")), [])

    def test_where_no_groups_are_formed(self):
        for options in ({"policy": "always", "batch_invariant": True}, {"compare": False}):
            with self.subTest(options), as_on_a_gpu():
                module = traced(lambda x, q, k: (x @ q.t(), x @ k.t()), X, WQ, WK)
                _rewrite.rewrite(module.graph, _rewrite.Options(**options))
                self.assertEqual(self.together(attacca.torch.report().graphs[-1]), [])
        module = traced(lambda x, q, k: (x @ q.t(), x @ k.t()), X, WQ, WK)
        with mock.patch.object(_rewrite, "find_together") as find:
            _rewrite.rewrite(module.graph, ALWAYS)
        find.assert_not_called()  # on the CPU


class Timed(unittest.TestCase):
    """What is timed computes what the graph does."""

    def test_calls_of_each(self):
        def layer(x, q, k, b, c):
            x = torch.cumsum(x, 0).view(6, 16)
            return torch.relu(F.linear(x, q, b)), torch.relu(F.linear(x, k, c))
        module = traced(layer, torch.randn(2, 3, 16), WQ, WK, torch.randn(24), torch.randn(8))
        group, = find_together(regions.find(module.graph).regions)
        seen = []

        def compete(functions, sets):
            given, = sets
            got, want = ([each.clone() for each in function(list(given))] for function in functions)
            seen.append((got, want))
            return seconds(1, 2)
        around = _compare.Around(module, group.region, (), group.parts)
        with mock.patch.object(_timing, "compete", compete):
            self.assertIsNone(_compare.against_parts(around, _compare.Run("fp32", "known")))
        (got, want), = seen
        self.assertEqual([tuple(each.shape) for each in got], [(6, 24), (6, 8)])
        for mine, theirs in zip(got, want):
            torch.testing.assert_close(mine, theirs)
        alone = _compare.products_alone(module, group.region)
        self.assertEqual([str(node.target) for node in alone.module.graph.nodes
                          if "mm" in str(node.target)], ["aten.mm.default"] * 2)


    def test_with_the_ops_around_a_group(self):
        """As Inductor compiles them, with the call and without."""
        class Layers(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(32, 16), nn.Linear(32, 24)

            def forward(self, x):
                x = F.layer_norm(x, (32,))
                a, b = (F.relu(layer(x)).view(*x.shape[:2], -1, 4) for layer in (self.a, self.b))
                return a.mean(-1) * 2, torch.sort(a, 1)[0], b.transpose(1, 2).amax(-1)
        seen = []

        def judge_all(graph, given, together, options, begun):
            with torch.utils._python_dispatch._disable_current_modes(), torch.no_grad():
                taken = {node for region in given for node in region.covers}
                group, = together
                near = surroundings.around(group.region, taken)
                around = _compare.Around(graph.owning_module, group.region, near, group.parts)
                theirs, inductor = _compare.inductors(around)
                inputs, = _timing.input_sets(theirs.inputs)
                whole = surroundings.with_surroundings(group.region, near)
                ours = static.copy(around.root, whole.inputs, whole.covers, whole.outputs)
                _compare._put(ours, group.region, _compare.Run("fp32", "known"))
                ops = [Importer.op(node) for node in ours.module.graph.nodes
                       if node.op == "call_function"]
                seen.append((len(near), ops.count("attacca.region"), "aten.addmm" in ops))
                for got, want in zip(static.compiled(ours)(list(inputs)), inductor(list(inputs))):
                    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
            return ([_compare.Verdict(False, "")] * (len(given) + len(together)),
                    attacca.torch.Measuring())
        for dynamic in (False, True):
            torch._dynamo.reset()
            with mock.patch.object(_rewrite, "_judge_all", judge_all), as_on_a_gpu(), \
                    torch._inductor.config.patch(fx_graph_cache=False), \
                    torch._functorch.config.patch(enable_autograd_cache=False), torch.no_grad():
                torch.compile(Layers().eval(), backend="attacca", dynamic=dynamic)(
                    torch.randn(3, 5, 32))
        self.assertEqual(len(seen), 2)
        for near, calls, products_left in seen:
            self.assertGreater(near, 2)
            self.assertEqual((calls, products_left), (1, False))


class Ranks(unittest.TestCase):
    def decide(self, others, regions_):
        group = types.SimpleNamespace(group_name="a group")
        answers = iter([lambda mine: [others(mine), mine], lambda mine: [judged, mine]])
        judged = ([_compare.Verdict(True, "rank 0")] * len(regions_), attacca.torch.Measuring())
        with mock.patch.object(_agree, "ranks_of", lambda group: types.SimpleNamespace(rank=1)), \
                mock.patch.object(_agree, "on_all", lambda ranks, do: next(answers)(do())):
            return _agree.decide(group, regions_, lambda: self.fail("only rank 0 judges"), "fp32",
                                 lambda region: {})[0]

    def test_groups_are_part_of_what_ranks_agree_on(self):
        graph = traced(lambda x, q, k: (x @ q.t(), x @ k.t()), X, WQ, WK).graph
        given = []

        def decide(group, regions_, judge, mode, sizes_of):
            given.extend(regions_)
            return [_compare.Verdict(False, "")] * len(regions_), attacca.torch.Measuring()
        options = ALWAYS._replace(group=object())
        with as_on_a_gpu(), mock.patch.object(_agree, "decide", decide):
            _rewrite.rewrite(graph, options)
        self.assertEqual([products(region.graph) for region in given], [1, 1, 2])
        verdicts = self.decide(lambda mine: mine, given)
        self.assertEqual([verdict.reason for verdict in verdicts], ["rank 0"] * 3)
        verdicts = self.decide(lambda mine: mine[:-1], given)
        self.assertEqual({verdict.reason for verdict in verdicts}, {"the ranks' regions differ"})
        self.assertEqual(len(verdicts), 3)


if __name__ == "__main__":
    unittest.main()
