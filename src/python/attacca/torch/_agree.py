"""Ranks of a process group decide alike which regions are fused, and by which kernels."""
from __future__ import annotations

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._compile import graph_of
from .._errors import Error
from .._problems import Key, Machine, Row, distinct, machine, problems_of, rows_of
from .._together import best, check_machines, check_rows, on_all, ranks_of, spread
from ._compare import Verdict
from ._graph.region import Region
from ._ops.region import nameless
from ._report_view import Measuring

Judged = tuple[list[Verdict], Measuring]
_DIFFERENT = "the ranks' regions differ"
_graphs: collections.Counter[str] = collections.Counter()  # compiled so far, by group


def decide(group: Any, regions: Sequence[Region], judge: Callable[[], Judged],
           mode: str, sizes_of: Callable[[Region], Mapping[str, int]]) -> Judged:
    """The verdicts of rank 0, whose choices of kernels every rank's database then has. All ranks
    must call it.

    Args:
        group: The process group.
        regions: This rank's regions. Where a rank has others, none is fused.
        judge: Gives the verdicts and what deciding took; only rank 0 calls it.
        mode: The regions' mode.
        sizes_of: The sizes at hand of a region.

    Raises:
        Error: On all ranks: one of them failed, or GPUs or tools are not of one kind.
    """
    ranks = ranks_of(group)
    _graphs[group.group_name] += 1
    try:
        texts = on_all(ranks, lambda: [nameless(region.graph) for region in regions])
    except Error as error:
        # Most often a rank that compiles fewer graphs. The others cannot tell it from a slow one.
        raise Error(f"graph {_graphs[group.group_name]} that this rank compiles with the group: "
                    f"{error.what}", "group", "compile the same graphs on all ranks, in the same "
                    "order; see what the other ranks print") from error
    if any(each != texts[0] for each in texts):
        return [Verdict(False, _DIFFERENT)] * len(regions), Measuring()
    leads = ranks.rank == 0

    def judged() -> Judged:
        found = on_all(ranks, lambda: judge() if leads else None)[0]
        assert found is not None
        return found
    device = _device(regions)
    if device is None:
        return judged()
    machines = on_all(ranks, lambda: machine(device))
    check_machines(machines)

    def known() -> list[dict[Key, Row]]:
        return on_all(ranks, lambda: _rows(regions, device, machines[0], mode, sizes_of))
    # What one machine knows all know before rank 0 decides: its quick choice would not replace
    # another machine's thorough one.
    spread(ranks, best(row for rows in known() for row in rows.values()))
    verdicts = judged()
    rows = known()[0]
    spread(ranks, rows)
    check_rows(ranks, machines[0], rows)
    return verdicts


def _device(regions: Sequence[Region]) -> str | None:
    """The GPU of the regions; None: they are on none."""
    devices = [node.meta["val"].device for region in regions for node in region.outputs]
    return next((str(device) for device in devices if device.type == "cuda"), None)


def _rows(regions: Sequence[Region], device: str, here: Machine, mode: str,
          sizes_of: Callable[[Region], Mapping[str, int]]) -> dict[Key, Row]:
    """The choices that this rank's database has for the regions."""
    problems = []
    for region in regions:
        try:
            problems += problems_of(graph_of(nameless(region.graph)), device, mode,
                                    sizes_of(region))
        except Error:
            continue  # it cannot be compiled and is not fused either
    known = rows_of(here)
    return {key: known[key] for key in distinct(problems) if key in known}
