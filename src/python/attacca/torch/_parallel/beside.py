"""Work on a stream of its own, beside the one that multiplies."""
from __future__ import annotations

import contextlib
from typing import Any

import torch

from ... import _core
from .exchange import Launch
from .workspace import Symmetric, Workspace


class Beside(Symmetric):
    """A workspace whose rows are copied on a stream of their own. A test without a GPU replaces
    what streams do."""

    def __init__(self, workspace: Workspace):
        super().__init__(workspace)
        self._sides = self._streams(workspace.device)
        self._side: Any = None
        self._core = self._core_device(workspace.device)

    @staticmethod
    def _streams(device: torch.device) -> dict[int, Any]:
        """By priority. Streams of one priority may share a queue of the device, in which what waits
        holds up what comes behind it."""
        return {priority: torch.cuda.Stream(device, priority=priority) for priority in (-1, 0)}

    @staticmethod
    def _core_device(device: torch.device) -> Any:
        return _core.Device.open(str(device))

    def _fork(self) -> None:
        """What is queued beside from now on comes after what is queued now."""
        now = torch.cuda.current_stream()
        self._side = self._sides[0 if now.priority < 0 else -1]
        self._side.wait_stream(now)

    def _beside(self) -> contextlib.AbstractContextManager[Any]:
        """A context in which work is queued on the other stream."""
        return torch.cuda.stream(self._side)

    def _launch(self, launch: Launch, beside: Launch) -> None:
        """Forks, queues work beside, and then the launch, which may wait for that work as that does
        for the launch. So the launch is ready before: while that work waits, the device may neither
        load a kernel nor be asked to finish."""
        self._fork()
        with self._beside():
            beside()
        launch()

    def _record(self) -> Any:
        return self._side.record_event()

    def _await(self, event: Any) -> None:
        torch.cuda.current_stream().wait_event(event)

    def _join(self) -> None:
        torch.cuda.current_stream().wait_stream(self._side)

    def _write_value(self, word: torch.Tensor, value: int) -> None:
        """Queues that the word, of this rank or another, becomes the value: by the stream."""
        self._core.write_value(torch.cuda.current_stream().cuda_stream, word.data_ptr(), value)

    def _wait_value(self, word: torch.Tensor) -> None:
        """Queues that what follows waits until this rank's word is 1; without an end of its own."""
        self._core.wait_value(torch.cuda.current_stream().cuda_stream, word.data_ptr(), 1)
