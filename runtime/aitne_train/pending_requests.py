"""Requests of this rank in progress, and the execution of one response together with its requests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import torch

from aitne_train.collective_coordinator import RequestKey
from aitne_train.collective_request import Kind, Request, RequestMetadata
from aitne_train.execution import ExecutableResponse, Execution
from aitne_train.gpu_stream_sync import CompletionEvent, InputEvent
from aitne_train.timeline import TIMELINE, name_execution


@dataclass(eq=False, slots=True)
class PendingRequest:
    """A submitted request of this rank, until ``wait`` returns its result."""

    key: RequestKey
    request: Request
    ready: InputEvent | None
    """Point on a GPU stream at which the input tensors contain their values; None if they contain
    them already."""
    done: bool = False
    """Whether the request has been executed or has failed."""
    result: Any = None
    """Result of the request; None until it is done."""
    finished: CompletionEvent | None = None
    """Point on a GPU stream at which the results are complete; None if they are complete as soon as
    the request is done."""
    error: str | None = None
    """Message of the error; None: the request has not failed."""


@dataclass(eq=False, slots=True)
class ExecutionTask:
    """A response to execute, with those pending requests of this rank that it completes."""

    item: ExecutableResponse
    pendings: list[PendingRequest | None]
    """One pending request for each request of the response; None if this rank has joined."""


class Wait:
    """Wait of a thread for a request."""

    __slots__ = ("_bell", "begun_ns", "pending")

    def __init__(self, pending: PendingRequest, begun_ns: int) -> None:
        self.pending = pending
        self.begun_ns = begun_ns
        self._bell: SimpleQueue[None] = SimpleQueue()

    def wake(self) -> None:
        """End the current or next ``sleep``."""
        self._bell.put(None)

    def sleep(self, patience_s: float | None) -> None:
        """Sleep until ``wake`` is called, for at most ``patience_s`` seconds (None: no limit)."""
        with contextlib.suppress(Empty):
            self._bell.get(timeout=patience_s)


class Requests:
    """Submitted requests of this rank for which ``wait`` was not called yet. All methods are called
    with the engine's lock held.
    """

    def __init__(self) -> None:
        self._pending: dict[int, PendingRequest] = {}
        self._under_way: dict[RequestKey, int] = {}
        self._numbers: dict[tuple[int, str], int] = {}
        self._next = 0

    def add(
        self, ask: RequestMetadata, request: Request, ready: InputEvent | None
    ) -> tuple[int, int, RequestKey]:
        """Add a request; return its handle, the sequence number that distinguishes it from other
        requests without a name (-1 if it has a name), and its key.

        Raises:
            ValueError: a request of the same name is in progress.
        """
        place = (ask.set_id, ask.kind)
        number = -1 if ask.name else self._numbers.get(place, 0)
        key = RequestKey(ask.set_id, ask.kind, ask.name, number)
        if key in self._under_way:
            raise ValueError(
                f"{key} is still in progress: a name may be used again once its request is done."
            )
        if number >= 0:
            self._numbers[place] = number + 1
        handle = self._next
        self._next += 1
        self._pending[handle] = PendingRequest(key, request, ready)
        self._under_way[key] = handle
        return handle, number, key

    def match_response(self, message: list[Any]) -> tuple[ExecutionTask, str | None]:
        """Return the response that rank 0 has sent in ``message``, and the reason why it cannot be
        executed (None: it can).
        """
        kind, set_id, handles, asks, data, error = message
        pendings = [self._pending.get(handle) for handle in handles]
        item = ExecutableResponse(
            kind,
            set_id,
            [None if pending is None else pending.request for pending in pendings],
            [RequestMetadata.from_wire(ask) for ask in asks],
            data,
            [pending.key.row for pending in pendings if pending is not None] if TIMELINE.on else [],
        )
        return ExecutionTask(item, pendings), error

    def find(self, handle: int) -> PendingRequest:
        """Return the request with this handle.

        Raises ``ValueError`` if there is none, or ``wait`` was already called for it.
        """
        pending = self._pending.get(handle)
        if pending is None:
            raise ValueError(f"Handle {handle} was not created or has been cleared.")
        return pending

    def forget(self, handle: int) -> None:
        """Remove a request after its result was returned to the caller."""
        self._pending.pop(handle, None)  # two threads may have waited for it

    def finish(
        self,
        pending: PendingRequest,
        result: Any,
        finished: CompletionEvent | None,
        error: str | None,
    ) -> None:
        """Mark a request as done, with its result, or with the message ``error`` if it failed."""
        pending.result, pending.finished, pending.error = result, finished, error
        pending.done = True
        pending.ready = None
        self._under_way.pop(pending.key, None)
        if pending.key.kind == Kind.JOIN and error is None:
            # Ranks that joined early submitted fewer unnamed requests than the others.
            self._numbers = {key: count for key, count in self._numbers.items() if key[0] != 0}

    def give_up(self, reason: str) -> None:
        """Fail all requests that are not done, with ``reason`` as the message."""
        for pending in self._pending.values():
            if not pending.done:
                self.finish(pending, None, None, reason)


def execute_task(
    execution: Execution, task: ExecutionTask
) -> tuple[list[Any], CompletionEvent | None]:
    """Execute a response; return the result of each request, and the point on a GPU stream at which
    the results are complete (None if they are complete already).

    Raises ``TransportError`` if the connection to a rank is lost, and
    ``reduction.UnsupportedError`` if the transport does not support the request.
    """
    pendings = [pending for pending in task.pendings if pending is not None]
    with _mark_timeline(pendings):
        ready = [pending.ready for pending in pendings if pending.ready is not None]
        if not ready:
            return execution.run(task.item), None
        with ready[0].use_engine_stream(ready):
            results = execution.run(task.item)
            return results, ready[0].record_completion(
                [pending.request.tensors for pending in pendings]
            )


@contextmanager
def _mark_timeline(pendings: Sequence[PendingRequest]) -> Iterator[None]:
    if not TIMELINE.on:
        yield
        return
    for pending in pendings:
        TIMELINE.begin_event(pending.key.row, name_execution(pending.key.kind))
    try:
        yield
    finally:
        for pending in pendings:
            first: torch.Tensor | None = next(iter(pending.request.tensors), None)
            if first is None:
                TIMELINE.end_event(pending.key.row)
            else:
                dtype = str(first.dtype).removeprefix("torch.")
                TIMELINE.end_event(pending.key.row, dtype=dtype, shape=first.shape)
