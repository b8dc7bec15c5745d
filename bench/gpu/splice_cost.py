#!/usr/bin/env python3
"""Spliced kernels beside the same kernels compiled whole by nvcc.

    splice_cost.py build   where nvcc is: puts the epilogue's CUDA C++ into the template's own
                           source, so that nvcc sees both at once; one cubin each into --images
    splice_cost.py run     where a GPU is: both machine codes with the same parameters, in turns
    splice_cost.py page    writes the page again, from the CSV
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import geometric_mean

import csv_run
import machine
import pages
import program

TEMPLATES = ["cutlass_tn_128x256x64_2x1_coop_f1", "cutlass_tn_128x128x64_2x1_pingpong_f1",
             "cutlass_tn_64x16x128_1x1_pingpong_swap_f1",
             "wgmma_tn_128x128x64_2x1_pingpong_direct_f1_d16",
             "wgmma_tn_128x256x64_2x1_direct_f1_d16", "wgmma_tn_16x64x64_1x1x2_swap_f1_d16"]
EPILOGUES = {"gelu": "gelu_tanh(acc + row(bias))", "silu_mul": "silu(acc + row(bias)) * full(res)"}
SHAPES = {False: [(8192, 8192, 8192), (4096, 14336, 4096), (1024, 11008, 4096)],
          # by whether the template is swapped
          True: [(1, 14336, 4096), (16, 14336, 4096), (16, 4096, 11008)]}
COLUMNS = ["template", "epilogue", "m", "n", "k", "spliced_us", "whole_us", "spliced_registers",
           "whole_registers", "spliced_local_bytes", "whole_local_bytes", "failed"]

WHOLE = """// {template}, D = {epilogue}: the hole's body before the kernel that calls it.
#define ATTACCA_FIXED_WIDTH_TYPES
#include "common/hole.cuh"

{body}
#include "{kernel}"
"""


def body_for_whole(emitted):
    """The hole as an inline function, without the types that common/hole.cuh defines."""
    kept = re.sub(r"struct attacca_(operand|hole_context|results)\b\s*(\{[^}]*\})?\s*;", "",
                  emitted)
    inlined, count = re.subn(r'extern "C" __device__ attacca_results attacca_hole\(',
                             'extern "C" __device__ __forceinline__ attacca_results attacca_hole(',
                             kept)
    if count != 1:
        raise RuntimeError("the emitted text has no attacca_hole")
    # The kernel sources have a namespace of that name.
    return re.sub(r"\battacca_element\b", "attacca_hole_element", inlined)


def nvcc_command(build, template):
    """How the build made TEMPLATE.ptx, as words; read from its build.ninja."""
    path = os.path.join(build, "build.ninja")
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("  COMMAND = ") and f"/{template}.ptx.d " in line:
                command = line.removeprefix("  COMMAND = ").replace("$$", "$").replace("$ ", " ")
                words = shlex.split(
                    next(part for part in command.split(" && ") if " -ptx " in part))
                # Some are compiled under another name, which is replaced in their PTX.
                return [re.sub(r"^-DATTACCA_TEMPLATE=.*", f"-DATTACCA_TEMPLATE={template}", word)
                        for word in words]
    raise RuntimeError(f"{path} makes no {template}.ptx: configure with -DATTACCA_TEMPLATES=all")


def whole_command(words, source, image):
    """(the command changed to make a cubin of `source`, the kernel's own source file)."""
    kernel = next(word for word in words if word.endswith(".cu"))
    out, skip = [], 0
    for word in words:
        if skip:
            skip -= 1
        elif word in ("-MF", "-MT", "-o"):
            skip = 1
        elif word == "-ptx":
            out.append("-cubin")
        elif word not in ("-MD", kernel):
            out.append(re.sub(r"code=compute_", "code=sm_", word))
    return [*out, source, "-o", image], kernel


def build(options):
    os.makedirs(options.images, exist_ok=True)
    todo = [(template, name, epilogue) for template in options.templates
            for name, epilogue in EPILOGUES.items()]
    with ThreadPoolExecutor(options.jobs) as pool:
        done = list(pool.map(lambda one: try_build(options, *one), todo))
    sys.exit(0 if all(done) else 1)


def try_build(options, template, name, epilogue):
    try:
        build_one(options, template, name, epilogue)
        return True
    except (RuntimeError, subprocess.CalledProcessError) as error:
        print(f"{template}, {epilogue}: {error}", file=sys.stderr)
        return False


def build_one(options, template, name, epilogue):
    stem = os.path.join(options.images, f"{template}.{name}")
    emitted = program.answer(options.attacca, "bench", "whole", "--source", "--template", template,
                             "--epilogue", epilogue)
    command, kernel = whole_command(nvcc_command(options.build, template), stem + ".cu",
                                    stem + ".cubin")
    with open(stem + ".cu", "w", encoding="utf-8") as file:
        file.write(WHOLE.format(template=template, epilogue=epilogue, kernel=kernel,
                                body=body_for_whole(emitted)))
    begin = time.monotonic()
    subprocess.run(command, check=True)
    print(f"{stem}.cubin: nvcc took {time.monotonic() - begin:.1f} s", flush=True)


def compare(options, template, name, shape):
    image = os.path.join(options.images, f"{template}.{name}.cubin")
    row = {"template": template, "epilogue": EPILOGUES[name], **dict(zip("mnk", shape))}
    if not os.path.exists(image):
        return {**row, "failed": f"no {image}: run `splice_cost.py build` where nvcc is"}
    sizes = [part for axis, size in zip("mnk", shape) for part in (f"--{axis}", str(size))]
    try:
        said = program.answer(options.attacca, "bench", "whole", "--template", template,
                              "--epilogue",
                              EPILOGUES[name], "--image", image, *sizes, timeout=120)
    except RuntimeError as error:
        return {**row, "failed": str(error)}
    return {**row, **json.loads(said)}


def run(options):
    cases = [(template, name, shape) for template in options.templates for name in EPILOGUES
             for shape in SHAPES["_swap_" in template]]
    csv_run.run(cases, lambda case: compare(options, *case), COLUMNS, options.out + ".csv",
                options.minutes, {"driver": machine.driver_version(), "date": machine.today()})
    write_page(options)


def write_page(options):
    """From the CSV alone."""
    facts, rows = csv_run.read(options.out + ".csv")
    for row in rows:
        row.update({key: float(row[key]) for key in ("spliced_us", "whole_us") if row[key]})
    pages.write(options.out + ".md", page(facts, rows))


def page(facts, rows):
    timed = [row for row in rows if not row.get("failed")]
    ratios = [row["spliced_us"] / row["whole_us"] for row in timed]
    lines = ["# A spliced kernel against the same kernel compiled whole", "",
             f"On {machine.described(facts)}. Made by `bench/gpu/splice_cost.py`.", "",
             "*Whole*: nvcc compiled the template's source with the "
             "epilogue's body defined before the kernel. Both run with "
             "the same parameters, data and buffers, as CUDA graphs in turns; microseconds, "
             "medians of 15 rounds. Above 1: the splice is slower.", ""]
    if ratios:
        lines += [f"Geometric mean {geometric_mean(ratios):.4f}, from {min(ratios):.4f} to "
                  f"{max(ratios):.4f}; within 1 % in "
                  f"{sum(ratio <= 1.01 for ratio in ratios)} of {len(ratios)} cases.", ""]
    lines += pages.table(
        ["template", "epilogue", "M x N x K", "spliced", "whole", "ratio", "registers",
         "local bytes"],
        [[f"`{row['template']}`", f"`{row['epilogue']}`", pages.sizes(row),
          f"{row['spliced_us']:.2f}",
          f"{row['whole_us']:.2f}", f"{ratio:.4f}",
          f"{row['spliced_registers']}, {row['whole_registers']}",
          f"{row['spliced_local_bytes']}, {row['whole_local_bytes']}"]
         for row, ratio in zip(timed, ratios)], texts=3)
    lines += ["",
              *pages.listed("Failed:", [f"`{row['template']}`, `{row['epilogue']}`: {row['failed']}"
                                            for row in rows if row.get("failed")])]
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["build", "run", "page"])
    program.add_option(parser)
    parser.add_argument("--build", default="build", help="a build folder, for nvcc's options")
    parser.add_argument("--images", default="build/whole")
    parser.add_argument("--jobs", type=int, default=2, help="of nvcc at once; 3 GB each")
    parser.add_argument("--templates", nargs="+", default=TEMPLATES)
    parser.add_argument("--out", default="docs/benchmarks/gpu-splice", help="without .md and .csv")
    parser.add_argument("--minutes", type=float, default=1, help="stops cleanly after these")
    options = parser.parse_args(arguments)
    {"build": build, "run": run, "page": write_page}[options.action](options)


if __name__ == "__main__":
    main()
