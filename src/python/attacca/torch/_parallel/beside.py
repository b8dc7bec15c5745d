"""Work on a stream of its own, beside the one that multiplies."""
from __future__ import annotations

import contextlib
from typing import Any

import torch
import torch.distributed as dist

from .workspace import Symmetric


class Beside(Symmetric):
    """A workspace whose rows are copied on a stream of their own. A test without a GPU replaces
    what streams do."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device):
        super().__init__(group, device)
        self._side = self._stream(device)

    @staticmethod
    def _stream(device: torch.device) -> Any:
        return torch.cuda.Stream(device)

    @staticmethod
    def _captures() -> bool:
        return torch.cuda.is_current_stream_capturing()

    def _fork(self) -> None:
        """What is queued beside from now on comes after what is queued now."""
        self._side.wait_stream(torch.cuda.current_stream())

    def _beside(self) -> contextlib.AbstractContextManager[Any]:
        """A context in which work is queued on the other stream."""
        return torch.cuda.stream(self._side)

    def _record(self) -> Any:
        return self._side.record_event()

    def _await(self, event: Any) -> None:
        torch.cuda.current_stream().wait_event(event)

    def _join(self) -> None:
        torch.cuda.current_stream().wait_stream(self._side)
