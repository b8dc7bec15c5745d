"""ONNX Runtime's plug-in on a GPU where there is none: a stand-in for the driver that computes
nothing, and whose device memory is host memory. What is seen is what reaches the driver: memory,
copies, streams, launches, and what happens when a call fails. cuda_plugin_checks.py compares
results on a GPU.

Needs ATTACCA_LIBCUDA (the stand-in) and ATTACCA_TEMPLATE_DIR with at least the representative few
templates.
"""
from __future__ import annotations

import ctypes
import gc
import os
import re
import subprocess
import sys
import tempfile
import threading
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = tempfile.TemporaryDirectory()
if __name__ == "__main__" and sys.argv[1:2] != ["--process"]:
    os.environ["ATTACCA_CACHE_DIR"] = FOLDER.name
os.environ["ATTACCA_LIBCUBLASLT"] = "/nowhere/x"

import attacca
import attacca.onnxruntime
import numpy as np
import onnx
import onnxruntime
from plugin_models import Feeds, Graph, Model, models
from plugin_test import assigned, set_speedup

PROVIDER = attacca.onnxruntime.PROVIDER
InvalidArgument = onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument
OUT_OF_MEMORY = 2


class Driver:
    """The stand-in."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(os.environ["ATTACCA_LIBCUDA"])
        self.library.fake_cuda_calls.restype = ctypes.c_char_p
        self.library.fake_cuda_limit.restype = ctypes.c_size_t
        self.library.fake_cuda_limit.argtypes = [ctypes.c_size_t]
        self.library.fake_cuda_name_streams(1)
        self.library.fake_cuda_check_memory(1)

    def reset(self) -> None:
        self.library.fake_cuda_reset()

    def calls(self, *names: str) -> list[str]:
        """Those since the reset, all or those whose names begin so."""
        lines = self.library.fake_cuda_calls().decode().splitlines()
        return [line for line in lines if line.startswith(names or ("",))]

    def count(self) -> int:
        return int(self.library.fake_cuda_call_count())

    def blocks(self) -> int:
        gc.collect()
        return int(self.library.fake_cuda_blocks())

    def live(self) -> int:
        gc.collect()
        return int(self.library.fake_cuda_live())

    def limit(self, total: int | None = 1 << 60) -> int:
        """Sets how much memory the device has. How much is in use."""
        return int(self.library.fake_cuda_limit(total or 1 << 60))

    def fail(self, call: int) -> None:
        self.library.fake_cuda_fail(call, OUT_OF_MEMORY)


DRIVER = Driver() if os.path.exists(os.environ["ATTACCA_LIBCUDA"]) else None


def settings_of(**options: Any) -> Any:
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    settings.log_severity_level = 4
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if options:
        attacca.onnxruntime.add_provider(settings, **options)
    return settings


def session(model: Model, **options: Any) -> Any:
    """On the GPU with every region, unless the options say otherwise."""
    given = {"device": "cuda", "policy": "always"} | options
    return onnxruntime.InferenceSession(model.data, settings_of(**given))


def named(name: str) -> Model:
    return next(each for each in models() if each.name == name)


def two_regions() -> Model:
    """Two products, the second of which waits for an op that Attacca lacks, too: they are two
    regions, and `a` goes from one to the other."""
    g = Graph(np.random.default_rng(3))
    a = g("Relu", g("MatMul", "x", g.weight(16, 16)))
    g("MatMul", g("Mul", a, g("LpPool", a, kernel_shape=[1])), g.weight(16, 8))
    return Model("two regions", g.model({"x": ["n", 2, 16]}, [g.nodes[-1].output[0]]),
                 [{"x": np.ones((n, 2, 16), np.float32)} for n in (4, 9)], 1e-5)


def streams(calls: list[str]) -> set[str]:
    return {line.rpartition(" on ")[2] for line in calls if " on " in line}


class CudaPlugin(unittest.TestCase):

    def has_shapes(self, model: Model, got: list[Any], feeds: Feeds) -> None:
        want = onnxruntime.InferenceSession(model.data, settings_of()).run(None, feeds)
        self.assertEqual([(each.shape, each.dtype) for each in got],
                         [(each.shape, each.dtype) for each in want])

    def test_models_are_claimed_and_run_on_one_stream(self) -> None:
        for model in models():
            with self.subTest(model.name):
                # A template for 16-bit products needs tensor maps, which the stand-in lacks.
                with_us = session(model, tuning="unfused" if "fp16" in model.name else "known")
                ops = assigned(with_us)
                self.assertEqual(PROVIDER in ops, model.claimed)
                for op in model.left:
                    self.assertIn(op, ops["CPUExecutionProvider"])
                for feeds in model.feeds:
                    for _ in range(3):
                        with_us.run(None, feeds)
                    DRIVER.reset()
                    got = with_us.run(None, feeds)
                    self.has_shapes(model, got, feeds)
                    self.assertEqual(len(streams(DRIVER.calls("cuLaunch"))), int(model.claimed))
                    self.assertEqual(DRIVER.calls("cuMemAlloc", "cuMemFree", "cuStreamCreate"), [])

    def test_what_reaches_the_driver_in_order(self) -> None:
        model = named("mlp")
        with_us = session(model)
        self.assertEqual(set(assigned(with_us)), {PROVIDER})
        with_us.run(None, model.feeds[0])
        DRIVER.reset()
        with_us.run(None, model.feeds[0])
        calls = [line for line in DRIVER.calls() if line != "cuCtxGetCurrent"]
        kinds = [re.sub(r"\W.*", "", line) for line in calls]
        self.assertEqual(kinds[0], "cuMemcpyHtoDAsync_v2")
        self.assertEqual(kinds[-2:], ["cuMemcpyDtoHAsync_v2", "cuStreamSynchronize"])
        self.assertEqual({kind[:14] for kind in kinds[1:-2]}, {"cuLaunchKernel"})
        self.assertEqual(len(streams(calls)), 1)
        self.assertNotEqual(streams(calls), {"0"})

    def test_values_between_regions_stay_on_the_gpu(self) -> None:
        model = two_regions()
        with_us = session(model)
        self.assertEqual(sum(part.ep_name == PROVIDER for part
                             in with_us.get_provider_graph_assignment_info()), 2)
        for feeds in model.feeds:
            DRIVER.reset()
            with_us.run(None, feeds)
            rows = len(feeds["x"])
            # x and LpPool's result; what MaxPool reads and the region's result.
            uploads, downloads = DRIVER.calls("cuMemcpyHtoD"), DRIVER.calls("cuMemcpyDtoH")
            wide, narrow = str(rows * 2 * 16 * 4), str(rows * 2 * 8 * 4)
            self.assertEqual([line.split()[1] for line in uploads], [wide, wide])
            self.assertEqual([line.split()[1] for line in downloads], [wide, narrow])

    def test_copies_carry_bytes(self) -> None:
        rng = np.random.default_rng(4)
        attacca.onnxruntime.register()
        for dtype in (np.float32, np.float16, np.int64, np.uint8, np.bool_):
            for shape in ((), (1,), (3, 1000), (0, 4), (700, 1000)):
                with self.subTest((dtype, shape)):
                    sent = rng.integers(0, 2, shape).astype(dtype)
                    on_gpu = onnxruntime.OrtValue.ortvalue_from_numpy(sent, "cuda", 0)
                    other = onnxruntime.OrtValue.ortvalue_from_shape_and_type(
                        sent.shape, sent.dtype, "cuda", 0)
                    onnxruntime.capi.onnxruntime_inference_collection.copy_tensors([on_gpu],
                                                                                   [other])
                    for each in (on_gpu, other):
                        self.assertEqual(each.device_name(), "cuda")
                        np.testing.assert_array_equal(each.numpy(), sent)

    def test_bound_values_are_not_copied(self) -> None:
        model = named("mlp, any batch")
        with_us = session(model)
        binding = with_us.io_binding()
        binding.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(
            model.feeds[0]["x"], "cuda", 0))
        binding.bind_output(with_us.get_outputs()[0].name, "cuda", 0)
        for _ in range(3):
            DRIVER.reset()
            with_us.run_with_iobinding(binding)
            self.assertEqual(DRIVER.calls("cuMemcpy"), [])
            self.assertGreater(len(DRIVER.calls("cuLaunch")), 0)
        (result,) = binding.get_outputs()
        self.assertEqual(result.device_name(), "cuda")
        self.has_shapes(model, [result.numpy()], model.feeds[0])

    def test_regions_copy_where_the_session_is_on_the_host(self) -> None:
        model = two_regions()
        settings = settings_of()
        attacca.onnxruntime.register()
        settings.add_provider_for_devices(attacca.onnxruntime.devices(),
                                          {"device": "cuda", "policy": "always"})
        with_us = onnxruntime.InferenceSession(model.data, settings)
        with_us.run(None, model.feeds[0])
        DRIVER.reset()
        self.has_shapes(model, with_us.run(None, model.feeds[0]), model.feeds[0])
        self.assertEqual(len(DRIVER.calls("cuMemcpyHtoD")), 3)
        self.assertEqual(len(DRIVER.calls("cuMemcpyDtoH")), 2)
        self.assertEqual(DRIVER.calls("cuMemAlloc", "cuStreamCreate"), [])

    def test_sizes_of_zero(self) -> None:
        model = named("block")
        with_us = session(model)
        for batch, length in ((0, 4), (2, 0), (2, 4)):
            feeds = {"x": np.ones((batch, length, 32), np.float32),
                     "mask": np.zeros((batch, 1, 1, length), np.float32)}
            self.has_shapes(model, with_us.run(None, feeds), feeds)

    def test_wrong_shapes_are_refused_and_the_session_goes_on(self) -> None:
        model = named("block")
        with_us = session(model)
        wrong = dict(model.feeds[0], mask=np.zeros((2, 1, 1, 9), np.float32))
        for _ in range(2):
            with self.assertRaisesRegex(InvalidArgument, r"Attacca: mask has shape"):
                with_us.run(None, wrong)
            self.has_shapes(model, with_us.run(None, model.feeds[0]), model.feeds[0])

    def test_every_call_may_fail_in_a_run(self) -> None:
        """The run fails with the driver's reason, or goes on where the call does not matter; the
        next run works, and nothing is lost."""
        for model in (two_regions(), named("mlp")):
            failed = self.fail_each(lambda: session(model), lambda made: made.run(
                None, model.feeds[-1]))
            reasons = [reason for reason in failed if reason]
            self.assertGreater(len(reasons), 10)
            for reason in reasons:
                self.assertRegex(reason, "OUT_OF_MEMORY|no memory|sync stream|llocat")
            attributed = [reason for reason in reasons if "OUT_OF_MEMORY" in reason]
            self.assertGreater(len(attributed), len(reasons) / 2)

    def fail_each(self, make: Callable[[], Any], run: Callable[[Any], Any]) -> list[str]:
        """The reasons with which the first run of a new session failed, each call that it makes
        failing in turn; empty where it did not."""
        for _ in range(2):
            made = make()
            DRIVER.reset()
            run(made)
            calls = DRIVER.count()
            del made
        blocks, reasons = DRIVER.blocks(), []
        for call in range(calls):
            made = make()
            DRIVER.reset()
            DRIVER.fail(call)
            try:
                run(made)
                reasons.append("")
            except Exception as error:  # noqa: BLE001
                reasons.append(str(error))
            DRIVER.reset()
            run(made)
            del made
        self.assertLessEqual(DRIVER.blocks(), blocks + 4)
        return reasons

    def test_every_call_may_fail_while_a_session_is_made(self) -> None:
        """Then Attacca takes less, or nothing, or the session says why it cannot be made."""
        model = two_regions()
        session(model)
        DRIVER.reset()
        session(model)
        claims: set[int] = set()
        for call in range(DRIVER.count()):
            DRIVER.reset()
            DRIVER.fail(call)
            try:
                made = session(model)
                DRIVER.reset()
                self.has_shapes(model, made.run(None, model.feeds[0]), model.feeds[0])
                claims.add(len(assigned(made).get(PROVIDER, [])))
                del made
            except Exception as error:  # noqa: BLE001
                self.assertRegex(str(error), "OUT_OF_MEMORY|sync stream")
        self.assertGreater(len(claims), 1)

    def test_memory_that_runs_out_is_an_error_of_the_run(self) -> None:
        model = named("mlp, any batch")
        with_us = session(model, device="cuda:1")  # no other test needs much there
        with_us.run(None, model.feeds[0])
        large = {"x": np.ones((20000, 64), np.float32)}
        try:
            for _ in range(3):
                DRIVER.limit(DRIVER.limit() + (1 << 20))
                with self.assertRaisesRegex(Exception, "no memory|OUT_OF_MEMORY|llocat"):
                    with_us.run(None, large)
                self.has_shapes(model, with_us.run(None, model.feeds[0]), model.feeds[0])
        finally:
            DRIVER.limit(None)
        self.has_shapes(model, with_us.run(None, large), large)

    def test_memory_that_is_kept_is_given_back_where_it_is_needed(self) -> None:
        model = named("mlp, any batch")
        with_us = session(model)
        rows = (70000, 20000)
        try:
            for size in rows:
                feeds = {"x": np.ones((size, 64), np.float32)}
                DRIVER.reset()
                with_us.run(None, feeds)
                DRIVER.limit(DRIVER.limit() + (1 << 20))
            self.assertGreater(len(DRIVER.calls("cuMemFree")), 0)
        finally:
            DRIVER.limit(None)

    def test_sessions_in_threads_while_others_come_and_go(self) -> None:
        cases = [named("mlp, any batch"), named("block"), two_regions()]
        shared = [(model, session(model)) for model in cases]
        failures: list[str] = []
        DRIVER.reset()

        def work(first: int) -> None:
            try:
                for turn in range(30):
                    model, with_us = shared[(first + turn) % len(shared)]
                    if turn % 6 == 0:
                        with_us = session(model)
                    for feeds in model.feeds:
                        with_us.run(None, feeds)
            except Exception as error:  # noqa: BLE001
                failures.append(repr(error))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertGreater(len(streams(DRIVER.calls("cuLaunch"))), 1)

    def test_a_session_is_given_up_while_it_runs(self) -> None:
        model = two_regions()
        settings = settings_of(device="cuda", policy="always")
        settings.intra_op_num_threads = 2
        for _ in range(5):
            gone = onnxruntime.InferenceSession(model.data, settings)
            done, found = threading.Event(), []

            def finish(results: list[Any], _data: Any, error: str) -> None:
                found.append((len(results), error))  # noqa: B023
                done.set()  # noqa: B023

            gone.run_async(None, model.feeds[0], finish, None)
            del gone
            self.assertTrue(done.wait(60))
            self.assertEqual(found, [(1, "")])

    def test_nodes_that_run_side_by_side(self) -> None:
        settings = settings_of(device="cuda", policy="always")
        settings.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
        settings.inter_op_num_threads = 3
        for model in (named("convolutions"), named("ways around"), two_regions()):
            with_us = onnxruntime.InferenceSession(model.data, settings)
            for feeds in model.feeds * 5:
                self.has_shapes(model, with_us.run(None, feeds), feeds)

    def test_a_run_per_stream_and_no_memory_shared_between_running_ones(self) -> None:
        """Two sessions that run at one time: the blocks of one are not the other's until its stream
        was waited for. Seen by the allocations that the second needs while the first has work."""
        model = named("mlp")
        first, second = session(model), session(model)
        options = onnxruntime.RunOptions()
        options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        binding = first.io_binding()
        binding.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(
            model.feeds[0]["x"], "cuda", 0))
        binding.bind_output(first.get_outputs()[0].name, "cuda", 0)
        first.run_with_iobinding(binding)
        second.run(None, model.feeds[0])
        DRIVER.reset()
        second.run(None, model.feeds[0])
        self.assertEqual(DRIVER.calls("cuMemAlloc"), [])
        DRIVER.reset()
        first.run_with_iobinding(binding, options)
        self.assertEqual(DRIVER.calls("cuStreamSynchronize", "cuCtxSynchronize"), [])
        first.run_with_iobinding(binding, options)  # on the same stream its own blocks do
        self.assertEqual(DRIVER.calls("cuMemAlloc"), [])

    def test_options_are_refused(self) -> None:
        model = named("mlp")
        attacca.onnxruntime.register()
        for device, options, message in (
                ("cuda", {"device": "cuda:1"}, "'cuda:1'.*memory of cuda:0"),
                ("cuda", {"device": "cpu"}, "'cpu'.*memory of cuda:0"),
                ("cpu", {"device": "cuda:7"}, "no cuda:7.*2 GPUs"),
                ("cpu", {"device": "cuda:x"}, "'cuda:x'.*cpu, cuda, cuda:1"),
                ("cuda", {"tuning": "never"}, "'never'.*known, measure, always, unfused, model")):
            settings = settings_of()
            settings.add_provider_for_devices(attacca.onnxruntime.devices(device), options)
            with self.subTest(options), self.assertRaisesRegex(InvalidArgument, message):
                onnxruntime.InferenceSession(model.data, settings)
        with self.assertRaisesRegex(attacca.Error, "101"):
            attacca.onnxruntime.add_provider(settings_of(), device="cuda:5")

    def test_the_second_gpu(self) -> None:
        model = named("mlp")
        first, second = session(model), session(model, device="cuda:1")
        self.assertEqual(set(assigned(second)), {PROVIDER})
        for with_us, changes in ((first, False), (second, True)):
            DRIVER.reset()
            self.has_shapes(model, with_us.run(None, model.feeds[0]), model.feeds[0])
            # Its context becomes current, then the one before.
            calls = len(DRIVER.calls("cuCtxSetCurrent"))
            self.assertEqual((calls > 0, calls % 2), (changes, 0))

    def test_without_a_device_the_cpu_is_used(self) -> None:
        model = named("mlp")
        settings = settings_of()
        attacca.onnxruntime.add_provider(settings, policy="always")
        DRIVER.reset()
        alone = onnxruntime.InferenceSession(model.data, settings_of())
        with_us = onnxruntime.InferenceSession(model.data, settings)
        (got,), (want,) = (each.run(None, model.feeds[0]) for each in (with_us, alone))
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
        self.assertEqual(DRIVER.calls(), [])

    def test_a_measurement_decides(self) -> None:
        model = named("mlp")
        folder = Path(os.environ["ATTACCA_CACHE_DIR"]) / "onnxruntime"
        made = session(model, policy="measure")
        self.assertGreater(sum(b"Fake 0 known" in path.read_bytes() for path in folder.iterdir()),
                           0)
        del made
        for speedup, claims in ((b"9.5", True), (b"0.5", False)):
            for _ in range(2):  # the parts are measured once the whole is not claimed
                for path in folder.iterdir():
                    set_speedup(path, speedup)
                found = process("claims")
            self.assertEqual(found, str(claims))

    def test_a_saved_model_runs_on_the_gpu(self) -> None:
        model = named("block")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "saved.onnx"
            settings = settings_of(device="cuda", policy="always")
            settings.add_session_config_entry("ep.context_enable", "1")
            settings.add_session_config_entry("ep.context_file_path", str(path))
            onnxruntime.InferenceSession(model.data, settings)
            saved = onnx.load(path)
            self.assertEqual([node.op_type for node in saved.graph.node], ["EPContext"])
            again = model._replace(data=path.read_bytes())
            loaded = session(again, policy="measure", measure_seconds=0)
            self.assertEqual(set(assigned(loaded)), {PROVIDER})
            self.has_shapes(model, loaded.run(None, model.feeds[0]), model.feeds[0])

    def test_all_is_given_back(self) -> None:
        self.assertEqual(process("ends"), "0 blocks, 0 objects")

    def test_a_device_that_cannot_be_opened(self) -> None:
        self.assertRegex(process("cannot open"), "^(INVALID_ARGUMENT : Attacca: cu[A-Za-z_2]+: "
                                                 "CUDA_ERROR_OUT_OF_MEMORY; ){10,}made$")

    def test_registering_opens_no_device(self) -> None:
        self.assertEqual(process("register"), "cuInit cuDriverGetVersion cuDeviceGetCount")

    def test_without_a_driver(self) -> None:
        self.assertRegex(process("no driver", ATTACCA_LIBCUDA="/nowhere/libcuda.so.1"),
                         r"\[\] .*/nowhere/libcuda.so.1")


def process(what: str, *arguments: str, **environment: str) -> str:
    """What a process of its own prints."""
    done = subprocess.run([sys.executable, __file__, "--process", what, *arguments], check=True,
                          env=dict(os.environ, **environment), stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def claims() -> str:
    return str(PROVIDER in assigned(session(named("mlp"), policy="measure")))


def ends() -> str:
    for model in (named("mlp"), two_regions()):
        made = session(model)
        for feeds in model.feeds:
            made.run(None, feeds)
        del made
    gc.collect()
    onnxruntime.unregister_execution_provider_library("Attacca")
    return f"{DRIVER.blocks()} blocks, {DRIVER.live()} objects"


def register() -> str:
    attacca.onnxruntime.register()
    return " ".join(DRIVER.calls())


def cannot_open() -> str:
    """What sessions say while each call that opens the device fails in turn."""
    model, reasons = named("mlp"), ""
    attacca.onnxruntime.register()
    for call in range(100):
        DRIVER.reset()
        DRIVER.fail(call)
        try:
            session(model)
            return reasons + "made"
        except InvalidArgument as error:
            reason, = re.findall(r"INVALID_ARGUMENT : Attacca: \w+: \w+", str(error))
            reasons += reason + "; "
    return reasons


def no_driver() -> str:
    attacca.onnxruntime.register()
    try:
        attacca.onnxruntime.add_provider(settings_of(), device="cuda")
        return "no error"
    except attacca.Error as error:
        return f"{attacca.onnxruntime.devices('cuda')} {error}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--process"]:
        print({"claims": claims, "ends": ends, "register": register,
               "cannot open": cannot_open, "no driver": no_driver}[sys.argv[2]](*sys.argv[3:]))
        sys.exit(0)
    sys.exit(unittest.main())
