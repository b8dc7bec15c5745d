"""Transformers that torch exported (one layer, 8 features; torch.onnx.export of torch 2.11 and
transformers 5.23, dynamo=True and False, batch and sequence dynamic) against ONNX Runtime. One plan
serves all sizes."""
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

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


def main() -> int:
    rng, failures, runs = np.random.default_rng(3), 0, 0
    paths = sorted(MODELS.glob("*.onnx"))
    assert len(paths) == 8, "the models are not found any more"
    for path in paths:
        oracle = onnxruntime.InferenceSession(str(path), options)
        plan = attacca.compile(path.read_bytes(), threads=1)
        for batch, length in SIZES:
            feeds = feeds_of(batch, length, rng)
            want, got = oracle.run(None, feeds)[0], plan(**feeds)
            runs += 1
            if got.shape != want.shape or not np.allclose(got, want, rtol=1e-5, atol=2e-6):
                failures += 1
                print(f"{path.name}, batch {batch}, length {length}: largest difference "
                      f"{np.max(np.abs(got - want)) if got.shape == want.shape else got.shape}")
    print(f"{len(paths)} models, {runs} runs, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
