"""One launch for all ranks' rows, whose blocks wait for rows that other ranks send.

The stream that multiplies has nothing but this launch. What rows and words travel by is on a stream
beside it, and needs no multiprocessor, since blocks that wait may fill all of them: copy engines
copy rows into other ranks' memory, and the stream itself writes words there and waits for them.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .exchange import Consume, Summand, Turn
from .pieces import Pieces

# Products of one launch, and so ranks.
_MOST = 8
# A rank's rows are computed in up to so many pieces of at least so many rows: while one travels,
# the next is computed (docs/benchmarks/tensor-parallel.md).
_PIECES, _LEAST = 4, 256


class Words:
    """A rank's words: the last of its signals, which torch's channels leave. All are 0 between
    calls but those of :meth:`arrived` and :meth:`reported`, which the next call begins with."""

    def __init__(self, shared: Any, rank: int):
        self._all = shared.get_signal_pad(rank)[-4 * _MOST:]

    def free(self, by: int) -> torch.Tensor:
        """1: the workspace of the rank ``by`` may be written, since its earlier calls have ended.
        0 again as soon as that was seen."""
        return self._words(by, 1)

    def arrived(self, first: int, count: int = 1) -> torch.Tensor:
        """1 each: such rows are in this rank's workspace."""
        return self._words(_MOST + first, count)

    def reported(self, turn: int) -> torch.Tensor:
        """1: the launch has computed the turn's rows; then a counter of its blocks."""
        return self._words(2 * _MOST + 2 * turn, 2)

    def reset(self) -> None:
        self._words(_MOST, 3 * _MOST).view(torch.int32).zero_()

    def _words(self, first: int, count: int) -> torch.Tensor:
        words: torch.Tensor = self._all[first:first + count]
        return words


def pieces_of(rows: int, ranks: int) -> int:
    """In how many pieces one launch computes a rank's rows."""
    return max(pieces for pieces in range(1, _PIECES + 1)
               if pieces == 1 or (rows % pieces == 0 and rows // pieces >= _LEAST
                                  and ranks * pieces <= _MOST))


class Awaiting(Pieces):
    """Gathered rows are multiplied as they arrive, the rank's own first; of a sum, other ranks'
    rows are multiplied first, and those ranks' launches add them."""

    def gather(self, shard: torch.Tensor, consume: Consume) -> None:
        rows, others = len(shard), self._others()
        shared, words = self._open((self._ranks - 1) * shard.nbytes)
        begins = [rank * rows for rank in (self._rank, *others)]
        here = {peer: place for place, peer in enumerate(sorted(others))}
        parts = [self._slot(shared, self._rank, shard, here[peer], 0, rows) for peer in others]
        arrived = [words.arrived(here[peer]) for peer in others]

        def one_by_one() -> None:
            consume(shard, begins[0])
            for word, part, begin in zip(arrived, parts, begins[1:]):
                self._wait_value(word)
                consume(part, begin)

        def send() -> None:
            self._say_free(shared, words)
            for to in others:
                self._send(shared, to, shard, self._place(to), 0, self._place(to))
        multiply = consume.awaiting([shard, *parts], begins, arrived, self._wait_ms) \
            if consume.can_await else one_by_one
        self._launch(multiply, send)
        self._join()

    def scattered(self, summand: Summand) -> torch.Tensor:
        out = summand.memory(summand.rows // self._ranks)
        shared, words = self._open((self._ranks - 1) * out.nbytes)
        sent, added = self._turns(shared, words, out, 0)
        self._launch(summand.awaiting([*sent, *added], self._rank, self._wait_ms),
                     lambda: self._send_products(shared, words, sent, out))
        self._join()
        return out

    def reduced(self, summand: Summand) -> torch.Tensor:
        """As its base class; rows that the launch has added are copied beside it."""
        out = summand.memory(summand.rows)
        by_rank = out.view(self._ranks, len(out) // self._ranks, *out.shape[1:])
        own, others = by_rank[self._rank], sorted(self._others())
        shared, words = self._open(2 * len(others) * own.nbytes)
        first = self._rank * len(own)
        sent, added = self._turns(shared, words, own, first)
        added = [turn._replace(reported=words.reported(len(sent) + piece))
                 for piece, turn in enumerate(added)]

        def send() -> None:
            self._send_products(shared, words, sent, own)
            for piece, turn in enumerate(added):
                self._wait_reported(turn)
                for to in self._others():
                    self._send_sum(shared, to, piece, turn.out, turn.first - first, own)
        self._launch(summand.awaiting([*sent, *added], self._rank, self._wait_ms), send)
        self._collect_sums(shared, by_rank,
                           [(turn.first - first, len(turn.out)) for turn in added])
        self._join()
        return out

    def _turns(self, shared: Any, words: Words, own: torch.Tensor,
               after: int) -> tuple[list[Turn], list[Turn]]:
        """Products of the other ranks' rows, by pieces and then by ranks, and sums of this rank's,
        which ``own`` gets. ``after``: the first row of the operands that what follows a sum reads.
        """
        others, first = self._others(), self._rank * len(own)
        count = len(own) // pieces_of(len(own), self._ranks)
        begins = range(0, len(own), count)
        computed = own.new_empty((len(others), *own.shape))
        sent = [Turn(to * len(own) + begin, rows.narrow(0, begin, count),
                     words.reported(piece * len(others) + place))
                for piece, begin in enumerate(begins)
                for place, (to, rows) in enumerate(zip(others, computed))]
        added = [Turn(first + begin, own.narrow(0, begin, count), None,
                      [self._slot(shared, self._rank, own, place, begin, count)
                       for place in range(len(others))],
                      after + begin, words.arrived(piece * len(others), len(others)))
                 for piece, begin in enumerate(begins)]
        return sent, added

    def _send_products(self, shared: Any, words: Words, sent: Sequence[Turn],
                       own: torch.Tensor) -> None:
        """Sends each of these when it is computed."""
        others = self._others()
        self._say_free(shared, words)
        for i, turn in enumerate(sent):
            piece, to = i // len(others), others[i % len(others)]
            self._wait_reported(turn)
            self._send(shared, to, turn.out, self._place(to), turn.first - to * len(own),
                       piece * len(others) + self._place(to), own)

    def _open(self, size: int) -> tuple[Any, Words]:
        """The workspaces and this rank's words, which are 0."""
        shared = self._memory(size)
        words = Words(shared, self._rank)
        words.reset()
        return shared, words

    def _say_free(self, shared: Any, words: Words) -> None:
        """Tells the other ranks that this one's workspace may be written, and waits for theirs."""
        for to in self._others():
            self._write_value(Words(shared, to).free(self._rank), 1)
        for peer in self._others():
            self._wait_value(words.free(peer))
            self._write_value(words.free(peer), 0)

    def _wait_reported(self, turn: Turn) -> None:
        assert turn.reported is not None
        self._wait_value(turn.reported[:1])

    def _send(self, shared: Any, to: int, rows: torch.Tensor, slot: int, begin: int, word: int,
              like: torch.Tensor | None = None) -> None:
        """Copies rows into another rank's slot from ``begin`` on, and then says that they arrived.
        ``like``: a slot has as many rows; None: as ``rows``."""
        into = self._slot(shared, to, rows if like is None else like, slot, begin, len(rows))
        into.copy_(rows)
        self._write_value(Words(shared, to).arrived(word), 1)
