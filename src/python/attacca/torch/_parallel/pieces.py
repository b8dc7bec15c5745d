"""Rows are copied, on a stream of their own, while other rows are multiplied."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist

from .exchange import Consume, Summand
from .summing import Summing, channel_of, pieces_of
from .workspace import BEGIN


class Pieces(Summing):
    """Gathered rows are multiplied as they arrive, the rank's own first; parts of a sum are copied
    as they are computed."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device):
        super().__init__(group, device)
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

    def _parts_of_own(self, shared: Any, summand: Summand, like: torch.Tensor,
                      ) -> Iterator[tuple[int, Sequence[torch.Tensor]]]:
        others, pieces = sorted(self._others()), pieces_of(len(like))
        count = len(like) // pieces
        computed = like.new_empty((len(others), *like.shape))
        shared.barrier(BEGIN, self._wait_ms)
        for piece in range(pieces):
            begin = piece * count
            for to, of_rank in zip(self._others(), computed):
                rows = of_rank.narrow(0, begin, count)
                summand.produce(to * len(like) + begin, rows)
                self._push(shared, to, channel_of(piece), rows,
                           self._slot(shared, to, like, self._place(to), begin, count))
        for piece in range(pieces):
            for source in others:
                shared.wait_signal(source, channel_of(piece), self._wait_ms)
            yield piece * count, [
                self._slot(shared, self._rank, like, place, piece * count, count)
                for place in range(len(others))]
        self._join()

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
