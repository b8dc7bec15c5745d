"""Rows are copied, on a stream of their own, while other rows are multiplied."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist

from .exchange import Consume, Summand
from .summing import Summing, pieces_of
from .workspace import BEGIN, SIGNALS


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
        received = like.new_empty((self._ranks - 1, *like.shape))
        turns = self._turns()
        places = {source: place for place, source in enumerate(sorted(s for _, s in turns))}
        pieces = pieces_of(len(like))
        rows = len(like) // pieces
        arrived: list[list[Any]] = [[] for _ in range(pieces)]
        shared.barrier(BEGIN, self._wait_ms)
        for piece, events in enumerate(arrived):
            begin, channel = piece * rows, SIGNALS + piece
            for slot, (to, source) in enumerate(turns):
                summand.produce(to * len(like) + begin,
                                self._slot(shared, self._rank, like, slot, begin, rows))
                shared.put_signal(to, channel, self._wait_ms)
                # What waits for a signal comes after what another rank waits for: it may hold a
                # multiprocessor that a product needs.
                self._fork()
                with self._beside():
                    shared.wait_signal(source, channel, self._wait_ms)
                    received[places[source]].narrow(0, begin, rows).copy_(
                        self._slot(shared, source, like, slot, begin, rows))
                    events.append(self._record())
        for piece, events in enumerate(arrived):
            for event in events:
                self._await(event)
            yield piece * rows, [part.narrow(0, piece * rows, rows) for part in received]

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
