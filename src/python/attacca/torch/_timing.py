"""Times compiled functions on made-up inputs, in turns; may run while torch compiles."""
from __future__ import annotations

import contextlib
import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

_TURNS = 7
_TURN_SECONDS = 2e-3
# After this many turns a comparison ends if one function was faster in all of them by so much.
_FEW_TURNS, _CLEARLY = 3, 1.05
_MOST_SETS = 8
_OF_FREE_MEMORY = 3  # inputs may take this part: a third


class Seconds(NamedTuple):
    """The times of one call: in a CUDA graph, without the host's time, and called directly, with
    it."""

    captured: float
    direct: float


class NoMemory(Exception):
    """The inputs do not fit into the free memory."""


def _bytes(fake: torch.Tensor) -> int:
    if 0 in fake.shape:
        return 0
    return (1 + sum((e - 1) * s for e, s in zip(fake.shape, fake.stride()))) * fake.element_size()


def _made_up(fake: torch.Tensor, rows: int | None = None,
             named: int | None = None) -> torch.Tensor:
    """A tensor of the same type and layout with random floats; integers are 0, which is a valid
    index everywhere. ``rows``: it holds where groups end, among which so many rows are divided
    evenly. ``named``: it names random rows of so many."""
    memory = torch.zeros(max(_bytes(fake) // fake.element_size(), 1), dtype=fake.dtype,
                         device=fake.device)
    if fake.dtype.is_floating_point:
        if fake.element_size() > 1:
            memory.normal_(0, 0.1)
        else:
            memory.copy_(torch.randn(memory.shape, device=fake.device, dtype=torch.float16) * 0.1)
    made = memory.as_strided(fake.shape, fake.stride())
    if rows is not None:
        count = max(fake.numel(), 1)
        made.copy_(torch.arange(1, fake.numel() + 1, device=fake.device) * rows // count)
    if named:
        made.copy_(torch.randint(named, fake.shape, device=fake.device))
    return made


def input_sets(fakes: Sequence[torch.Tensor], ends: Mapping[int, int] = MappingProxyType({}),
               named: Mapping[int, int] = MappingProxyType({})) -> list[list[torch.Tensor]]:
    """Sets of inputs to use in turns, so that a call does not find its inputs in the L2 cache.

    If memory is short there is one set, in which inputs of one type share memory. ``ends``,
    ``named``: as those of :class:`static.Static`.

    Raises:
        NoMemory: This set does not fit either.
    """
    def made_up() -> list[torch.Tensor]:
        return [_made_up(fake, ends.get(i), named.get(i)) for i, fake in enumerate(fakes)]

    size = sum(map(_bytes, fakes))
    device = fakes[0].device
    if device.type != "cuda":
        return [made_up()]
    budget = torch.cuda.mem_get_info(device)[0] // _OF_FREE_MEMORY
    cache = torch.cuda.get_device_properties(device).L2_cache_size
    count = min(_MOST_SETS, 2 + 2 * cache // max(size, 1), budget // max(size, 1))
    if count:
        return [made_up() for _ in range(count)]
    keys = [(fake.shape, fake.stride(), fake.dtype, ends.get(i), named.get(i))
            for i, fake in enumerate(fakes)]
    shared = dict(zip(keys, fakes))
    if sum(map(_bytes, shared.values())) > budget:
        raise NoMemory(f"inputs of {size} bytes do not fit into a third of the free memory")
    made = {key: _made_up(fake, *key[-2:]) for key, fake in shared.items()}
    return [[made[key] for key in keys]]


def captured(launch: Callable[[], object], count: int = 1) -> torch.cuda.CUDAGraph:
    """A CUDA graph of so many launches.

    Other than ``torch.cuda.graph`` it neither synchronizes nor returns free memory to the driver,
    and if it fails, torch can still draw random numbers.

    Raises:
        RuntimeError: The launches cannot be captured.
    """
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    try:
        with torch.cuda.stream(stream), _without_collector():
            _capture(graph, launch, count)
    except BaseException:
        # PyTorch's generator stays in the state of capturing, in which each random number drawn
        # outside of a graph is an error, until the end of the next capture.
        with contextlib.suppress(RuntimeError):
            one = torch.zeros(1, device=stream.device)
            with torch.cuda.stream(torch.cuda.Stream()):
                _capture(torch.cuda.CUDAGraph(), one.zero_, 1)
        raise
    torch.cuda.current_stream().wait_stream(stream)
    return graph


def _capture(graph: torch.cuda.CUDAGraph, launch: Callable[[], object], count: int) -> None:
    graph.capture_begin(capture_error_mode="thread_local")
    try:
        for _ in range(count):
            launch()
    except BaseException:
        with contextlib.suppress(RuntimeError):  # the error that broke it says more
            graph.capture_end()
        raise
    graph.capture_end()


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Python's collector destroys others' objects at any time, and freeing what some hold on a GPU
    breaks a capture."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def once(launch: Callable[[], object], rounds: int, cuda: bool) -> float:
    """The seconds of a call, of so many one after the other."""
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
    """The median time of each function, measured in turns; few, if one is clearly the fastest."""
    rounds = []
    for launch in launches:
        launch()
        longest = max(once(launch, 2, cuda), 1e-9)
        rounds.append(max(2, min(200, int(_TURN_SECONDS / longest))))
    times: list[list[float]] = [[] for _ in launches]
    for turn in range(_TURNS):
        for i, launch in enumerate(launches):
            times[i].append(once(launch, rounds[i], cuda))
        if turn + 1 >= _FEW_TURNS and _is_clear(times):
            break
    return [statistics.median(each) for each in times]


def _is_clear(times: Sequence[Sequence[float]]) -> bool:
    """Whether one function's slowest turn is clearly faster than the others' fastest ones."""
    first, *others = sorted(times, key=max)
    return bool(others) and _CLEARLY * max(first) < min(map(min, others))


def compete(functions: Sequence[Callable[[list[Any]], Any]],
            sets: Sequence[Sequence[torch.Tensor]]) -> list[Seconds]:
    """The times of functions, each of which takes a list of its inputs and may clear it."""
    device = sets[0][0].device
    cuda = device.type == "cuda"

    def over_all(function: Callable[[list[Any]], Any]) -> Callable[[], None]:
        def launch() -> None:
            for inputs in sets:
                function(list(inputs))
        return launch
    launches = [over_all(function) for function in functions]
    count = len(sets)
    with torch.cuda.device(device) if cuda else contextlib.nullcontext():
        for launch in launches:
            launch()
        direct = [seconds / count for seconds in _in_turns(launches, cuda)]
        if not cuda:
            return [Seconds(seconds, seconds) for seconds in direct]
        graphs = [captured(launch) for launch in launches]
        replayed = _in_turns([graph.replay for graph in graphs], cuda)
    return [Seconds(seconds / count, own) for seconds, own in zip(replayed, direct)]
