"""Memory of each rank that the others read and write: torch's symmetric memory.

All ranks make the same calls in the same order. A barrier begins each call: then all ranks have
read what the last one left in the workspaces. Waiting ends with an error after the group's timeout,
as in the group's own collectives.
"""
from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from .clock import is_timing

BEGIN, FILLED, SIGNALS = 0, 1, 2  # channels of barriers; the first channel of signals


class Symmetric:
    """This rank's workspace and the others'."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device):
        self._rank, self._ranks = group.rank(), group.size()
        self._name: str = group.group_name
        self._wait_ms = int(_timeout(group, device) / timedelta(milliseconds=1))
        self._in_graphs: list[Any] = []  # a CUDA graph reads them when they are outgrown, too

    def collect(self, shard: torch.Tensor, out: torch.Tensor) -> None:
        memory = self._memory(shard.nbytes)
        self._publish(memory, shard)
        out[self._rank].copy_(shard)
        for peer in self._others():
            out[peer].copy_(memory.get_buffer(peer, shard.shape, shard.dtype))

    def _others(self) -> list[int]:
        """The other ranks, each rank's list beginning with another."""
        return [(self._rank + step) % self._ranks for step in range(1, self._ranks)]

    def _publish(self, memory: Any, shard: torch.Tensor) -> None:
        """Copies the shard to this rank's workspace; the others' are then filled, too."""
        memory.barrier(BEGIN, self._wait_ms)
        memory.get_buffer(self._rank, shard.shape, shard.dtype).copy_(shard)
        memory.barrier(FILLED, self._wait_ms)

    def _memory(self, size: int) -> Any:
        """The workspaces; a test without a GPU replaces it."""
        from torch.distributed import _symmetric_memory

        memory = _symmetric_memory.get_symm_mem_workspace(self._name, min_size=max(size, 1))
        if torch.cuda.is_current_stream_capturing() and not is_timing() \
                and not any(memory is each for each in self._in_graphs):
            self._in_graphs.append(memory)
        return memory


def _timeout(group: dist.ProcessGroup, device: torch.device) -> timedelta:
    """After which time the group's backend gives up."""
    options = getattr(group._get_backend(device), "options", None)
    return getattr(options, "_timeout", timedelta(minutes=10))
