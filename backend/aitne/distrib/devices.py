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
    """Work that was queued on the current stream before a request, and that fills its tensors."""

    def __init__(self, device: torch.device, event: Any) -> None:
        self.device = device
        self._event = event

    @classmethod
    def of(cls, tensors: Sequence[torch.Tensor]) -> InputEvent | None:
        """Record an event on the current stream; None if the tensors are on the CPU and ready."""
        if not tensors or not tensors[0].is_cuda:
            return None
        device = tensors[0].device
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(device))
        return cls(device, event)

    @contextmanager
    def stream(self, others: Sequence[InputEvent]) -> Iterator[None]:
        """Run the block on the engine's stream of the device, after all this work."""
        if self.device not in _streams:
            _streams[self.device] = torch.cuda.Stream(self.device)
        stream = _streams[self.device]
        for ready in others:
            stream.wait_event(ready._event)
        with torch.cuda.device(self.device), torch.cuda.stream(stream):
            yield

    def finished(self, inputs: Sequence[Sequence[torch.Tensor]]) -> CompletionEvent:
        """Return an event after the executed work.

        ``inputs`` are marked as used by the engine's stream, for the allocator.
        """
        stream = _streams[self.device]
        for tensors in inputs:
            for tensor in tensors:
                tensor.record_stream(stream)
        event = torch.cuda.Event()
        event.record(stream)
        return CompletionEvent(self.device, event)


class CompletionEvent:
    """End of a request's work on the GPU."""

    def __init__(self, device: torch.device, event: Any) -> None:
        self._device = device
        self._event = event

    def poll(self) -> bool:
        """Return whether the GPU has reached this point."""
        return bool(self._event.query())

    def wait(self, results: Any) -> None:
        """Make later work of the current stream wait; ``results`` belong to that stream then."""
        stream = torch.cuda.current_stream(self._device)
        stream.wait_event(self._event)
        for tensor in results if isinstance(results, tuple) else ():
            if isinstance(tensor, torch.Tensor) and tensor.is_cuda:
                tensor.record_stream(stream)
