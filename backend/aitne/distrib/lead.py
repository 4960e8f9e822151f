"""Rank 0, as every rank's engine speaks to it: on rank 0 itself, and from the others by messages."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Protocol

from aitne.distrib import wire
from aitne.distrib.control import Control
from aitne.distrib.coordinator import FUSION_THRESHOLD, Coordinator, Key, Response
from aitne.distrib.stall import Stall
from aitne.distrib.timeline import TIMELINE, negotiating
from aitne.distrib.types import Ask

Waits = tuple[str, str, float, tuple[int, ...]]
"""Name, kind, age in seconds, and the ranks that have not asked for it."""


class Side(Protocol):
    """What an engine needs of rank 0. Called with the engine's lock held."""

    def listen(self) -> None:
        """The engine is made."""
        ...

    def submit(self, handle: int, number: int, ask: Ask) -> None:
        """This rank is ready."""
        ...

    def blocked(self, key: Key | None) -> None:
        """This rank can do nothing before ``key`` is done; None: it goes on."""
        ...

    def begin(self, channel: int, step: int) -> None:
        """This rank has begun an exchange step."""
        ...

    def idle(self) -> None:
        """This rank has nothing to carry out just now."""
        ...

    def drained(self) -> None:
        """This rank has carried out all that it was given, and takes nothing more."""
        ...

    def pending(self) -> list[Waits]:
        """What some ranks wait for, at rank 0; nothing elsewhere."""
        ...

    def close(self) -> None:
        """End what this has begun."""
        ...


class Follower:
    """On the other ranks."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._outbox = wire.Outbox()

    def listen(self) -> None:
        """There is nothing that others ask of this one."""

    def submit(self, handle: int, number: int, ask: Ask) -> None:
        """This rank is ready."""
        self._control.send(0, "ask", self._outbox.pack(handle, number, ask))

    def blocked(self, key: Key | None) -> None:
        """This rank can do nothing before ``key`` is done; None: it goes on."""
        self._control.send(0, "blocked", key)

    def begin(self, channel: int, step: int) -> None:
        """This rank has begun an exchange step."""
        self._control.send(0, "begin", [channel, step])

    def idle(self) -> None:
        """Nothing that rank 0 would want to know."""

    def drained(self) -> None:
        """This rank has carried out all that it was given, and takes nothing more."""
        self._control.send(0, "drained", None)

    def pending(self) -> list[Waits]:
        """Rank 0 knows."""
        return []

    def close(self) -> None:
        """There is nothing to end."""


class Leader:
    """On rank 0: keeps the coordinator, and tells all ranks what it decides.

    Args:
        control: to the others.
        lock: the engine's.
        free: whether rank 0 carries nothing out just now. What gets ready meanwhile may be fused.
        take_up: what rank 0 itself is to do.
        take_part: in a channel's step with zeros, as one who has joined.
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
        self._coordinator = Coordinator(control.size, threshold)
        self._stall = Stall(self._check_stall)
        self._inbox = {rank: wire.Inbox() for rank in range(1, control.size)}
        self._leaving = False
        self._drained: set[int] = set()
        self._told_to_tell = False

    def listen(self) -> None:
        """Hear the other ranks, once this one can hear itself."""
        control = self._control
        control.on("ask", self._told_ask)
        control.on("blocked", self._told_blocked)
        control.on("begin", self._told_begin)
        control.on("leave", self._told_leave)
        control.on("drained", self._told_drained)
        control.on("fail", lambda _sender, why: control.broadcast("failed", why))

    def submit(self, handle: int, number: int, ask: Ask) -> None:
        """Rank 0 is ready."""
        self._submit(0, handle, number, ask)

    def blocked(self, key: Key | None) -> None:
        """Rank 0 can do nothing before ``key`` is done; None: it goes on."""
        self._coordinator.blocked(0, key)
        self.idle()

    def begin(self, channel: int, step: int) -> None:
        """Rank 0 has begun an exchange step."""
        self._make_up(self._coordinator.begin(0, channel, step))

    def idle(self) -> None:
        """Give out what is ready."""
        if self._leaving or not self._free():
            return
        TIMELINE.cycle()
        for response in self._coordinator.take():
            self._give_out(response)
        self._stall.watch(self._coordinator.has_pending())

    def drained(self) -> None:
        """Rank 0 has carried out all that was given out."""
        self._drained.add(0)
        self._end_if_drained()

    def pending(self) -> list[Waits]:
        """What some ranks wait for, oldest first."""
        now = self._coordinator.now()
        return [
            (str(each.key), each.key.kind, now - each.since, each.missing)
            for each in self._coordinator.pending()
        ]

    def close(self) -> None:
        """End the watch over what is late."""
        self._stall.close()

    def _submit(self, rank: int, handle: int, number: int, ask: Ask) -> None:
        if TIMELINE.on:
            key = Key(ask.set_id, ask.kind, ask.name, number)
            TIMELINE.ready(key.row, negotiating(key.kind), rank)
        self._coordinator.submit(rank, handle, ask, number)
        if self._coordinator.some_joined != self._told_to_tell:
            self._told_to_tell = self._coordinator.some_joined
            self._control.broadcast("tell", self._told_to_tell)
        self._make_up(self._coordinator.behind())
        self.idle()

    def _give_out(self, response: Response) -> None:
        if TIMELINE.on:
            for key in response.keys:
                TIMELINE.agreed(key.row)
        for rank in response.members:
            message = wire.response_for(rank, response)
            if rank == 0:
                self._take_up(message)
            else:
                self._control.send(rank, "do", message)

    def _make_up(self, behind: list[tuple[int, int, int]]) -> None:
        for rank, channel, step in behind:
            if rank == 0:
                self._take_part(channel, step)
            else:
                self._control.send(rank, "step", [channel, step])

    def _told_ask(self, sender: int, message: Any) -> None:
        with self._lock:
            handle, number, ask = self._inbox[sender].unpack(message)
            if not self._leaving:
                self._submit(sender, handle, number, ask)

    def _told_blocked(self, sender: int, key: Any) -> None:
        with self._lock:
            self._coordinator.blocked(sender, None if key is None else Key(*key))
            self.idle()

    def _told_begin(self, sender: int, message: Any) -> None:
        channel, step = message
        with self._lock:
            self._make_up(self._coordinator.begin(sender, channel, step))

    def _told_leave(self, _sender: int, why: str) -> None:
        with self._lock:
            first, self._leaving = not self._leaving, True
        if first:
            self._control.broadcast("leaving", why)

    def _told_drained(self, sender: int, _message: Any) -> None:
        with self._lock:
            self._drained.add(sender)
            self._end_if_drained()

    def _end_if_drained(self) -> None:
        if len(self._drained) == self._control.size:
            self._control.broadcast("over", None)

    def _check_stall(self, late_s: float, too_late_s: float) -> list[str]:
        """What has waited for so long, in words."""
        with self._lock:
            late = [each for each in self.pending() if each[2] >= late_s]
        words = [
            f"{name} waits for {wire.ranks(missing)} since {age:.0f} s"
            for name, _, age, missing in late
        ]
        if too_late_s and any(age >= too_late_s for _, _, age, _ in late):
            self._control.broadcast("failed", f"Stalled for too long: {'; '.join(words)}.")
        return words
