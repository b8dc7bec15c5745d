"""Products that are one with a collective, as custom ops.

    attacca::all_gather_matmul(Tensor[] tensors, str graph, str options, str group) -> Tensor
    attacca::matmul_reduce_scatter(Tensor[] tensors, int operands, str graph, str tail, str options,
                                   str group) -> Tensor
    attacca::matmul_all_reduce(...) -> Tensor

``graph`` is a product and its epilogue in the text form, in which the symbol M counts rows; its
first input has rows, and for all_gather these are the rank's. ``tail`` is what follows the sum over
the ranks: its inputs are the ranks' parts, then operands. ``tensors`` are the inputs of both,
``operands`` of them the graph's.

They are functional and in the same order on all ranks, as torch's functional collectives are. No op
has a derivative. Each op is the overload that :mod:`.._ops.region` explains.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from ..._errors import Error
from .._ops.region import OVERLOAD, TAGS, as_torch_dtype, library, loaded, signature_of
from .._ops.transforms import without_derivatives
from .exchange import Exchange, exchange

ROWS = "M"  # the symbol that counts rows


class Options(NamedTuple):
    """How an op runs: as :func:`attacca.compile`, and whether symmetric memory may be used."""

    mode: str
    tuning: str
    tuning_seconds: float
    symmetric: bool

    def text(self) -> str:
        return " ".join(map(str, self))

    @classmethod
    def read(cls, text: str) -> Options:
        mode, tuning, seconds, symmetric = text.split()
        return cls(mode, tuning, float(seconds), symmetric == "True")


class _ByRows:
    """A graph each row of whose result depends on the same row of what has rows."""

    def __init__(self, graph: str, device: torch.device, options: Options):
        self.loaded = loaded(graph, options.mode, options.tuning, options.tuning_seconds, device)
        self._engine = self.loaded.engine
        self._have_rows = [layout.info.shape[:1] == (ROWS,)
                           for layout in self._engine.signature.inputs]

    def __call__(self, parts: Sequence[torch.Tensor], others: Sequence[torch.Tensor], begin: int,
                 out: torch.Tensor) -> None:
        """Computes as many rows as ``out`` has.

        Args:
            parts: The first inputs, which have no other rows.
            others: The other inputs; of those with rows, the rows from ``begin`` on are read.
            begin: The first row.
            out: Where to write.
        """
        count = out.shape[0]
        if count == 0:
            return
        inputs = [*parts, *[tensor.narrow(0, begin, count) if has_rows else tensor
                            for tensor, has_rows in zip(others, self._have_rows[len(parts):])]]
        if self._engine.cache.run(inputs, out, False) is None:
            self._engine.call(inputs, {}, out)


@lru_cache(maxsize=1024)
def _by_rows(graph: str, device: torch.device, options: str) -> _ByRows:
    return _ByRows(graph, device, Options.read(options))


def ranks_of(group: str) -> int:
    count: int = dist.distributed_c10d._get_group_size_by_name(group)
    return count


def _empty(graph: str, inputs: Sequence[torch.Tensor], rows: Any) -> torch.Tensor:
    """A graph's result with so many rows, not computed; sizes may be symbolic."""
    signature = signature_of(graph, "fp32", inputs[0].device)
    sizes = signature.sizes_of([tensor.shape for tensor in inputs])
    output = signature.outputs[0]
    shape = [rows, *[dim.value(sizes) for dim in output.shape[1:]]]
    return torch.empty(shape, dtype=as_torch_dtype(output.info.dtype), device=inputs[0].device)


def _exchange(options: str, group: str, device: torch.device) -> Exchange:
    return exchange(group, device, Options.read(options).symmetric)


# ---- all_gather


def _all_gather_matmul(tensors: Sequence[torch.Tensor], graph: str, options: str,
                       group: str) -> torch.Tensor:
    mine, *operands = tensors
    product = _by_rows(graph, mine.device, options)
    product.loaded.calls += 1
    out = _fake_all_gather_matmul(tensors, graph, options, group)

    def consume(part: torch.Tensor, begin: int) -> None:
        product([part], operands, begin, out.narrow(0, begin, part.shape[0]))
    _exchange(options, group, mine.device).gather(mine.contiguous(), consume)
    return out


def _fake_all_gather_matmul(tensors: Sequence[torch.Tensor], graph: str, options: str,
                            group: str) -> torch.Tensor:
    return _empty(graph, tensors, tensors[0].shape[0] * ranks_of(group))


# ---- reduce_scatter and all_reduce


def _scattered(inputs: Sequence[torch.Tensor], graph: str, options: str,
               group: str) -> torch.Tensor:
    """What all ranks computed of this rank's rows: [ranks, rows, N].

    Raises:
        Error: The rows cannot be cut into equal parts.
    """
    rows, ranks, device = inputs[0].shape[0], ranks_of(group), inputs[0].device
    if rows % ranks:
        raise Error(f"{rows} rows cannot be cut into {ranks} equal parts", "a",
                    "pad the rows, or use matmul_all_reduce")
    product = _by_rows(graph, device, options)
    product.loaded.calls += 1
    parts = _empty(graph, inputs, rows).view(ranks, rows // ranks, -1)
    _exchange(options, group, device).scatter(
        lambda begin, into: product([], inputs, begin, into), parts)
    return parts


def _matmul_reduce_scatter(tensors: Sequence[torch.Tensor], operands: int, graph: str, tail: str,
                           options: str, group: str) -> torch.Tensor:
    inputs, after = tensors[:operands], tensors[operands:]
    parts = _scattered(inputs, graph, options, group)
    out = parts.new_empty(parts.shape[1:])
    _by_rows(tail, out.device, options)([*parts], after, 0, out)
    return out


def _fake_matmul_reduce_scatter(tensors: Sequence[torch.Tensor], operands: int, graph: str,
                                tail: str, options: str, group: str) -> torch.Tensor:
    rows, ranks = tensors[0].shape[0], ranks_of(group)
    torch._check(rows % ranks == 0,
                 lambda: f"{rows} rows cannot be cut into {ranks} equal parts")
    return _empty(graph, tensors[:operands], rows // ranks)


def _matmul_all_reduce(tensors: Sequence[torch.Tensor], operands: int, graph: str, tail: str,
                       options: str, group: str) -> torch.Tensor:
    inputs, after = tensors[:operands], tensors[operands:]
    rows, ranks, device = inputs[0].shape[0], ranks_of(group), inputs[0].device
    finish, between = _by_rows(tail, device, options), _exchange(options, group, device)
    out = _empty(graph, inputs, rows)
    if rows % ranks:  # every rank adds all rows, in the order of ranks
        mine, product = torch.empty_like(out), _by_rows(graph, device, options)
        product.loaded.calls += 1
        product([], inputs, 0, mine)
        parts = out.new_empty((ranks, *out.shape))
        between.collect(mine, parts)
        finish([*parts], after, 0, out)
        return out
    parts = _scattered(inputs, graph, options, group)
    shard = parts.new_empty(parts.shape[1:])
    rank: int = dist.distributed_c10d._resolve_process_group(group).rank()
    finish([*parts], after, rank * shard.shape[0], shard)
    between.collect(shard, out.view(ranks, *shard.shape))
    return out


def _fake_matmul_all_reduce(tensors: Sequence[torch.Tensor], operands: int, graph: str, tail: str,
                            options: str, group: str) -> torch.Tensor:
    return _empty(graph, tensors[:operands], tensors[0].shape[0])


# ---- The ops


def _define(name: str, arguments: str, run: Callable[..., torch.Tensor],
            fake: Callable[..., torch.Tensor]) -> Any:
    full = f"{name}.{OVERLOAD}"
    library.define(f"{full}({arguments}) -> Tensor", tags=TAGS)
    op = getattr(getattr(torch.ops.attacca, name), OVERLOAD)
    for key in ("CPU", "CUDA"):
        library.impl(full, run, key)
    library.impl(full, without_derivatives(op), "Autograd")
    torch.library.register_fake(f"attacca::{full}", fake, lib=library)
    return op


_REDUCED = "Tensor[] tensors, int operands, str graph, str tail, str options, str group"
all_gather_matmul = _define("all_gather_matmul",
                            "Tensor[] tensors, str graph, str options, str group",
                            _all_gather_matmul, _fake_all_gather_matmul)
matmul_reduce_scatter = _define("matmul_reduce_scatter", _REDUCED, _matmul_reduce_scatter,
                                _fake_matmul_reduce_scatter)
matmul_all_reduce = _define("matmul_all_reduce", _REDUCED, _matmul_all_reduce,
                            _fake_matmul_all_reduce)
