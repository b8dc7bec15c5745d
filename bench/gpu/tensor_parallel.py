#!/usr/bin/env python3
"""Products that are one with a collective, on two GPUs or more, in turns with the unfused path over
NCCL, PyTorch's overlapped ops and eager.

    torchrun --standalone --nproc-per-node 2 bench/gpu/tensor_parallel.py --out PAGE [--minutes 3]
    bench/gpu/tensor_parallel.py --page PAGE.csv --out PAGE

First every contender's results are compared with a reference in f32, Attacca's from run to run bit
for bit, in --runs runs. The rows of the MLPs of Llama 3 8B and 70B, cut over eight ranks: gathered
rows by the gate's two weights of N = 1792 or 3584 columns, and K = 1792 or 3584 columns of the
gate's result by the rows of the last weight, with its residual.

Contenders: eager; NCCL, whose products' tails Inductor computes; PyTorch's overlap, the ops that
its pass for tensor parallelism (_micro_pipeline_tp) puts in, with tails by Inductor; each of the
ways of Attacca's function; and Attacca, which takes the way that it measured to be the fastest.
`products` and `wire` are the parts that overlap: the fused product of all rows, and the rows by
symmetric memory alone.

With --device cpu everything runs with gloo on a tiny model, by Attacca's one way there.
"""

import argparse
import contextlib
import datetime
import functools
import os
import statistics
import sys
import time
from typing import NamedTuple

import csv_run
import machine
import pages
from pages import number

RANKS_OF_MODEL = 8
LAYERS = {"Llama 3 8B": (4096, 14336), "Llama 3 70B": (8192, 28672)}
TINY = {"tiny": (64, 2048)}
ROWS = (512, 1024, 2048, 4096, 8192)
KINDS = ("gather gate", "scatter residual", "reduce residual")
WAYS = ("whole", "direct", "pieces", "awaiting", "pulled")
CONTENDERS = ("eager", "nccl", "torch overlap", *WAYS, "attacca")
PARTS = ("products", "wire")
COLUMNS = ["model", "kind", "rows", "inner", "width",
           *[f"{name.replace(' ', '_')}_us" for name in (*CONTENDERS, *PARTS)], "chosen", "error",
           "equal", "note"]
LAUNCHES, ROUNDS = 20, 9


class Case(NamedTuple):
    """A product of `rows` rows; `inner` columns of the MLP are this rank's."""
    model: str
    kind: str
    rows: int
    inner: int
    width: int


def cases(rows=ROWS, layers=LAYERS):
    return [Case(model, kind, each, inner // RANKS_OF_MODEL, width)
            for each in rows for model, (width, inner) in layers.items() for kind in KINDS]


# ---- What is measured


def other_kinds(case):
    """The ways that are none of this kind of product."""
    return ("pulled",) if case.kind == "gather gate" else ("awaiting",)


class Group:
    """This rank's place, and the tails that Inductor compiled."""

    def __init__(self, device):
        import torch
        import torch.distributed as dist
        import torch.nn.functional as F

        self.is_gpu = device == "cuda"
        self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if self.is_gpu else \
            torch.device("cpu")
        timeout = datetime.timedelta(seconds=120)
        if self.is_gpu:
            torch.cuda.set_device(self.device)
            dist.init_process_group("nccl", device_id=self.device, timeout=timeout)
        else:
            dist.init_process_group("gloo", timeout=timeout)
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.name = dist.group.WORLD.group_name
        self.swiglu, self.add = lambda g, u: F.silu(g) * u, lambda x, y: x + y
        if self.is_gpu:
            self.swiglu, self.add = (torch.compile(each, dynamic=True)
                                     for each in (self.swiglu, self.add))

    def ways(self):
        """Those that these ranks are capable of."""
        import torch
        import torch.distributed as dist

        from attacca.torch._parallel.ways import exchanges

        return exchanges(dist.group.WORLD, self.device, torch.bfloat16, False)

    def chosen(self, case):
        """The way that was chosen for CUDA graphs; None: there was only one."""
        import torch.distributed as dist

        from attacca.torch._parallel.choice import choices

        function, depth = {"gather gate": ("all_gather_matmul", case.width),
                           "scatter residual": ("matmul_reduce_scatter", case.inner),
                           "reduce residual": ("matmul_all_reduce", case.inner)}[case.kind]
        every = [choice.captured for (_, call), choice in choices(dist.group.WORLD).items()
                 if (call.function, call.rows, call.tensors[0][1]) == (function, case.rows,
                                                                       (depth,))]
        return every[-1] if every else None

    def synchronize(self):
        import torch

        if self.is_gpu:
            torch.cuda.synchronize()

    def largest(self, seconds):
        """The ranks' largest, on all of them."""
        import torch
        import torch.distributed as dist

        value = torch.tensor(seconds, device=self.device, dtype=torch.float64)
        dist.all_reduce(value, dist.ReduceOp.MAX)
        return value.item()


def operands(case, group):
    """The rank's tensors, and the whole result in f32 by the whole operands."""
    import torch

    torch.manual_seed(case.rows + case.inner)

    def normal(*shape, scale=1.0):
        return torch.randn(shape, device=group.device, dtype=torch.bfloat16) * scale
    if case.kind == "gather gate":
        x = normal(case.rows, case.width)
        gate, up = (normal(case.inner, case.width, scale=case.width ** -0.5) for _ in range(2))
        g, u = x.float() @ gate.float().t(), x.float() @ up.float().t()
        return (x.chunk(group.ranks)[group.rank].contiguous(), gate.t(), up.t()), \
            torch.nn.functional.silu(g) * u
    every = [(normal(case.rows, case.inner), normal(case.width, case.inner,
                                                    scale=case.inner ** -0.5))
             for _ in range(group.ranks)]
    residual = normal(case.rows, case.width)
    wanted = sum(x.float() @ w.float().t() for x, w in every) + residual.float()
    x, w = every[group.rank]
    if case.kind == "scatter residual":
        residual, wanted = (each.chunk(group.ranks)[group.rank].contiguous()
                            for each in (residual, wanted))
    return (x, w.t(), residual), wanted


def contenders(case, group, given, **tuning):
    """name -> function that computes the result."""
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F

    import attacca.torch

    def gathered(x):
        rows = x.new_empty((case.rows, x.shape[1]))
        dist.all_gather_into_tensor(rows, x)
        return rows

    def scattered(partial):
        mine = partial.new_empty((case.rows // group.ranks, case.width))
        dist.reduce_scatter_tensor(mine, partial)
        return mine

    def reduced(partial):
        dist.all_reduce(partial)
        return partial
    if case.kind == "gather gate":
        x, gate, up = given

        def eager():
            rows = gathered(x)
            return F.silu(rows @ gate) * (rows @ up)

        def nccl():
            rows = gathered(x)
            return group.swiglu(rows @ gate, rows @ up)

        def overlapped():
            if not group.is_gpu:
                raise NotImplementedError("PyTorch overlaps nothing on CPUs")
            # Without return_A it may use multicast, which not every machine has.
            _, (g, u) = torch.ops.symm_mem.fused_all_gather_matmul(x, [gate, up], 0, group.name,
                                                                   return_A=True)
            return group.swiglu(g, u)

        def ours(way):
            return attacca.torch.all_gather_matmul(x, (gate, up), "silu(acc0) * acc1", exchange=way,
                                                   **tuning)
    else:
        x, w, residual = given
        collect = scattered if case.kind == "scatter residual" else reduced
        function = attacca.torch.matmul_reduce_scatter if collect is scattered else \
            attacca.torch.matmul_all_reduce

        def eager():
            return collect(x @ w) + residual

        def nccl():
            return group.add(collect(x @ w), residual)

        def overlapped():
            if collect is reduced or not group.is_gpu:
                raise NotImplementedError("PyTorch overlaps no all_reduce")
            return group.add(torch.ops.symm_mem.fused_matmul_reduce_scatter(x, w, "sum", 0,
                                                                            group.name), residual)

        def ours(way):
            return function(x, w, after="acc + full(residual)", residual=residual, exchange=way,
                            **tuning)
    every = {"eager": eager, "nccl": nccl, "torch overlap": overlapped}
    # First of Attacca's: it measures its kernels, which the ways then know.
    every["attacca"] = functools.partial(ours, "measured")
    every |= {way: functools.partial(ours, way) for way in WAYS
              if way in group.ways() and way not in other_kinds(case)}
    return every


class Uncomputed:
    """A product that the ranks add, of which nothing is computed: rows only travel."""

    def __init__(self, case, device, dtype):
        self.rows, self._width, self._device, self._dtype = case.rows, case.width, device, dtype

    def memory(self, rows):
        import torch

        return torch.empty((rows, self._width), device=self._device, dtype=self._dtype)

    def produce(self, begin, into):
        pass

    def add(self, parts, rank, first, begin, out):
        pass


def parts(case, group, given):
    """name -> function: what overlaps in Attacca's calls."""
    import torch

    import attacca

    pieces, whole = group.ways().get("pieces"), group.ways()["whole"]
    if case.kind == "gather gate":
        x, gate, up = given
        gathered = torch.empty((case.rows, case.width), device=group.device, dtype=x.dtype)
        plan = attacca.compile("graph gate(x: bf16[M, K], g: bf16[N, K], u: bf16[N, K]) { "
                               "return silu(x @ transpose(g)) * (x @ transpose(u)) }",
                               device=str(group.device))
        out = torch.empty((case.rows, case.inner), device=group.device, dtype=x.dtype)
        return {"products": lambda: plan(gathered, gate.t(), up.t(), out=out),
                "wire": lambda: (pieces or whole).gather(x, lambda part, begin: None)}
    x, w, _ = given
    uncomputed = Uncomputed(case, group.device, x.dtype)

    def wire():
        if pieces and case.kind == "reduce residual":
            pieces.reduced(uncomputed)
        elif pieces:
            pieces.scattered(uncomputed)
        else:
            every = uncomputed.memory(case.rows)
            whole.scatter(uncomputed.produce, every)
            if case.kind == "reduce residual":
                parts_of_all = every.view(group.ranks, -1, case.width)
                whole.collect(parts_of_all[group.rank], torch.empty_like(parts_of_all))
    return {"products": lambda: attacca.matmul(x, w), "wire": wire}


# ---- Measuring


class Timed:
    """One contender: a CUDA graph of LAUNCHES launches, or launches one by one."""

    def __init__(self, launch, group):
        import torch

        self.launch, self.group = launch, group
        for _ in range(3):
            launch()
        group.synchronize()
        if not group.is_gpu:
            return
        self.begin, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        # torch.cuda.graph() collects garbage and returns free memory, which takes long.
        self.graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        with torch.cuda.stream(stream):
            self.graph.capture_begin(capture_error_mode="thread_local")
            for _ in range(LAUNCHES):
                self.held = launch()
            self.graph.capture_end()
        group.synchronize()

    def once(self):
        """Microseconds a launch."""
        if not self.group.is_gpu:
            begin = time.perf_counter()
            self.launch()
            return (time.perf_counter() - begin) * 1e6
        self.begin.record()
        self.graph.replay()
        self.end.record()
        self.group.synchronize()
        return self.begin.elapsed_time(self.end) * 1e3 / LAUNCHES


def measure(case, group, runs, tuning):
    import torch
    import torch.distributed as dist

    import attacca

    given, wanted = operands(case, group)
    row, notes, timed = case._asdict(), [], {}
    every = contenders(case, group, given, **tuning)
    for name, launch in {**every, **parts(case, group, given)}.items():
        try:
            if name in CONTENDERS:
                error = (launch().float() - wanted).norm() / wanted.norm()
                if name == "attacca":
                    row["chosen"] = group.chosen(case) or "whole"
                    row["error"] = f"{group.largest(error.item()):.2e}"
                if not error < 0.01:
                    notes.append(f"{name} is wrong by {error:.2e}")
            dist.barrier()
            timed[name] = Timed(launch, group)
        except NotImplementedError as reason:
            notes.append(str(reason))
        except attacca.Error as reason:
            if name != "awaiting":
                raise
            notes.append(str(reason))
    ours = every["attacca"]
    first = ours()
    equal = all(torch.equal(first, ours()) for _ in range(runs))
    row["equal"] = int(group.largest(0.0 if equal else 1.0) == 0.0)
    times = {name: [] for name in timed}
    for turn in range(ROUNDS):
        names = list(timed)
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            dist.barrier()
            times[name].append(timed[name].once())
    for name, each in times.items():
        row[f"{name.replace(' ', '_')}_us"] = group.largest(statistics.median(each))
    return {**row, "note": "; ".join(notes)}


def loop(group, runs):
    """Many runs of one gather and one reduction of changing sizes; returns the seconds."""
    import torch

    import attacca

    begin = time.monotonic()
    made = []
    width, inner = next(iter(LAYERS.values() if group.is_gpu else TINY.values()))
    for rows in (512, 1024, 640):
        for kind in KINDS:
            case = Case("loop", kind, rows, inner // RANKS_OF_MODEL, width)
            given, _ = operands(case, group)
            every = contenders(case, group, given)
            for way in ("attacca", *[way for way in WAYS if way in every]):
                with contextlib.suppress(attacca.Error):  # no kernel awaits: on no rank
                    made.append((every[way], every[way]().clone()))
    differ = torch.zeros((), device=group.device, dtype=torch.int64)
    for i in range(runs):
        call, first = made[i % len(made)]
        differ += (call() != first).any()
        if i % 1000 == 999:
            group.synchronize()
    if differ.item():
        raise RuntimeError(f"{differ.item()} of {runs} runs differ from the first")
    return time.monotonic() - begin


# ---- The page


def page(facts, rows):
    lines = ["# Products that are one with a collective", "",
             f"On {facts.get('ranks', '?')} GPUs, each {machine.described(facts)}. Made by "
             "`bench/gpu/tensor_parallel.py`; bf16.", "",
             "The MLPs of Llama 3, as eight ranks share them. *gather gate*: each rank's rows are "
             "gathered and multiplied by a gate's two weights. *scatter residual*: products whose "
             "sums over the ranks are scattered, with the residual; *reduce residual*: all rows of "
             "the sums to all ranks. Times are microseconds, the slowest rank's median, in CUDA "
             "graphs. *NCCL*: the collective, cuBLAS and a tail by Inductor. *PyTorch*: its "
             "overlapped ops over symmetric memory. *whole*, *direct*, *pieces*, *awaiting*, "
             "*pulled*: the ways of Attacca's function "
             "([docs/tensor-parallel.md](../tensor-parallel.md)). *Attacca*: the way that it "
             "measured to be the fastest, *chosen*. *bound*: the larger of the fused products "
             "alone and the copies alone.", ""]
    for said in ("remark", "loop"):
        if facts.get(said):
            lines += [f"{facts[said]}.", ""]
    cells, ratios = [], {"nccl": [], "torch_overlap": [], "bound": []}
    below = []
    for row in rows:
        time_ = {key[:-3]: float(value) for key, value in row.items()
                 if key.endswith("_us") and value}
        own, bound = time_["attacca"], max(time_["products"], time_["wire"])
        time_["bound"] = bound
        for name, each in ratios.items():
            if name in time_ and int(row["rows"]) >= 2048:
                each.append(time_[name] / own)
        if int(row["rows"]) < 2048:
            below.append(time_["nccl"] / own)
        cells.append([row["model"], row["kind"], row["rows"],
                      *[number(time_.get(name.replace(" ", "_"), ""), 1) for name in CONTENDERS],
                      row["chosen"], number(bound, 1), f"{time_['nccl'] / own:.2f}x",
                      f"{own / bound:.2f}", row["error"], "yes" if row["equal"] == "1" else "no"])
    lines += pages.table(["model", "kind", "rows", "eager", "NCCL", "PyTorch", *WAYS, "Attacca",
                          "chosen", "bound", "over NCCL", "of the bound", "error", "equal"],
                         cells, texts=2)
    lines += [""]
    named = {"nccl": "NCCL", "torch_overlap": "PyTorch's overlap", "bound": "the bound"}
    for name, each in ratios.items():
        if each:
            lines.append(f"- From 2048 rows on, the geometric mean of the time of {named[name]} "
                         f"over Attacca's is {statistics.geometric_mean(each):.3f}.")
    if below:
        lines.append(f"- Below 2048 rows, the geometric mean of the time of NCCL over Attacca's is "
                     f"{statistics.geometric_mean(below):.3f}, at worst {min(below):.2f}.")
    notes = [f"{row['model']}, {row['kind']}, {row['rows']}: {row['note']}" for row in rows
             if row["note"]]
    return "\n".join([*lines, "", *pages.listed("Notes:", notes)]).rstrip() + "\n"


def write_page(data, out):
    facts, rows = csv_run.read(data)
    pages.write(f"{out}.md", page(facts, rows))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, help="the page and its data, without an ending")
    parser.add_argument("--page", metavar="CSV", help="write the page from its data alone")
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rows", type=lambda text: [int(each) for each in text.split(",")],
                        default=ROWS, metavar="ROWS,...")
    parser.add_argument("--runs", type=int, default=20, help="runs of a case that must be equal")
    parser.add_argument("--loop", type=int, default=10_000, help="runs one after the other")
    parser.add_argument("--tuning-seconds", type=float, default=0,
                        help="for each of Attacca's products; 0: known choices, or the model's")
    options = parser.parse_args(arguments)
    if options.page:
        write_page(options.page, options.out)
        return
    import torch.distributed as dist

    group = Group(options.device)
    begin = time.monotonic()
    with contextlib.ExitStack() as closing:
        closing.callback(dist.destroy_process_group)
        took = loop(group, options.loop)
        said = f"{options.loop} calls one after the other were equal and took {took:.0f} s"
        facts = {**machine.facts(), "ranks": group.ranks, "loop": said}
        tuning = {"tuning": "measure", "tuning_seconds": options.tuning_seconds} \
            if options.tuning_seconds else {}
        rows = []
        for case in cases(options.rows, LAYERS if group.is_gpu else TINY):
            if group.largest(time.monotonic() - begin) > 60 * options.minutes:
                break
            rows.append(measure(case, group, options.runs, tuning))
            if group.rank == 0:
                print({key: value for key, value in csv_run.rounded(rows[-1]).items() if value},
                      flush=True)
                csv_run.write(f"{options.out}.csv", COLUMNS, facts, map(csv_run.rounded, rows))
        if group.rank == 0:
            print(said)
            write_page(f"{options.out}.csv", options.out)
        dist.barrier()  # no rank ends the group while another uses it


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    # A thread of gloo may still hold the last collective's tensors; if it releases them while
    # Python ends, the process aborts.
    os._exit(0)
