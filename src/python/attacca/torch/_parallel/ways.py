"""Which ways of exchanging rows the ranks of a group are capable of."""
from __future__ import annotations

import socket
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist

from .awaiting import Awaiting
from .choice import is_capturing
from .direct import Direct
from .exchange import ADDED, AWAITING, DIRECT, PIECES, PULLED, WHOLE, Exchange, InOrder, Whole
from .pieces import Pieces
from .pulled import Pulled
from .workspace import Workspace

# By group, not by its name: after destroy_process_group another group may have it.
_shared: WeakKeyDictionary[dist.ProcessGroup,
                           dict[torch.device, dict[str, Exchange]]] = WeakKeyDictionary()


def exchanges(group: dist.ProcessGroup, device: torch.device, dtype: torch.dtype,
              exact_sum: bool) -> dict[str, Exchange]:
    """The ways that a group is capable of, by name. The first call asks the other ranks whether
    they read each other's memory.

    Args:
        group: The group.
        device: Where this rank's tensors are.
        dtype: What is added.
        exact_sum: Whether all ways add in the order of ranks.
    """
    of_group = _shared.setdefault(group, {})
    if device not in of_group and is_capturing(device):
        of_group = {device: {}}  # to ask the other ranks would break the capture
    elif device not in of_group:
        of_group[device] = through(Workspace(group, device)) \
            if device.type == "cuda" and _all_share_memory(group, device) else {}
    in_order = exact_sum or dtype not in ADDED
    name: str = group.group_name
    return {WHOLE: InOrder(name) if in_order else Whole(name), **of_group[device]}


def is_known(group: dist.ProcessGroup, device: torch.device) -> bool:
    """Whether the ranks have asked each other what :func:`exchanges` says."""
    return device in _shared.get(group, {})


def through(workspace: Workspace) -> dict[str, Exchange]:
    """The ways that use this memory, by name."""
    return {DIRECT: Direct(workspace), PIECES: Pieces(workspace), AWAITING: Awaiting(workspace),
            PULLED: Pulled(workspace)}


def _all_share_memory(group: dist.ProcessGroup, device: torch.device) -> bool:
    """Whether the ranks are GPUs of one host that read each other's memory; alike on all ranks."""
    ranks: list[Any] = [None] * group.size()
    dist.all_gather_object(ranks, (socket.gethostname(), device.index), group=group)
    hosts, indices = {host for host, _ in ranks}, [index for _, index in ranks]
    reads = [None] * group.size()
    able = group.size() > 1 and len(hosts) == 1 and len(set(indices)) == len(indices) and all(
        index == device.index or index < torch.cuda.device_count()
        and torch.cuda.can_device_access_peer(device.index, index) for index in indices)
    dist.all_gather_object(reads, able, group=group)
    return all(reads)
