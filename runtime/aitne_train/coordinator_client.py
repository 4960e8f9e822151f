"""Connection of each rank's engine to the coordinator on rank 0: by direct calls on rank 0 itself,
by messages on the other ranks.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Protocol

from aitne_train import request_encoding
from aitne_train.collective_coordinator import (
    FUSION_THRESHOLD,
    CollectiveCoordinator,
    RequestKey,
    Response,
)
from aitne_train.collective_request import RequestMetadata
from aitne_train.control_channel import Control
from aitne_train.stall_inspector import StallInspector
from aitne_train.timeline import TIMELINE, name_negotiation

Waits = tuple[str, str, float, tuple[int, ...]]
"""A request that some ranks have not submitted: name, kind, age in seconds, and those ranks."""


class CoordinatorClient(Protocol):
    """Interface of the connection from a rank's engine to the coordinator, which runs on rank 0.
    All methods are called with the engine's lock held.
    """

    def listen(self) -> None:
        """Start receiving messages; called when the engine is completely created."""
        ...

    def submit(self, handle: int, number: int, ask: RequestMetadata) -> None:
        """Submit a request of this rank: ``ask`` is its metadata, ``handle`` the number by which
        this rank identifies it, ``number`` the sequence number of a request without a name
        (otherwise -1).
        """
        ...

    def report_blocked(self, key: RequestKey | None) -> None:
        """Report that this rank waits for the request ``key`` and submits nothing until it is done;
        None: this rank no longer waits.
        """
        ...

    def begin_step(self, channel: int, step: int) -> None:
        """Report that this rank has started the exchange step ``step`` of the channel number
        ``channel``.
        """
        ...

    def report_idle(self) -> None:
        """Report that this rank has executed all responses it has received so far."""
        ...

    def report_drained(self) -> None:
        """Report that this rank shuts down: it has executed all its responses and accepts no more."""
        ...

    def list_pending(self) -> list[Waits]:
        """Return the requests that some ranks have submitted and others have not. The list is empty
        on ranks other than 0, which do not know them.
        """
        ...

    def close(self) -> None:
        """Stop the threads that serve this connection."""
        ...


class RemoteCoordinatorClient:
    """Coordinator connection of a rank other than 0: it sends messages to rank 0."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._outbox = request_encoding.RequestEncoder()

    def listen(self) -> None:
        """Do nothing: only rank 0 receives messages from other ranks."""

    def submit(self, handle: int, number: int, ask: RequestMetadata) -> None:
        """Send a request of this rank to rank 0."""
        self._control.send(0, "ask", self._outbox.pack_request(handle, number, ask))

    def report_blocked(self, key: RequestKey | None) -> None:
        """Report to rank 0 that this rank waits for the request ``key``; None: it no longer waits."""
        self._control.send(0, "blocked", key)

    def begin_step(self, channel: int, step: int) -> None:
        """Report to rank 0 that this rank has started the exchange step ``step`` of ``channel``."""
        self._control.send(0, "begin", [channel, step])

    def report_idle(self) -> None:
        """Do nothing, because rank 0 does not need this information."""

    def report_drained(self) -> None:
        """Report to rank 0 that this rank shuts down: it has executed all its responses and accepts
        no more.
        """
        self._control.send(0, "drained", None)

    def list_pending(self) -> list[Waits]:
        """Return an empty list: only rank 0 knows which requests are incomplete."""
        return []

    def close(self) -> None:
        """Do nothing, because this connection has no threads."""


class LocalCoordinatorClient:
    """Coordinator connection of rank 0: it owns and calls the coordinator, and sends the
    coordinator's decisions to all ranks.

    Args:
        control: connections to the other ranks.
        lock: lock of the engine.
        free: function that returns True while rank 0 executes no response. Decisions are delayed
            while it executes one, so that more requests can be fused.
        take_up: function that executes a response on rank 0 itself.
        take_part: function that takes part with zeros in an exchange step, for when rank 0 has
            joined; it gets the numbers of the channel and the step.
    """

    def __init__(
        self,
        control: Control,
        lock: threading.Lock,
        free: Callable[[], bool],
        take_up: Callable[[list[Any]], None],
        take_part: Callable[[int, int], None],
    ) -> None:
        self._control = control
        self._lock = lock
        self._free = free
        self._take_up = take_up
        self._take_part = take_part
        threshold = int(os.environ.get("HOROVOD_FUSION_THRESHOLD") or FUSION_THRESHOLD)
        self._coordinator = CollectiveCoordinator(control.size, threshold)
        self._stall = StallInspector(self._check_stall)
        self._inbox = {rank: request_encoding.RequestDecoder() for rank in range(1, control.size)}
        self._leaving = False
        self._drained: set[int] = set()
        self._steps_requested = False

    def listen(self) -> None:
        """Start receiving the messages of the other ranks, when rank 0 can execute responses
        itself.
        """
        control = self._control
        control.register_handler("ask", self._on_request)
        control.register_handler("blocked", self._on_blocked)
        control.register_handler("begin", self._on_begin)
        control.register_handler("leave", self._on_leave)
        control.register_handler("drained", self._on_drained)
        control.register_handler(
            "fail", lambda _sender, reason: control.broadcast("failed", reason)
        )

    def submit(self, handle: int, number: int, ask: RequestMetadata) -> None:
        """Submit a request of rank 0 to the coordinator."""
        self._submit_request(0, handle, number, ask)

    def report_blocked(self, key: RequestKey | None) -> None:
        """Record that rank 0 waits for the request ``key``; None: it no longer waits."""
        self._coordinator.record_blocked(0, key)
        self.report_idle()

    def begin_step(self, channel: int, step: int) -> None:
        """Record that rank 0 has started the exchange step ``step`` of ``channel``."""
        self._send_missed_steps(self._coordinator.begin_step(0, channel, step))

    def report_idle(self) -> None:
        """Send all ready responses to the ranks of their process sets, unless rank 0 is executing
        one or the run is shutting down.
        """
        if self._leaving or not self._free():
            return
        TIMELINE.mark_cycle()
        for response in self._coordinator.take_responses():
            self._send_response(response)
        self._stall.set_watching(self._coordinator.has_pending())

    def report_drained(self) -> None:
        """Record that rank 0 has executed all its responses; when all ranks have, the shutdown is
        complete.
        """
        self._drained.add(0)
        self._end_if_drained()

    def list_pending(self) -> list[Waits]:
        """Return the requests that some ranks have submitted and others have not, oldest first."""
        now = self._coordinator.read_clock()
        return [
            (str(request.key), request.key.kind, now - request.since, request.missing)
            for request in self._coordinator.list_pending()
        ]

    def close(self) -> None:
        """Stop the thread that detects stalled collectives."""
        self._stall.close()

    def _submit_request(self, rank: int, handle: int, number: int, ask: RequestMetadata) -> None:
        if TIMELINE.on:
            key = RequestKey(ask.set_id, ask.kind, ask.name, number)
            TIMELINE.record_ready(key.row, name_negotiation(key.kind), rank)
        self._coordinator.submit(rank, handle, ask, number)
        if self._coordinator.has_joined_ranks != self._steps_requested:
            self._steps_requested = self._coordinator.has_joined_ranks
            self._control.broadcast("tell", self._steps_requested)
        self._send_missed_steps(self._coordinator.list_missed_steps())
        self.report_idle()

    def _send_response(self, response: Response) -> None:
        if TIMELINE.on:
            for key in response.keys:
                TIMELINE.record_agreement(key.row)
        if request_encoding.is_common_to_ranks(response):
            message = request_encoding.encode_response(response.members[0], response)
            self._control.send_to_all((rank for rank in response.members if rank), "do", message)
            if 0 in response.members:
                self._take_up(message)
            return
        for rank in response.members:
            message = request_encoding.encode_response(rank, response)
            if rank == 0:
                self._take_up(message)
            else:
                self._control.send(rank, "do", message)

    def _send_missed_steps(self, behind: list[tuple[int, int, int]]) -> None:
        for rank, channel, step in behind:
            if rank == 0:
                self._take_part(channel, step)
            else:
                self._control.send(rank, "step", [channel, step])

    def _on_request(self, sender: int, message: Any) -> None:
        with self._lock:
            handle, number, ask = self._inbox[sender].unpack_request(message)
            if not self._leaving:
                self._submit_request(sender, handle, number, ask)

    def _on_blocked(self, sender: int, key: Any) -> None:
        with self._lock:
            self._coordinator.record_blocked(sender, None if key is None else RequestKey(*key))
            self.report_idle()

    def _on_begin(self, sender: int, message: Any) -> None:
        channel, step = message
        with self._lock:
            self._send_missed_steps(self._coordinator.begin_step(sender, channel, step))

    def _on_leave(self, _sender: int, reason: str) -> None:
        with self._lock:
            first, self._leaving = not self._leaving, True
        if first:
            self._control.broadcast("leaving", reason)

    def _on_drained(self, sender: int, _message: Any) -> None:
        with self._lock:
            self._drained.add(sender)
            self._end_if_drained()

    def _end_if_drained(self) -> None:
        if len(self._drained) == self._control.size:
            self._control.broadcast("over", None)

    def _check_stall(self, late_s: float, too_late_s: float) -> list[str]:
        """Return messages about requests that have waited for at least ``late_s`` seconds; fail all
        collectives if one has waited for ``too_late_s`` seconds (0: never).
        """
        with self._lock:
            late = [wait for wait in self.list_pending() if wait[2] >= late_s]
        words = [
            f"{name} waits for {request_encoding.format_ranks(missing)} since {age:.0f} s"
            for name, _, age, missing in late
        ]
        if too_late_s and any(age >= too_late_s for _, _, age, _ in late):
            self._control.broadcast("failed", f"Stalled for too long: {'; '.join(words)}.")
        return words
