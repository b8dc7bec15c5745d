#!/usr/bin/env python3
"""The pages of docs/benchmarks: what each shows, the command that writes it, its data, and whether
its subject has changed since it was measured.

    bench/gpu/documented.py    writes docs/benchmarks/README.md and the notices of old pages

A page that is measured again, on a later date, loses its notice; its entry in OUTDATED is then to
be removed, which tests/tools/bench_gpu_test.py asks for.
"""

import os
import re
import textwrap
from typing import NamedTuple

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
FOLDER = "docs/benchmarks"
COLUMNS = 100


class Page(NamedTuple):
    """Steps are scripts of bench/gpu with their arguments, for run.py, which fills in `{attacca}`,
    `{library}`, `{minutes}` and `{data}`, the CSV without .csv. The last step writes the page from
    its data alone. A page without steps is written by `command`."""
    name: str
    shows: str
    steps: tuple = ()
    minutes: float = 0   # for the steps
    usual: bool = False  # part of `make bench-gpu` where no pages are named
    command: str = ""
    data: tuple = ()     # further files it is made of, or that are made with it
    needs: str = ""      # a path without which the steps cannot run, and how to make it


PAGES = [
    Page("gpu-epilogues", "bias + GELU, bias + SiLU times a residual, beside PyTorch, Inductor and "
         "cuBLASLt",
         ("peers.py --attacca {attacca} --csv {data}.csv --minutes {minutes} "
          "--max-autotune-every 4",
          "table.py {data}.csv --out {data}"), 4, True, data=("gpu-epilogues.svg",)),
    Page("gpu-gates", "gated products beside PyTorch and Inductor",
         ("peers.py --attacca {attacca} --csv {data}.csv --minutes {minutes} --epilogues swiglu "
          "gpt_oss --max-autotune-every 8", "table.py {data}.csv --out {data}"), 9,
         data=("gpu-gates.svg",)),
    Page("gpu-mixed", "4- and 8-bit weights beside cuBLAS's bf16 product",
         ("mixed.py --attacca {attacca} --library {library} --epilogues bias_silu --limit 10 "
          "--out {data}.csv --minutes {minutes}", "mixed_page.py {data}.csv --out {data}"), 9),
    Page("gpu-scaled-blocks", "8-bit floats with scales beside cuBLASLt",
         ("scaled_blocks.py --attacca {attacca} --library {library} --out {data}.csv "
          "--minutes {minutes}", "scaled_blocks_page.py {data}.csv --out {data}"), 4),
    Page("gpu-grouped", "grouped products of layers of experts beside `torch._grouped_mm` and a "
         "fused kernel in Triton",
         ("grouped.py --attacca {attacca} --library {library} --out {data}.csv --parts up down "
          "--minutes {minutes}",
          "grouped.py --attacca {attacca} --library {library} --out {data}-kn.csv --parts up "
          "--layout kn --layers gpt-oss-20b qwen3-30b-a3b --tokens 16 512 4096 "
          "--routings uniform --minutes {minutes}",
          "grouped_page.py {data}.csv {data}-kn.csv --out {data}"), 5,
         data=("gpu-grouped-kn.csv",)),
    Page("gpu-experts-in-codes", "experts' weights in MXFP4 and in integers of 4 and 8 bits beside "
         "the same weights in bf16",
         ("experts_in_codes.py --attacca {attacca} --library {library} --limit 10 "
          "--out {data}.csv --minutes {minutes}",
          "experts_in_codes_page.py {data}.csv --out {data}"), 9),
    Page("gpu-together", "products of one input by one launch, beside one launch for each and "
         "PyTorch",
         ("together.py --attacca {attacca} --library {library} --out {data}.csv "
          "--minutes {minutes}", "together_page.py {data}.csv --out {data}"), 4),
    Page("gpu-references",
         "the shapes of other systems' benchmarks: int8, odd sizes, layers of models",
         ("references.py --attacca {attacca} --library {library} --autotune --out {data} "
          "--minutes {minutes}",
          "mixed.py --attacca {attacca} --library {library} --torch --out {data}-mixed.csv "
          "--rows 16 64 256 1024 --shapes 4096x11008 12288x4096 22016x4096 4096x4096 "
          "--minutes {minutes}",
          "references_page.py {data}.csv --mixed {data}-mixed.csv --out {data}"), 9,
         data=("gpu-references-mixed.csv", "gpu-references.svg")),
    Page("gpu-blocks", "transformer blocks under `torch.compile` beside Inductor",
         ("blocks.py --out {data} --minutes {minutes}", "blocks_page.py {data}.csv --out {data}"),
         9),
    Page("models", "whole models under `torch.compile` beside Inductor, and their first calls",
         ("models.py --csv {data}.csv --minutes {minutes}",
          "models_page.py {data}.csv --out {data}"), 9),
    Page("expert-layers", "layers of experts under `torch.compile` beside Inductor",
         ("expert_layers.py --csv {data}.csv --minutes {minutes}",
          "expert_layers_page.py {data}.csv --out {data}"), 3),
    Page("gpu-cold", "the time of a new epilogue from text to loaded kernel, and of a launch",
         ("cold.py --attacca {attacca} --out {data} --minutes {minutes}",
          "cold.py --page --out {data}"), 1.5, True),
    Page("gpu-splice", "spliced kernels beside the same kernels compiled whole by nvcc",
         ("splice_cost.py run --attacca {attacca} --out {data} --minutes {minutes}",
          "splice_cost.py page --out {data}"), 1, True,
         needs="build/whole: `bench/gpu/splice_cost.py build` makes it where nvcc is"),
    Page("gpu-user-kernels", "Triton kernels with their tails inside",
         ("user_kernels.py --attacca {attacca} --out {data} --minutes {minutes}",
          "user_kernels.py --page --out {data}"), 2.5, True),
    Page("gpu-cuda-kernels", "CUDA C++ kernels with CUB, CuTe and CUTLASS, with their tails inside",
         ("user_kernels.py --cuda --attacca {attacca} --out {data} --minutes {minutes}",
          "user_kernels.py --cuda --page --out {data}"), 3,
         needs="build/cuda_kernels: `bench/gpu/cuda_kernel_cases.py` makes it where nvcc is"),
    Page("first-call", "random shapes without tuning and tuned, beside eager and Inductor",
         ("first_call.py --csv {data}.csv --minutes {minutes}",
          "first_call.py --page {data}.csv --out {data}"), 6),
    Page("ranking", "how good the choice of a kernel is without measuring",
         command="bench/gpu/ranking.py collect (on a GPU), train, evaluate",
         data=("bench/data/candidates.csv", "bench/data/candidates2.csv",
               "bench/data/candidates3.csv", "bench/data/candidates4.csv",
               "bench/data/candidates5.csv")),
    Page("batch-invariant", "what `batch_invariant=True` costs",
         ("batch_invariant.py --out {data}.csv --minutes {minutes}",
          "batch_invariant_page.py {data}.csv --out {data}"), 5),
    Page("tensor-parallel", "products that are one with a collective, beside NCCL and PyTorch's "
         "overlapped ops, on two GPUs",
         command="torchrun --standalone --nproc-per-node 2 bench/gpu/tensor_parallel.py",
         data=("tensor-parallel.csv",)),
    Page("tuning-growth", "how long tuning takes for up to a million problems on up to 1,000 GPUs",
         command="bench/tuning_growth.py database, scheduler, page", data=("tuning-growth.csv",)),
    Page("cpu", "fused beside op by op and oneDNN's post-ops, on a CPU", command="make bench-cpu"),
    Page("onnx", "small ONNX models in f32, fp16 and quantised, beside ONNX Runtime, on a CPU",
         command="make bench-onnx"),
    Page("onednn", "versions of oneDNN at the products that the CPU executor asks for",
         command="bench/onednn/run.py"),
    Page("host-time", "what a call costs on the host, from Python", command="bench/host_time.py"),
    Page("cpu-small-k", "what was tried for K = 128 on a CPU", command="written by hand"),
]

# What the pages found, beside what the README says of them. Ratios as there.
RESULTS = [
    "Queries, keys and values by one launch, 45 cases on an H100 (2026-11-26): [1.43 over the "
    "faster of a tuned launch for each and PyTorch](gpu-together.md), at worst 0.99.",
    "Gated products, 51 cases: [1.07 over the fastest peer](gpu-gates.md); slower in 4, at worst "
    "0.98.",
    "int8 products, dequantised: [1.8 over Inductor's max-autotune, 2.5 over PyTorch's "
    "ops](gpu-references.md).",
    "Layers of experts in bf16, 86 cases of grouped products with their tails (2026-11-24 and 28): "
    "[1.45 over the faster of PyTorch and Inductor](gpu-grouped.md). Over a fused kernel in Triton "
    "in its fastest configuration, 80 cases: 0.98 to 0.99 up to 64 tokens, 1.08 for 512, 1.24 for "
    "4096. Over the fastest of all three 1.10, at worst 0.89.",
    "Experts' weights in codes, on an H200 (2026-11-28), over the same weights in bf16 under "
    "Inductor: [in MXFP4 1.69 to 2.22 up to 64 tokens, 1.15 for 512](gpu-experts-in-codes.md), "
    "0.76 for 4096; in codes of 4 and 8 bits 1.64 to 1.98, 1.25 to 1.30, 0.80 to 0.81.",
    "8-bit floats from 1024 rows on, on an H100 (2026-11-25), of the speed of cuBLASLt's product "
    "of the same factors: [0.90 to 0.96](gpu-scaled-blocks.md) with scales of blocks, 0.89 to 0.93 "
    "with one scale a tensor, 0.93 to 1.09 with `fast=true`.",
    "Products that are one with a collective, on two H200s (2026-11-30), from 2048 rows on: [1.51 "
    "over NCCL](tensor-parallel.md), 1.30 over PyTorch's overlapped ops; with fewer rows 1.37 over "
    "NCCL, at worst 1.18.",
    "`batch_invariant=True` on an H100 (2026-11-25), 48 products: [at most 2 % "
    "slower](batch-invariant.md) than the usual choice.",
    "Transformer blocks under `torch.compile`: [1.00 to 1.16 over Inductor](gpu-blocks.md).",
    "Users' kernels with their tails inside, over the kernel and Inductor's tail: in Triton, on an "
    "H100 (2026-11-26), [1.23](gpu-user-kernels.md), slower in 2 of 24 pairs, at worst 0.78; in "
    "CUDA C++ [1.28](gpu-cuda-kernels.md).",
]

# Pages with the shapes of reference systems, each beside its peers in turns.
REFERENCES = ("gpu-references", "gpu-gates", "gpu-scaled-blocks", "gpu-mixed", "gpu-user-kernels",
              "gpu-cuda-kernels")

NAMES = ("Kernels have been renamed since: a name now begins with its folder's in "
         "src/templates/kernels (`bf16_*` is `cutlass_*`, `sm90_*` is `wgmma_*`, `sm80_*` and "
         "`sm89_*` are `mma_*`, `mixed_*` is `packed_*`).")
PARTS = ("The source of the wgmma kernels has been divided into parts since (pipeline, feed, "
         "finish), which changes their PTX.")
WGMMA = ("The wgmma kernels have changed since: one elected lane requests bulk copies, which made "
         "products of 64 rows and more faster, tiles of 160 and 176 columns were added, and the "
         "source was divided into parts; the pointwise kernel of the unfused path is faster for "
         "whole chunks.")
# Page: the date of the measurement that the notice is about, and what has changed since.
OUTDATED = {
    "gpu-epilogues": ("2026-11-22", f"{WGMMA} {NAMES}"),
    "gpu-gates": ("2026-11-22", f"{PARTS} {NAMES}"),
    "gpu-mixed": ("2026-11-22", f"{PARTS} {NAMES}"),
    "gpu-references": ("2026-11-22", f"{WGMMA} {NAMES}"),
    "gpu-blocks": ("2026-11-22", WGMMA),
    "gpu-splice": ("2026-11-22", f"{WGMMA} {NAMES}"),
    "cpu": ("2026-11-22", "GELU is more exact near 0 since, by a few more operations."),
}
MARK = "> **Older than the code.** "


def date_of(text):
    """The day a page was measured: the first date on it; none on a page without one."""
    found = re.search(r"\b20\d\d-\d\d-\d\d\b", text)
    return found and found.group()


def filled(text, indent):
    return textwrap.fill(text, COLUMNS, subsequent_indent=indent, break_on_hyphens=False)


def with_notice(name, text):
    """The page with its notice below the title, and no other one."""
    lines = re.sub(rf"{re.escape(MARK)}(.+\n)+\n", "", text).splitlines()
    date, what = OUTDATED.get(name, (None, None))
    if date and date == date_of("\n".join(lines)):
        lines[1:1] = ["", filled(MARK + what, "> ")]
    return "\n".join(lines).rstrip() + "\n"


def files(page):
    """What lies in docs/benchmarks for a page; names with a folder lie elsewhere."""
    own = [f"{page.name}.csv"] if page.steps else []
    return [f"{page.name}.md", *own, *(name for name in page.data if "/" not in name)]


def command(page):
    if page.command:
        return page.command
    return "make bench-gpu" if page.usual else f"make bench-gpu PAGES={page.name}"


def linked(name):
    return f"[{os.path.basename(name)}]({'../../' + name if '/' in name else name})"


def index(texts):
    """docs/benchmarks/README.md. `texts`: page by name."""
    lines = ["# Benchmarks", "",
             "Written by `bench/gpu/documented.py`, which has this table. `make bench-gpu` needs",
             "a GPU, PyTorch and `make gpu`; it measures the pages that take a few minutes and",
             "prints the command of every other page. *Older than the code*: what was measured",
             "has changed since; the page says how at its top.", "",
             "| page | shows | measured | written by | data |", "|---|---|---|---|---|"]
    for page in PAGES:
        date = date_of(texts[page.name]) or "-"
        old = ", older than the code" if MARK in texts[page.name] else ""
        own = [f"{page.name}.csv"] if page.steps else []
        data = ", ".join(linked(name) for name in [*own, *page.data] if not name.endswith(".svg"))
        by = f"`{command(page)}`" if "hand" not in page.command else page.command
        lines.append(f"| [{page.name}]({page.name}.md) | {page.shows} | {date}{old} | {by} | "
                     f"{data or 'the page'} |")
    lines += ["", "## Results", "",
              filled("Beside those of the [README](../../README.md#how-fast), where ratios are "
                     "explained. On NVIDIA H200 from 2026-11-22 to 24, where no other GPU is "
                     "named.", ""), "", *(filled(f"- {each}", "  ") for each in RESULTS)]
    return "\n".join(lines) + "\n"


def read_pages(folder):
    texts = {}
    for page in PAGES:
        with open(os.path.join(folder, page.name + ".md"), encoding="utf-8") as file:
            texts[page.name] = file.read()
    return texts


def main():
    folder = os.path.join(ROOT, FOLDER)
    texts = {name: with_notice(name, text) for name, text in read_pages(folder).items()}
    for name, text in {**texts, "README": index(texts)}.items():
        with open(os.path.join(folder, name + ".md"), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
