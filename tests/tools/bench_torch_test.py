"""The scripts of bench/gpu that launch plans of the C library beside PyTorch's products, on the
CPU: plans, operands, launches and results are real, times are made up.

Usage: bench_torch_test.py LIBATTACCA [unittest arguments].
"""
import contextlib
import os
import sys
import tempfile
import types
import unittest
from unittest import mock

import torch

LIBRARY = os.path.abspath(sys.argv.pop(1))

import on_the_host
from on_the_host import GPU, HostLibrary, OnTheHost

import attacca_side
import bytes_as_they_lie
import cases
import csv_run
import mixed
import packed_peers
import peers
import references
import references_page
import scaled_blocks
import stopwatch
import torch_bench
import tuned_plan
import user_kernel_cases
import user_kernels


class LaunchesNothing(HostLibrary):
    """A CPU plan would verify packed weights, which random ones do not pass."""

    launched = []

    def runner(self, instance, inputs, outputs, workspace, workspace_bytes):
        return lambda stream: self.launched.append((inputs, outputs))


class Scripts(unittest.TestCase):
    def setUp(self):
        on_the_host.patch(self, bytes_as_they_lie, mixed, scaled_blocks, references)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = os.path.join(folder.name, "out")

    def run_script(self, script, out, *more):
        return on_the_host.run_script(script, LIBRARY, out, *more)

    def rows(self, path):
        return csv_run.read(path)[1]

    def test_packed_weights(self):
        LaunchesNothing.launched = []
        with mock.patch.object(tuned_plan, "Library", LaunchesNothing):
            said = self.run_script(mixed, self.out, "--codes", *mixed.CODES, "--epilogues",
                                   *mixed.EPILOGUES, "--rows", "3", "--shapes", "96x128")
        self.assertEqual(said, "")
        found = self.rows(self.out)
        self.assertEqual([(row["codes"], row["epilogue"]) for row in found],
                         [(codes, epilogue) for codes in mixed.CODES
                          for epilogue in mixed.EPILOGUES])
        self.assertEqual((found[0]["kernel"], found[0]["unfused_us"]), ("some_template", "3.00"))
        self.assertEqual([bool(row["product_us"]) for row in found],
                         [row["epilogue"] != "none" for row in found])
        # Beside each epilogue, the product alone.
        self.assertEqual([len(inputs) for inputs, _ in LaunchesNothing.launched],
                         [3] * (len(mixed.CODES) * (2 * len(mixed.EPILOGUES) - 1)))

    def test_packed_weights_beside_pytorch(self):
        with mock.patch.object(tuned_plan, "Library", LaunchesNothing):
            said = self.run_script(mixed, self.out, "--torch", "--codes", *mixed.CODES, "--rows",
                                   "3",
                                   "--shapes", "96x128")
        self.assertIn("s4 (3, 128) x 96: ", said)  # its kernel needs a GPU
        self.assertEqual([bool(row["torch_us"]) for row in self.rows(self.out)],
                         [False, True, False])
        x = torch.randn(3, 256).bfloat16()
        self.assertEqual(packed_peers.autotuned_int8(x, 96, 128, 2)(1).shape, (3, 96))

    def test_bytes_as_they_lie(self):
        LaunchesNothing.launched = []
        with mock.patch.object(tuned_plan, "Library", LaunchesNothing):
            said = self.run_script(bytes_as_they_lie, self.out, "--rows", "3", "--shapes", "96x128",
                                   "--layouts", "nk", "kn")
        self.assertEqual(said, "")
        found = self.rows(self.out)
        self.assertEqual([(row["dtype"], row["layout"]) for row in found],
                         [(dtype, layout) for dtype in ("bf16", "f16") for layout in ("nk", "kn")])
        for row in found:
            self.assertEqual((row["kernel"], row["inductor_us"]), ("some_template", ""))
            self.assertGreater(float(row["converted_us"]), 0)
        self.assertEqual([len(inputs) for inputs, _ in LaunchesNothing.launched], [2] * 4)

    def test_plans_of_every_kind_of_reference(self):
        library = tuned_plan.open_library(LIBRARY, "attacca")
        for suite in references_page.TITLES:
            case = references.Case(suite, "", 16, 64, 96)
            some, out = references.operands(case), torch.zeros(16, 64, dtype=torch.bfloat16)
            text = references.GRAPHS[references.kind_of(suite)].format(n=64, k=96)
            plan = tuned_plan.of_text(library, text, {"M": 16}, 1)
            references.check(case, some, plan.launches([some], [out])(0))
            with self.assertRaisesRegex(ArithmeticError, "wrong result"):
                references.check(case, some, out + 1)

    def test_launches_walk_the_sets(self):
        library = tuned_plan.open_library(LIBRARY, "attacca")
        case = references.Case("shapes", "", 3, 16, 32)
        sets = [references.operands(case) for _ in range(3)]
        outs = [torch.zeros(3, 16, dtype=torch.bfloat16) for _ in sets]
        text = references.GRAPHS["bf16"].format(n=16, k=32)
        launch = tuned_plan.of_text(library, text, {"M": 3}, 1).launches(sets, outs)
        self.assertIs(launch(1), outs[1])
        references.check(case, sets[1], outs[1])
        self.assertFalse(outs[0].any() or outs[2].any())
        with self.assertRaisesRegex(ArithmeticError, "wrong result"):
            references.check(case, sets[0], outs[1])

    def test_scaled_blocks(self):
        shapes = [(256, 384, (4, 130, 7))]
        with mock.patch.object(scaled_blocks, "SHAPES", shapes):
            self.run_script(scaled_blocks, self.out, "--results", "bf16", "f8e4m3")
        found = self.rows(self.out)
        self.assertEqual(len(found), 3 * 3 * 2)
        self.assertEqual(found[0]["scales"], "blocks")
        self.assertTrue(all(row["attacca_us"] and row["cublas_bf16_us"] for row in found))

    def test_the_reference_systems(self):
        some = [references.Case("int8", "", 20, 64, 96), references.Case("shapes", "", 3, 8, 16),
                references.Case("shapes_s8", "", 20, 64, 96), references.Case("silu", "", 5, 8, 16),
                references.Case("tails", "O-proj", 4, 8, 16)]
        with mock.patch.object(references, "cases", lambda: some):
            said = self.run_script(references, self.out, "--autotune")
        self.assertEqual(said, "")
        found = self.rows(self.out + ".csv")
        self.assertEqual([row["suite"] for row in found], [case.suite for case in some])
        self.assertTrue(all(row[name] for row in found
                            for name in ["attacca_us", *references_page.PEERS]))
        with open(self.out + ".md", encoding="utf-8") as file:
            page = file.read()
        self.assertIn("| O-proj | 4 x 8 x 16 |", page)
        self.assertIn(" | 3.25 | 1.00 | - | `some_template` |", page)
        self.assertIn("- library: 1.00, from 1.00 to 1.00 (1 cases)", page)
        self.assertTrue(os.path.exists(self.out + ".svg"))
        with mock.patch.object(references, "cases", lambda: some):
            self.run_script(references, self.out + "2", "--suites", "int8", "silu", "--done",
                            self.out + ".csv")
        self.assertEqual(self.rows(self.out + "2.csv"), [])
        packed = os.path.join(os.path.dirname(self.out), "packed.csv")
        with open(packed, "w", encoding="utf-8") as file:
            file.write(",".join(
                mixed.COLUMNS) + "\ns4,128,none,16,64,96,5.00,,some,9.00,15.00,10.00,3.00,700\n")
        references_page.write(*references_page.read([self.out + ".csv"]), packed, self.out)
        with open(self.out + ".md", encoding="utf-8") as file:
            page = file.read()
        self.assertIn("- s4 weights: 3.00, from 3.00 to 3.00 (1 cases)", page)
        self.assertIn("- s4 weights over PyTorch's int4 kernel: 2.00, from 2.00 to 2.00 (1 cases)",
                      page)
        self.assertIn("| s4 | 16 x 64 x 96 | 5.00 | 15.00 | 10.00 | 3.00 | 700 | `some` |", page)

    def test_peers(self):
        bench, side = torch_bench.TorchBench(), attacca_side.ThroughCAbi(LIBRARY, "attacca")
        for epilogue in cases.EPILOGUES:
            row = peers.measure(cases.Case(epilogue, 5, 32, 64), bench, side,
                                ["bare_us", "eager_us", "inductor_us"], 3)
            self.assertEqual(row["notes"], "")
            self.assertTrue(row["bare_us"] == row["inductor_us"] == row["attacca_us"] > 0)
            self.assertEqual(row["attacca_unfused_us"], 1.5 * row["attacca_us"])

    def test_a_wrong_result_is_not_timed(self):
        some = [references.Case("shapes", "", 3, 8, 16)]
        with mock.patch.object(references, "cases", lambda: some), \
                mock.patch.object(references, "formula", lambda suite: lambda x, w, b: x @ w.t()):
            said = self.run_script(references, self.out)
        self.assertIn("library_us: wrong result: off by", said)
        row, = self.rows(self.out + ".csv")
        self.assertEqual((bool(row["attacca_us"]), row["library_us"]), (True, ""))


class UserKernels(unittest.TestCase):
    def test_every_pair_has_a_row_and_a_failure_its_reason(self):
        made = [user_kernel_cases.Case(name, None, (4, 8), "bf16", 0, None, {}, 1,
                                       lambda *_: "some") for name in "ab"]
        for case in made:
            case.prepare(torch)

        def measure(options, driver, case, tail, torch):
            if case.name == "b":
                raise RuntimeError("made\nto fail")
            return {"kernel": case.name, "shape": "4 x 8", "dtype": "bf16", "tail": tail.text,
                    "identical": "yes", **dict.fromkeys(("kernel_us", "eager_us", "inductor_us",
                                                         "fused_us", "fused_fp32_us"), 2.0)}
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.multiple(user_kernels, Driver=mock.Mock(), measure=measure,
                                    triton_version=lambda: "none"), \
                mock.patch.object(user_kernel_cases, "cases", lambda: made), \
                mock.patch.multiple(torch.cuda, init=mock.Mock(),
                                    get_device_name=lambda: "a CPU"), \
                OnTheHost():
            out = os.path.join(folder, "new", "out")
            self.assertEqual(user_kernels.main(["--out", out]), 1)
            found = csv_run.read(out + ".csv")[1]
            with open(out + ".md", encoding="utf-8") as file:
                self.assertIn("- b, 4 x 8, `relu(out + row(bias))`: made to fail\n", file.read())
        self.assertEqual([row["failed"] for row in found],
                         [""] * len(user_kernels.TAILS) + ["made to fail"] * len(
                             user_kernels.TAILS))
        self.assertEqual([case.arguments for case in made], [None, None])


class Event:
    def __init__(self, enable_timing):
        self.recorded = 0

    def record(self):
        self.recorded += 1

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return 0.5  # ms


class Graph:
    replays = 0

    def replay(self):
        self.replays += 1


class Stopwatch(unittest.TestCase):
    def setUp(self):
        nothing = lambda *arguments, **options: contextlib.nullcontext()
        self.waited = []
        stand_in = types.SimpleNamespace(
            Stream=lambda: types.SimpleNamespace(wait_stream=self.waited.append),
            current_stream=lambda: "the one with the operands", Event=Event, stream=nothing,
            CUDAGraph=Graph, graph=nothing,
            get_device_properties=lambda device: GPU)
        patch = mock.patch.object(torch, "cuda", stand_in)
        patch.start()
        self.addCleanup(patch.stop)

    def test_a_graph_walks_the_sets(self):
        launched = []
        timed = stopwatch.Timed(lambda i: launched.append(i) or i, 3)
        # Three to warm up; 2 ms of launches of 0.5 ms, in whole walks.
        self.assertEqual(launched, [0, 0, 0, 0, 1, 2, 0, 1, 2])
        self.assertEqual(timed.graph.replays, 1)
        self.assertEqual(self.waited, ["the one with the operands"])
        self.assertAlmostEqual(timed.once(), 500 / 6)

    def test_turns(self):
        order = []

        def contender(name, times):
            source = iter(times)
            return types.SimpleNamespace(once=lambda: order.append(name) or next(source))
        found = stopwatch.medians({"a": contender("a", [3.0, 1.0, 2.0]),
                                   "b": contender("b", [5.0, 5.0, 9.0])}, 3)
        self.assertEqual(found, {"a": 2.0, "b": 5.0})
        self.assertEqual([set(order[i:i + 2]) for i in (0, 2, 4)], [{"a", "b"}] * 3)

    def test_sets(self):
        self.assertEqual([stopwatch.sets_beyond_cache(size) for size in (1, 1000, 4000, 5000)],
                         [8, 5, 2, 1])
        self.assertEqual(stopwatch.sets_beyond_cache(100, 24), 24)


if __name__ == "__main__":
    unittest.main()
