#!/usr/bin/env python3
"""Writes docs/benchmarks/host-time.md: what a call costs on the host, stage by stage.

Usage: host_time.py [--before PACKAGE] [--stand-in LIBRARY] [--json]

Run with PYTHONPATH leading to the built package. --before: the folder of another build's package,
such as /elsewhere/build/python, measured in turn with this one. --stand-in: libfake_cuda.so of the
build, through which a GPU's launch is measured without a GPU. --json: prints this build's numbers
alone.

Each number is the fastest of many short rounds: other work on the machine only makes them slower.
"""
import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import textwrap
import time

import processor

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs/benchmarks/host-time.md"
TEXT = "graph g(a: f32[M, 16], b: f32[16, 16], bias: f32[16]) { return relu(a @ b + bias) }"
EPILOGUE = "relu(acc + row(bias))"
# Rows of 120 bytes: what takes them needs no tensor map, which the stand-in cannot encode.
GPU_TEXT = ("graph g(x: f16[M, 60], w: f16[60, 60], bias: f32[60]) {\n"
            "  return silu(x @ transpose(w) + bias)\n}")


def microseconds(function, calls=50, rounds=300):
    for _ in range(200):
        function()
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter_ns()
        for _ in range(calls):
            function()
        best = min(best, (time.perf_counter_ns() - start) / calls / 1000)
    return best


def cpu_calls():
    """4 x 16 x 16 in f32, with a bias and ReLU."""
    import torch
    from torch._inductor.select_algorithm import extern_kernels

    import attacca
    import attacca.torch  # noqa: F401
    from attacca.torch._ops.lowering import _run
    torch.set_num_threads(1)
    a, b, bias = torch.randn(4, 16), torch.randn(16, 16), torch.randn(16)
    out, given = torch.empty(4, 16), (a, b, bias)
    arrays = tuple(each.numpy() for each in given)
    plan = attacca.compile(TEXT)
    with torch.no_grad():
        yield "`plan(a, b, bias)`, NumPy", lambda: plan(*arrays)
        yield "`plan(a, b, bias)`, torch", lambda: plan(*given)
        yield "`plan(a, b, bias, out=out)`, torch", lambda: plan(*given, out=out)
        yield ("`attacca.matmul(a, b, ..., bias=bias)`, NumPy",
               lambda: attacca.matmul(arrays[0], arrays[1], EPILOGUE, bias=arrays[2]))
        yield ("`attacca.matmul(a, b, ..., bias=bias)`, torch",
               lambda: attacca.matmul(a, b, EPILOGUE, bias=bias))
        constant = f"fp32 known 0.0 {TEXT}"
        yield "a region in Inductor's generated code", lambda: _run(*given, constant, out=out)
        yield ("Inductor's own `extern_kernels.addmm`, without ReLU",
               lambda: extern_kernels.addmm(bias, a, b, alpha=1, beta=1, out=out))
        yield "`torch.relu(torch.addmm(bias, a, b))`", lambda: torch.relu(torch.addmm(bias, a, b))


def stages():
    """Where the time of `plan(a, b, bias)` with torch tensors goes."""
    import torch

    import attacca
    a, b, bias = torch.randn(4, 16), torch.randn(16, 16), torch.randn(16)
    out, given = torch.empty(4, 16), (a, b, bias)
    plan = attacca.compile(TEXT)
    plan(*given)
    cache = getattr(plan._engine, "cache", None)
    if cache is not None:
        device = torch.device("cpu")
        yield "reading three tensors, the key, torch's modes", lambda: cache.run((bias, b, a), None)
        yield ("allocating the result: `torch.empty`",
               lambda: torch.empty((4, 16), dtype=torch.float32, device=device))
    instance = plan._core.prepare([("M", 4)], [16] * 4)
    inputs, outputs = [each.data_ptr() for each in given], [out.data_ptr()]
    yield "the library: `attacca_instance_run`", lambda: instance.run(inputs, outputs)


def gpu_launch():
    """A launch of a fused kernel on the stand-in for the driver, whose functions return at once."""
    import ctypes

    import attacca
    os.environ["ATTACCA_LIBCUBLASLT"] = "/nowhere/x"
    stand_in = ctypes.CDLL(os.environ["ATTACCA_LIBCUDA"])
    plan = attacca.compile(GPU_TEXT, device="cuda", tuning="known")
    instance = plan._core.prepare([("M", 24)], [16] * 4)
    if hasattr(stand_in, "fake_cuda_be_quiet"):
        stand_in.fake_cuda_be_quiet(1)
    places = [[0x10000000 + i * 0x100000 + 0x1000000 * k for i in range(4)] for k in range(2)]
    workspace, size = 0x20000000, instance.workspace_bytes
    turn = [0]

    def launch(all_places):
        turn[0] ^= 1
        at = all_places[turn[0]]
        instance.run(at[:3], at[3:], workspace, size, 0)
    yield "the same addresses again", lambda: launch([places[0]] * 2)
    yield "other addresses each time", lambda: launch(places)


def measured():
    parts = {"calls": cpu_calls, "stages": stages}
    if os.environ.get("ATTACCA_LIBCUDA"):
        parts["launch"] = gpu_launch
    return {name: {what: microseconds(call) for what, call in part()}
            for name, part in parts.items()}


def of_package(package, stand_in):
    """What this script measures with another package, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(package), "OMP_NUM_THREADS": "1"}
    if stand_in:
        environment["ATTACCA_LIBCUDA"] = str(stand_in)
    printed = subprocess.run([sys.executable, __file__, "--json"], env=environment, check=True,
                             capture_output=True, text=True).stdout
    return json.loads(printed)


def fastest(runs):
    return {name: {what: min(run[name][what] for run in runs) for what in part}
            for name, part in runs[0].items()}


def table(title, now, before):
    head = f"| {title} | before | after |\n|---|---:|---:|" if before is not None \
        else f"| {title} | us |\n|---|---:|"
    lines = [head]
    for what, time_now in now.items():
        then = "" if before is None else \
            f" {before[what]:.1f} |" if what in before else " |"
        lines.append(f"| {what} |{then} {time_now:.1f} |")
    return "\n".join(lines) + "\n"


def machine():
    import torch
    return f"{processor.name()}, shared with other work; Python {platform.python_version()}, " \
           f"PyTorch {torch.__version__.partition('+')[0]}; {time.strftime('%Y-%m-%d')}"


PARAGRAPHS = (
    "Written by `bench/host_time.py`. {machine}. Microseconds, the fastest of 300 rounds of 50 "
    "calls each, three times{turns}.",
    "A call with the same dtypes, shapes, strides, alignments and devices as an earlier one is "
    "found in a cache by these, and launched. Only what the key does not hold is checked again: "
    "overlapping memory, gradients, torch's modes.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--before", type=pathlib.Path)
    parser.add_argument("--stand-in", type=pathlib.Path)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.json:
        print(json.dumps(measured()))
        return
    here = os.environ["PYTHONPATH"]
    runs, others = [], []
    for _ in range(3):
        runs.append(of_package(here, given.stand_in))
        if given.before:
            others.append(of_package(given.before, given.stand_in))
    now, before = fastest(runs), fastest(others) if others else {}
    titles = {"calls": "4 x 16 x 16, f32, bias and ReLU, on the CPU",
              "stages": "of `plan(a, b, bias)`, torch, on the CPU",
              "launch": "a fused kernel on a GPU, from Python, without the driver's own time"}
    words = {"machine": machine(), "turns": ", both builds in turn" if others else ""}
    page = "# What a call costs on the host\n\n"
    for each in PARAGRAPHS:
        page += textwrap.fill(each.format(**words), 100) + "\n\n"
    page += "\n".join(table(titles[name], part, before.get(name)) for name, part in now.items())
    PAGE.write_text(page)
    print(page)


if __name__ == "__main__":
    main()
