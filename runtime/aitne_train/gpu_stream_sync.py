"""Synchronization with the streams of a GPU: before a collective reads its tensors, and before the
caller uses the results.

CPU tensors do not need it.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any

import torch

_streams: dict[torch.device, Any] = {}
_MOST_QUEUED = 256


class GpuActivity(Enum):
    """Current activity of the GPUs for this process: none, computing, or executing a collective."""

    NONE = "none"
    COMPUTING = "computing"
    COLLECTIVE = "collective"
    """A GPU has started a collective and has not completed it."""


class QueuedCollectives:
    """The last collectives that were queued on GPUs, each with a CUDA event before and after it.
    ``record_queued`` and ``is_in_progress`` may run concurrently.
    """

    def __init__(self) -> None:
        self._events: deque[tuple[Any, Any]] = deque(maxlen=_MOST_QUEUED)

    @contextmanager
    def record_queued(self, device: torch.device) -> Iterator[None]:
        """Record the collective that is queued inside the ``with`` block on the current stream."""
        stream = torch.cuda.current_stream(device)
        before, after = torch.cuda.Event(), torch.cuda.Event()
        before.record(stream)
        yield
        after.record(stream)
        self._events.append((before, after))

    @property
    def used(self) -> bool:
        """Return whether collectives were queued on GPUs, where the program's thread, whose times
        are recorded, does not wait for them.
        """
        return bool(self._events)

    def is_in_progress(self) -> bool:
        """Return whether a GPU has started one of the collectives and has not completed it."""
        return any(before.query() and not after.query() for before, after in list(self._events))


QUEUED = QueuedCollectives()


def observe_gpu_activity() -> GpuActivity:
    """Return the current activity of the GPUs for this process, by queries that do not wait. This
    code has not been tested on a GPU.

    Collectives of ``torch.distributed`` are recognized if PyTorch's flight recorder records when
    they begin (``TORCH_FR_BUFFER_SIZE`` and ``TORCH_NCCL_ENABLE_TIMING``).
    """
    if not torch.cuda.is_initialized():
        return GpuActivity.NONE
    try:
        if QUEUED.is_in_progress() or _has_recorded_progress():
            return GpuActivity.COLLECTIVE
        for index in range(torch.cuda.device_count()):
            # Another device has no context, which a query would create.
            if torch.cuda.memory_reserved(index) and not torch.cuda.default_stream(index).query():
                return GpuActivity.COMPUTING
    except RuntimeError:
        return GpuActivity.NONE  # a kernel has failed, which the program's next call reports
    return GpuActivity.NONE


def _has_recorded_progress() -> bool:
    """Return whether PyTorch's flight recorder contains a collective that has started and not
    ended.
    """
    dump = getattr(torch._C._distributed_c10d, "_dump_nccl_trace_json", None)
    if dump is None:
        return False
    entries = json.loads(dump(includeCollectives=True, onlyActive=True)).get("entries", ())
    return any(entry.get("state") == "started" for entry in entries)


class InputEvent:
    """Point on a GPU stream after which the input tensors of a request contain their values."""

    def __init__(self, device: torch.device, event: Any) -> None:
        self.device = device
        self._event = event

    @classmethod
    def record(cls, tensors: Sequence[torch.Tensor]) -> InputEvent | None:
        """Return an event on the current stream after all work queued so far, which includes the
        work that fills the tensors; None if there are no tensors or they are on the CPU.
        """
        if not tensors or not tensors[0].is_cuda:
            return None
        device = tensors[0].device
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(device))
        return cls(device, event)

    @contextmanager
    def use_engine_stream(self, others: Sequence[InputEvent]) -> Iterator[None]:
        """Run the ``with`` block on the engine's stream of the device. Work queued there starts
        after this event and the events ``others``.
        """
        if self.device not in _streams:
            _streams[self.device] = torch.cuda.Stream(self.device)
        stream = _streams[self.device]
        for ready in others:
            stream.wait_event(ready._event)
        with torch.cuda.device(self.device), torch.cuda.stream(stream):
            yield

    def record_completion(self, inputs: Sequence[Sequence[torch.Tensor]]) -> CompletionEvent:
        """Return an event on the engine's stream after the work that the ``with`` block of
        ``use_engine_stream`` has queued.

        The tensors ``inputs`` are marked as used by the engine's stream, so that the allocator does
        not reuse their memory too early.
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
        """Block until the GPU has reached this point, and mark the tensors ``results`` as used by
        the current stream.

        The CPU waits, not just the stream, because the stream would continue with the values of an
        aborted collective.
        """
        self._event.synchronize()
        stream = torch.cuda.current_stream(self._device)
        for tensor in results if isinstance(results, tuple) else ():
            if isinstance(tensor, torch.Tensor) and tensor.is_cuda:
                tensor.record_stream(stream)
