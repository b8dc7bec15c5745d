"""Sums over the ranks that a product's kernel adds: it reads the other ranks' parts where they are.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .exchange import Summand
from .symmetric import Direct
from .workspace import BEGIN, FILLED

_ADDED = FILLED + 1  # the channel of the barrier behind sums


class Pulled(Direct):
    """Other ranks' rows are multiplied first. Then the product of a rank's own rows adds what the
    others computed of them, and reads it in their memory, so that rows travel while others are
    multiplied, and no kernel adds alone. If the ranks' number does not divide the rows, this is
    :class:`Direct`.

    A workspace has a slot for each other rank's part, and one for the rows that the rank adds.
    """

    def scattered(self, summand: Summand) -> torch.Tensor:
        """The rank's rows of the sum and what follows it."""
        out = summand.memory(summand.rows // self._ranks)
        _, parts = self._parts_of_own_rows(summand, out)
        summand.add(parts, self._rank, 0, out)
        return out

    def reduced(self, summand: Summand) -> torch.Tensor:
        """All rows of the sum and what follows it, each computed by one rank."""
        out = summand.memory(summand.rows)
        rows = out.view(self._ranks, -1, *out.shape[1:])
        like, last = rows[0], self._ranks - 1
        shared, parts = self._parts_of_own_rows(summand, like)
        summand.add(parts, self._rank, self._rank * len(like),
                    self._slot(shared, self._rank, like, last))
        shared.barrier(_ADDED, self._wait_ms)
        for peer in (self._rank, *self._others()):
            rows[peer].copy_(self._slot(shared, peer, like, last))
        return out

    def _parts_of_own_rows(self, summand: Summand,
                           like: torch.Tensor) -> tuple[Any, Sequence[torch.Tensor]]:
        """Computes the other ranks' rows, each as many as ``like`` has; returns the workspaces and
        what the others computed of this rank's, in the order of ranks."""
        shared = self._memory(self._ranks * like.nbytes)
        shared.barrier(BEGIN, self._wait_ms)
        for place, peer in enumerate(self._others()):
            summand.produce(peer * len(like), self._slot(shared, self._rank, like, place))
        shared.barrier(FILLED, self._wait_ms)
        # The ranks that have this rank in each place of their others.
        sources = [(self._rank - step) % self._ranks for step in range(1, self._ranks)]
        return shared, [self._slot(shared, source, like, sources.index(source))
                        for source in sorted(sources)]

    @staticmethod
    def _slot(shared: Any, rank: int, like: torch.Tensor, slot: int) -> torch.Tensor:
        memory: torch.Tensor = shared.get_buffer(rank, like.shape, like.dtype, slot * like.numel())
        return memory
