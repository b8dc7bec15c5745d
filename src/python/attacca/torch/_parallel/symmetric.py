"""The ways in which ranks read each other's rows over symmetric memory."""
from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from .exchange import Consume, Produce
from .workspace import BEGIN, FILLED, SIGNALS, Symmetric


class Direct(Symmetric):
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
        shared.barrier(BEGIN, self._wait_ms)
        produce(0, shared.get_buffer(self._rank, like.shape, like.dtype))
        shared.barrier(FILLED, self._wait_ms)
        shape = (count, *like.shape[1:])
        return [shared.get_buffer(peer, shape, like.dtype, begin * like.stride(0))
                for peer in range(self._ranks)]


class Pieces(Symmetric):
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
        shared.barrier(BEGIN, self._wait_ms)
        self._fork()
        for step in range(1, self._ranks):
            to, source = (self._rank + step) % self._ranks, (self._rank - step) % self._ranks
            channel, offset = SIGNALS + step - 1, (step - 1) * parts[0].numel()
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
