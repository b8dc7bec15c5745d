"""Sums over the ranks that a product's kernel adds: a rank multiplies its own rows last, and the
epilogue adds what the other ranks computed of them."""
from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

import torch

from .beside import Beside
from .direct import Direct
from .exchange import Summand
from .workspace import SIGNALS, Half, Workspace

# From so many rows of a rank on, they are computed in pieces: less is left to travel behind the
# last one, and each is a large product still (docs/benchmarks/tensor-parallel.md).
_LEAST, _PIECES = 512, 2


def pieces_of(rows: int) -> int:
    """In how many pieces of equally many rows a rank's rows are computed."""
    return _PIECES if rows >= _LEAST and rows % _PIECES == 0 else 1


def channel_of(piece: int, is_sum: bool = False) -> int:
    """The channel of the signals behind a piece of what ranks compute of each other's rows, or of
    the sum."""
    return SIGNALS + 2 * piece + is_sum


class Summing(Beside, Direct):
    """What both ways of such sums have in common. If the ranks' number does not divide the rows,
    they are :class:`Direct`.

    A workspace has slots for rows of the other ranks.
    """

    def __init__(self, workspace: Workspace):
        super().__init__(workspace)
        self._signal_word = torch.ones(1, dtype=torch.int32,
                                       device=workspace.device).view(torch.uint32)

    def scattered(self, summand: Summand) -> torch.Tensor:
        """The rank's rows of the sum and what follows it."""
        out = summand.memory(summand.rows // self._ranks)
        half, first = self._workspace.open((self._ranks - 1) * out.nbytes), self._rank * len(out)
        for begin, parts in self._parts_of_own(half, summand, out):
            summand.add(parts, self._rank, first + begin, begin,
                        out.narrow(0, begin, len(parts[0])))
        return out

    def reduced(self, summand: Summand) -> torch.Tensor:
        """All rows of the sum and what follows it, each computed by one rank. Rows that a rank has
        added travel while it multiplies more of them."""
        out = summand.memory(summand.rows)
        by_rank = out.view(self._ranks, len(out) // self._ranks, *out.shape[1:])
        own, others = by_rank[self._rank], sorted(self._others())
        # A slot of each other rank for its part of the own rows, and one for rows that it added.
        half, first = self._workspace.open(2 * len(others) * own.nbytes), self._rank * len(own)
        pieces: list[tuple[int, int]] = []
        for begin, parts in self._parts_of_own(half, summand, own):
            count = len(parts[0])
            rows = own.narrow(0, begin, count)
            summand.add(parts, self._rank, first + begin, first + begin, rows)
            for to in self._others():
                self._fork()
                with self._beside():
                    self._send_sum(half, to, len(pieces), rows, begin, own)
            pieces.append((begin, count))
        self._collect_sums(half, by_rank, pieces)
        self._join()
        return out

    def _send_sum(self, half: Half, to: int, piece: int, rows: torch.Tensor, begin: int,
                  own: torch.Tensor) -> None:
        """As :meth:`_send_rows`, of own rows that this rank has added."""
        slot = self._ranks - 1 + self._place(to)
        self._send_rows(half, to, channel_of(piece, True), rows,
                        self._slot(half, to, own, slot, begin, len(rows)))

    def _collect_sums(self, half: Half, by_rank: torch.Tensor,
                      pieces: Sequence[tuple[int, int]]) -> None:
        """Copies what the other ranks have added, piece by piece, to its place in the result."""
        own, others = by_rank[self._rank], sorted(self._others())
        for piece, (begin, count) in enumerate(pieces):
            for place, peer in enumerate(others, len(others)):
                half.wait_signal(peer, channel_of(piece, True))
                by_rank[peer].narrow(0, begin, count).copy_(
                    self._slot(half, self._rank, own, place, begin, count))

    @abstractmethod
    def _parts_of_own(self, half: Half, summand: Summand, like: torch.Tensor,
                      ) -> Iterator[tuple[int, Sequence[torch.Tensor]]]:
        """Computes the other ranks' rows, each as many as ``like`` has. Then gives, piece by piece,
        the first row of it, and what the others computed of this rank's rows in it, in the order of
        ranks."""

    def _send_rows(self, half: Half, to: int, channel: int, rows: torch.Tensor,
                   slot: torch.Tensor) -> None:
        """Copies rows into another rank's slot, and then what its wait_signal waits for. Both are
        copies, by the copy engine: a kernel would find no multiprocessor while a product has all of
        them. The rows' memory must stay as it is until :meth:`_join`.
        """
        slot.copy_(rows)
        self._signal(half, to, channel)

    def _signal(self, half: Half, to: int, channel: int) -> None:
        half.signal(to, channel).copy_(self._signal_word)
