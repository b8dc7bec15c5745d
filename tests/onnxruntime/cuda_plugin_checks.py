"""ONNX Runtime's plug-in on a GPU: the models of plugin_models.py against ONNX Runtime's CPU
results, values that stay on the GPU, two sessions in threads, and times.

Usage: PYTHONPATH=build/python cuda_plugin_checks.py [--times], with a GPU, onnxruntime, onnx and
what `make gpu` built. Exits 1 if a check fails. --times adds times: with the session's tensors in
the GPU's memory, with bound inputs and outputs, with regions that copy (a session on the host), and
on the CPU.
"""
from __future__ import annotations

import statistics
import sys
import threading
import time
import unittest
from collections.abc import Callable
from typing import Any

import attacca
import attacca.onnxruntime
import numpy as np
import onnxruntime
from onnx import TensorProto
from plugin_models import Graph, Model, mlp, models

PROVIDER = attacca.onnxruntime.PROVIDER


def session(model: Model, on: str) -> Any:
    """`on`: "gpu"; "host": its regions run on the GPU, its tensors are on the host; "cpu": ONNX
    Runtime alone."""
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if on == "gpu":
        attacca.onnxruntime.add_provider(settings, device="cuda", policy="always")
    elif on == "host":
        attacca.onnxruntime.register()
        settings.add_provider_for_devices(attacca.onnxruntime.devices(),
                                          {"device": "cuda", "policy": "always"})
    return onnxruntime.InferenceSession(model.data, settings)


def tolerance(model: Model) -> float:
    """f32 products on a GPU sum in another order, and may round their operands to fewer bits."""
    return max(model.tolerance, 2e-3)


class Checks(unittest.TestCase):

    def close(self, model: Model, got: list[Any], want: list[Any]) -> None:
        self.assertEqual(len(got), len(want))
        for mine, theirs in zip(got, want):
            self.assertEqual((mine.shape, mine.dtype), (theirs.shape, theirs.dtype))
            if mine.size:
                a, b = mine.astype(np.float64), theirs.astype(np.float64)
                self.assertTrue(np.all(np.isfinite(a) == np.isfinite(b)))
                self.assertLessEqual(np.max(np.abs(a - b)), tolerance(model) * np.max(np.abs(b)))

    def test_results_are_those_of_the_cpu(self) -> None:
        for model in models():
            for on in ("gpu", "host"):
                with self.subTest((model.name, on)):
                    with_us, alone = session(model, on), session(model, "cpu")
                    parts = with_us.get_provider_graph_assignment_info()
                    self.assertEqual(any(part.ep_name == PROVIDER for part in parts), model.claimed)
                    for feeds in model.feeds * 2:
                        self.close(model, with_us.run(None, feeds), alone.run(None, feeds))

    def test_copies_carry_bytes(self) -> None:
        attacca.onnxruntime.register()
        rng = np.random.default_rng(1)
        for shape in ((), (3, 1000), (0, 4), (3000, 1000)):
            sent = rng.standard_normal(shape).astype(np.float32)
            value = onnxruntime.OrtValue.ortvalue_from_numpy(sent, "cuda", 0)
            self.assertEqual(value.device_name(), "cuda")
            np.testing.assert_array_equal(value.numpy(), sent)

    def test_bound_values(self) -> None:
        for model in models():
            if len(model.feeds[0]) != 1 or model.left:
                continue
            with self.subTest(model.name):
                run, binding = bound(session(model, "gpu"), model)
                for _ in range(3):
                    run()
                self.close(model, [each.numpy() for each in binding.get_outputs()],
                           session(model, "cpu").run(None, model.feeds[0]))

    def test_sessions_in_threads(self) -> None:
        names = ("mlp, any batch", "block", "convolutions", "llama_script")
        cases = [each for each in models() if each.name in names]
        shared = [(model, session(model, "gpu"),
                   [session(model, "cpu").run(None, feeds) for feeds in model.feeds])
                  for model in cases]
        failures: list[str] = []

        def work(first: int) -> None:
            try:
                for turn in range(100):
                    model, with_us, wants = shared[(first + turn) % len(shared)]
                    if turn % 25 == 24:
                        with_us = session(model, "gpu")
                    for feeds, want in zip(model.feeds, wants):
                        self.close(model, with_us.run(None, feeds), want)
            except Exception as error:  # noqa: BLE001
                failures.append(repr(error))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])


def bound(made: Any, model: Model) -> tuple[Callable[[], Any], Any]:
    """A run with inputs and outputs on the GPU."""
    binding = made.io_binding()
    for name, array in model.feeds[0].items():
        on_gpu = onnxruntime.OrtValue.ortvalue_from_numpy(array, "cuda", 0)
        binding.bind_ortvalue_input(name, on_gpu)
    for output in made.get_outputs():
        binding.bind_output(output.name, "cuda", 0)
    return (lambda: made.run_with_iobinding(binding)), binding


def unbound(made: Any, model: Model) -> Callable[[], Any]:
    return lambda: made.run(None, model.feeds[0])


def median_ms(run: Callable[[], Any]) -> float:
    run()
    run()
    times = []
    for _ in range(30):
        begin = time.perf_counter()
        run()
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)


def layers(rows: int, width: int, count: int) -> Model:
    rng = np.random.default_rng(7)
    g = Graph(rng, TensorProto.FLOAT16)
    x = "x"
    for _ in range(count):
        x = g("Add", x, g("MatMul", g.gelu(g("MatMul", x, g.weight(width, 4 * width))),
                          g.weight(4 * width, width)))
    return Model(f"{count} layers of {rows} x {width}", g.model({"x": ["n", width]}, [x]),
                 [{"x": rng.standard_normal((rows, width)).astype(np.float16)}], 1e-2)


def print_times() -> None:
    data, feeds = mlp(np.random.default_rng(1), TensorProto.FLOAT16, "batch", [64])
    print("model: on the GPU, bound, copied by regions, on the CPU alone (ms, median of 30)")
    for model in (Model("mlp, fp16", data, feeds, 3e-3), layers(512, 1024, 6), layers(8, 2048, 6)):
        runs = [unbound(session(model, "gpu"), model), bound(session(model, "gpu"), model)[0],
                unbound(session(model, "host"), model), unbound(session(model, "cpu"), model)]
        times = [median_ms(run) for run in runs]
        print(f"{model.name}: " + ", ".join(f"{each:.3f}" for each in times), flush=True)


if __name__ == "__main__":
    attacca.onnxruntime.register()
    arguments = [each for each in sys.argv if each != "--times"]
    passed = unittest.main(argv=arguments, exit=False).result.wasSuccessful()
    if "--times" in sys.argv:
        print_times()
    sys.exit(not passed)
