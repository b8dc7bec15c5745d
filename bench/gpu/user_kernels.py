#!/usr/bin/env python3
"""Triton kernels, or with --cuda CUDA C++ kernels, with an elementwise tail inside, by `attacca
kernel fuse`, beside the kernel followed by the tail in PyTorch: eagerly, and as one kernel by
Inductor. Needs a GPU, PyTorch and Triton; the CUDA C++ kernels are those that
cuda_kernel_cases.py compiled.

The fused cubin is loaded and launched through the driver with the kernel's own arguments, followed
by the operands' addresses. Every pair is compared bit for bit.
"""

import argparse
import ctypes
import json
import os
import re
import statistics
import sys
import tempfile
import time
from statistics import geometric_mean

import csv_run
import cuda_kernel_cases
import machine
import pages
import program
import user_kernel_cases
from user_kernel_cases import TAILS

COLUMNS = ["kernel", "shape", "dtype", "tail", "identical", "differing", "kernel_us", "eager_us",
           "inductor_us", "fused_us", "fused_fp32_us", "stores", "fuse_ms", "failed"]


# ---- What Triton compiled

def entry_parameters(ptx, entry):
    """The types of a kernel's parameters, in order: ["u64", "u64", "u32"]."""
    head = re.search(r"\.entry\s+" + re.escape(entry) + r"\s*\(([^)]*)\)", ptx)
    if head is None:
        raise RuntimeError(f"the PTX has no kernel {entry}")
    return re.findall(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)", head.group(1))


def own_arguments(types, values):
    """(type, value) for each parameter: the caller's values, then nulls for the scratch pointers
    that newer versions of Triton add. Values are integers, also for addresses."""
    extra = len(types) - len(values)
    if extra < 0 or any(kind not in ("u64", "b64") for kind in types[len(values):]):
        raise RuntimeError(f"the kernel takes {types}, which does not fit {len(values)} arguments")
    return list(zip(types, list(values) + [0] * extra))


def packed(arguments):
    """(cells, array of pointers to them) for cuLaunchKernel; keep both alive for the launch."""
    sizes = {"8": ctypes.c_uint8, "16": ctypes.c_uint16, "32": ctypes.c_uint32,
             "64": ctypes.c_uint64}
    cells = [sizes[re.sub(r"\D", "", kind)](value) for kind, value in arguments]
    pointers = (ctypes.c_void_p * len(cells))(*(ctypes.addressof(cell) for cell in cells))
    return cells, pointers


# ---- The driver

class Driver:
    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self.library.cuGetErrorString(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {text.value.decode() if text.value else code}")

    def load(self, image, entry, shared_bytes):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), image)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, entry.encode())
        if shared_bytes > 48 * 1024:
            max_dynamic_shared = 8
            self.call("cuFuncSetAttribute", function, max_dynamic_shared, shared_bytes)
        return function

    def launch(self, function, grid, threads, shared_bytes, stream, pointers):
        self.call("cuLaunchKernel", function, *(ctypes.c_uint(n) for n in (*grid, threads, 1, 1)),
                  ctypes.c_uint(shared_bytes), ctypes.c_void_p(stream), pointers, None)


class Launchable:
    """A loaded kernel with its arguments. `tensors` keeps what the addresses point to."""

    def __init__(self, driver, function, case, compiled, arguments, tensors):
        self.driver, self.function, self.tensors = driver, function, tensors
        self.grid = case.grid
        self.threads = compiled.metadata.num_warps * 32
        self.shared_bytes = compiled.metadata.shared
        self.cells, self.pointers = packed(arguments)

    def __call__(self):
        import torch
        stream = torch.cuda.current_stream().cuda_stream
        self.driver.launch(self.function, self.grid, self.threads, self.shared_bytes, stream,
                           self.pointers)


# ---- Fusing

def tritons_assembler():
    """An environment in which Attacca uses Triton's own ptxas: Triton's PTX may be newer than what
    the installed nvJitLink can read."""
    from triton.backends.nvidia import compiler
    try:
        path = compiler.get_ptxas(90).path
    except (AttributeError, TypeError):  # older Tritons
        path = os.path.join(os.path.dirname(compiler.__file__), "bin", "ptxas")
    return {**os.environ, "ATTACCA_ASSEMBLER": "ptxas", "ATTACCA_PTXAS": path}


def fuse(attacca, ptx, entry, case, tail, mode, folder):
    """(cubin, description, milliseconds): what `attacca kernel fuse` writes."""
    source, out = os.path.join(folder, "kernel.ptx"), os.path.join(folder, "fused.cubin")
    with open(source, "w", encoding="utf-8") as file:
        file.write(ptx)
    rows, columns = case.shape
    command = [attacca, "kernel", "fuse", source, "--kernel", entry, "--output", str(case.output),
               "--dtype", case.dtype, "--shape", f"{rows},{columns}", "--epilogue", tail.text,
               "--mode", mode, "-o", out]
    begin = time.monotonic()
    try:
        program.answer(*command)
    except RuntimeError as error:
        if "Unsupported .version" not in str(error):
            raise
        begin = time.monotonic()
        program.answer(*command, env=tritons_assembler())
    took = (time.monotonic() - begin) * 1000
    with open(out, "rb") as file:
        image = file.read()
    with open(out + ".json", encoding="utf-8") as file:
        return image, json.load(file), took


def operand_tensors(description, case, torch):
    shapes = {"row": (case.shape[1],), "col": (case.shape[0], 1), "full": case.shape, "scalar": ()}
    dtypes = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
    made = {}
    for each in description["appended"]:
        made[each["operand"]] = torch.randn(shapes[each["role"]], device="cuda").to(
            dtypes[each["dtype"]])
    return made


# ---- Timing

def graph_of(launch, torch, count):
    """The launches as one CUDA graph, so that times do not include the host's."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            launch()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            launch()
    return graph


def medians(contenders, torch, rounds=15, count=20):
    """Microseconds a launch of each, measured in turns."""
    graphs = {name: graph_of(launch, torch, count) for name, launch in contenders.items()}
    times = {name: [] for name in contenders}
    for turn in range(rounds + 2):
        for name, graph in graphs.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            if turn >= 2:
                times[name].append(begin.elapsed_time(end) * 1000 / count)
    return {name: statistics.median(found) for name, found in times.items()}


# ---- One pair

def differing_elements(got, want, torch):
    """Elements whose bits differ; NaN equals NaN."""
    bits = {2: torch.int16, 4: torch.int32}[got.element_size()]
    same = (got.view(bits) == want.view(bits)) | (got.isnan() & want.isnan())
    return int((~same).sum())


def measure(options, driver, case, tail, torch):
    row = {"kernel": case.name, "shape": f"{case.shape[0]} x {case.shape[1]}", "dtype": case.dtype,
           "tail": tail.text}
    torch.manual_seed(1)
    case.prepare(torch)
    compiled = case.compile()
    ptx, entry = compiled.asm["ptx"], compiled.metadata.name
    with tempfile.TemporaryDirectory() as folder:
        image, description, row["fuse_ms"] = fuse(options.attacca, ptx, entry, case, tail, "eager",
                                                  folder)
        image_fp32, _, _ = fuse(options.attacca, ptx, entry, case, tail, "fp32", folder)
    row["stores"] = description["stores"]
    operands = operand_tensors(description, case, torch)

    own = own_arguments(entry_parameters(ptx, entry),
                        [value.data_ptr() if hasattr(value, "data_ptr") else value
                         for value in case.arguments])
    appended = [("u64", operands[each["operand"]].data_ptr())
                for each in description["appended"]]

    def launchable(cubin, arguments):
        return Launchable(driver, driver.load(cubin, entry, compiled.metadata.shared), case,
                          compiled,
                          arguments, (case.arguments, operands))

    alone = launchable(compiled.asm["cubin"], own)
    fused, fused_fp32 = (launchable(cubin, own + appended) for cubin in (image, image_fp32))

    out = case.arguments[case.output]
    out.fill_(float("nan"))
    alone()
    torch.cuda.synchronize()
    case.check(torch, out.view(case.shape))
    want = tail.reference(torch, out.clone().view(case.shape), operands)
    out.fill_(float("nan"))
    fused()
    torch.cuda.synchronize()
    row["differing"] = differing_elements(out.view(case.shape).clone(), want, torch)
    row["identical"] = "yes" if row["differing"] == 0 else "no"

    torch._dynamo.reset()  # otherwise it stops compiling after a few shapes
    compiled_tail = torch.compile(lambda x: tail.eager(torch, x, operands), dynamic=False)
    view = out.view(case.shape)

    def then(tail_function):
        def both():
            alone()
            return tail_function(view)
        return both

    times = medians({"kernel_us": alone, "fused_us": fused, "fused_fp32_us": fused_fp32,
                     "eager_us": then(lambda x: tail.eager(torch, x, operands)),
                     "inductor_us": then(compiled_tail)}, torch)
    return {**row, **times}


def run(options):
    import torch
    driver = Driver()
    torch.cuda.init()
    torch.zeros(1, device="cuda")  # makes the context that the driver's calls use
    facts = {**machine.facts(), "triton": triton_version()}

    def row_of(pair):
        case, tail = pair
        try:
            return measure(options, driver, case, tail, torch)
        except Exception as error:  # a failure leaves its reason, and the other pairs are measured
            return {"kernel": case.name, "shape": f"{case.shape[0]} x {case.shape[1]}",
                    "dtype": case.dtype, "tail": tail.text,
                    "failed": csv_run.one_line(error)}
        finally:
            if tail is TAILS[-1]:
                case.release()

    cases = cuda_kernel_cases.cases() if options.cuda else user_kernel_cases.cases()
    rows = csv_run.run([(case, tail) for case in cases for tail in TAILS], row_of, COLUMNS,
                       options.out + ".csv", options.minutes, facts)
    write_page(options)
    return 0 if rows and all(row.get("identical") == "yes" for row in rows) else 1


def triton_version():
    import triton
    return triton.__version__


# ---- The page

def write_page(options):
    """From the CSV alone."""
    facts, rows = csv_run.read(options.out + ".csv")
    for row in rows:
        row.update({key: float(row[key]) for key in row if key.endswith("_us") and row[key]})
    pages.write(options.out + ".md", page(facts, rows, CUDA if options.cuda else TRITON))


TRITON = ("Triton", "user_kernels.py", "Triton compiled")
CUDA = ("CUDA C++", "user_kernels.py --cuda`, kernels by `bench/gpu/cuda_kernel_cases.py",
        "nvcc compiled from `bench/gpu/cuda_kernels`")


def page(facts, rows, kind=TRITON):
    language, script, origin = kind
    timed = [row for row in rows if not row.get("failed")]
    identical = sum(row["identical"] == "yes" for row in timed)
    lines = [f"# {language} kernels with their tail inside", "",
             f"On {machine.described(facts)}. Made by `bench/gpu/{script}`.", "",
             f"The PTX that {origin} went through `attacca kernel fuse`. *Kernel*: alone, "
             "without the tail. *+ eager*, *+ Inductor*: the kernel, then the tail in PyTorch, op "
             "by op and as the one kernel that `torch.compile` makes. *Fused*: one kernel, in "
             "eager mode; *fp32*: in fp32 mode, which rounds only at the end. CUDA graphs of 20 in "
             "turns; microseconds, medians of 15 rounds. *Identical*: eager mode, bit for bit the "
             "kernel then the tail op by op, each op computed exactly and rounded to the dtype, "
             "the output poisoned before.", ""]
    if timed:
        eager, inductor, fp32 = (
            geometric_mean([row[peer] / row[fused] for row in timed])
            for peer, fused in (("eager_us", "fused_us"), ("inductor_us", "fused_us"),
                                ("inductor_us", "fused_fp32_us")))
        lines += [f"{identical} of {len(timed)} pairs are identical. The fused kernel is "
                  f"{eager:.2f} times as fast as the kernel and an eager tail, {inductor:.2f} "
                  "times as fast as the kernel and Inductor's, in fp32 mode "
                  f"{fp32:.2f} times (geometric means).", ""]
        slower = [f"{row['kernel']} {row['dtype']}, `{row['tail']}`, {mode}: "
                  f"{row['inductor_us'] / row[name]:.2f} times"
                  for row in timed
                  for mode, name in (("eager", "fused_us"), ("fp32", "fused_fp32_us"))
                  if row["inductor_us"] < 0.98 * row[name]]
        lines += pages.listed("Slower than the kernel and Inductor's tail:", slower)
    lines += pages.table(
        ["kernel", "M x N", "tail", "identical", "kernel", "+ eager", "+ Inductor", "fused",
         "fp32"],
        [[f"{row['kernel']} {row['dtype']}", row["shape"], f"`{row['tail']}`",
          "yes" if row["identical"] == "yes" else f"{row['differing']} differ",
          *(pages.number(row[name], 2)
            for name in ("kernel_us", "eager_us", "inductor_us", "fused_us", "fused_fp32_us"))]
         for row in timed], texts=4)
    lines += ["", *pages.listed("Failed:", [
        f"{row['kernel']}, {row['shape']}, `{row['tail']}`: {row['failed']}"
        for row in rows if row.get("failed")])]
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    program.add_option(parser)
    parser.add_argument("--cuda", action="store_true", help="CUDA C++ kernels, not Triton's")
    parser.add_argument("--out", default="docs/benchmarks/gpu-user-kernels",
                        help="without .md and .csv")
    parser.add_argument("--minutes", type=float, default=3, help="stops cleanly after these")
    parser.add_argument("--page", action="store_true", help="writes the page again, from OUT.csv")
    options = parser.parse_args(arguments)
    return write_page(options) if options.page else run(options)


if __name__ == "__main__":
    sys.exit(main())
