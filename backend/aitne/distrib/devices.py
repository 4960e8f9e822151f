"""Synchronization with a GPU's streams before tensors are read and when results are ready.

Unused for CPU tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

_streams: dict[torch.device, Any] = {}


class InputEvent:
    """Point on the current GPU stream at which the tensors of a request are filled."""

    def __init__(self, device: torch.device, event: Any) -> None:
        self.device = device
        self._event = event

    @classmethod
    def of(cls, tensors: Sequence[torch.Tensor]) -> InputEvent | None:
        """Return an event on the current stream, after the work that fills the tensors; None if
        they are on the CPU and so ready.
        """
        if not tensors or not tensors[0].is_cuda:
            return None
        device = tensors[0].device
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(device))
        return cls(device, event)

    @contextmanager
    def stream(self, others: Sequence[InputEvent]) -> Iterator[None]:
        """Run the ``with`` block on the engine's stream of the device, after this event and
        ``others``.
        """
        if self.device not in _streams:
            _streams[self.device] = torch.cuda.Stream(self.device)
        stream = _streams[self.device]
        for ready in others:
            stream.wait_event(ready._event)
        with torch.cuda.device(self.device), torch.cuda.stream(stream):
            yield

    def finished(self, inputs: Sequence[Sequence[torch.Tensor]]) -> CompletionEvent:
        """Return an event after the work that was executed in ``stream``.

        ``inputs`` are marked as used by the engine's stream, so that the allocator does not reuse
        their memory too early.
        """
        stream = _streams[self.device]
        for tensors in inputs:
            for tensor in tensors:
                tensor.record_stream(stream)
        event = torch.cuda.Event()
        event.record(stream)
        return CompletionEvent(self.device, event)


class CompletionEvent:
    """Point on the engine's GPU stream at which the results of a request are ready."""

    def __init__(self, device: torch.device, event: Any) -> None:
        self._device = device
        self._event = event

    def poll(self) -> bool:
        """Return whether the GPU has reached this point."""
        return bool(self._event.query())

    def wait(self, results: Any) -> None:
        """Make later work of the current stream wait for this point; ``results`` then belong to
        that stream.
        """
        stream = torch.cuda.current_stream(self._device)
        stream.wait_event(self._event)
        for tensor in results if isinstance(results, tuple) else ():
            if isinstance(tensor, torch.Tensor) and tensor.is_cuda:
                tensor.record_stream(stream)
