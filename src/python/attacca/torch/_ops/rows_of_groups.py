"""The op that stands for rows which an index chooses while regions are searched for, where the
index is proven to be the numbers of a grouped product's groups (``_graph/group_rows.py``).

    attacca::rows_of_groups(Tensor rows, Tensor ends, Tensor ids) -> Tensor

It is ``rows[ids]``; the FX importer writes it as ``gather(rows, group_ids(ends, [R]))``.
"""
from __future__ import annotations

import torch

from .region import OVERLOAD, TAGS, library


def _run(rows: torch.Tensor, ends: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return rows[ids]


_NAME = f"rows_of_groups.{OVERLOAD}"
library.define(f"{_NAME}(Tensor rows, Tensor ends, Tensor ids) -> Tensor", tags=TAGS)
library.impl(_NAME, _run, "CompositeExplicitAutograd")
rows_of_groups = torch.ops.attacca.rows_of_groups.import_attacca_torch
