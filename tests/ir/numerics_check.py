"""Compares every narrow float conversion with ml_dtypes, an independent implementation.

Usage: numerics_check.py NUMERICS_TOOL. Decoding is exhaustive; encoding is tried on every
representable value, every midpoint between neighbours and the floats beside it, and 2^21 random
bit patterns (seed printed). NaNs must stay NaN; their payloads are not compared.
"""
import subprocess
import sys

import ml_dtypes
import numpy as np

TYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
}
SEED = 20240607


def tool(action, name, values, out):
    run = subprocess.run([sys.argv[1], action, name], input=values.tobytes(), capture_output=True,
                         check=True)
    return np.frombuffer(run.stdout, dtype=out)


def samples(dtype, bits):
    exact = np.arange(1 << (8 * bits.itemsize), dtype=bits).view(dtype).astype(np.float32)
    finite = np.unique(exact[np.isfinite(exact)])
    middle = ((finite[:-1].astype(np.float64) + finite[1:]) / 2).astype(np.float32)
    beside = [np.nextafter(middle, np.float32(np.inf)), np.nextafter(middle, np.float32(-np.inf))]
    random = np.random.default_rng(SEED).integers(0, 1 << 32, 1 << 21,
                                                  dtype=np.uint32).view(np.float32)
    return np.concatenate([exact, middle, *beside, random])


def differences(got, want, inputs):
    """Positions where the values differ, NaN equal to NaN and -0 different from 0."""
    got32, want32 = got.astype(np.float32), want.astype(np.float32)
    same = (np.isnan(got32) & np.isnan(want32)) | (got32.view(np.uint32) == want32.view(np.uint32))
    return inputs[~same]


def main():
    failures = 0
    for name, dtype in TYPES.items():
        bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
        patterns = np.arange(1 << (8 * bits.itemsize), dtype=bits)
        inputs = samples(dtype, bits)
        largest = np.float32(ml_dtypes.finfo(dtype).max)
        with np.errstate(all="ignore"):
            rounded = inputs.astype(dtype)
            clipped = np.where(np.isnan(inputs), inputs,
                               np.clip(inputs, -largest, largest)).astype(dtype)
        checks = {
            "decode": differences(tool("decode", name, patterns, np.float32), patterns.view(dtype),
                                  patterns),
            "encode": differences(tool("encode", name, inputs, bits).view(dtype), rounded, inputs),
            "round": differences(tool("round", name, inputs, np.float32), rounded, inputs),
            "saturate": differences(tool("saturate", name, inputs, bits).view(dtype), clipped,
                                    inputs),
        }
        for action, wrong in checks.items():
            failures += len(wrong)
            print(f"{name} {action}: {len(inputs)} values, {len(wrong)} differ "
                  f"{wrong[:4].tolist()}")
    print(f"seed {SEED}; {failures} differences")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
