"""Sums over the ranks that a product's kernel adds: a rank multiplies its own rows last, and the
epilogue adds what the other ranks computed of them."""
from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from .beside import Beside
from .direct import Direct
from .exchange import Summand
from .workspace import SIGNALS

# From so many rows of a rank on, they are computed in so many pieces: each is then a large product
# still, and less is left to travel behind the last one.
_PIECES = ((4096, 4), (1024, 2))
_SUMMED = SIGNALS + max(count for _, count in _PIECES)  # the first channel of signals behind sums


def pieces_of(rows: int) -> int:
    """In how many pieces of equally many rows a rank's rows are computed."""
    return next((count for least, count in _PIECES if rows >= least and rows % count == 0), 1)


class Summing(Beside, Direct):
    """What both ways of such sums have in common. If the ranks' number does not divide the rows,
    they are :class:`Direct`.

    A workspace has a slot for each other rank's rows, and one for the rows that the rank adds.
    """

    def scattered(self, summand: Summand) -> torch.Tensor:
        """The rank's rows of the sum and what follows it."""
        out = summand.memory(summand.rows // self._ranks)
        shared, first = self._memory((self._ranks - 1) * out.nbytes), self._rank * len(out)
        for begin, parts in self._parts_of_own(shared, summand, out):
            summand.add(parts, self._rank, first + begin, begin,
                        out.narrow(0, begin, len(parts[0])))
        return out

    def reduced(self, summand: Summand) -> torch.Tensor:
        """All rows of the sum and what follows it, each computed by one rank. Rows that a rank has
        added travel while it multiplies more of them."""
        out = summand.memory(summand.rows)
        by_rank = out.view(self._ranks, len(out) // self._ranks, *out.shape[1:])
        own, last = by_rank[self._rank], self._ranks - 1
        shared, first = self._memory(self._ranks * own.nbytes), self._rank * len(own)
        for piece, (begin, parts) in enumerate(self._parts_of_own(shared, summand, own)):
            count, channel = len(parts[0]), _SUMMED + piece
            summand.add(parts, self._rank, first + begin, first + begin,
                        self._slot(shared, self._rank, own, last, begin, count))
            for peer in self._others():
                shared.put_signal(peer, channel, self._wait_ms)
            self._fork()
            with self._beside():
                for peer in (self._rank, *self._others()):
                    if peer != self._rank:
                        shared.wait_signal(peer, channel, self._wait_ms)
                    by_rank[peer].narrow(0, begin, count).copy_(
                        self._slot(shared, peer, own, last, begin, count))
        self._join()
        return out

    @abstractmethod
    def _parts_of_own(self, shared: Any, summand: Summand, like: torch.Tensor,
                      ) -> Iterator[tuple[int, Sequence[torch.Tensor]]]:
        """Computes the other ranks' rows, each as many as ``like`` has. Then gives, piece by piece,
        the first row of it, and what the others computed of this rank's rows in it, in the order of
        ranks."""

    def _turns(self) -> list[tuple[int, int]]:
        """The other ranks in turns: whose rows this rank computes, and which rank computes this
        one's at that time."""
        others = self._others()
        return list(zip(others, reversed(others)))

    @staticmethod
    def _slot(shared: Any, rank: int, like: torch.Tensor, slot: int, begin: int,
              count: int) -> torch.Tensor:
        """So many rows of a slot from ``begin`` on."""
        memory: torch.Tensor = shared.get_buffer(
            rank, (count, *like.shape[1:]), like.dtype,
            slot * like.numel() + begin * like.stride(0))
        return memory
