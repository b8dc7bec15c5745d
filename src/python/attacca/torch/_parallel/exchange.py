"""The ways in which ranks exchange rows, and the one by the collectives of the group's backend."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
import torch.distributed as dist

# Computes the rows of a result from this row on, as many as the tensor has.
Produce = Callable[[int, torch.Tensor], None]
# Queues what is ready; nothing in it compiles, measures or waits.
Launch = Callable[[], object]

# The ways by name. Of the first, the unfused path's, every group is capable.
WHOLE, DIRECT, PIECES, AWAITING, PULLED = "whole", "direct", "pieces", "awaiting", "pulled"
MEASURED = "measured"  # the fastest of them

# What backends add as it is.
ADDED = frozenset({torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64,
                   torch.int32})


class Consume(Protocol):
    """What multiplies gathered rows."""

    @property
    def can_await(self) -> bool:
        """Whether ``awaiting`` may be called."""

    def __call__(self, part: torch.Tensor, begin: int) -> None:
        """Multiplies a part, which begins at this row."""

    def awaiting(self, parts: Sequence[torch.Tensor], begins: Sequence[int],
                 words: Sequence[torch.Tensor], most_ms: int) -> Launch:
        """What multiplies parts of equally many rows by one launch: the first at once, each other
        one when its word is 1, which is an error of the device if it takes longer."""


class Exchange(Protocol):
    """One rank's side of an exchange of equally many rows with each other rank."""

    # Whether all rows are added on each rank. Else each adds its part of them, which the others
    # then collect; if the ranks' number does not divide the rows, all are added even so.
    adds_all_rows: bool

    def gather(self, shard: torch.Tensor, consume: Consume) -> None:
        """Gives all ranks' rows to ``consume``, in one part or several in any order."""

    def scatter(self, produce: Produce, memory: torch.Tensor) -> Sequence[torch.Tensor]:
        """What is to be added for this rank's rows: all ranks' results, in their order, or their
        sum. ``memory``: room for all rows, which may be used."""

    def reduce(self, produce: Produce, memory: torch.Tensor) -> Sequence[torch.Tensor]:
        """As ``scatter``, of all rows."""

    def collect(self, shard: torch.Tensor, out: torch.Tensor) -> None:
        """Fills ``out`` [ranks, ...] with all ranks' shards."""


class Summand(Protocol):
    """A product that the ranks add."""

    rows: int  # of the product

    def memory(self, rows: int) -> torch.Tensor:
        """Room for so many rows of it."""

    def produce(self, begin: int, into: torch.Tensor) -> None:
        """Computes as many of its rows as fit, from ``begin`` on."""

    def add(self, parts: Sequence[torch.Tensor], rank: int, first: int, begin: int,
            out: torch.Tensor) -> None:
        """Computes rows of the sum and what follows it.

        Args:
            parts: The other ranks' products of these rows, in the order of ranks.
            rank: This rank.
            first: The first of the product's rows.
            begin: The first row of the operands that what follows the sum reads.
            out: Where to write them.
        """


class InOrder:
    """The exchange by collectives that add nothing: every result's parts come in the order of
    ranks."""

    adds_all_rows = False

    def __init__(self, name: str):
        self._name = name

    @property
    def _group(self) -> dist.ProcessGroup:
        return dist.distributed_c10d._resolve_process_group(self._name)

    def gather(self, shard: torch.Tensor, consume: Consume) -> None:
        gathered = shard.new_empty((self._group.size(), *shard.shape))
        self.collect(shard, gathered)
        consume(gathered.flatten(0, 1), 0)

    def scatter(self, produce: Produce, memory: torch.Tensor) -> Sequence[torch.Tensor]:
        produce(0, memory)
        parts = torch.empty_like(memory)
        dist.all_to_all_single(_bytes(parts), _bytes(memory), group=self._group)
        return parts.chunk(self._group.size())

    def reduce(self, produce: Produce, memory: torch.Tensor) -> Sequence[torch.Tensor]:
        produce(0, memory)
        parts = memory.new_empty((self._group.size(), *memory.shape))
        self.collect(memory, parts)
        return parts.unbind()

    def collect(self, shard: torch.Tensor, out: torch.Tensor) -> None:
        dist.all_gather_into_tensor(_bytes(out), _bytes(shard), group=self._group)


class Whole(InOrder):
    """The exchange of the unfused path: the backend adds."""

    adds_all_rows = True

    def scatter(self, produce: Produce, memory: torch.Tensor) -> Sequence[torch.Tensor]:
        produce(0, memory)
        mine = memory.new_empty((len(memory) // self._group.size(), *memory.shape[1:]))
        dist.reduce_scatter_tensor(mine, memory, group=self._group)
        return [mine]

    def reduce(self, produce: Produce, memory: torch.Tensor) -> Sequence[torch.Tensor]:
        produce(0, memory)
        dist.all_reduce(memory, group=self._group)
        return [memory]


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """A dense tensor as bytes: backends take fewer dtypes than products have."""
    return tensor.view(-1).view(torch.uint8)
