"""The ways in which ranks exchange rows over torch's symmetric memory.

Every rank reads the others' workspaces. All ranks make the same calls in the same order. A barrier
begins each call: then all ranks have read what the last one left in the workspaces. Waiting ends
with an error after the group's timeout, as in the group's own collectives.
"""
from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist

from .clock import is_timing
from .exchange import (
    ADDED,
    AWAITING,
    DIRECT,
    PIECES,
    WHOLE,
    Consume,
    Exchange,
    InOrder,
    Produce,
    Whole,
)

_BEGIN, _FILLED, _SIGNALS = 0, 1, 2  # channels of barriers; the first channel of signals


class _Symmetric:
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
        memory.barrier(_BEGIN, self._wait_ms)
        memory.get_buffer(self._rank, shard.shape, shard.dtype).copy_(shard)
        memory.barrier(_FILLED, self._wait_ms)

    def _memory(self, size: int) -> Any:
        """The workspaces; a test without a GPU replaces it."""
        from torch.distributed import _symmetric_memory

        memory = _symmetric_memory.get_symm_mem_workspace(self._name, min_size=max(size, 1))
        if torch.cuda.is_current_stream_capturing() and not is_timing() \
                and not any(memory is each for each in self._in_graphs):
            self._in_graphs.append(memory)
        return memory


class Direct(_Symmetric):
    """One product of all rows. Sums are computed by one kernel that reads the other ranks' parts
    where they are."""

    adds_all_rows = True

    def gather(self, shard: torch.Tensor, consume: Consume) -> None:
        gathered = shard.new_empty((self._ranks, *shard.shape))
        self.collect(shard, gathered)
        consume(gathered.flatten(0, 1), 0)

    def scatter(self, produce: Produce, memory: torch.Tensor) -> Sequence[torch.Tensor]:
        rows = len(memory) // self._ranks
        return self._parts(produce, memory, self._rank * rows, rows)

    def reduce(self, produce: Produce, memory: torch.Tensor) -> Sequence[torch.Tensor]:
        return self._parts(produce, memory, 0, len(memory))

    def _parts(self, produce: Produce, like: torch.Tensor, begin: int,
               count: int) -> Sequence[torch.Tensor]:
        """So many rows from ``begin`` on of what each rank computed."""
        shared = self._memory(like.nbytes)
        shared.barrier(_BEGIN, self._wait_ms)
        produce(0, shared.get_buffer(self._rank, like.shape, like.dtype))
        shared.barrier(_FILLED, self._wait_ms)
        shape = (count, *like.shape[1:])
        return [shared.get_buffer(peer, shape, like.dtype, begin * like.stride(0))
                for peer in range(self._ranks)]


class Pieces(_Symmetric):
    """Rows are copied, on a stream of their own, while other rows are multiplied."""

    adds_all_rows = False

    def __init__(self, group: dist.ProcessGroup, device: torch.device):
        super().__init__(group, device)
        self._side = self._stream(device)
        self._with_one: Any = None  # the workspace whose word is 1

    def gather(self, shard: torch.Tensor, consume: Consume) -> None:
        rows = shard.shape[0]
        memory = self._memory(shard.nbytes)
        self._put_one(memory)
        self._publish(memory, shard)
        received = shard.new_empty((self._ranks - 1, *shard.shape))
        self._fork()
        arrived = []
        for peer, into in zip(self._others(), received):
            with self._beside():
                into.copy_(memory.get_buffer(peer, shard.shape, shard.dtype))
                arrived.append(self._record())
        consume(shard, self._rank * rows)
        for peer, part, event in zip(self._others(), received, arrived):
            self._await(event)
            consume(part, peer * rows)
        self._join()

    def scatter(self, produce: Produce, memory: torch.Tensor) -> Sequence[torch.Tensor]:
        parts = memory.view(self._ranks, -1, *memory.shape[1:])
        rows, shape = parts.shape[1], parts.shape[1:]
        shared = self._memory((self._ranks - 1) * parts[0].nbytes)
        shared.barrier(_BEGIN, self._wait_ms)
        self._fork()
        for step in range(1, self._ranks):
            to, source = (self._rank + step) % self._ranks, (self._rank - step) % self._ranks
            channel, offset = _SIGNALS + step - 1, (step - 1) * parts[0].numel()
            produce(to * rows, shared.get_buffer(self._rank, shape, parts.dtype, offset))
            shared.put_signal(to, channel, self._wait_ms)
            with self._beside():
                shared.wait_signal(source, channel, self._wait_ms)
                parts[source].copy_(shared.get_buffer(source, shape, parts.dtype, offset))
        produce(self._rank * rows, parts[self._rank])
        self._join()
        return parts.unbind()

    def reduce(self, produce: Produce, memory: torch.Tensor) -> Sequence[torch.Tensor]:
        produce(0, memory)
        parts = memory.new_empty((self._ranks, *memory.shape))
        self.collect(memory, parts)
        return parts.unbind()

    def _put_one(self, memory: Any) -> None:
        """Makes the word that other ranks copy behind this rank's rows 1."""
        if self._with_one is not memory:
            self._one(memory, self._rank).view(torch.int32).fill_(1)
            self._with_one = None if self._captures() else memory

    @staticmethod
    def _one(memory: Any, rank: int) -> torch.Tensor:
        """The last word of a rank's signals, which no channel uses."""
        word: torch.Tensor = memory.get_signal_pad(rank)[-1:]
        return word

    # ---- What streams do; a test without a GPU replaces these.

    @staticmethod
    def _stream(device: torch.device) -> Any:
        return torch.cuda.Stream(device)

    @staticmethod
    def _captures() -> bool:
        return torch.cuda.is_current_stream_capturing()

    def _fork(self) -> None:
        """What is queued beside from now on comes after what is queued now."""
        self._side.wait_stream(torch.cuda.current_stream())

    def _beside(self) -> contextlib.AbstractContextManager[Any]:
        """A context in which work is queued on the other stream."""
        return torch.cuda.stream(self._side)

    def _record(self) -> Any:
        return self._side.record_event()

    def _await(self, event: Any) -> None:
        torch.cuda.current_stream().wait_event(event)

    def _join(self) -> None:
        torch.cuda.current_stream().wait_stream(self._side)


class Awaiting(Pieces):
    """As pieces, but gathered rows are multiplied by one launch, whose blocks wait until their rows
    are here, where there is one. Ranks may differ in that.

    Behind a rank's rows a word is copied. Both copies read another GPU's memory, so that a copy
    engine makes them and no multiprocessor is needed while waiting blocks fill all of them.
    """

    def gather(self, shard: torch.Tensor, consume: Consume) -> None:
        if not consume.can_await:
            super().gather(shard, consume)
            return
        rows, others = shard.shape[0], self._others()
        memory = self._memory(shard.nbytes)
        self._put_one(memory)
        self._publish(memory, shard)
        received = shard.new_empty((len(others), *shard.shape))
        words = torch.zeros(self._ranks, dtype=torch.uint32, device=shard.device)
        self._fork()
        with self._beside():
            for place, (peer, into) in enumerate(zip(others, received), 1):
                into.copy_(memory.get_buffer(peer, shard.shape, shard.dtype))
                words[place:place + 1].copy_(self._one(memory, peer))
        consume.awaiting([shard, *received], [rank * rows for rank in (self._rank, *others)], words,
                         self._wait_ms)
        self._join()


def _timeout(group: dist.ProcessGroup, device: torch.device) -> timedelta:
    """After which time the group's backend gives up."""
    options = getattr(group._get_backend(device), "options", None)
    return getattr(options, "_timeout", timedelta(minutes=10))


# By group, not by its name: after destroy_process_group another group may have it.
_shared: WeakKeyDictionary[dist.ProcessGroup,
                           dict[torch.device, dict[str, Exchange]]] = WeakKeyDictionary()


def exchanges(group: dist.ProcessGroup, device: torch.device, dtype: torch.dtype,
              exact_sum: bool) -> dict[str, Exchange]:
    """The ways that a group is capable of, by name. The first call asks the other ranks whether
    they read each other's memory.

    Args:
        group: The group.
        device: Where this rank's tensors are.
        dtype: What is added.
        exact_sum: Whether all ways add in the order of ranks.
    """
    of_group = _shared.setdefault(group, {})
    if device not in of_group:
        of_group[device] = {DIRECT: Direct(group, device), PIECES: Pieces(group, device),
                            AWAITING: Awaiting(group, device)} \
            if device.type == "cuda" and _all_share_memory(group, device) else {}
    in_order = exact_sum or dtype not in ADDED
    name: str = group.group_name
    return {WHOLE: InOrder(name) if in_order else Whole(name), **of_group[device]}


def _all_share_memory(group: dist.ProcessGroup, device: torch.device) -> bool:
    """Whether the ranks are GPUs of one host that read each other's memory; alike on all ranks."""
    ranks: list[Any] = [None] * group.size()
    dist.all_gather_object(ranks, (socket.gethostname(), device.index), group=group)
    hosts, indices = {host for host, _ in ranks}, [index for _, index in ranks]
    reads = [None] * group.size()
    able = group.size() > 1 and len(hosts) == 1 and len(set(indices)) == len(indices) and all(
        index == device.index or index < torch.cuda.device_count()
        and torch.cuda.can_device_access_peer(device.index, index) for index in indices)
    dist.all_gather_object(reads, able, group=group)
    return all(reads)
