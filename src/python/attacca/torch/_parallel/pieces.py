"""Rows are copied, on a stream of their own, while other rows are multiplied."""
from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from .exchange import Consume, Summand
from .summing import Summing, channel_of, pieces_of
from .workspace import Half


class Pieces(Summing):
    """Gathered rows are multiplied as they arrive, the rank's own first; parts of a sum are copied
    as they are computed."""

    def gather(self, shard: torch.Tensor, consume: Consume) -> None:
        rows = shard.shape[0]
        half = self._publish(shard)
        received = shard.new_empty((self._ranks - 1, *shard.shape))
        self._fork()
        arrived = []
        for peer, into in zip(self._others(), received):
            with self._beside():
                into.copy_(half.buffer(peer, shard.shape, shard.dtype))
                arrived.append(self._record())
        consume(shard, self._rank * rows)
        for peer, part, event in zip(self._others(), received, arrived):
            self._await(event)
            consume(part, peer * rows)
        self._join()

    def _parts_of_own(self, half: Half, summand: Summand, like: torch.Tensor,
                      ) -> Iterator[tuple[int, Sequence[torch.Tensor]]]:
        others, pieces = sorted(self._others()), pieces_of(len(like))
        count = len(like) // pieces
        computed = like.new_empty((len(others), *like.shape))
        for piece in range(pieces):
            begin = piece * count
            for to, of_rank in zip(self._others(), computed):
                rows = of_rank.narrow(0, begin, count)
                summand.produce(to * len(like) + begin, rows)
                self._fork()
                with self._beside():
                    self._send_rows(half, to, channel_of(piece), rows,
                                    self._slot(half, to, like, self._place(to), begin, count))
        for piece in range(pieces):
            for source in others:
                half.wait_signal(source, channel_of(piece))
            yield piece * count, [
                self._slot(half, self._rank, like, place, piece * count, count)
                for place in range(len(others))]
        self._join()
