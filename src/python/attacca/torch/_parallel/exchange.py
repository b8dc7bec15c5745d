"""How ranks exchange rows: in pieces over torch's symmetric memory, while products of other pieces
run, or whole by a collective.

With symmetric memory every rank reads the others' workspaces. All ranks make the same calls in the
same order. A barrier begins each call: then all ranks have read what the last one left in the
workspaces. Waiting ends with an error after the group's timeout, as in the group's own collectives.
"""
from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist

# Multiplies a part of the gathered rows, which begins at this row.
Consume = Callable[[torch.Tensor, int], None]
# Computes the rows of a result from this row on, as many as the tensor has.
Produce = Callable[[int, torch.Tensor], None]


class Exchange(Protocol):
    """One rank's side of an exchange of equally many rows with each other rank."""

    def gather(self, shard: torch.Tensor, consume: Consume) -> None:
        """Gives all ranks' rows to ``consume``, in one part or several in any order."""

    def scatter(self, produce: Produce, parts: torch.Tensor) -> None:
        """Sends each rank the rows of its part, and fills ``parts`` [ranks, rows, N] with what the
        others computed for this rank's."""

    def collect(self, shard: torch.Tensor, out: torch.Tensor) -> None:
        """Fills ``out`` [ranks, ...] with all ranks' shards."""


class Whole:
    """The exchange by a collective of the group's backend."""

    def __init__(self, name: str):
        self._name = name

    @property
    def _group(self) -> dist.ProcessGroup:
        return dist.distributed_c10d._resolve_process_group(self._name)

    def gather(self, shard: torch.Tensor, consume: Consume) -> None:
        gathered = shard.new_empty((self._group.size(), *shard.shape))
        self.collect(shard, gathered)
        consume(gathered.flatten(0, 1), 0)

    def scatter(self, produce: Produce, parts: torch.Tensor) -> None:
        mine = torch.empty_like(parts)
        produce(0, mine.flatten(0, 1))
        dist.all_to_all_single(_bytes(parts), _bytes(mine), group=self._group)

    def collect(self, shard: torch.Tensor, out: torch.Tensor) -> None:
        dist.all_gather_into_tensor(_bytes(out), _bytes(shard), group=self._group)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """A dense tensor as bytes: backends take fewer dtypes than products have."""
    return tensor.view(-1).view(torch.uint8)


_BEGIN, _FILLED, _SIGNALS = 0, 1, 2  # channels of barriers; the first channel of signals


class Pieces:
    """The exchange in pieces over symmetric memory: copies run on a stream of their own."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device):
        self._rank, self._ranks = group.rank(), group.size()
        self._name: str = group.group_name
        self._wait_ms = int(_timeout(group, device) / timedelta(milliseconds=1))
        self._side = self._stream(device)

    def gather(self, shard: torch.Tensor, consume: Consume) -> None:
        rows = shard.shape[0]
        memory = self._memory(shard.nbytes)
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

    def scatter(self, produce: Produce, parts: torch.Tensor) -> None:
        rows, shape = parts.shape[1], parts.shape[1:]
        memory = self._memory((self._ranks - 1) * parts[0].nbytes)
        memory.barrier(_BEGIN, self._wait_ms)
        self._fork()
        for step in range(1, self._ranks):
            to, source = (self._rank + step) % self._ranks, (self._rank - step) % self._ranks
            channel, offset = _SIGNALS + step - 1, (step - 1) * parts[0].numel()
            produce(to * rows, memory.get_buffer(self._rank, shape, parts.dtype, offset))
            memory.put_signal(to, channel, self._wait_ms)
            with self._beside():
                memory.wait_signal(source, channel, self._wait_ms)
                parts[source].copy_(memory.get_buffer(source, shape, parts.dtype, offset))
        produce(self._rank * rows, parts[self._rank])
        self._join()

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

    # ---- What a GPU and its streams do; a test without a GPU replaces these.

    def _memory(self, size: int) -> Any:
        from torch.distributed import _symmetric_memory

        return _symmetric_memory.get_symm_mem_workspace(self._name, min_size=max(size, 1))

    @staticmethod
    def _stream(device: torch.device) -> Any:
        return torch.cuda.Stream(device)

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


def _timeout(group: dist.ProcessGroup, device: torch.device) -> timedelta:
    """After which time the group's backend gives up."""
    options = getattr(group._get_backend(device), "options", None)
    return getattr(options, "_timeout", timedelta(minutes=10))


# By group, not by its name: after destroy_process_group another group may have it.
_exchanges: WeakKeyDictionary[dist.ProcessGroup,
                              dict[tuple[torch.device, bool], Exchange]] = WeakKeyDictionary()


def exchange(name: str, device: torch.device, symmetric: bool) -> Exchange:
    """The exchange of a group.

    Args:
        name: The group's name in torch.
        device: Where this rank's tensors are.
        symmetric: Whether symmetric memory may be used. The first call asks the other ranks whether
            all of them can.
    """
    group = dist.distributed_c10d._resolve_process_group(name)
    of_group = _exchanges.setdefault(group, {})
    known = of_group.get((device, symmetric))
    if known is None:
        pieces = symmetric and device.type == "cuda" and _all_share_memory(group, device)
        known = Pieces(group, device) if pieces else Whole(name)
        of_group[(device, symmetric)] = known
    return known


def _all_share_memory(group: dist.ProcessGroup, device: torch.device) -> bool:
    """Whether the ranks are GPUs of one host that read each other's memory; alike on all ranks."""
    ranks: list[Any] = [None] * group.size()
    dist.all_gather_object(ranks, (socket.gethostname(), device.index), group=group)
    hosts, indices = {host for host, _ in ranks}, [index for _, index in ranks]
    reads = [None] * group.size()
    able = len(hosts) == 1 and len(set(indices)) == len(indices) and all(
        index == device.index or index < torch.cuda.device_count()
        and torch.cuda.can_device_access_peer(device.index, index) for index in indices)
    dist.all_gather_object(reads, able, group=group)
    return all(reads)
