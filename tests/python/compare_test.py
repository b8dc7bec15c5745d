"""Regions and graphs compared with Inductor's own while compiling, on CPU tensors with made-up
times."""
import os
import tempfile
import unittest
from unittest import mock

os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")
FOLDER = tempfile.TemporaryDirectory()
os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(FOLDER.name, "inductor")
os.environ["ATTACCA_CACHE_DIR"] = os.path.join(FOLDER.name, "attacca")

import torch
import torch.nn.functional as F
from torch import nn

import attacca.torch
from attacca.torch import _compare, _rewrite, _timing
from attacca.torch._graph import static
from attacca.torch._timing import Seconds


class Two(nn.Module):
    """Regions of two kinds, the second twice, between norms that neither joins."""

    def __init__(self, width=16, inner=32):
        super().__init__()
        self.wide, self.narrow = nn.Linear(width, inner), nn.Linear(inner, width)
        self.more = nn.ModuleList(nn.Linear(width, width) for _ in range(2))

    def forward(self, x):
        x = F.layer_norm(x + self.narrow(F.gelu(self.wide(x))), x.shape[-1:])
        for layer in self.more:
            x = F.layer_norm(torch.relu(layer(x)), x.shape[-1:])
        return x


def seconds(*microseconds):
    return [Seconds(us * 1e-6, us * 1e-6) for us in microseconds]


class Compared(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch._dynamo.reset()
        attacca.torch.reset()
        self.model, self.x = Two().eval(), torch.randn(5, 16)
        self.compiles = 0

    def compile(self, times, rows=5, **options):
        """The graph's report, with what each comparison is to find: ours, then Inductor's."""
        def compiled(static):
            self.compiles += 1
        with mock.patch.object(_rewrite, "_judge", lambda region,
                               options: _compare.Verdict(True, "")), \
                mock.patch.object(static, "compiled", compiled), \
                mock.patch.object(_timing, "compete",
                                  side_effect=times) as compete, torch.no_grad():
            x = torch.randn(rows, 16)
            got = torch.compile(self.model, backend="attacca", options=options, dynamic=False)(x)
            torch.testing.assert_close(got, self.model(x), rtol=1e-4, atol=1e-4)
        self.assertEqual(compete.call_count, len(times))
        return attacca.torch.report().graphs[-1]

    def test_what_wins_alone_and_in_the_graph_is_kept(self):
        graph = self.compile([seconds(1, 2)] * 3 + [seconds(80, 100)])
        self.assertEqual(len(graph.fused), 4)
        self.assertRegex(graph.note, "with 4 regions 80.0 us, by Inductor alone 100.0 us")
        self.assertRegex(graph.fused[0].reason,
                         "it took 1.0 us, Inductor's own 2.0 us .with the host's part 1.0 us")
        self.assertAlmostEqual(graph.fused[0].saved_seconds, 1e-6)
        self.assertEqual([fused.calls for fused in graph.fused], [1] * 4)

    def test_what_inductor_does_better_is_its(self):
        graph = self.compile([seconds(3, 2), seconds(1, 2), seconds(2, 2), seconds(80, 100)],
                             rows=6)
        self.assertEqual(len(graph.fused), 1)
        reasons = [left.reason for left in graph.left if left.op == "region"]
        self.assertRegex(reasons[0], "Inductor won by 50.0 %: 3.0 us, Inductor's own 2.0 us")
        self.assertEqual(len(reasons), 3)

    def test_regions_are_given_up_until_the_graph_wins(self):
        graph = self.compile([seconds(1, 4), seconds(1, 3), seconds(1, 5),
                              seconds(100, 100), seconds(98, 100)], rows=7)
        self.assertEqual(len(graph.fused), 3)
        reason, = [left.reason for left in graph.left if left.op == "region"]
        self.assertRegex(reason,
                         "Inductor's whole graph won: with 4 regions 100.0 us, by Inductor alone "
                         "100.0 us")
        self.assertRegex(graph.note, "with 3 regions 98.0 us")

    def test_a_graph_that_never_wins_is_inductors(self):
        graph = self.compile([seconds(1, 4), seconds(1, 3), seconds(1, 5)] + [seconds(100, 100)]
                             * 3, rows=8)
        self.assertEqual(graph.fused, ())
        self.assertRegex(graph.note,
                         "left to Inductor: with 4 regions 100.0 us, by Inductor alone 100.0 us")

    def test_the_hosts_time_counts_too(self):
        slow_to_launch = [Seconds(80e-6, 130e-6), Seconds(100e-6, 100e-6)]
        graph = self.compile([seconds(1, 4), seconds(1, 3), seconds(1, 5)] + [slow_to_launch] * 3,
                             rows=9)
        self.assertEqual(graph.fused, ())
        fast_to_launch = [Seconds(100e-6, 130e-6), Seconds(100e-6, 180e-6)]
        graph = self.compile([fast_to_launch] * 4, rows=15)
        self.assertEqual(len(graph.fused), 4)

    def test_what_was_found_is_remembered(self):
        first = self.compile([seconds(1, 2), seconds(2, 1), seconds(1, 2), seconds(80, 100)],
                             rows=10)
        self.assertEqual(self.compiles, 2 * 3 + 2)
        torch._dynamo.reset()
        attacca.torch.reset()
        with mock.patch.dict(os.environ,
                             TORCHINDUCTOR_CACHE_DIR=os.path.join(FOLDER.name, "another")):
            again = self.compile([], rows=10)
        self.assertEqual(self.compiles, 2 * 3 + 2)
        self.assertEqual(again, first)

    def test_inputs_that_do_not_fit(self):
        with mock.patch.object(_timing, "input_sets",
                               side_effect=_timing.NoMemory("inputs of 9 bytes")):
            graph = self.compile([], rows=11)
        self.assertEqual(graph.fused, ())
        self.assertIn("not timed: inputs of 9 bytes", str(attacca.torch.report()))

    def test_graphs_that_are_not_run(self):
        for op, why in [(torch.ops.aten._assert_async.msg, "may stop it"),
                        (torch.ops._c10d_functional.all_reduce.default, "may do more than compute"),
                        (torch.ops.aten.add.Tensor, "")]:
            graph = torch.fx.Graph()
            graph.output((graph.call_function(op, (graph.placeholder("x"), 1, 2)),))
            self.assertRegex(_compare._not_to_be_run(graph), why if why else "^$")
        with mock.patch.object(_compare, "_MOST_NODES", 3):
            graph = self.compile([seconds(1, 2), seconds(2, 1), seconds(1, 2)], rows=16)
        self.assertEqual(len(graph.fused), 3)
        self.assertRegex(graph.note, r"regions alone were timed: the graph has \d+ nodes")

    def test_random_numbers_come_as_if_nothing_ran(self):
        torch.manual_seed(3)
        self.compile([seconds(1, 2)] * 3 + [seconds(80, 100)], rows=17)
        drawn = torch.randn(3)
        torch.manual_seed(3)
        torch.randn(17, 16)
        torch.testing.assert_close(drawn, torch.randn(3))

    def test_a_failure_leaves_all_to_inductor(self):
        with mock.patch.object(_timing, "input_sets", side_effect=RuntimeError("out of memory")):
            self.compile([], rows=12)
        self.assertIn("not compared with Inductor: RuntimeError: out of memory",
                      str(attacca.torch.report()))

    def test_switched_off(self):
        graph = self.compile([], rows=13, compare=False)
        self.assertEqual(len(graph.fused), 4)
        with self.assertRaisesRegex(Exception, "give True or False"):
            torch.compile(self.model, backend="attacca", options={"compare": 1})(torch.randn(3, 16))


class Timed(unittest.TestCase):
    """The parts that measure."""

    def test_copies_of_a_graph_compute_what_it_does(self):
        found = []

        def compare(graph, regions, run):
            root = graph.owning_module
            with torch.utils._python_dispatch._disable_current_modes(), torch.no_grad():
                alone, ours = static.copy_all(root, graph), _compare._rewritten(root, graph,
                                                                                regions, run)
                (inputs,), (functions) = _timing.input_sets(alone.inputs), map(static.compiled,
                                                                               (alone, ours))
                found.append([function(list(inputs)) for function in functions])
            return _compare.Verdicts([_compare.Verdict(False, "")] * len(regions), "")
        for dynamic in (False, True):
            torch._dynamo.reset()
            model = Two(24).eval()
            with mock.patch.object(_rewrite, "_judge", lambda region,
                                   options: _compare.Verdict(True, "")), \
                    mock.patch.object(_rewrite, "compare", compare), torch.no_grad():
                torch.compile(model, backend="attacca", dynamic=dynamic)(torch.randn(14, 24))
        self.assertEqual(len(found), 2)
        for alone, ours in found:
            for a, b in zip(alone, ours):
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)

    def test_made_up_inputs(self):
        with torch._subclasses.FakeTensorMode():
            fakes = [torch.empty(4, 6, dtype=torch.bfloat16).t(), torch.empty(3, dtype=torch.int64),
                     torch.empty(1, 5).expand(4, 5), torch.empty(8, dtype=torch.float8_e4m3fn)]
        made, = _timing.input_sets(fakes)
        for fake, real in zip(fakes, made):
            self.assertEqual((fake.shape, fake.stride(), fake.dtype),
                             (real.shape, real.stride(), real.dtype))
        self.assertEqual(made[1].tolist(), [0, 0, 0])

    def test_the_faster_one_takes_less(self):
        x = torch.randn(4, 4)

        def times(count):
            return lambda inputs: [inputs[0] @ inputs[0] for _ in range(count)]
        few, many = _timing.compete([times(1), times(50)], [[x]])
        self.assertLess(few.captured, many.captured)


if __name__ == "__main__":
    unittest.main()
