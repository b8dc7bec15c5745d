"""Regions compared with their products alone and with Inductor's code while compiling, on CPU
tensors with made-up times."""
import contextlib
import gc
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import types
import unittest
from unittest import mock

os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")
FOLDER = tempfile.TemporaryDirectory()
os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(FOLDER.name, "inductor")
os.environ["ATTACCA_CACHE_DIR"] = os.environ.get("KEEP_ATTACCA_CACHE",
                                                 os.path.join(FOLDER.name, "attacca"))

import torch
import torch.nn.functional as F
from torch import nn

import attacca.torch
import judging
import scaled_groups
from attacca._plan import Decision
from attacca.torch import _compare, _judge, _rewrite, _timing, _verdicts
from attacca.torch._graph import regions, static, surroundings
from attacca.torch._graph.nodes import operations
from attacca.torch._timing import Seconds


class Layers(nn.Module):
    """Layers of two regions each: an activation before a product, and a residual before a norm."""

    def __init__(self, layers=2, width=16, inner=32):
        super().__init__()
        self.up = nn.ModuleList(nn.Linear(width, inner) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(inner, width) for _ in range(layers))

    def forward(self, x):
        for up, down in zip(self.up, self.down):
            x = F.layer_norm(x + down(F.gelu(up(x))), x.shape[-1:])
        return x


def seconds(*microseconds):
    return [Seconds(us * 1e-6, us * 1e-6) for us in microseconds]


def tuned(share, source="measured"):
    """Decisions for kernels that take this share of the unfused path's time."""
    return lambda region, options: (Decision("kernel", source, share * 1e-6, 1e-6),)


SLIGHTLY_FASTER = tuned(0.8)

# What a comparison finds, ours first.
WINS, LOSES, UNDECIDED = seconds(10, 20), seconds(50, 20), seconds(21, 20)


def uncached():
    """Compiles even what Inductor has compiled before."""
    stack = contextlib.ExitStack()
    stack.enter_context(torch._inductor.config.patch(fx_graph_cache=False))
    stack.enter_context(torch._functorch.config.patch(enable_autograd_cache=False))
    return stack


class Compared(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch._dynamo.reset()
        attacca.torch.reset()
        self.model = Layers().eval()

    def compile(self, times, rows=5, model=None, decide=SLIGHTLY_FASTER, bare=False,
                dtype=torch.float32, **options):
        """The graph's report, with what each comparison is to find: our time, then the other."""
        torch._dynamo.reset()
        model = model or self.model
        if options.get("compare", True):  # the default is little on a busy machine
            options.setdefault("measuring_seconds", 60)
        self.inductor = []

        def compiled(made):
            self.inductor.append(made)

        def by_policy(region, options):
            skipped = region.bare and not bare
            return _compare.Verdict(False, "bare") if skipped else None
        with mock.patch.object(_rewrite, "_judge_by_policy", by_policy), \
                mock.patch.object(_rewrite, "_decisions", decide), \
                mock.patch.object(static, "compiled", compiled), \
                judging.one_by_one(), uncached(), \
                mock.patch.object(_timing, "compete",
                                  side_effect=times) as compete, torch.no_grad():
            x = torch.randn(rows, 16, dtype=dtype)
            got = torch.compile(model, backend="attacca", options=options, dynamic=False)(x)
            error = 1e-4 if dtype == torch.float32 else 5e-2
            torch.testing.assert_close(got, model(x), rtol=error, atol=error)
        self.assertEqual(compete.call_count, len(times))
        return attacca.torch.report().graphs[-1]

    def reasons(self, graph):
        return [left.reason for left in graph.left if left.op == "region"]

    # ---- Counts

    def test_equal_regions_are_measured_once(self):
        graph = self.compile([WINS, WINS])
        self.assertEqual(len(graph.fused), 4)
        self.assertEqual(graph.measuring[1:], (2, 0, 2, 0))
        self.assertEqual([fused.calls for fused in graph.fused], [1] * 4)
        # A model of more layers, and one with other weights.
        for model in (Layers(5), Layers(2)):
            graph = self.compile([], model=model.eval())
            self.assertEqual(len(graph.fused), 2 * len(model.up))
            self.assertEqual(graph.measuring[1:], (2, 2, 0, 0))

    def test_a_more_thorough_tuning_decides_again(self):
        for times, options in [([WINS, LOSES], {"tuning": "known"}), ([WINS, LOSES], {}), ([], {}),
                               ([], {"tuning": "known"}), ([WINS, WINS], {"tuning_seconds": 60}),
                               ([], {}), ([LOSES, LOSES], {"tuning": "always"})]:
            graph = self.compile(times, rows=31, **options)
            self.assertEqual(graph.measuring.known, 0 if times else 2)
        self.assertEqual(len(graph.fused), 0)

    def test_a_verdict_for_want_of_time_holds_until_there_is_more(self):
        database = pathlib.Path(os.environ["ATTACCA_CACHE_DIR"]) / "tuned.sqlite"
        short = {"measuring_seconds": 1e-6}
        in_full = [UNDECIDED, UNDECIDED, seconds(21, 22), seconds(21, 20)]
        for times, options in [([UNDECIDED, UNDECIDED], short), ([], short), (in_full, {}),
                               ([], {}), ([], short)]:
            graph = self.compile(times, 37, **options)
            self.assertEqual(graph.measuring.known, 0 if times else 2)
            self.assertEqual("the time for measuring was over" in self.reasons(graph)[0],
                             options == short and graph.fused == ())
        self.assertEqual(len(graph.fused), 2)
        for rows in (38, 38):  # another choice of kernels may have been measured
            self.compile([UNDECIDED, UNDECIDED], rows, **short)
            database.write_bytes(database.read_bytes() + b"0" if database.exists() else b"0")
            self.addCleanup(database.unlink, missing_ok=True)

    def test_kernels_known_to_be_clearly_faster_are_kept_for_want_of_time(self):
        for rows, share, source, kept in [(41, 0.7, "shipped", 4), (42, 0.7, "database", 4),
                                          (43, 0.8, "shipped", 0), (44, 0, "model", 0)]:
            graph = self.compile([UNDECIDED, UNDECIDED], rows, decide=tuned(share, source),
                                 measuring_seconds=1e-6)
            self.assertEqual(len(graph.fused), kept)
            for fused in graph.fused:
                self.assertIn("the time for measuring was over; when tuned, 0.70", fused.reason)
            # With time, Inductor is asked.
            self.compile([UNDECIDED, UNDECIDED, LOSES, LOSES], rows, decide=tuned(share, source))
            self.assertEqual(len(attacca.torch.report().graphs[-1].fused), 0)

    def test_no_more_is_compiled_than_there_is_time_for(self):
        """Inductor takes 0.7 s for each graph, and a comparison with what is around needs two."""
        clock = [0.0]

        def inductors(around):
            clock[0] += 0.7
            return inductor(around)
        inductor = _judge.inductors
        with mock.patch.object(_judge, "time", types.SimpleNamespace(monotonic=lambda: clock[0])), \
                mock.patch.object(_judge, "inductors", inductors):
            for seconds_left, compared, compiled in [(0.3, 0, 0), (2.0, 1, 1), (2.2, 2, 3)]:
                graph = self.compile([UNDECIDED, UNDECIDED, *[WINS] * compared], 45 + compared,
                                     measuring_seconds=seconds_left)
                self.assertEqual(graph.measuring.compiled, compiled)

    def test_what_is_expected_to_gain_nothing_is_not_timed(self):
        def modelled(candidate, source="model", remark=""):
            return lambda region, options: (Decision(candidate, source, 0, 0, remark=remark),)
        for candidate, source, remark, timed in [
                ("unfused", "model", "", False), ("a_template", "model", "", True),
                ("unfused absorbed=1", "model", "", True),
                ("unfused", "model", "not measured: busy", True),
                ("unfused", "database", "", True)]:
            graph = self.compile([LOSES, LOSES] if timed else [], 36, tuning="measure",
                                 decide=modelled(candidate, source, remark))
            self.assertEqual(len(self.reasons(graph)), 4)
            for reason in self.reasons(graph):
                self.assertIn("Inductor must win" if timed else "not timed: no kernel", reason)
            attacca.torch.reset()
            for path in pathlib.Path(os.environ["ATTACCA_CACHE_DIR"]).glob("torch/*.json"):
                path.unlink()

    def test_another_build_of_the_core_decides_again(self):
        def stamped(stamp):
            _verdicts._stamp_with.cache_clear()
            self.addCleanup(_verdicts._stamp_with.cache_clear)
            return mock.patch.object(_verdicts._core, "decision_stamp", lambda: stamp)
        for times, stamp in [([WINS, LOSES], "sources 1"), ([], "sources 1"),
                             ([LOSES, LOSES], "sources 2"), ([], "sources 2")]:
            with stamped(stamp):
                graph = self.compile(times, rows=41)
            self.assertEqual(graph.measuring.known, 0 if times else 2)
            self.assertEqual(len(graph.fused), 2 if stamp == "sources 1" else 0)

    def test_other_sizes_and_dtypes_are_other_regions(self):
        for rows, dtype in [(18, torch.float32), (19, torch.float32), (18, torch.bfloat16)]:
            graph = self.compile([WINS, WINS], rows, Layers(1).eval().to(dtype), dtype=dtype)
            self.assertEqual(graph.measuring[1:], (2, 0, 2, 0))

    def test_a_later_process_measures_nothing(self):
        program = """
            import sys
            from unittest import mock
            sys.path.insert(0, sys.argv[1])
            import compare_test as test
            case = test.Compared()
            case.setUp()
            times = [] if sys.argv[2] == "again" else [test.WINS, test.LOSES]
            graph = case.compile(times, rows=20)
            print(len(graph.fused), *graph.measuring[1:], case.reasons(graph)[0])
            """
        with tempfile.TemporaryDirectory() as folder:
            printed = [subprocess.run(
                [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program),
                 os.path.dirname(os.path.abspath(__file__)), which], check=True, text=True,
                stdout=subprocess.PIPE,
                env=os.environ | {"KEEP_ATTACCA_CACHE": folder}).stdout.split(" ", 5)
                for which in ("first", "again")]
        self.assertEqual(printed[0][:5], ["2", "2", "0", "2", "0"])
        self.assertEqual(printed[1][:5], ["2", "2", "2", "0", "0"])
        self.assertEqual(printed[0][5], printed[1][5])

    # ---- What decides

    def test_products_alone_decide(self):
        graph = self.compile([WINS, LOSES], rows=6)
        self.assertEqual(len(graph.fused), 2)
        self.assertRegex(graph.fused[0].reason, "it took 10.0 us, its products alone 20.0 us")
        self.assertEqual(self.inductor, [])
        for reason in self.reasons(graph):
            self.assertRegex(reason, "Inductor must win: 50.0 us, its products alone 20.0 us, and "
                                     r"the rest takes less than \d")
        self.assertAlmostEqual(graph.fused[0].saved_seconds, 11e-6, delta=1e-6)

    def test_what_they_do_not_decide_inductor_compiles(self):
        graph = self.compile([UNDECIDED, UNDECIDED, seconds(21, 22), seconds(21, 20)], rows=7)
        self.assertEqual(len(graph.fused), 2)
        # Inductor's code for the activation; for the residual with its norm, that and ours.
        self.assertEqual(graph.measuring.compiled, 3)
        self.assertEqual(len(self.inductor), 3)
        self.assertRegex(" ".join(self.reasons(graph)) + graph.fused[0].reason,
                         r"Inductor('s own| won by 5.0 %)")

    def test_a_launch_is_gained_only_where_inductor_needs_a_kernel(self):
        # 20.5 us beside 20 us and a kernel: the activation is kept, and the residual, which the
        # norm's
        # kernel may add, is compared.
        close = seconds(20.5, 20)
        graph = self.compile([close, close, seconds(30, 10)], rows=8)
        self.assertEqual(len(graph.fused), 2)
        self.assertEqual(graph.measuring.compiled, 2)

    def test_the_hosts_time_counts_too(self):
        slow = [Seconds(10e-6, 60e-6), Seconds(20e-6, 20e-6)]
        graph = self.compile([slow, slow, slow, slow], rows=9)
        self.assertEqual(graph.fused, ())
        self.assertEqual(graph.measuring.compiled, 3)

    def test_max_autotune_is_always_compared(self):
        with torch._inductor.config.patch(max_autotune_gemm=True):
            graph = self.compile([seconds(10, 20), seconds(30, 20)], rows=10)
        self.assertEqual(graph.measuring.compiled, 3)
        self.assertEqual(len(graph.fused), 2)

    def test_an_unfused_way_competes(self):
        def unfused(region, options):
            return (Decision("unfused 0", "measured", 1e-6, 1e-6),)
        self.assertEqual(len(self.compile([WINS, WINS], rows=21, decide=unfused).fused), 4)

    def test_bare_products_compete_with_atens(self):
        class Products(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(16, 24, bias=False), nn.Linear(24, 40)

            def forward(self, x):
                return self.b(self.a(x).clone().sort()[0])
        graph = self.compile([seconds(15, 20), seconds(19.9, 20)], model=Products().eval(), rows=22,
                             bare=True)
        self.assertEqual(len(graph.fused), 1)
        self.assertEqual(graph.measuring.compiled, 0)
        self.assertRegex(self.reasons(graph)[0], "no kernel is faster than ATen's: 19.9 us, its")

    # ---- Limits

    def test_the_budget(self):
        """After it the model chooses, and the verdict holds until there is twice the time."""
        given = []

        def slow(region, options):
            given.append((options.tuning, options.tuning_seconds))
            time.sleep(0.5)
            name = "measured" if options.tuning == "measure" else "model"
            return (Decision("a_template", name, 1e-6, 2e-6),)
        with mock.patch.object(_judge, "_WORKERS", 1):
            graph = self.compile([WINS, WINS], rows=11, decide=slow, measuring_seconds=2.1)
        self.assertEqual(len(graph.fused), 4)
        self.assertEqual([tuning for tuning, _ in given], ["measure", "known"])
        self.assertTrue(2.5 < given[0][1] <= 2.7)
        self.assertEqual(graph.measuring.tuned, 1)
        self.assertEqual(len(self.compile([], rows=11, measuring_seconds=0.1).fused), 4)
        # Only the other one is measured again.
        graph = self.compile([LOSES], rows=11, decide=slow, measuring_seconds=5)
        self.assertEqual(len(graph.fused), 2)

    def test_the_time_of_a_tuning(self):
        """What is left of the budget, or what was asked for."""
        options = _rewrite.Options()
        for given, seconds, limit in [(options, 2, 2), (options, 9, 5),
                                      (options._replace(tuning_seconds=30.0), 2, 30)]:
            self.assertEqual(_rewrite._within(given, seconds),
                             given._replace(tuning_seconds=limit))
        for given in (options, options._replace(tuning="always", tuning_seconds=30.0)):
            self.assertEqual(_rewrite._within(given, 0).tuning, "known")
        model = options._replace(tuning="model")
        self.assertEqual(_rewrite._within(model, 0), model)

    def test_the_default_budget_follows_inductor(self):
        options = _rewrite.Options()
        self.assertEqual(_rewrite._budget(options, None), 1)
        self.assertAlmostEqual(_rewrite._budget(options, time.monotonic() - 4), 4.8, delta=0.1)
        self.assertEqual(_rewrite._budget(options._replace(measuring_seconds=3), None), 3)

    def test_inputs_that_do_not_fit(self):
        with mock.patch.object(_timing, "input_sets",
                               side_effect=_timing.NoMemory("inputs of 9 bytes")):
            graph = self.compile([], rows=12)
        self.assertEqual(graph.fused, ())
        self.assertIn("not timed: inputs of 9 bytes", attacca.torch.report().details())

    def test_a_failure_leaves_all_to_inductor(self):
        with mock.patch.object(_timing, "input_sets", side_effect=RuntimeError("out of memory")):
            self.compile([], rows=13)
        self.assertIn("not compared with Inductor: RuntimeError: out of memory",
                      attacca.torch.report().details())

        def fails(region, options):
            raise attacca.Error("no template")
        self.compile([], rows=13, decide=fails)
        self.assertIn("no template", attacca.torch.report().details())
        self.assertEqual(len(self.compile([WINS, WINS], rows=13).fused), 4)

    def test_random_numbers_come_as_if_nothing_ran(self):
        torch.manual_seed(3)
        self.compile([WINS, WINS], rows=17)
        drawn = torch.randn(3)
        torch.manual_seed(3)
        torch.randn(17, 16)
        torch.testing.assert_close(drawn, torch.randn(3))

    def test_switched_off(self):
        graph = self.compile([], rows=14, compare=False)
        self.assertEqual(len(graph.fused), 4)
        with self.assertRaisesRegex(Exception, "give True or False"):
            torch.compile(self.model, backend="attacca", options={"compare": 1})(torch.randn(3, 16))

    def test_inductor_compiles_while_kernels_are_built(self):
        compiled, built = [], []
        all_compiled = threading.Event()

        def slow(region, options):
            """Ends when both regions are compiled, or after a minute if that waits for it."""
            all_compiled.wait(60)
            built.append(time.monotonic())
            return SLIGHTLY_FASTER(region, options)

        def inductors(around):
            compiled.append(time.monotonic())
            if len(compiled) == 2:
                all_compiled.set()
            return None, None
        with mock.patch.object(_judge, "inductors", inductors):
            graph = self.pending([WINS, WINS], slow)
        self.assertEqual(len(graph.fused), 4)
        self.assertEqual((len(compiled), len(built)), (2, 2))
        self.assertLess(max(compiled), min(built))
        self.assertEqual(graph.measuring.compiled, 2)

    def pending(self, times, decide):
        """As compile(), with Inductor's speculative compilations."""
        with mock.patch.object(_rewrite, "_judge_by_policy", lambda region, options: None), \
                mock.patch.object(_rewrite, "_decisions", decide), \
                mock.patch.object(_timing, "compete", side_effect=times), uncached(), \
                torch.no_grad():
            torch.compile(self.model, backend="attacca", dynamic=False,
                          options={"measuring_seconds": 60})(torch.randn(23, 16))
        return attacca.torch.report().graphs[-1]


class Generator:
    """PyTorch's, as far as graphs change it: a capture that fails leaves it capturing."""
    capturing = broken = False
    ended = 0


class Graph:
    def capture_begin(self, capture_error_mode):
        Generator.capturing, Generator.broken = True, False

    def capture_end(self):
        if Generator.broken:
            raise RuntimeError("invalidated")
        Generator.capturing = False
        Generator.ended += 1


class Capturing(unittest.TestCase):
    def setUp(self):
        Generator.ended, stream = 0, mock.MagicMock(device="cpu")
        patched = mock.patch.multiple(torch.cuda, CUDAGraph=Graph, Stream=lambda: stream,
                                      stream=lambda stream: contextlib.nullcontext(),
                                      current_stream=lambda: stream)
        patched.start()
        self.addCleanup(patched.stop)

    def test_launches_are_counted_and_nothing_is_collected(self):
        collects = []
        self.assertTrue(gc.isenabled())
        self.assertIsInstance(_timing.captured(lambda: collects.append(gc.isenabled()), 3), Graph)
        self.assertEqual((collects, Generator.ended), ([False] * 3, 1))
        self.assertTrue(gc.isenabled())

    def test_a_failure_leaves_no_capture(self):
        def breaks():
            Generator.broken = True

        def breaks_and_says():
            Generator.broken = True
            raise KeyError("why")
        for launch, error in ((breaks, RuntimeError), (breaks_and_says, KeyError)):
            with self.assertRaises(error):
                _timing.captured(launch)
            self.assertFalse(Generator.capturing)
            self.assertTrue(gc.isenabled())


class Parts(unittest.TestCase):
    """The parts that measure."""

    def found(self, function, *inputs, dynamic=False):
        """What a look at the regions of a compiled function gives."""
        seen = []

        def judge_all(graph, given, together, options, begun):
            with torch.utils._python_dispatch._disable_current_modes(), torch.no_grad():
                taken = {node for region in given for node in region.covers}
                for region in given:
                    near = surroundings.around(region, taken)
                    seen.append(self.look(_compare.Around(graph.owning_module, region, near)))
            return [_compare.Verdict(False, "")] * len(given), attacca.torch.Measuring()
        torch._dynamo.reset()
        with mock.patch.object(_rewrite, "_judge_all", judge_all), uncached(), torch.no_grad():
            torch.compile(function, backend="attacca", dynamic=dynamic)(*inputs)
        return seen

    def test_what_is_timed_computes_what_the_graph_does(self):
        run = _compare.Run("fp32", "known")

        def look(around):
            theirs, inductor = _compare.inductors(around)
            inputs, = _timing.input_sets(theirs.inputs)
            whole = surroundings.with_surroundings(around.region, around.near)
            ours = static.copy(around.root, whole.inputs, whole.covers, whole.outputs)
            _compare._put(ours, around.region, run)
            got, want = static.compiled(ours)(list(inputs)), inductor(list(inputs))
            for a, b in zip(got, want):
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
            own = theirs.inputs[:len(around.region.inputs)]
            sets, = _timing.input_sets(own)
            direct = _compare.called(around.region, run)(list(sets))
            alone = _compare.products_alone(around.root, around.region)
            alone.module.recompile()
            product, = alone.module(*sets)
            return len(around.near), direct.shape, product.shape
        self.look = look
        for dynamic in (False, True):
            seen = self.found(Layers(1).eval(), torch.randn(14, 16), dynamic=dynamic)
            self.assertEqual([(shape, product) for _, shape, product in seen],
                             [((14, 32), (14, 32)), ((14, 16), (14, 16))])
            self.assertEqual(seen[0][0], 0)
            self.assertGreater(seen[1][0], 3)

    def test_products_alone(self):
        def look(around):
            alone = _compare.products_alone(around.root, around.region)
            return alone and [str(node.target) for node in alone.module.graph.nodes
                              if node.op == "call_function"], _compare.is_atens(around.region)
        self.look = look
        x, w, b = torch.randn(5, 8), torch.randn(6, 8), torch.randn(6)
        [(ops, bare)] = self.found(lambda x, w, b: F.gelu(F.linear(x, w, b)), x, w, b)
        self.assertEqual((ops[-1], bare), ("aten.mm.default", False))
        [(ops, bare)] = self.found(lambda x, w, b: F.linear(x, w, b).sort()[0], x, w, b)
        self.assertEqual((ops[-1], bare), ("aten.addmm.default", True))

    def test_products_alone_begin_behind_rows_that_an_index_chooses(self):
        def look(around):
            alone = _compare.products_alone(around.root, around.region)
            ops = [str(node.target) for node in alone.module.graph.nodes
                   if node.op == "call_function"]
            return ops, [tuple(each.shape) for each in alone.inputs]
        self.look = look
        x, w, token = torch.randn(3, 8), torch.randn(8, 6), torch.tensor([0, 2, 2, 1, 0])
        [(ops, shapes)] = self.found(lambda x, w, token: F.relu(x[token] @ w), x, w, token)
        self.assertEqual(ops, ["aten.mm.default"])
        self.assertEqual(sorted(shapes[:3]), [(3, 8), (5,), (8, 6)])
        self.assertEqual(shapes[3:], [(5, 8)])

    def test_what_only_the_epilogue_reads_is_computed_before_it(self):
        self.look = lambda around: _compare._seconds_before(around.region, 1e12)
        x, w, s = torch.randn(5, 8), torch.randn(8, 8), torch.randn(5, 1)
        self.assertEqual(self.found(lambda x, w, s: F.relu(x @ w) * s, x, w, s), [0.0])
        [seconds] = self.found(lambda x, w, s: F.relu(x @ w) * (s * s).mean(-1, True), x, w, s)
        self.assertAlmostEqual(seconds, 6e-6, delta=1e-7)

    def test_equal_regions_have_equal_descriptions(self):
        self.look = lambda around: surroundings.described(
            surroundings.with_surroundings(around.region, around.near))
        first, second, third, fourth = self.found(Layers(2).eval(), torch.randn(5, 16))
        self.assertEqual((first, second), (third, fourth))
        self.assertNotEqual(first, second)
        dynamic = self.found(Layers(2).eval(), torch.randn(5, 16), dynamic=True)
        self.assertEqual(len(set(dynamic)), 2)

    def test_what_inductor_may_fuse_with_a_region(self):
        self.look = lambda around: [str(node.target).split(".")[1]
                                    for node in sorted(around.near)]
        x, w, r = torch.randn(5, 8), torch.randn(8, 8), torch.randn(5, 8)

        def first(x, w, r):
            h = F.relu(x @ w) + 1
            return h, h.sort()[0] * 2
        self.assertEqual(self.found(first, x, w, r), [[]])

        def joined(x, w, r):  # if either is left, its epilogue may be in the other's kernel
            h = F.relu(x @ w)
            return F.silu(r @ w) * h
        self.assertEqual(self.found(joined, x, w, r), [["mul"], ["relu"]])

        def scaled(x, w, r):  # the mean is read by the region alone, and computed before it
            return F.relu(x @ w) * (r * r).mean(-1, keepdim=True)
        self.assertEqual(self.found(scaled, x, w, r), [["mul", "mean"]])

        back = torch.tensor([4, 0, 2, 1, 3])

        def gathered(x, w, r):  # the rows are chosen and added in the epilogue's kernel
            return F.relu(x @ w)[back].view(5, 2, 4).sum(1)
        self.assertEqual(self.found(gathered, x, w, r), [["index", "reshape", "sum"]])

        def masked(x, w, r):
            return F.relu(x @ w)[r > 0] * 2
        self.assertEqual(self.found(masked, x, w, r), [[]])

        def normed(x, w, r):  # the product needs it too
            h = x * (x * x).mean(-1, keepdim=True)
            return F.relu(h @ w) + h
        self.assertEqual(self.found(normed, x, w, r), [[]])

    def test_made_up_inputs(self):
        with torch._subclasses.FakeTensorMode():
            fakes = [torch.empty(4, 6, dtype=torch.bfloat16).t(), torch.empty(3, dtype=torch.int64),
                     torch.empty(1, 5).expand(4, 5), torch.empty(8, dtype=torch.float8_e4m3fn)]
        made, = _timing.input_sets(fakes)
        for fake, real in zip(fakes, made):
            self.assertEqual((fake.shape, fake.stride(), fake.dtype),
                             (real.shape, real.stride(), real.dtype))
        self.assertEqual(made[1].tolist(), [0, 0, 0])

    def test_made_up_groups_are_even(self):
        graphs = []

        def keep(module, inputs):
            graphs.append(module.graph)
            return module

        def experts(x, w, offsets):
            return F.silu(torch._grouped_mm(x, w.transpose(1, 2), offs=offsets))

        def scaled(x, w, scales, of_w, offsets):
            return F.silu(torch._scaled_grouped_mm(x, w.transpose(1, 2), scales, of_w, offsets))
        x, w = torch.randn(10, 16).bfloat16(), torch.randn(4, 8, 16).bfloat16()
        offsets = torch.tensor([3, 3, 9, 10], dtype=torch.int32)
        narrow = [each.to(torch.float8_e4m3fn) for each in (x, w)]
        from torch._dynamo.backends.common import aot_autograd
        scaled_groups.register()
        for function, args in ((experts, (x, w, offsets)),
                               (scaled, (*narrow, torch.rand(10), torch.rand(4, 8), offsets))):
            with torch.no_grad():
                torch.compile(function, backend=aot_autograd(fw_compiler=keep))(*args)
            region, = regions.find(graphs[-1]).regions
            alone = _compare.products_alone(torch.nn.Module(), region)
            made, = _timing.input_sets(alone.inputs, alone.ends)
            self.assertEqual([each.tolist() for each in made if each.dtype == torch.int32],
                             [[2, 5, 7, 10]])

    def test_made_up_indices_name_rows(self):
        def layer(x, token, w, bias, group):
            return F.relu(x.index_select(0, token) @ w + bias[group])
        graphs = []

        def keep(module, inputs):
            graphs.append(module.graph)
            return module
        from torch._dynamo.backends.common import aot_autograd
        with torch.no_grad():
            torch.compile(layer, backend=aot_autograd(fw_compiler=keep))(
                torch.randn(5, 16), torch.tensor([1, 4] * 20), torch.randn(16, 8),
                torch.randn(3, 8), torch.tensor([0, 2] * 20, dtype=torch.int32))
        region, = regions.find(graphs[0]).regions
        made = static.copy(torch.nn.Module(), region.inputs, region.covers, region.outputs)
        inputs, = _timing.input_sets(made.inputs, made.ends, made.named)
        indices = {each.dtype: sorted(set(each.tolist())) for each in inputs
                   if not each.is_floating_point()}
        self.assertEqual(indices, {torch.int64: [0, 1, 2, 3, 4], torch.int32: [0, 1, 2]})

    def test_the_faster_one_takes_less(self):
        x = torch.randn(4, 4)

        def times(count):
            return lambda inputs: [inputs[0] @ inputs[0] for _ in range(count)]
        few, many = _timing.compete([times(1), times(50)], [[x]])
        self.assertLess(few.captured, many.captured)

    def test_order_of_products_by_work(self):
        graph = torch.fx.Graph()
        with torch._subclasses.FakeTensorMode():
            a, b = torch.empty(3, 5), torch.empty(5, 7)
        nodes = []
        for value in (a, b):
            nodes.append(graph.placeholder("x"))
            nodes[-1].meta["val"] = value
        product = graph.call_function(torch.ops.aten.mm.default, tuple(nodes))
        product.meta["val"] = torch.empty(3, 7)
        self.assertAlmostEqual(operations(product), 3 * 5 * 7)


if __name__ == "__main__":
    unittest.main()
