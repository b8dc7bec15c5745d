"""Times of compiled functions that compete, while something is compiled: on made-up inputs, in turns."""
from __future__ import annotations

import statistics
import time
from typing import Any, Callable, NamedTuple, Sequence

import torch

_TURNS = 9
_TURN_SECONDS = 2e-3
_MOST_SETS = 8
_OF_FREE_MEMORY = 3  # a third of it is for inputs


class Seconds(NamedTuple):
    """Of one call: without the host's part, as a CUDA graph has it, and called one after the other."""

    captured: float
    direct: float


class NoMemory(Exception):
    """Inputs do not fit beside what is there."""


def _bytes(fake: torch.Tensor) -> int:
    if 0 in fake.shape:
        return 0
    return (1 + sum((e - 1) * s for e, s in zip(fake.shape, fake.stride()))) * fake.element_size()


def _made_up(fake: torch.Tensor) -> torch.Tensor:
    """Of the same type and layout; whole numbers are 0, which is an index of everything."""
    memory = torch.zeros(max(_bytes(fake) // fake.element_size(), 1), dtype=fake.dtype, device=fake.device)
    if fake.dtype.is_floating_point:
        if fake.element_size() > 1:
            memory.normal_(0, 0.1)
        else:
            memory.copy_(torch.randn(memory.shape, device=fake.device, dtype=torch.float16) * 0.1)
    return memory.as_strided(fake.shape, fake.stride())


def input_sets(fakes: Sequence[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Inputs that take turns, so that none is found in a cache that would not hold it otherwise.

    Where memory is short, inputs of one type share theirs.

    Raises:
        NoMemory: Even so they do not fit.
    """
    size = sum(map(_bytes, fakes))
    device = fakes[0].device
    if device.type != "cuda":
        return [[_made_up(fake) for fake in fakes]]
    budget = torch.cuda.mem_get_info(device)[0] // _OF_FREE_MEMORY
    cache = torch.cuda.get_device_properties(device).L2_cache_size
    count = min(_MOST_SETS, 2 + 2 * cache // max(size, 1), budget // max(size, 1))
    if count:
        return [[_made_up(fake) for fake in fakes] for _ in range(count)]
    shared = {(fake.shape, fake.stride(), fake.dtype): fake for fake in fakes}
    if sum(map(_bytes, shared.values())) > budget:
        raise NoMemory(f"inputs of {size} bytes do not fit into a third of the free memory")
    made = {key: _made_up(fake) for key, fake in shared.items()}
    return [[made[fake.shape, fake.stride(), fake.dtype] for fake in fakes]]


def _captured(launch: Callable[[], None]) -> Callable[[], None]:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        launch()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        launch()
    replay: Callable[[], None] = graph.replay
    return replay


def _once(launch: Callable[[], None], rounds: int, cuda: bool) -> float:
    if not cuda:
        start = time.perf_counter()
        for _ in range(rounds):
            launch()
        return (time.perf_counter() - start) / rounds
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(rounds):
        launch()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / rounds * 1e-3


def _in_turns(launches: Sequence[Callable[[], None]], cuda: bool) -> list[float]:
    """The median of each one's times, all taking turns."""
    rounds = []
    for launch in launches:
        launch()
        longest = max(_once(launch, 2, cuda), 1e-9)
        rounds.append(max(2, min(200, int(_TURN_SECONDS / longest))))
    times: list[list[float]] = [[] for _ in launches]
    for _ in range(_TURNS):
        for i, launch in enumerate(launches):
            times[i].append(_once(launch, rounds[i], cuda))
    return [statistics.median(each) for each in times]


def compete(functions: Sequence[Callable[[list[Any]], Any]],
            sets: Sequence[Sequence[torch.Tensor]]) -> list[Seconds]:
    """The times of functions that take the list of their inputs, and may clear it."""
    device = sets[0][0].device
    cuda = device.type == "cuda"

    def over_all(function: Callable[[list[Any]], Any]) -> Callable[[], None]:
        def launch() -> None:
            for inputs in sets:
                function(list(inputs))
        return launch
    launches = [over_all(function) for function in functions]
    for launch in launches:
        launch()
    count = len(sets)
    direct = [seconds / count for seconds in _in_turns(launches, cuda)]
    if not cuda:
        return [Seconds(seconds, seconds) for seconds in direct]
    with torch.cuda.device(device):
        replays = [_captured(launch) for launch in launches]
        captured = [seconds / count for seconds in _in_turns(replays, cuda)]
    return [Seconds(*each) for each in zip(captured, direct)]
