"""The ranks of a process group, for what they do together outside of graphs."""
from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from ..._errors import Error


class GroupRanks:
    """A process group as one of its ranks sees it."""

    def __init__(self, group: dist.ProcessGroup):
        self._group, self.rank, self.size = group, group.rank(), group.size()

    @property
    def device(self) -> str:
        """The rank's current GPU."""
        return f"cuda:{torch.cuda.current_device()}" if torch.cuda.is_available() else "cuda"

    def gather(self, value: Any) -> list[Any]:
        """All ranks' values, in their order; waits for all ranks.

        Raises:
            Error: A rank ended, or did not come within the group's timeout.
        """
        values: list[Any] = [None] * self.size
        try:
            # While torch compiles, its modes would make the messages fake tensors.
            with torch.utils._python_dispatch._disable_current_modes(), torch.no_grad():
                dist.all_gather_object(values, value, group=self._group)
        except RuntimeError as error:
            raise Error(f"a rank ended or did not answer: {error}", "group",
                        "see what the other ranks print") from error
        return values


def ranks_of(group: Any) -> GroupRanks:
    """The ranks of a process group that this process is in.

    Raises:
        Error: It is no group, or a group of other processes.
    """
    if group is dist.GroupMember.NON_GROUP_MEMBER:
        raise Error("this process is not a rank of the group", "group",
                    "call this on the group's ranks alone")
    if not isinstance(group, dist.ProcessGroup):
        raise Error(f"group is a {type(group).__name__}", "group",
                    "give a torch.distributed.ProcessGroup, after init_process_group")
    return GroupRanks(group)
