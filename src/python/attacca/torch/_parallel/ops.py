"""Products that are one with a collective, as custom ops.

    attacca::all_gather_matmul(Tensor[] tensors, str graph, str options, int ranks,
                               str group) -> Tensor
    attacca::matmul_reduce_scatter(Tensor[] tensors, int operands, str graph, str tail, str after,
                                   str options, int ranks, str group) -> Tensor
    attacca::matmul_all_reduce(...) -> Tensor

``graph`` is a product and its epilogue in the text form, in which the symbol M counts rows; its
first input has rows, and for all_gather these are the rank's. ``tail`` is the sum over the ranks
and what follows it: its inputs are the ranks' parts, then operands. ``after`` is what follows a sum
that is computed already, with this sum in place of the parts; empty: nothing. ``tensors`` are the
inputs of all, ``operands`` of them the graph's. ``ranks`` is the group's size, for which the other
arguments were made.

They are functional and in the same order on all ranks, as torch's functional collectives are. No op
has a derivative. Each op is the overload that :mod:`.._ops.region` explains.
"""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from ... import _core
from ..._errors import Error
from ..._launch import Engine
from .._logs import log
from .._ops.region import (
    OVERLOAD,
    TAGS,
    as_torch_dtype,
    library,
    loaded,
    signature_of,
)
from .._ops.transforms import without_derivatives
from .choice import Call, by_rule, choose
from .clock import is_timing
from .exchange import AWAITING, DIRECT, MEASURED, PULLED, Exchange, Launch
from .summing import Summing
from .sums import added_to
from .ways import exchanges, is_known

ROWS = "M"  # the symbol that counts rows
_ALIGNMENT = 16  # of addresses that a launch of parts takes, in bytes
# How long a kernel that adds other ranks' parts is tuned when ways are measured. Reading another
# rank's memory costs it little in an epilogue, in a kernel of its own as long as copying does; the
# cost model's choice between the two is not good enough for that. Up to 5 seconds are a quick
# tuning, which measures only where that model expects to gain.
_SECONDS_OF_SUM = 6.0
_UNUSABLE = {AWAITING: "no kernel awaits the parts of a sum",
             PULLED: "parts are pulled of sums alone, and of as many rows for each rank"}


class Options(NamedTuple):
    """How an op runs: as :func:`attacca.compile`, how rows are exchanged, and whether sums are
    exact: of the ranks' parts in their order, rounded once."""

    mode: str
    tuning: str
    tuning_seconds: float = 0.0
    exchange: str = MEASURED
    exact_sum: bool = False

    def text(self) -> str:
        return " ".join(map(str, self))

    @staticmethod
    @lru_cache(maxsize=1024)
    def read(text: str) -> Options:
        mode, tuning, seconds, exchange, exact_sum = text.split()
        return Options(mode, tuning, float(seconds), exchange, exact_sum == "True")


class _ByRows:
    """A graph each row of whose result depends on the same row of what has rows."""

    def __init__(self, graph: str, device: torch.device, options: Options):
        self._graph, self._device, self._options = graph, device, options
        self.loaded = loaded(graph, options.mode, options.tuning, options.tuning_seconds, device)
        self._engine = self.loaded.engine
        self._parts: dict[Any, _core.Parts | None] = {}
        self._measured: set[Any] = set()  # keys of parts whose kernel a measurement chose
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
        self.run([*parts, *self.narrowed(others, len(parts), begin, len(out))], out)

    def narrowed(self, tensors: Sequence[torch.Tensor], first: int, begin: int,
                 count: int) -> list[torch.Tensor]:
        """The inputs from the ``first`` on, those with rows with so many rows from ``begin`` on."""
        return [tensor.narrow(0, begin, count) if has_rows else tensor
                for tensor, has_rows in zip(tensors, self._have_rows[first:])]

    def run(self, inputs: Sequence[torch.Tensor], out: torch.Tensor) -> None:
        """Computes the result of these inputs, if it has rows."""
        if len(out) == 0:
            return
        if self._engine.cache.run(inputs, out, False) is None:
            self._engine.call(inputs, {}, out)

    def in_parts(self, tensors: Sequence[torch.Tensor], rows: int,
                 count: int) -> _core.Parts | None:
        """What computes so many rows so many times by one launch; None: nothing does.

        Args:
            tensors: The inputs, those with rows with any number of them.
            rows: Of a part.
            count: Of the parts.
        """
        shapes = [(rows, *tensor.shape[1:]) if has_rows else tuple(tensor.shape)
                  for tensor, has_rows in zip(tensors, self._have_rows)]
        sizes = tuple(sorted(self._engine.signature.sizes_of(shapes).items()))
        key = (sizes, count)
        measures = is_timing() and key not in self._measured
        if key not in self._parts or measures:
            try:
                self._parts[key] = prepare_parts(
                    (self.tuned() if measures else self)._engine, sizes, count)
            except Error as reason:
                log.debug("no parts of %s: %s", self.loaded.graph, reason)
                self._parts[key] = None
            if measures:
                self._measured.add(key)
        return self._parts[key]

    def tuned(self) -> _ByRows:
        """What chooses by measuring, if this goes by what is known; else this."""
        if self._options.tuning != "known":
            return self
        tuned = self._options._replace(tuning="measure", tuning_seconds=_SECONDS_OF_SUM)
        return _by_rows(self._graph, self._device, tuned.text())

    def addresses(self, tensors: Sequence[torch.Tensor], first: int, begin: int) -> list[int]:
        """The addresses of the inputs from the ``first`` on, of those with rows from the row
        ``begin`` on."""
        return [_of_row(tensor, begin) if has_rows else tensor.data_ptr()
                for tensor, has_rows in zip(tensors, self._have_rows[first:])]


def _of_row(tensor: torch.Tensor, row: int) -> int:
    """A row's address."""
    return tensor.data_ptr() + row * tensor.stride(0) * tensor.element_size()


def _run_parts(parts: _core.Parts, inputs: Sequence[int], outputs: Sequence[int],
               words: Sequence[torch.Tensor], most_ms: int, device: torch.device) -> None:
    """Launches parts, each but the first of which awaits that its word becomes 1."""
    stream = torch.cuda.current_stream().cuda_stream if device.type == "cuda" else 0
    parts.run(inputs, outputs, [0, *[word.data_ptr() for word in words]], 1, most_ms, stream)


def prepare_parts(engine: Engine, sizes: Sequence[tuple[str, int]], count: int) -> _core.Parts:
    """Raises:
        Error: No launch computes such parts.
    """
    return engine.core.prepare_parts(sizes, [], count)


@lru_cache(maxsize=1024)
def _by_rows(graph: str, device: torch.device, options: str) -> _ByRows:
    return _ByRows(graph, device, Options.read(options))


_tuned: set[tuple[str, torch.device, tuple[tuple[int, ...], ...]]] = set()


def ranks_of(group: str) -> int:
    count: int = dist.distributed_c10d._get_group_size_by_name(group)
    return count


def _check_ranks(ranks: int, group: str) -> None:
    """Raises:
        Error: The group has another number of ranks than the call was made for: torch.compile keeps
            the number, and a group that is made after another one was destroyed may have its name.
    """
    found = ranks_of(group)
    if found != ranks:
        raise Error(f"the call was compiled for {ranks} ranks, and the group has {found}", "group",
                    "call torch._dynamo.reset() and compile again")


def _empty(graph: str, inputs: Sequence[torch.Tensor], rows: Any) -> torch.Tensor:
    """A graph's result with so many rows, not computed; sizes may be symbolic."""
    signature = signature_of(graph, "fp32", inputs[0].device)
    sizes = signature.sizes_of([tensor.shape for tensor in inputs])
    output = signature.outputs[0]
    shape = [rows, *[dim.value(sizes) for dim in output.shape[1:]]]
    return torch.empty(shape, dtype=as_torch_dtype(output.info.dtype), device=inputs[0].device)


def _run(function: str, tensors: Sequence[torch.Tensor], texts: tuple[str, ...], rows: int,
         dtype: torch.dtype, options: str, group_name: str,
         compute: Callable[[Exchange], torch.Tensor], usable: Callable[[str], bool],
         awaits: Callable[[], bool] = lambda: False) -> torch.Tensor:
    """Computes the result by the way that the options ask for.

    Args:
        function: The op's name.
        tensors: The op's tensors.
        texts: The op's graphs, the first of which is the product's.
        rows: Of all ranks.
        dtype: Of what is exchanged.
        options: The op's options.
        group_name: The group's name in torch.
        compute: Computes the result by a way.
        usable: Whether a way, by its name, computes it; alike on all ranks.
        awaits: Whether this rank has one launch that awaits rows; the ranks may differ.

    Raises:
        Error: The group is not capable of this way, or it computes no such result; alike on all
            ranks.
    """
    chosen, device = Options.read(options), tensors[0].device
    # Streams are those of the current device, which need not be the tensors'.
    with torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext():
        group = dist.distributed_c10d._resolve_process_group(group_name)
        ways = exchanges(group, device, dtype, chosen.exact_sum)
        _by_rows(texts[0], device, options).loaded.calls += 1
        way = chosen.exchange
        if way == MEASURED:
            call = Call(function, rows, rows % group.size() == 0, (*texts, options),
                        tuple([(tensor.dtype, tuple(tensor.shape[1:])) for tensor in tensors]))
            if chosen.tuning == "model":  # no clock decides
                way = by_rule(call, ways)
            else:
                way = choose(group, device, call,
                             {name: partial(compute, each) for name, each in ways.items()},
                             lambda way: usable(way) and (way != AWAITING or awaits()))
        elif way not in ways or not usable(way):
            raise _refused(way, DIRECT in ways, is_known(group, device))
        return compute(ways[way])


def _refused(way: str, shared: bool, known: bool) -> Error:
    """The error of a way that a group is not capable of, or that computes no such result.

    Args:
        way: The way.
        shared: Whether the ranks read each other's memory.
        known: Whether that is known.
    """
    fix = "give \"measured\"" if known else "call it once before capturing"
    reason = _UNUSABLE[way] if shared else \
        "the ranks of the group are not GPUs of one host that read each other's memory" if known \
        else "a CUDA graph is captured in the first call of the group"
    return Error(f"exchange is {way!r}, and {reason}", "exchange", fix)


# ---- all_gather


class _Gathered:
    """Multiplies gathered rows: :class:`.exchange.Consume`."""

    def __init__(self, product: _ByRows, tensors: Sequence[torch.Tensor], ranks: int,
                 out: torch.Tensor):
        self._product, self._tensors, self._ranks, self.out = product, tensors, ranks, out
        self._operands = tensors[1:]

    @cached_property
    def _parts(self) -> _core.Parts | None:
        rows = len(self._tensors[0])
        aligned = all(address % _ALIGNMENT == 0 for begin in (0, rows) for address in (
            *self._product.addresses(self._tensors, 0, begin), _of_row(self.out, begin)))
        dense = all(tensor.is_contiguous() for tensor in self._tensors)
        return self._product.in_parts(self._tensors, rows, self._ranks) if dense and aligned \
            else None

    @property
    def can_await(self) -> bool:
        return self._parts is not None

    def __call__(self, part: torch.Tensor, begin: int) -> None:
        self._product([part], self._operands, begin, self.out.narrow(0, begin, part.shape[0]))

    def awaiting(self, parts: Sequence[torch.Tensor], begins: Sequence[int],
                 words: Sequence[torch.Tensor], most_ms: int) -> Launch:
        assert self._parts is not None
        inputs = [address for part, begin in zip(parts, begins)
                  for address in (part.data_ptr(),
                                  *self._product.addresses(self._operands, 1, begin))]
        return partial(_run_parts, self._parts, inputs,
                       [_of_row(self.out, begin) for begin in begins], words, most_ms,
                       self.out.device)


def _all_gather_matmul(tensors: Sequence[torch.Tensor], graph: str, options: str, ranks: int,
                       group: str) -> torch.Tensor:
    _check_ranks(ranks, group)
    mine, *operands = tensors
    product = _by_rows(graph, mine.device, options)
    shard = mine.contiguous()

    def gathered() -> _Gathered:
        out = _fake_all_gather_matmul(tensors, graph, options, ranks, group)
        return _Gathered(product, [shard, *operands], ranks, out)

    def compute(between: Exchange) -> torch.Tensor:
        consume = gathered()
        between.gather(shard, consume)
        return consume.out
    return _run("all_gather_matmul", tensors, (graph,), len(mine) * ranks, mine.dtype, options,
                group, compute, lambda way: way != PULLED, lambda: gathered().can_await)


def _fake_all_gather_matmul(tensors: Sequence[torch.Tensor], graph: str, options: str, ranks: int,
                            group: str) -> torch.Tensor:
    return _empty(graph, tensors, tensors[0].shape[0] * ranks)


# ---- reduce_scatter and all_reduce


class _Reduction:
    """What both ops that reduce compute: :class:`.exchange.Summand`."""

    def __init__(self, tensors: Sequence[torch.Tensor], operands: int, graph: str, tail: str,
                 after: str, options: str):
        self._inputs, self._operands = tensors[:operands], tensors[operands:]
        self._device = tensors[0].device
        self._graphs, self._options = (graph, tail), options
        self._product = _by_rows(graph, self._device, options)
        self._tail = _by_rows(tail, self._device, options)
        self._after = _by_rows(after, self._device, options) if after else None
        self.rows = tensors[0].shape[0]
        self.dtype = as_torch_dtype(signature_of(graph, "fp32",
                                                 self._device).outputs[0].info.dtype)

    def memory(self, rows: int) -> torch.Tensor:
        return _empty(self._graphs[0], self._inputs, rows)

    def produce(self, begin: int, into: torch.Tensor) -> None:
        self._product([], self._inputs, begin, into)

    def add(self, parts: Sequence[torch.Tensor], rank: int, first: int, begin: int,
            out: torch.Tensor) -> None:
        graph = added_to(*self._graphs, rank)
        summed = _by_rows(graph, self._device, self._options)
        inputs = [*summed.narrowed(self._inputs, 0, first, len(out)), *parts,
                  *summed.narrowed(self._operands, len(self._inputs) + len(parts), begin, len(out))]
        if is_timing():
            self._tune(graph, summed, inputs, out)
        summed.run(inputs, out)

    def _tune(self, graph: str, summed: _ByRows, inputs: Sequence[torch.Tensor],
              out: torch.Tensor) -> None:
        """Tunes a kernel that adds for these shapes, once, if it goes by what is known."""
        tuned = summed.tuned()
        key = (graph, self._device, tuple([tuple(tensor.shape) for tensor in inputs]))
        if tuned is not summed and key not in _tuned:
            _tuned.add(key)
            tuned.run(inputs, out)

    def finish(self, parts: Sequence[torch.Tensor], begin: int, ranks: int) -> torch.Tensor:
        """The result from the ranks' parts or their sum; ``begin``: the first row of the operands
        that it reads."""
        if len(parts) < ranks and self._after is None:
            return parts[0]
        out = torch.empty_like(parts[0])
        following = self._tail if len(parts) == ranks else self._after
        assert following is not None
        following(parts, self._operands, begin, out)
        return out


def _matmul_reduce_scatter(tensors: Sequence[torch.Tensor], operands: int, graph: str, tail: str,
                           after: str, options: str, ranks: int, group: str) -> torch.Tensor:
    _check_ranks(ranks, group)
    reduction = _Reduction(tensors, operands, graph, tail, after, options)
    rows = reduction.rows
    if rows % ranks:
        raise Error(f"{rows} rows cannot be cut into {ranks} equal parts", "a",
                    "pad the rows, or use matmul_all_reduce")

    def compute(between: Exchange) -> torch.Tensor:
        if isinstance(between, Summing):
            return between.scattered(reduction)
        parts = between.scatter(reduction.produce, reduction.memory(rows))
        return reduction.finish(parts, 0, ranks)
    return _run("matmul_reduce_scatter", tensors, (graph, tail), rows, reduction.dtype, options,
                group, compute, lambda way: way != AWAITING)


def _fake_matmul_reduce_scatter(tensors: Sequence[torch.Tensor], operands: int, graph: str,
                                tail: str, after: str, options: str, ranks: int,
                                group: str) -> torch.Tensor:
    rows = tensors[0].shape[0]
    torch._check(rows % ranks == 0,
                 lambda: f"{rows} rows cannot be cut into {ranks} equal parts")
    return _empty(graph, tensors[:operands], rows // ranks)


def _matmul_all_reduce(tensors: Sequence[torch.Tensor], operands: int, graph: str, tail: str,
                       after: str, options: str, ranks: int, group: str) -> torch.Tensor:
    _check_ranks(ranks, group)
    reduction = _Reduction(tensors, operands, graph, tail, after, options)
    rows = reduction.rows
    rank: int = dist.distributed_c10d._resolve_process_group(group).rank()

    def compute(between: Exchange) -> torch.Tensor:
        if isinstance(between, Summing) and rows % ranks == 0:
            return between.reduced(reduction)
        if between.adds_all_rows or rows % ranks:
            parts = between.reduce(reduction.produce, reduction.memory(rows))
            return reduction.finish(parts, 0, ranks)
        parts = between.scatter(reduction.produce, reduction.memory(rows))
        shard = reduction.finish(parts, rank * (rows // ranks), ranks)
        out = reduction.memory(rows)
        between.collect(shard, out.view(ranks, *shard.shape))
        return out
    def usable(way: str) -> bool:
        return rows % ranks == 0 if way == PULLED else way != AWAITING
    return _run("matmul_all_reduce", tensors, (graph, tail), rows, reduction.dtype, options,
                group, compute, usable)


def _fake_matmul_all_reduce(tensors: Sequence[torch.Tensor], operands: int, graph: str, tail: str,
                            after: str, options: str, ranks: int, group: str) -> torch.Tensor:
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


_REDUCED = ("Tensor[] tensors, int operands, str graph, str tail, str after, str options, "
            "int ranks, str group")
all_gather_matmul = _define("all_gather_matmul",
                            "Tensor[] tensors, str graph, str options, int ranks, str group",
                            _all_gather_matmul, _fake_all_gather_matmul)
matmul_reduce_scatter = _define("matmul_reduce_scatter", _REDUCED, _matmul_reduce_scatter,
                                _fake_matmul_reduce_scatter)
matmul_all_reduce = _define("matmul_all_reduce", _REDUCED, _matmul_all_reduce,
                            _fake_matmul_all_reduce)
