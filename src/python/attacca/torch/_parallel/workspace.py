"""Memory of each rank that the others read and write: torch's symmetric memory.

All ranks make the same calls in the same order, in CUDA graphs too, and each call waits for all
other ranks, so that none ends before every rank has begun it. A rank that begins a call therefore
knows that all have left those before the last one. So calls have the halves of the workspace in
turns, and most begin without a barrier.

Waiting ends with an error after the group's timeout, as in the group's own collectives.
"""
from __future__ import annotations

import ctypes
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ..._errors import Error
from .clock import comparison

_BEGIN = 0  # the channel of the barrier before a call
_FILLED, SIGNALS = 0, 1  # of a half: the channel of its barrier, the first one of signals
_WORDS = 8  # of a half, which torch's channels leave
_ALIGNMENT = 256


class Half:
    """What a call has of all ranks' workspaces, with signals and words of its own."""

    def __init__(self, memory: Any, index: int, size: int, workspace: Workspace):
        self._memory, self._index, self._begin = memory, index, index * size
        self._rank, self._ranks, self.wait_ms = workspace.rank, workspace.ranks, workspace.wait_ms

    def buffer(self, rank: int, shape: Sequence[int], dtype: torch.dtype,
               first: int = 0) -> torch.Tensor:
        """A rank's memory from the element ``first`` on."""
        memory: torch.Tensor = self._memory.get_buffer(rank, shape, dtype,
                                                       self._begin // dtype.itemsize + first)
        return memory

    def barrier(self) -> None:
        """What follows sees what all ranks wrote before it."""
        self._memory.barrier(self._channel(_FILLED), self.wait_ms)

    def signal(self, to: int, channel: int) -> torch.Tensor:
        """The word of another rank that this rank makes 1, behind what it wrote there, for
        :meth:`wait_signal`."""
        word = self._channel(channel) * self._ranks + self._rank  # as torch's put_signal has it
        pad: torch.Tensor = self._memory.get_signal_pad(to)
        return pad[word:word + 1]

    def wait_signal(self, source: int, channel: int) -> None:
        self._memory.wait_signal(source, self._channel(channel), self.wait_ms)

    def word(self, rank: int, place: int) -> torch.Tensor:
        """One of a rank's words, of which there are 8: 0 when a call begins."""
        return self._words(rank).narrow(0, place, 1)

    def clear(self) -> None:
        """Makes this rank's words 0, when the call has no more use for them."""
        self._words(self._rank).view(torch.int32).zero_()

    def _words(self, rank: int) -> torch.Tensor:
        pad: torch.Tensor = self._memory.get_signal_pad(rank)
        return pad.narrow(0, len(pad) - _WORDS * (1 + self._index), _WORDS)

    def _channel(self, of_half: int) -> int:
        return 1 + 2 * of_half + self._index


class Workspace:
    """The ranks' workspaces as one of them sees them. A test without a GPU replaces what is of
    torch's symmetric memory and of CUDA graphs."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device):
        self.rank: int = group.rank()
        self.ranks: int = group.size()
        self.device = device
        self.wait_ms = int(_timeout(group, device) / timedelta(milliseconds=1))
        self._name: str = group.group_name
        self._memory: Any = None
        self._owner: Any = None  # the tensor whose memory it is
        self._size, self._index = 0, 0  # bytes of a half; the last call's half
        # The CUDA graph of the last call, as _capture() says, and its comparison.
        self._last: tuple[int, int] | None = None
        self._in_graphs: list[tuple[Any, Any]] = []  # which graphs use, when they are outgrown, too

    def open(self, size: int) -> Half:
        """Begins a call, which has so many bytes of each rank's workspace.

        A barrier comes first unless the last call is sure to run directly before this one, however
        often this one runs: if both are in one CUDA graph, or if both are called directly and no
        graph may be replayed between them. Then the last call has the other half. A comparison may
        end where one rank has captured its calls and another could not: none after it follows.

        Raises:
            Error: The workspace must grow while a CUDA graph is captured.
        """
        graph = self._capture()
        size = max(size, 1)  # a barrier needs memory, too
        if size > self._size:
            self._grow(size, graph)
        last = (graph, comparison())
        follows = last == self._last and (graph != 0 or not self._in_graphs)
        # Behind a barrier either half is free. A rank whose capture failed may have counted less.
        self._last, self._index = last, 1 - self._index if follows else 0
        if graph and not comparison() and \
                not any(self._memory is each for each, _ in self._in_graphs):
            self._in_graphs.append((self._memory, self._owner))
        if not follows:
            self._memory.barrier(_BEGIN, self.wait_ms)
        return Half(self._memory, self._index, self._size, self)

    def _grow(self, size: int, graph: int) -> None:
        if graph:
            raise Error(f"ranks exchange rows through {self._size} bytes of memory, and {size} are "
                        "needed, which cannot be had while a CUDA graph is captured", "group",
                        "call the function once before capturing")
        self._size = -(-size // _ALIGNMENT) * _ALIGNMENT
        self._memory, self._owner = self._allocated(2 * self._size)
        self._last = None

    def _allocated(self, size: int) -> tuple[Any, Any]:
        """Torch's symmetric memory of so many bytes, and what owns this rank's."""
        from torch.distributed import _symmetric_memory

        torch.cuda.synchronize(self.device)  # what uses the memory that this one replaces
        own = _symmetric_memory.empty(size, dtype=torch.uint8, device=self.device)
        return _symmetric_memory.rendezvous(own, self._name), own

    def _capture(self) -> int:
        """The number of the CUDA graph in which the current stream's work is captured; 0: none."""
        if not torch.cuda.is_current_stream_capturing():
            return 0
        status, number = ctypes.c_int(), ctypes.c_uint64()
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        failed = ctypes.CDLL("libcuda.so.1").cuStreamGetCaptureInfo(
            stream, ctypes.byref(status), ctypes.byref(number))
        if failed:
            raise RuntimeError(f"cuStreamGetCaptureInfo: CUDA error {failed}")
        return int(number.value)


class Symmetric:
    """A way of exchanging rows through the workspaces."""

    def __init__(self, workspace: Workspace):
        self._workspace, self._rank, self._ranks = workspace, workspace.rank, workspace.ranks

    def collect(self, shard: torch.Tensor, out: torch.Tensor) -> None:
        half = self._publish(shard)
        out[self._rank].copy_(shard)
        for peer in self._others():
            out[peer].copy_(half.buffer(peer, shard.shape, shard.dtype))

    def _others(self) -> list[int]:
        """The other ranks, each rank's list beginning with another."""
        return [(self._rank + step) % self._ranks for step in range(1, self._ranks)]

    def _place(self, of: int) -> int:
        """This rank's place among the others of another one, in order."""
        return self._rank - (self._rank > of)

    def _publish(self, shard: torch.Tensor) -> Half:
        """Copies the shard to this rank's workspace; the others' are then filled, too."""
        half = self._workspace.open(shard.nbytes)
        half.buffer(self._rank, shard.shape, shard.dtype).copy_(shard)
        half.barrier()
        return half

    @staticmethod
    def _slot(half: Half, rank: int, like: torch.Tensor, slot: int, begin: int,
              count: int) -> torch.Tensor:
        """So many rows from ``begin`` on of a rank's slot, each of which is as large as ``like``.
        """
        return half.buffer(rank, (count, *like.shape[1:]), like.dtype,
                           slot * like.numel() + begin * like.stride(0))


def _timeout(group: dist.ProcessGroup, device: torch.device) -> timedelta:
    """After which time the group's backend gives up."""
    options = getattr(group._get_backend(device), "options", None)
    return getattr(options, "_timeout", timedelta(minutes=10))
