"""Transformers that torch exported (one layer, 8 features; torch.onnx.export of torch 2.11 and
transformers 5.23, dynamo=True and False, batch and sequence dynamic) against ONNX Runtime, as they
are and as ONNX Runtime's optimizers and quantisers write them. One plan serves all sizes."""
from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np
import onnxruntime
from onnxruntime import quantization
from onnxruntime.transformers import optimizer

import attacca

MODELS = Path(__file__).resolve().parent / "models"
SIZES = ((2, 6), (1, 2), (3, 11), (1, 30))

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
options.log_severity_level = 4


def feeds_of(batch: int, length: int, rng: np.random.Generator) -> dict[str, Any]:
    """Tokens and a mask that hides the ends, or beginnings, of the sequences."""
    mask = np.ones((batch, length), np.int64)
    for row in range(1, batch):
        hidden = int(rng.integers(1, length))
        mask[row, length - hidden:] = 0
    return {"input_ids": rng.integers(2, 23, (batch, length)), "attention_mask": mask}


class Calibration(quantization.CalibrationDataReader):
    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.feeds = iter([feeds_of(2, 6, rng) for _ in range(4)])

    def get_next(self) -> Any:
        return next(self.feeds, None)


def optimized(source: str, to: str) -> None:
    chosen = onnxruntime.SessionOptions()
    chosen.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    chosen.optimized_model_filepath, chosen.log_severity_level = to, 4
    onnxruntime.InferenceSession(source, chosen)


# Weights of 7 bits (reduce_range): ONNX Runtime's sums of wider ones saturate on CPUs without VNNI.
def dynamic(source: str, to: str) -> None:
    quantization.quantize_dynamic(source, to + ".dynamic", reduce_range=True)
    optimized(to + ".dynamic", to)


def static(source: str, to: str) -> None:
    quantization.quantize_static(source, to, Calibration(), reduce_range=True,
                                 quant_format=quantization.QuantFormat.QOperator)


def sixteen_bits(source: str, to: str, activations: Any = quantization.QuantType.QUInt16) -> None:
    quantization.quantize_static(source, to, Calibration(), activation_type=activations,
                                 weight_type=quantization.QuantType.QInt8,
                                 op_types_to_quantize=["MatMul", "Gemm", "Add"],
                                 extra_options={"UseQDQContribOps": True})


def signed_sixteen_bits(source: str, to: str) -> None:
    sixteen_bits(source, to, quantization.QuantType.QInt16)


def fused(source: str, to: str) -> None:
    optimizer.optimize_model(source, model_type="bert", num_heads=0, hidden_size=0,
                             opt_level=0).save_model_to_file(to)


# Of what they are made, by what, and the step of the last quantisation, relative to the largest
# result.
VARIANTS: tuple[tuple[str, Callable[[str, str], None], float], ...] = (
    ("bert_dynamo", optimized, 0), ("llama_script", optimized, 0),
    ("bert_script", dynamic, 0), ("llama_dynamo", dynamic, 0),
    ("roberta_dynamo", static, 0.02), ("mistral_dynamo", static, 0.02),
    ("bert_dynamo", sixteen_bits, 1e-4), ("llama_dynamo", signed_sixteen_bits, 1e-3),
    ("bert_dynamo", fused, 0))


def models(folder: str) -> Iterator[tuple[Path, float]]:
    paths = sorted(MODELS.glob("*.onnx"))
    assert len(paths) == 8, "the models are not found any more"
    yield from ((path, 0.0) for path in paths)
    for name, make, step in VARIANTS:
        to = Path(folder) / f"{name}.{make.__name__}.onnx"
        make(str(MODELS / f"{name}.onnx"), str(to))
        yield to, step


def compared(path: Path, step: float) -> tuple[int, bool]:
    """The number of sizes at which the two differ; whether products were joined."""
    oracle = onnxruntime.InferenceSession(str(path), options)
    plan = attacca.compile(path.read_bytes(), threads=1)
    rng, failures = np.random.default_rng(3), 0
    for batch, length in SIZES:
        feeds = feeds_of(batch, length, rng)
        want, got = oracle.run(None, feeds)[0], plan(**feeds)
        allowed = 2e-6 + step * float(np.max(np.abs(want)))
        if got.shape != want.shape or not np.allclose(got, want, rtol=1e-5, atol=allowed):
            failures += 1
            print(f"{path.name}, batch {batch}, length {length}: largest difference "
                  f"{np.max(np.abs(got - want)) if got.shape == want.shape else got.shape}")
    return failures, "folded joined products" in str(plan.explain())


def main() -> int:
    logging.disable(logging.WARNING)
    count = failures = joined = 0
    with tempfile.TemporaryDirectory() as folder:
        for path, step in models(folder):
            count += 1
            differences, joins = compared(path, step)
            failures += differences
            joined += joins
    print(f"{count} models at {len(SIZES)} sizes, {failures} failures; "
          f"{joined} have joined products")
    assert joined >= 4, "Q, K and V are not joined any more"
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
