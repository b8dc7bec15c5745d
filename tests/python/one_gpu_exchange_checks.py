"""Sums over two ranks by one launch of each, on one GPU: the ranks are streams of this process, and
memory of each stands for symmetric memory. Directly and in replayed CUDA graphs, on memory that is
poisoned before, against sums in f64. Between GPUs: exchange_checks.py.

    CUDA_DEVICE_MAX_CONNECTIONS=32 tests/python/one_gpu_exchange_checks.py

Streams that wait for each other need queues of their own, hence the variable. Shapes are small:
launches that wait for each other must run at the same time.
"""
import torch

import attacca.torch  # noqa: F401  defines the ops
from attacca import _core
from attacca.torch._parallel import awaiting, functions, ops

RANKS, BYTES, WORDS, REPLAYS = 2, 1 << 24, 2304, 20
SHAPES = ((64, 256, 512), (256, 512, 1792), (512, 512, 1024))  # rows, columns and depth
PIECES = (256, 32)  # of at least so many rows
DEVICE = torch.device("cuda", 0)


class Memory:
    """Of all ranks, as one of them sees it."""

    def __init__(self, rank, every, pads, core):
        self.rank, self.every, self.pads, self.core = rank, every, pads, core

    def get_buffer(self, rank, shape, dtype, storage_offset=0):
        begin, length = (count * dtype.itemsize for count in (storage_offset,
                                                              torch.Size(shape).numel()))
        return self.every[rank][begin:begin + length].view(dtype).view(shape)

    def get_signal_pad(self, rank):
        return self.pads[rank]

    def wait_signal(self, source, channel, timeout_ms):
        word = self.pads[self.rank][channel * RANKS + source:].data_ptr()
        stream = torch.cuda.current_stream().cuda_stream
        self.core.wait_value(stream, word, 1)
        self.core.write_value(stream, word, 0)


class Rank(awaiting.Awaiting):
    """A rank without a process group."""

    def __init__(self, rank, memory):
        self._rank, self._ranks, self._wait_ms = rank, RANKS, 5000
        self._sides, self._side, self._core = self._streams(DEVICE), None, memory.core
        self._signal_word = torch.ones(1, dtype=torch.int32, device=DEVICE).view(torch.uint32)
        self.memory, self.stream = memory, torch.cuda.Stream(DEVICE)

    def _memory(self, size):
        assert size <= BYTES, size
        return self.memory


def made(function, rows, columns, depth):
    """Each rank's summand, and the whole result in f64."""
    generator = torch.Generator(DEVICE).manual_seed(rows + columns)

    def normal(*shape, scale=1.0):
        return (torch.randn(shape, generator=generator, device=DEVICE) * scale).bfloat16()
    residual, wanted, summands = normal(rows, columns), 0, []
    options = ops.Options("fp32", "known", exchange="awaiting").text()
    for rank in range(RANKS):
        x, w = normal(rows, depth), normal(columns, depth, scale=depth ** -0.5)
        wanted = wanted + x.double() @ w.double().t()
        own = residual.chunk(RANKS)[rank].contiguous() if function == "scatter" else residual
        summands.append(ops._Reduction(
            *functions._reduced(x, w.t(), "acc", "acc + full(res)", None, {"res": own}, RANKS),
            options))
    return summands, wanted + residual.double()


def run(function, ranks, summands):
    """Every rank's result, queued on its stream."""
    results = []
    for rank, summand in zip(ranks, summands):
        with torch.cuda.stream(rank.stream):
            results.append(rank.scattered(summand) if function == "scatter"
                           else rank.reduced(summand))
    return results


def check(function, results, wanted, what):
    torch.cuda.synchronize()
    for rank, result in enumerate(results):
        own = wanted.chunk(RANKS)[rank] if function == "scatter" else wanted
        error = (result.double() - own).norm() / own.norm()
        if not error < 0.005:  # or NaN
            raise RuntimeError(f"rank {rank}: {function}, {what}: wrong by {error:.3g}")


def poison(memory, *results):
    for tensor in (*memory, *results):
        tensor.view(torch.uint8).fill_(255)
    torch.cuda.synchronize()


def check_shape(function, shape, ranks, memory):
    summands, wanted = made(function, *shape)
    # Loading a kernel waits for those that run, which would wait for the other rank.
    if not all(summand.can_await(rank, RANKS) for rank, summand in enumerate(summands)):
        raise RuntimeError(f"no launch computes {shape}")
    for turn in range(4):
        poison(memory)
        check(function, run(function, ranks, summands), wanted, f"call {turn} of {shape}")
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream(DEVICE)
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode="thread_local")
        for rank in ranks:
            rank.stream.wait_stream(stream)
        results = run(function, ranks, summands)
        for rank in ranks:
            stream.wait_stream(rank.stream)
        graph.capture_end()
    for turn in range(REPLAYS):
        poison(memory, *results)
        graph.replay()
        check(function, results, wanted, f"replay {turn} of {shape}")


def main():
    torch.cuda.set_device(DEVICE)
    core = _core.Device.open(str(DEVICE))
    memory = [torch.empty(BYTES, dtype=torch.uint8, device=DEVICE) for _ in range(RANKS)]
    pads = [torch.zeros(WORDS, dtype=torch.int32, device=DEVICE).view(torch.uint32)
            for _ in range(RANKS)]
    ranks = [Rank(rank, Memory(rank, memory, pads, core)) for rank in range(RANKS)]
    for function in ("scatter", "reduce"):
        for shape in SHAPES:
            for awaiting._LEAST in PIECES:
                check_shape(function, shape, ranks, memory)
                print(f"{function} {shape} in {awaiting.pieces_of(shape[0] // RANKS, RANKS)} "
                      "pieces: right", flush=True)


if __name__ == "__main__":
    main()
