"""One launch for all ranks' rows, whose blocks wait for rows that other ranks send.

The stream that multiplies has nothing but this launch. What rows and words travel by is on a stream
beside it, and needs no multiprocessor, since blocks that wait may fill all of them: copy engines
copy rows into other ranks' memory, and the stream itself writes words there.

Sums by one such launch, which reports what it has computed and awaits what it adds, were slower
than in "pulled" and "pieces" from 512 to 4096 rows on two H200s.
"""
from __future__ import annotations

import torch

from .beside import Beside
from .direct import Direct
from .exchange import Consume


class Awaiting(Beside, Direct):
    """Gathered rows are multiplied as they arrive, the rank's own first."""

    def gather(self, shard: torch.Tensor, consume: Consume) -> None:
        rows, others, awaits = len(shard), self._others(), consume.can_await
        half = self._workspace.open((self._ranks - 1) * shard.nbytes)
        begins = [rank * rows for rank in (self._rank, *others)]
        here = {peer: place for place, peer in enumerate(sorted(others))}
        parts = [self._slot(half, self._rank, shard, here[peer], 0, rows) for peer in others]
        arrived = [half.word(self._rank, here[peer]) for peer in others]

        def one_by_one() -> None:
            consume(shard, begins[0])
            for word, part, begin in zip(arrived, parts, begins[1:]):
                self._wait_value(word)
                consume(part, begin)

        def send() -> None:
            for to in others:
                self._slot(half, to, shard, self._place(to), 0, rows).copy_(shard)
                self._write_value(half.word(to, self._place(to)), 1)
        multiply = consume.awaiting([shard, *parts], begins, arrived, half.wait_ms) \
            if awaits else one_by_one
        self._launch(multiply, send)
        self._join()
        half.clear()
