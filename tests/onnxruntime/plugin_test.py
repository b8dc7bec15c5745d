"""Attacca as ONNX Runtime's execution provider against ONNX Runtime alone."""
from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Any

import attacca.onnxruntime
import numpy as np
import onnx.parser
import onnxruntime
from plugin_models import Graph, Model, models

PROVIDER = attacca.onnxruntime.PROVIDER
NotImplementedHere = onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented
InvalidArgument = onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument


def session(model: Model, severity: int = 3, **options: Any) -> Any:
    """With Attacca if there are options, else ONNX Runtime alone."""
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    settings.log_severity_level = severity
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    # Else sums of products of bytes saturate on CPUs without VNNI.
    settings.add_session_config_entry("session.x64quantprecision", "1")
    if options:
        attacca.onnxruntime.add_provider(settings, **options)
    return onnxruntime.InferenceSession(model.data, settings)


def assigned(of: Any) -> dict[str, list[str]]:
    """The ops that each provider got."""
    ops: dict[str, list[str]] = {}
    for part in of.get_provider_graph_assignment_info():
        ops.setdefault(part.ep_name, []).extend(node.op_type for node in part.get_nodes())
    return ops


class Plugin(unittest.TestCase):

    def close(self, model: Model, got: Any, want: Any) -> None:
        self.assertEqual(len(got), len(want))
        for mine, theirs in zip(got, want):
            self.assertEqual((mine.shape, mine.dtype), (theirs.shape, theirs.dtype))
            if not mine.size:
                continue
            a, b = mine.astype(np.float64), theirs.astype(np.float64)
            self.assertLessEqual(np.max(np.abs(a - b)), model.tolerance * np.max(np.abs(b)))

    def test_results_are_those_of_onnxruntime(self) -> None:
        for model in models():
            with self.subTest(model.name):
                alone, with_us = session(model), session(model, policy="always")
                ops = assigned(with_us)
                for op in model.left:
                    self.assertIn(op, ops["CPUExecutionProvider"])
                self.assertEqual(PROVIDER in ops, model.claimed)
                for feeds in model.feeds:
                    self.close(model, with_us.run(None, feeds), alone.run(None, feeds))

    def test_a_size_may_be_zero(self) -> None:
        (model,) = (each for each in models() if each.name == "block")
        alone, with_us = session(model), session(model, policy="always")
        for batch, length in ((0, 4), (2, 0), (2, 4)):
            feeds = {"x": np.ones((batch, length, 32), np.float32),
                     "mask": np.zeros((batch, 1, 1, length), np.float32)}
            self.close(model, with_us.run(None, feeds), alone.run(None, feeds))

    def test_different_symbols_may_broadcast(self) -> None:
        """ONNX Runtime broadcasts a size that is 1 only at run time."""
        rng = np.random.default_rng(7)
        g = Graph(rng)
        y = g("Relu", g("Add", g("MatMul", "x", g.weight(8, 6)), "r"))
        data = g.model({"x": ["rows", 8], "r": ["others", 6]}, [y])
        feeds = [{"x": rng.standard_normal((5, 8)).astype(np.float32),
                  "r": rng.standard_normal((rows, 6)).astype(np.float32)} for rows in (5, 1)]
        model = Model("broadcast", data, feeds, 1e-5)
        alone, with_us = session(model), session(model, policy="always")
        self.assertIn("MatMul", assigned(with_us)[PROVIDER])
        for each in feeds:
            self.close(model, with_us.run(None, each), alone.run(None, each))

    def test_wrong_shapes_are_refused_and_the_session_goes_on(self) -> None:
        (model,) = (each for each in models() if each.name == "block")
        with_us = session(model, policy="always")
        (want,) = with_us.run(None, model.feeds[0])
        wrong = dict(model.feeds[0], mask=np.zeros((2, 1, 1, 9), np.float32))
        with self.assertRaisesRegex(InvalidArgument,
                                    r"Attacca: mask has shape \(2, 1, 1, 9\) where the region "
                                    r"takes \(2, 1, 1, 7\), at mask: give"):
            with_us.run(None, wrong)
        np.testing.assert_array_equal(with_us.run(None, model.feeds[0])[0], want)

    def test_wrong_options_are_refused(self) -> None:
        model = next(iter(models()))
        for options, message in (({"policy": "sometimes"}, "'sometimes'.*measure or always"),
                                 ({"mode": "fp64"}, "'fp64'.*fp32 or eager"),
                                 ({"threads": -1}, "'-1'.*all cores"),
                                 ({"dims": {"batch": 0}}, "'batch=0'.*batch=8,seq=128"),
                                 ({"measure_seconds": -1}, "not negative")):
            with self.subTest(options), self.assertRaisesRegex(InvalidArgument, message):
                session(model, **options)
        settings = onnxruntime.SessionOptions()
        with self.assertRaisesRegex(InvalidArgument, "no option 'polcy'.*its options are policy"):
            settings.add_provider_for_devices(attacca.onnxruntime.devices(), {"polcy": "always"})
            onnxruntime.InferenceSession(model.data, settings)

    def test_slices_of_axes_without_elements(self) -> None:
        rng = np.random.default_rng(7)
        for begin, end in ((1, 3), (1, 2**63 - 1), (0, 1), (0, 3)):
            graph = onnx.parser.parse_model(
                f"""<ir_version: 9, opset_import: ["" : 18]>
                   g (float[B, S, 4] x, float[4, 5] w) => (float y)
                   <int64[1] begin = {{{begin}}}, int64[1] end = {{{end}}}, int64[1] one = {{1}}> {{
                     v = Slice (x, begin, end, one) y = MatMul (v, w) }}""")
            feeds = [{"x": rng.standard_normal((1, length, 4), np.float32),
                      "w": rng.standard_normal((4, 5), np.float32)} for length in (0, 1, 2, 6)]
            model = Model("slices", graph.SerializeToString(), feeds, 1e-5)
            with_us = session(model, policy="always")
            self.assertIn("MatMul", assigned(with_us)[PROVIDER])
            for each in feeds:
                self.close(model, with_us.run(None, each), session(model).run(None, each))

    def test_sizes_of_no_dimension_are_warned_of(self) -> None:
        (model,) = (each for each in models() if each.name == "mlp, any batch")
        for dims, warned in (({"batch": 8}, []), ({"Batch": 8, "seq": 4}, ["Batch", "seq"])):
            with tempfile.TemporaryFile() as log:
                saved = os.dup(2)
                os.dup2(log.fileno(), 2)
                try:
                    session(model, severity=2, policy="always", dims=dims)
                finally:
                    os.dup2(saved, 2)
                    os.close(saved)
                log.seek(0)
                found = re.findall(rb"Attacca ignores dims: the model has no dimension '(\w+)'",
                                   log.read())
            self.assertEqual([name.decode() for name in found], warned)

    def test_a_named_region_that_depends_on_itself_is_left(self) -> None:
        attacca.onnxruntime.register()
        (model,) = (each for each in models() if each.name == "captured")
        for nodes, claims in (("MatMul_0;MatMul_2", 2), ("MatMul_0,MatMul_2", 0)):
            settings = onnxruntime.SessionOptions()
            settings.log_severity_level = 4
            settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
            settings.add_provider_for_devices(attacca.onnxruntime.devices(), {"nodes": nodes})
            named = onnxruntime.InferenceSession(model.data, settings)
            self.assertEqual(assigned(named).get(PROVIDER, []), ["MatMul"] * claims)
            self.close(model, named.run(None, model.feeds[0]),
                       session(model).run(None, model.feeds[0]))

    def test_sessions_run_in_threads_while_others_come_and_go(self) -> None:
        cases = [each for each in models() if each.name in ("mlp, any batch", "block", "quantized")]
        shared = [(model, session(model, policy="always"),
                   [session(model).run(None, feeds) for feeds in model.feeds]) for model in cases]
        failures: list[str] = []

        def work(first: int) -> None:
            try:
                for turn in range(20):
                    model, with_us, wants = shared[(first + turn) % len(shared)]
                    if turn % 5 == 0:
                        with_us = session(model, policy="always")
                    for feeds, want in zip(model.feeds, wants):
                        self.close(model, with_us.run(None, feeds), want)
            except Exception as error:  # noqa: BLE001
                failures.append(repr(error))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_a_measurement_decides_and_is_kept(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            kept = Path(folder) / "onnxruntime"
            first = measured(folder)
            self.assertEqual(first["times"], len(list(kept.iterdir())))
            self.assertGreater(first["times"], 0)
            for path in (kept, *kept.iterdir()):  # else Attacca's cache is not used
                self.assertEqual(path.stat().st_mode & 0o077, 0)
            before = {path: path.read_bytes() for path in kept.iterdir()}
            self.assertEqual(measured(folder)["claims"], first["claims"])
            self.assertEqual({path: path.read_bytes() for path in kept.iterdir()}, before)
            for speedup, claims in ((b"9.5", True), (b"0.5", False)):
                for _ in range(2):  # the parts are measured once the whole is not claimed
                    for path in kept.iterdir():
                        set_speedup(path, speedup)
                    found = measured(folder)
                self.assertEqual(found["claims"], claims)
            for path in before:
                path.write_bytes(b"attacca onnxruntime 1\nnan nan nan nan\n")
            measured(folder)
            self.assertTrue(any(b"nan" not in path.read_bytes() for path in before))

    def test_parts_are_claimed_where_the_whole_loses(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            kept = Path(folder) / "onnxruntime"
            measured(folder, model="block")
            whole = set(kept.iterdir())
            if len(whole) > 1:  # it lost, and its parts were measured
                whole = {max(whole, key=lambda path: path.stat().st_size)}
            for _ in range(3):  # the whole; the parts; the parts together
                for path in kept.iterdir():
                    set_speedup(path, b"0.5" if path in whole else b"9.5")
                found = measured(folder, model="block")
            self.assertTrue(found["claims"])
            self.assertGreater(found["parts"], 2)

    def test_a_saved_model_has_its_regions(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for model in models():
                if model.name not in ("block", "convolutions", "ways around"):
                    continue
                path = Path(folder) / f"{model.name}.onnx"
                settings = onnxruntime.SessionOptions()
                settings.log_severity_level = 3
                settings.add_session_config_entry("ep.context_enable", "1")
                settings.add_session_config_entry("ep.context_file_path", str(path))
                attacca.onnxruntime.add_provider(settings, policy="always", threads=1)
                onnxruntime.InferenceSession(model.data, settings)
                saved = onnx.load(path)
                regions = [node for node in saved.graph.node if node.op_type == "EPContext"]
                self.assertGreater(len(regions), 0)
                # Regions that were saved are taken without being measured.
                loaded = session(model._replace(data=path.read_bytes()), measure_seconds=0)
                self.assertEqual(len(assigned(loaded)[PROVIDER]), len(regions))
                for feeds in model.feeds:
                    self.close(model, loaded.run(None, feeds), session(model).run(None, feeds))
                for attribute in regions[0].attribute:
                    if attribute.name == "ep_cache_context":
                        attribute.s = attribute.s[:100]
                with self.assertRaisesRegex(NotImplementedHere, "EPContext node"):
                    session(model._replace(data=saved.SerializeToString()), policy="always")

    def test_without_time_to_measure_all_is_left(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            found = measured(folder, "0")
            self.assertEqual((found["claims"], found["times"]), (False, 0))

    def test_layers_of_equal_structure_are_measured_once(self) -> None:
        g = Graph(np.random.default_rng(2))
        x = "x"
        for _ in range(6):
            # NonZero keeps the layers apart.
            shift = g("Cast", g("ReduceMax", g("NonZero", x), keepdims=1), to=1)
            x = g("Mul", g("Add", g("MatMul", x, g.weight(32, 32)), g.weight(32)), shift)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "layers.onnx"
            path.write_bytes(g.model({"x": [16, 32]}, [x]))
            self.assertLessEqual(measured(folder, model=str(path))["times"], 4)


def set_speedup(path: Path, speedup: bytes) -> None:
    """In a kept measurement."""
    head, times, key = path.read_bytes().split(b"\n", 2)
    path.write_bytes(b"\n".join((head, b" ".join([*times.split()[:2], speedup, speedup]), key)))


def measured(folder: str, seconds: str = "30", model: str = "mlp") -> dict[str, Any]:
    """What a process of its own claims of a model with the policy "measure", and the number of
    measurements in the cache."""
    environment = dict(os.environ, ATTACCA_CACHE_DIR=folder)
    command = [sys.executable, __file__, "--measured", seconds, model]
    parts = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True,
                           umask=0o002)
    times = list((Path(folder) / "onnxruntime").glob("*"))
    return {"claims": int(parts.stdout) > 0, "parts": int(parts.stdout), "times": len(times)}


def claimed_parts(seconds: float, name: str) -> int:
    """How many nodes a session of the model has of Attacca's. Compares its results."""
    if os.path.exists(name):
        model = Model(name, Path(name).read_bytes(), [{"x": np.ones((16, 32), np.float32)}], 1e-5)
    else:
        (model,) = (each for each in models() if each.name == name)
    with_us = session(model, policy="measure", measure_seconds=seconds)
    for feeds in model.feeds:
        Plugin().close(model, with_us.run(None, feeds), session(model).run(None, feeds))
    return sum(part.ep_name == PROVIDER for part in with_us.get_provider_graph_assignment_info())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measured"]:
        print(claimed_parts(float(sys.argv[2]), sys.argv[3]))
        sys.exit(0)
    sys.exit(unittest.main())
