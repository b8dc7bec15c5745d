"""One product of all rows; ranks read each other's rows over symmetric memory."""
from __future__ import annotations

from collections.abc import Sequence

import torch

from .exchange import Consume, Produce
from .workspace import Symmetric


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
        half = self._workspace.open(like.nbytes)
        produce(0, half.buffer(self._rank, like.shape, like.dtype))
        half.barrier()
        shape = (count, *like.shape[1:])
        return [half.buffer(peer, shape, like.dtype, begin * like.stride(0))
                for peer in range(self._ranks)]
