"""Products that are one with a collective on GPUs: every way of exchanging rows, directly and in
replayed CUDA graphs, on memory that is poisoned before, against sums in f64; then many calls of all
kinds one after the other, directly and in graphs of many calls.

    torchrun --standalone --nproc-per-node 2 tests/python/exchange_checks.py [--calls 10000]

Ends with an error if nothing moves for --seconds. --device cpu tries the script itself, with gloo
and a stand-in for symmetric memory.
"""
import argparse
import datetime
import faulthandler
import os
import random
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

import attacca.torch
from attacca.torch._parallel.choice import choices
from attacca.torch._parallel.ways import exchanges

WAYS = ("whole", "direct", "pieces", "awaiting", "pulled", "measured")
FUNCTIONS = {"gate": attacca.torch.all_gather_matmul, "product": attacca.torch.all_gather_matmul,
             "scatter": attacca.torch.matmul_reduce_scatter,
             "reduce": attacca.torch.matmul_all_reduce}
REPLAYS = 20


class Case:
    """A call's tensors, and what it computes."""

    def __init__(self, function, rows, columns, depth, dtype, device):
        rank, ranks = dist.get_rank(), dist.get_world_size()
        self.function, self.run, self.gathers = function, FUNCTIONS[function], \
            function in ("gate", "product")
        self.whole = {"x": (rows, depth), "w": (columns, depth), "w1": (columns, depth),
                      "bias": (columns,), "res": (rows, columns)}
        self.rank, self.ranks, self.dtype, self.device = rank, ranks, dtype, device
        self.generator = torch.Generator(device).manual_seed(rows + columns)
        self.own = {}
        self.draw()

    def draw(self):
        """Other numbers in the same memory; alike on all ranks."""
        whole = {name: (torch.randn(shape, generator=self.generator, device=self.device)
                        * (shape[1] ** -0.5 if name in ("w", "w1") else 1)).to(self.dtype)
                 for name, shape in self.whole.items()}
        x, w, w1, bias, res = (each.double() for each in whole.values())
        own = dict(whole)
        if self.function == "gate":
            wanted = F.silu(x @ w.t()) * (x @ w1.t())
        elif self.function == "product":
            wanted = F.silu(x @ w.t() + bias) * res
        else:
            wanted = x @ w.t() + res
        if self.gathers:
            own["x"] = whole["x"].chunk(self.ranks)[self.rank]
        else:
            own["x"] = whole["x"].chunk(self.ranks, 1)[self.rank]
            own["w"] = whole["w"].chunk(self.ranks, 1)[self.rank]
            if self.function == "scatter":
                own["res"] = whole["res"].chunk(self.ranks)[self.rank]
                wanted = wanted.chunk(self.ranks)[self.rank]
        self.wanted = wanted
        for name, each in own.items():
            if name in self.own:
                self.own[name].copy_(each)
            else:
                self.own[name] = each.contiguous()

    def __call__(self, way):
        x, w, w1, bias, res = self.own.values()
        if self.function == "gate":
            return self.run(x, (w.t(), w1.t()), "silu(acc0) * acc1", exchange=way)
        if self.function == "product":
            return self.run(x, w.t(), "silu(acc + row(bias)) * full(res)", bias=bias, res=res,
                            exchange=way)
        return self.run(x, w.t(), after="acc + full(res)", res=res, exchange=way)

    def check(self, result, what):
        error = (result.double() - self.wanted).norm() / self.wanted.norm()
        if not error < 0.01:  # or NaN
            raise RuntimeError(f"rank {self.rank}: {what}: wrong by {error:.3g}")


def poison(device):
    """Fills free memory with NaNs, so that what is not written shows."""
    if device.type == "cuda":
        held = [torch.full((size,), float("nan"), device=device)
                for size in (1 << 12, 1 << 16, 1 << 20, 1 << 22, 1 << 24) for _ in range(4)]
        del held


def delayed(device, generator):
    """Lets this rank come later than others, or earlier."""
    pause = generator.random() * 2e-3
    if device.type == "cuda":
        torch.cuda._sleep(int(pause * 1e9))
    else:
        time.sleep(pause / 10)


def available(case, way, shared):
    if way in ("whole", "measured"):
        return True
    return shared and (case.gathers or way != "awaiting") and not (case.gathers and way == "pulled")


def check_way(case, way, generator):
    for turn in range(4):
        poison(case.device)
        delayed(case.device, generator)
        case.check(case(way), f"{case.function} by {way}, call {turn}")
        case.draw()
    if case.device.type != "cuda":
        return
    torch.cuda.synchronize()
    dist.barrier()
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode="thread_local")
        result = case(way)
        graph.capture_end()
    for turn in range(REPLAYS):
        case.draw()
        result.fill_(float("nan"))
        delayed(case.device, generator)
        graph.replay()
        case.check(result, f"{case.function} by {way}, replay {turn}")


class Many:
    """Calls one after the other, in an order that is alike on all ranks, each equal to the first
    like it, which is right."""

    def __init__(self, cases, shared, generator, seconds):
        self.order, self.generator, self.seconds = random.Random(1), generator, seconds
        self.device, self.first = cases[0].device, {}
        for case in cases:
            for way in WAYS[:-1]:
                if available(case, way, shared):
                    result = case(way)
                    case.check(result, f"{case.function} by {way}")
                    self.first[case, way] = result.clone()
        self.choices = list(self.first)
        self.differ = torch.zeros((), device=self.device, dtype=torch.int64)

    def call(self):
        case, way = each = self.order.choice(self.choices)
        self.differ += (case(way) != self.first[each]).any()

    def directly(self, calls):
        for call in range(calls):
            self.call()
            if self.generator.random() < 0.01:
                delayed(self.device, self.generator)
            if call % 500 == 499:
                self.check(f"{call + 1} calls")

    def in_graphs(self, calls, of_graph=16, graphs=8):
        """Graphs are replayed in any order, with direct calls between them."""
        stream, made = torch.cuda.Stream(), []
        for _ in range(graphs):
            graph = torch.cuda.CUDAGraph()
            torch.cuda.synchronize()
            with torch.cuda.stream(stream):
                graph.capture_begin(capture_error_mode="thread_local")
                for _ in range(self.order.randrange(1, of_graph)):
                    self.call()
                graph.capture_end()
            made.append(graph)
        self.differ.zero_()  # what was captured has computed nothing
        for turn in range(2 * calls // of_graph):
            self.order.choice(made).replay()
            if self.order.random() < 0.3:
                self.call()
            if self.generator.random() < 0.1:
                delayed(self.device, self.generator)
            if turn % 100 == 99:
                self.check(f"{turn + 1} replays")

    def check(self, what):
        if self.differ.item():
            raise RuntimeError(f"in {what}, {self.differ.item()} results differ from the first")
        faulthandler.dump_traceback_later(self.seconds, exit=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--ways", default=",".join(WAYS))
    options = parser.parse_args()
    gpu = options.device == "cuda"
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device, timeout=datetime.timedelta(seconds=30))
    else:
        import symmetric_stand_in

        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
        symmetric_stand_in.share(dist.group.WORLD)
        symmetric_stand_in.await_parts()
    generator = random.Random(dist.get_rank())
    shared = len(exchanges(dist.group.WORLD, device, torch.bfloat16, False)) > 1
    sizes = ((64, 256, 512), (512, 1792, 4096), (640, 1024, 2048), (2048, 3584, 8192)) if gpu else \
        ((32, 48, 64), (64, 32, 96))
    small = [Case(function, *size, torch.bfloat16, device) for function in FUNCTIONS
             for size in sizes if size[0] < 2048]
    begin = time.monotonic()
    Many(small, shared, generator, options.seconds).directly(options.calls)  # no graph yet
    for dtype in (torch.bfloat16, torch.float16):
        for function in FUNCTIONS:
            for size in sizes:
                faulthandler.dump_traceback_later(options.seconds, exit=True)
                case = Case(function, *size, dtype, device)
                ways = [way for way in options.ways.split(",") if available(case, way, shared)]
                for way in ways:
                    check_way(case, way, generator)
                if dist.get_rank() == 0:
                    print(f"{function} {size} {dtype}: {', '.join(ways)} right", flush=True)
    if gpu:
        Many(small, shared, generator, options.seconds).in_graphs(options.calls)
        torch.cuda.synchronize()
    dist.barrier()
    if dist.get_rank() == 0:
        for (_, call), choice in choices(dist.group.WORLD).items():
            print(f"{call.function} {call.rows}: {choice.captured} captured, {choice.direct}; "
                  + ", ".join(f"{name} {(each.captured or each.direct) * 1e6:.1f}"
                              for name, each in choice.seconds.items()) + " us")
        print(f"{options.calls} calls{' and as many in graphs' * gpu} among them: all is right; "
              f"{time.monotonic() - begin:.0f} s")
    faulthandler.cancel_dump_traceback_later()
    dist.barrier()
    os._exit(0)


if __name__ == "__main__":
    main()
