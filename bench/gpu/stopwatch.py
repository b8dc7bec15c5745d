"""Times launches on a GPU: CUDA graphs over rotating buffers, taking turns."""

import random
import statistics
from typing import Any, NamedTuple

import torch

import csv_run

MOST_LAUNCHES = 200
GRAPH_SECONDS = 2e-3  # of launches in one graph


def sets_beyond_cache(bytes_of_one, most=8):
    """How many sets of buffers together exceed twice the L2 cache."""
    cache = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 50 << 20)
    return max(1, min(most, 2 * cache // bytes_of_one + 1))


class Timed:
    """One contender, launch(i) -> output of set i < count: a graph of launches that walks the
    sets."""

    def __init__(self, launch, count):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())  # on which operands may still be made
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(stream):
            for _ in range(3):  # compiles, warms up; the last says how many make a graph
                begin.record()
                launch(0)
                end.record()
                end.synchronize()
        wanted = int(GRAPH_SECONDS / max(1e-6, begin.elapsed_time(end) * 1e-3))
        self.launches = max(count, min(-(-wanted // count) * count, MOST_LAUNCHES))
        self.graph = torch.cuda.CUDAGraph()
        # An output is kept until its set is used again: outputs rotate like operands.
        outputs = [None] * count
        with torch.cuda.graph(self.graph, stream=stream):
            for i in range(self.launches):
                outputs[i % count] = launch(i % count)
        self.held = launch, outputs
        self.stream, self.begin, self.end = stream, begin, end
        self.once()

    def once(self):
        """Microseconds a launch."""
        with torch.cuda.stream(self.stream):
            self.begin.record()
            self.graph.replay()
            self.end.record()
        self.end.synchronize()
        return self.begin.elapsed_time(self.end) * 1e3 / self.launches


def medians(contenders, rounds=25):
    """name -> median microseconds. Each round launches each graph once, without pauses, in another
    order: a contender that follows one with a high power draw runs at a lower clock."""
    times = {name: [] for name in contenders}
    shuffled = random.Random(20261122)
    for _ in range(rounds):
        for name in shuffled.sample(list(contenders), len(contenders)):
            times[name].append(contenders[name].once())
    return {name: statistics.median(each) for name, each in times.items()}


class Contender(NamedTuple):
    launch: Any  # launch(i): the output of set i
    timed: Any


def attempts(makers, count):
    """({name: Contender}, reasons) of `makers`, name -> make() -> launch(i): one that fails to be
    made or to run is left out, and named among the reasons."""
    made, reasons = {}, []
    for name, make in makers.items():
        try:
            launch = make()
            made[name] = Contender(launch, Timed(launch, count))
        except Exception as error:  # pylint: disable=broad-exception-caught
            reasons.append(f"{name}: {csv_run.one_line(error)}")
    return made, reasons


def medians_of(contenders, rounds):
    """As medians(), of Contenders."""
    return medians({name: each.timed for name, each in contenders.items()}, rounds)


def beside(us, own, ratios):
    """Columns NAME_us of those that were timed, and of their times over ours.

    us: microseconds by name. own: our name. ratios: the columns of the quotients by name."""
    timed = [name for name in ratios if name in us]
    return {**{f"{name}_us": f"{us[name]:.2f}" for name in timed},
            **{ratios[name]: f"{us[name] / us[own]:.2f}" if own in us else "" for name in timed}}
