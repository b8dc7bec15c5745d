"""Models of 29 structures that torch exported (one layer or two, 8 features; torch 2.11 and
transformers 5.23, dynamo=True and False) through ONNX Runtime's plug-in and through Attacca's own
importer, against ONNX Runtime alone: in f32, and each also in f16, dynamically quantised or with
all sizes fixed."""
from __future__ import annotations

import logging
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Callable

import attacca.onnxruntime
import numpy as np
import onnx
import onnxruntime
from onnxruntime import quantization
from onnxruntime.tools.onnx_model_utils import make_dim_param_fixed
from onnxruntime.transformers.float16 import convert_float_to_float16

import attacca

MODELS = Path(__file__).resolve().parent / "models" / "structures.tar.gz"
SIZES = ((2, 6), (1, 30))
# Recurrent layers of any length: the plug-in leaves them to ONNX Runtime.
NOT_IMPORTED = ("gru", "lstm")


def half(model: onnx.ModelProto) -> onnx.ModelProto:
    return convert_float_to_float16(model, keep_io_types=True)  # leaves nodes unsorted


def dynamic(model: onnx.ModelProto) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/quantised.onnx"
        quantization.quantize_dynamic(model, path)
        return onnx.load(path)


def fixed(model: onnx.ModelProto) -> onnx.ModelProto:
    """With the first of SIZES alone."""
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_param:
                make_dim_param_fixed(model.graph, dim.dim_param, SIZES[0][axis])
    return model


# What is made of a model, and how far the results may be apart, relative to the largest.
Variant = tuple[Callable[[onnx.ModelProto], onnx.ModelProto], float]
VARIANTS: tuple[Variant, ...] = ((dynamic, 3e-2), (fixed, 1e-5), (half, 1e-2))


def feeds_of(session: Any, batch: int, length: int) -> dict[str, Any]:
    rng = np.random.default_rng(batch)
    feeds: dict[str, Any] = {}
    for each in session.get_inputs():
        shape = [dim if isinstance(dim, int) else (batch, length)[axis]
                 for axis, dim in enumerate(each.shape)]
        if each.name == "attention_mask":
            feeds[each.name] = np.ones(shape, np.int64)
            feeds[each.name][1:, -int(rng.integers(1, length)):] = 0
        elif each.name == "input_ids":
            feeds[each.name] = rng.integers(2, 23, shape)
        else:
            feeds[each.name] = rng.standard_normal(shape).astype(np.float32)
    return feeds


def session_of(data: bytes, plugin: bool) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    # Else sums of products of bytes saturate on CPUs without VNNI.
    options.add_session_config_entry("session.x64quantprecision", "1")
    if plugin:
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        attacca.onnxruntime.add_provider(options, policy="always")
    return onnxruntime.InferenceSession(data, options)


class Report:
    def __init__(self) -> None:
        self.compared = self.claimed = self.imported = 0
        self.failures: list[str] = []

    def compare(self, name: str, got: Any, want: Any, tolerance: float) -> None:
        self.compared += 1
        apart = np.max(np.abs(got - want)) if got.shape == want.shape else np.inf
        allowed = 2e-6 + max(tolerance, 1e-5) * float(np.max(np.abs(want)))
        if not apart <= allowed:
            self.failures.append(f"{name}: {apart} apart, {allowed} allowed")

    def model(self, name: str, model: onnx.ModelProto, tolerance: float) -> None:
        data = model.SerializeToString()
        alone, plugin = session_of(data, False), session_of(data, True)
        self.claimed += any(part.ep_name == attacca.onnxruntime.PROVIDER
                            for part in plugin.get_provider_graph_assignment_info())
        plan = None
        if not name.startswith(NOT_IMPORTED):
            plan = attacca.compile(data, threads=1)
            self.imported += 1
        for batch, length in SIZES[:1] if "fixed" in name else SIZES:
            feeds = feeds_of(alone, batch, length)
            want = alone.run(None, feeds)[0]
            place = f"{name}, batch {batch}, length {length}"
            self.compare(f"{place}, plug-in", plugin.run(None, feeds)[0], want, tolerance)
            if plan is not None:
                self.compare(f"{place}, importer", plan(**feeds), want, tolerance)


def main() -> int:
    logging.disable(logging.WARNING)
    report, count = Report(), 0
    with tarfile.open(MODELS) as archive:
        files = {each.name: archive.extractfile(each) for each in archive}
        for index, (name, file) in enumerate(sorted(files.items())):
            assert file is not None
            data = file.read()
            make, tolerance = VARIANTS[index % len(VARIANTS)]
            assert make is not half or not name.startswith("gru"), "ONNX Runtime 1.32 crashes"
            for title, change, allowed in (("", None, 0.0), (make.__name__, make, tolerance)):
                model = onnx.load_from_string(data)
                count += 1
                try:
                    report.model(f"{name} {title}", change(model) if change else model, allowed)
                except Exception as error:
                    report.failures.append(f"{name} {title}: {error}")
    structures = {name.split("_")[0] for name in files}
    print(f"{len(structures)} structures, {count} models, {report.claimed} with regions in the "
          f"plug-in, {report.imported} imported, {report.compared} results compared, "
          f"{len(report.failures)} failures", *report.failures, sep="\n  ")
    return 1 if report.failures or len(structures) < 25 else 0


if __name__ == "__main__":
    sys.exit(main())
