#!/usr/bin/env python3
"""Whole models of transformers under torch.compile, Inductor beside backend="attacca".

Each case is one model, batch and number of tokens. The time to the first result is taken cold (with
empty caches of Inductor, Triton and Attacca) and warm (with the caches on disk, the median of
several in turns). A cold time is the mean of two, taken in the order A, B, B, A. The first compile
of a model in a process takes up to a second longer than later ones, so one by Inductor comes before
them and is not counted. Then a call is timed in turns in a CUDA graph and without one. `--parts`
adds up the kernels of a call by kind instead: the profiler slows all later launches of its process.
Rows are written as they come, so that a run that its `--minutes` end is whole; run again with the
same --csv it goes on. models_page.py makes the page of one CSV or of both. Attacca's package must
be importable.

    bench/gpu/models.py --minutes 5 --csv models.csv
    bench/gpu/models.py --minutes 5 --csv models.csv --models llama,opt --tokens 16,512 --layers 32
    bench/gpu/models.py --minutes 5 --csv parts.csv --parts
    bench/gpu/models.py --device cpu --tiny --csv /tmp/models.csv    # tests it; times mean nothing
"""

import argparse
import csv
import functools
import gc
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
import types

import torch

import attacca.torch
import blocks
import csv_run
import machine
import model_configs
from models_page import COLUMNS, by_part

CONTENDERS = ("inductor", "attacca")
NUMBERS = itertools.count()
WARM_PAIRS = 2  # of warm starts, in turns: garbage collection alone takes up to 0.2 s of one


def compiled(contender, model, args):
    options = {} if contender == "inductor" else {"backend": "attacca", "options": args.options}
    return torch.compile(caller(model), dynamic=False, **options)


def caller(model):
    """A function that calls the model, whose code is an object of its own. Dynamo keeps what it
    compiled by code object and searches all of it in each call: compiled as the model's own
    forward, each contender would also pay for the search through the other's."""
    def call(**inputs):
        return model(**inputs)
    code = call.__code__.replace(co_name=f"call_{next(NUMBERS)}")
    return types.FunctionType(code, call.__globals__, code.co_name, None, call.__closure__)


def result(made):
    """The tensor of a model's output that is compared."""
    return made[0] if not hasattr(made, "last_hidden_state") else made.last_hidden_state


def first_result(contender, model, inputs, args):
    """(function, seconds until its first result)."""
    blocks.synchronize(args.device)
    gc.collect()  # else it may fall into the time of either contender
    begin = time.perf_counter()
    function = compiled(contender, model, args)
    function(**inputs)
    blocks.synchronize(args.device)
    return function, time.perf_counter() - begin


def start(contender, model, inputs, args, folder):
    """The seconds to the first result with the contender's caches in the folder."""
    caches(os.path.join(folder, contender))
    torch._dynamo.reset()
    return first_result(contender, model, inputs, args)[1]


def warm_up(args):
    """Pays once for what a process pays once: imports, and starting compilers."""
    model, inputs = model_configs.make("llama", 1, True, args.device, torch.bfloat16)
    for contender in CONTENDERS:
        first_result(contender, model, inputs(1, 4), args)


def measure(case, model, inputs, args):
    """A row of the CSV."""
    name, batch, tokens = case
    row = {"model": name, "layers": args.layers, "batch": batch, "tokens": tokens}
    order = CONTENDERS if (batch + tokens) % 2 else CONTENDERS[::-1]
    cold = {contender: [] for contender in order}
    with tempfile.TemporaryDirectory() as folders:
        start("inductor", model, inputs, args, os.path.join(folders, "first"))
        for turn, contender in enumerate((*order, *order[::-1])):
            folder = os.path.join(folders, str(turn // len(order)))
            attacca.torch.reset()
            cold[contender].append(start(contender, model, inputs, args, folder))
            if contender == "attacca":
                row |= decided()
        row |= {f"{contender}_cold_s": statistics.mean(of) for contender, of in cold.items()}
        warm = {contender: [] for contender in order}
        for contender in (*order, *order[::-1]) * WARM_PAIRS:
            known = cache_misses()
            warm[contender].append(start(contender, model, inputs, args, folder))
            if cache_misses() > known:
                row["note"] = f"{contender}'s warm start found nothing in Inductor's cache"
        row |= {f"{contender}_warm_s": statistics.median(of) for contender, of in warm.items()}
        torch._dynamo.reset()
        return row | times(model, inputs, args, order, folder)


def cache_misses():
    return torch._dynamo.utils.counters["inductor"]["fxgraph_cache_miss"]


def caches(folder):
    """Makes Inductor, Triton and Attacca use the folder, and forget what they have in memory."""
    for variable, name in (("TORCHINDUCTOR_CACHE_DIR", "inductor"), ("TRITON_CACHE_DIR", "triton"),
                           ("ATTACCA_CACHE_DIR", "attacca")):
        os.environ[variable] = os.path.join(folder, name)
        os.makedirs(os.environ[variable], mode=0o700, exist_ok=True)
    torch._inductor.utils.clear_caches()


def decided():
    report = attacca.torch.report()
    print(report, flush=True)
    return {"regions": sum(len(graph.fused) for graph in report.graphs),
            "left": sum(len(graph.left) for graph in report.graphs),
            "measuring": "; ".join(str(graph.measuring) for graph in report.graphs)}


def times(model, inputs, args, order, folder):
    """What a call takes: each contender is compiled twice, from its caches (A, B, B, A), and all
    four take turns, called directly and as CUDA graphs."""
    outputs, calls, graphs, row = {}, {}, {}, {}
    for turn, contender in enumerate((*order, *order[::-1])):
        caches(os.path.join(folder, contender))
        function, _ = first_result(contender, model, inputs, args)
        outputs[contender] = result(function(**inputs)).clone()
        calls[contender, turn] = functools.partial(function, **inputs)
    row["error"] = blocks.error(outputs["attacca"].float(), outputs["inductor"].double())
    if args.device != "cpu":
        try:
            for (contender, turn), call in calls.items():
                graphs[contender, turn] = blocks.captured(call, ())
            row |= of_each(graphs, args.device, 2 * args.turns, args.rounds, "")
            row["ratio"] = row["inductor_us"] / row["attacca_us"]
        except Exception as failure:  # noqa: BLE001  a model that waits for the GPU
            row["note"] = f"not captured: {csv_run.one_line(failure)}"
    # Few calls a turn and many turns: the host's speed changes within a second. And last, when the
    # compilers' processes have come to rest.
    row |= of_each(calls, args.device, 8 * args.turns, max(1, args.rounds // 3), "direct_")
    return row | {"direct_ratio": row["inductor_direct_us"] / row["attacca_direct_us"]}


def of_each(calls, device, turns, rounds, kind):
    """The microseconds of each contender's calls, which take turns."""
    found = blocks.in_turns(calls, device, turns, rounds)
    return {f"{name}_{kind}us": statistics.median(us for (whose, _), us in found.items()
                                                  if whose == name) for name in CONTENDERS}


def parts(case, model, inputs, args):
    """A row of the CSV with the microseconds of a call's kernels by kind."""
    name, batch, tokens = case
    row = {"model": name, "layers": args.layers, "batch": batch, "tokens": tokens}
    for contender in CONTENDERS:
        torch._dynamo.reset()
        function, _ = first_result(contender, model, inputs, args)
        found = profiled(functools.partial(function, **inputs))
        row |= {f"{contender}_{part}_us": us for part, us in found.items()}
    return row


def profiled(launch):
    """The microseconds of a call's kernels by kind."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiling:
        launch()
        torch.cuda.synchronize()
    return by_part((event.key, event.self_device_time_total)
                   for event in profiling.key_averages())


def cases(args):
    tokens = [int(each) for each in args.tokens.split(",")]
    for name in args.models.split(","):
        for batch, count in itertools.product(map(int, args.batches.split(",")), tokens):
            if count == tokens[0] or model_configs.has_tokens(name):
                yield name, batch, count


def known(path):
    """The rows that an earlier run wrote."""
    if not os.path.exists(path):
        return []
    return csv_run.read(path)[1]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", required=True)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--models", default=",".join(model_configs.NAMES))
    parser.add_argument("--tokens", default="16,512,1,2048")
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true", help="tiny widths")
    parser.add_argument("--options", type=json.loads, default={}, help="of the backend, as JSON")
    parser.add_argument("--parts", action="store_true",
                        help="of a GPU: the time by kind of kernel, and nothing else")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=10)
    return parser.parse_args()


def main():
    args = arguments()
    for name in args.models.split(","):
        if name not in model_configs.NAMES:
            sys.exit(f"unknown {name}: one of {', '.join(model_configs.NAMES)}")
    end = time.monotonic() + 60 * args.minutes
    rows = known(args.csv)
    done = {(row["model"], row["layers"], row["batch"], row["tokens"]) for row in rows}
    with open(args.csv, "a" if rows else "w", newline="", encoding="utf-8") as file, \
            torch.no_grad():
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n") if rows else \
            csv_run.begin(file, COLUMNS, machine.facts())
        warm_up(args)
        made = (None, None, None)
        for case in cases(args):
            if (case[0], str(args.layers), *map(str, case[1:])) in done:
                continue
            if time.monotonic() > end:
                print("out of time", flush=True)
                break
            try:
                if made[0] != case[0]:
                    made = (None, None, None)
                    gc.collect()
                    made = (case[0], *model_configs.make(case[0], args.layers, args.tiny,
                                                         args.device, torch.bfloat16))
                row = (parts if args.parts else measure)(case, made[1], made[2](*case[1:]), args)
            except Exception as failure:  # noqa: BLE001  one that fails leaves its reason
                row = dict(zip(COLUMNS, (case[0], args.layers, *case[1:])))
                row["note"] = f"{type(failure).__name__}: {csv_run.one_line(failure)}"
            writer.writerow(csv_run.rounded(row))
            file.flush()
            print(csv_run.rounded(row), flush=True)
            if args.device == "cuda":
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
