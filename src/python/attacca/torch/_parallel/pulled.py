"""Sums whose kernel reads the other ranks' parts in their memory."""
from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from .exchange import Summand
from .summing import Summing
from .workspace import Half


class Pulled(Summing):
    """Rows travel while they are added, and so while others are multiplied."""

    def _parts_of_own(self, half: Half, summand: Summand, like: torch.Tensor,
                      ) -> Iterator[tuple[int, Sequence[torch.Tensor]]]:
        others = self._others()
        # Whose rows this rank computes, and which rank computes this one's at that time.
        turns = list(zip(others, reversed(others)))
        for slot, (to, _) in enumerate(turns):
            summand.produce(to * len(like),
                            self._slot(half, self._rank, like, slot, 0, len(like)))
        half.barrier()
        sources = sorted((source, slot) for slot, (_, source) in enumerate(turns))
        yield 0, [self._slot(half, source, like, slot, 0, len(like)) for source, slot in sources]
