#!/usr/bin/env python3
"""Whole transformer blocks under torch.compile: eager, Inductor, max-autotune and
backend="attacca".

Each contender's output is compared with the block in f64, timed in turns in a CUDA graph and
without one, and its time to the first result is taken cold (empty caches) and warm (again, from the
caches on disk). Writes OUT.csv as it goes and at the end OUT.md, by blocks_page.py. Attacca's
package must be importable.

    bench/gpu/blocks.py --minutes 4 --out docs/benchmarks/gpu-blocks
    bench/gpu/blocks.py --device cpu --tiny --out /tmp/blocks     # tests it; times mean nothing
"""

import argparse
import copy
import csv
import os
import statistics
import sys
import tempfile
import time

FOLDER = tempfile.TemporaryDirectory()
os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(FOLDER.name, "inductor")
os.environ["ATTACCA_CACHE_DIR"] = os.path.join(FOLDER.name, "attacca")

import torch

import attacca.torch
import block_models
import blocks_page
import machine
import pages
from blocks_page import COLUMNS
from csv_run import one_line
from pages import number

CONTENDERS = ["eager", "inductor", "max_autotune", "attacca"]


def compiled(contender, block, args):
    torch._dynamo.reset()
    if contender == "eager":
        return block
    if contender == "inductor":
        return torch.compile(block, dynamic=False)
    if contender == "max_autotune":
        return torch.compile(block, dynamic=False, mode="max-autotune-no-cudagraphs")
    options = {"tuning": args.tuning,
               "tuning_seconds": args.tuning_seconds} if args.device == "cuda" \
        else {"policy": "always"}
    return torch.compile(block, dynamic=False, backend="attacca", options=options)


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def first_result(contender, block, inputs, args):
    """(function, seconds until its first result)."""
    synchronize(args.device)
    begin = time.perf_counter()
    function = compiled(contender, block, args)
    function(*inputs)
    synchronize(args.device)
    return function, time.perf_counter() - begin


def error(got, want):
    """Root mean square of the difference from f64, over that of the result."""
    return ((got.double() - want).square().mean().sqrt() / want.square().mean().sqrt()).item()


def captured(function, inputs):
    """A function that launches the whole block as one CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            function(*inputs)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function(*inputs)
    return graph.replay


def microseconds(launch, device, rounds):
    """The time of one launch, measured over several in a row."""
    synchronize(device)
    if device == "cpu":
        begin = time.perf_counter()
        for _ in range(rounds):
            launch()
        return (time.perf_counter() - begin) / rounds * 1e6
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(rounds):
        launch()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / rounds * 1e3


def in_turns(launches, device, turns, rounds):
    """The median of each launch's times; the launches take turns."""
    times = {name: [] for name in launches}
    for _ in range(turns):
        for name, launch in launches.items():
            times[name].append(microseconds(launch, device, rounds))
    return {name: statistics.median(each) for name, each in times.items()}


class Budget:
    def __init__(self, minutes):
        self.end = time.monotonic() + 60 * minutes
        self.minutes = minutes

    def left(self):
        """The fraction that is left."""
        return (self.end - time.monotonic()) / (60 * self.minutes)


def what_was_decided():
    """(the number of fused regions, the notes on the graph and on regions that were not fused)."""
    graphs = attacca.torch.report().graphs
    notes = [graph.note for graph in graphs if graph.note]
    notes += sorted({left.reason for graph in graphs for left in graph.left if left.op == "region"})
    return sum(len(graph.fused) for graph in graphs), "; ".join(notes)


def measure(name, tokens, contenders, args, budget):
    """The rows of one block."""
    device, dtype = args.device, torch.bfloat16
    block, widths, source = block_models.make(name, args.tiny, device, dtype, args.plain)
    inputs = block_models.inputs(name, widths, tokens, device, dtype)
    want = copy.deepcopy(block).double()(*(x.double() for x in inputs))
    rows, direct = {}, {}
    for contender in contenders:
        row = dict.fromkeys(COLUMNS, "") | {
            "date": machine.today(), "device": args.device_name, "torch": torch.__version__,
            "block": name, "source": source, "tokens": tokens, "contender": contender}
        rows[contender] = row
        if contender == "max_autotune" and budget.left() < args.max_autotune_until:
            row["note"] = "no time left for it"
            continue
        try:
            attacca.torch.reset()
            function, row["cold_s"] = first_result(contender, block, inputs, args)
            decided = what_was_decided()
            if contender != "eager" and args.warm:
                function, row["warm_s"] = first_result(contender, block, inputs, args)
            if contender == "attacca":
                row["regions"], row["note"] = decided
            row["error"] = error(function(*inputs), want)
            direct[contender] = lambda function=function: function(*inputs)
        except Exception as failure:  # noqa: BLE001  one that fails leaves its reason
            row["note"] = f"{type(failure).__name__}: {one_line(failure)}"
    del want
    time_all(rows, direct, inputs, args)
    return list(rows.values())


def time_all(rows, direct, inputs, args):
    for contender, us in in_turns(direct, args.device, args.turns, args.rounds).items():
        rows[contender]["direct_us"] = us
    if args.device == "cpu":
        return
    # The addresses of buffers change times by one or two percent, so each block is captured several
    # times.
    graphs = {}
    for again in range(args.captures):
        for contender, launch in direct.items():
            try:
                graphs[contender, again] = captured(lambda *_: launch(), inputs)
            except Exception as failure:  # noqa: BLE001
                rows[contender]["note"] = f"not captured: {one_line(failure)}"
    times = in_turns(graphs, args.device, args.turns, args.rounds)
    for contender in direct:
        if own := [us for (name, _), us in times.items() if name == contender]:
            rows[contender]["graph_us"] = statistics.median(own)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="OUT.csv and OUT.md are written")
    parser.add_argument("--minutes", type=float, default=4)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true", help="tiny widths")
    parser.add_argument("--plain", action="store_true",
                        help="plain modules even where transformers is there")
    parser.add_argument("--blocks", default=",".join(block_models.NAMES))
    parser.add_argument("--tokens", default="512,16")
    parser.add_argument("--contenders", default=",".join(CONTENDERS))
    parser.add_argument("--max-autotune-until", type=float, default=0.6,
                        help="max-autotune takes part while this fraction of the time is left")
    parser.add_argument("--tuning", default="measure")
    parser.add_argument("--tuning-seconds", type=float, default=5)
    parser.add_argument("--no-warm", dest="warm", action="store_false")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--captures", type=int, default=5)
    return parser.parse_args()


def main():
    args = arguments()
    for names, known in ((args.blocks, block_models.NAMES), (args.contenders, CONTENDERS)):
        for name in names.split(","):
            if name not in known:
                sys.exit(f"unknown {name}: one of {', '.join(known)}")
    args.device_name = torch.cuda.get_device_name() if args.device == "cuda" else "a CPU"
    budget, rows = Budget(args.minutes), []
    os.makedirs(os.path.dirname(os.path.abspath(args.out)), exist_ok=True)
    with open(args.out + ".csv", "w", newline="") as file, torch.no_grad():
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for tokens in map(int, args.tokens.split(",")):
            for name in args.blocks.split(","):
                if budget.left() <= 0:
                    print(f"no time left for {name} at {tokens} tokens", flush=True)
                    continue
                made = measure(name, tokens, args.contenders.split(","), args, budget)
                rows += made
                writer.writerows(made)
                file.flush()
                print(name, tokens,
                      {row["contender"]: number(row["graph_us"] or row["direct_us"], 1)
                                     for row in made}, f"{budget.left():.0%} left", flush=True)
                if args.device == "cuda":
                    torch.cuda.empty_cache()
    pages.write(args.out + ".md", blocks_page.page(rows))


if __name__ == "__main__":
    main()
