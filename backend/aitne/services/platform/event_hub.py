"""Live events: one asyncio task per process reads new events from the database and distributes them
in memory.

The load on the database does not depend on the number of listeners, and each event is serialized
once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from aitne.core.errors import StoreUnavailable
from aitne.core.models.event import Event
from aitne.core.models.user import Actor
from aitne.store.nodes_and_leases import ClusterStore

log = logging.getLogger(__name__)

HISTORY = 4_000
"""Number of newest events kept for listeners that reconnect; a listener that has missed more must
fetch everything again.
"""
BACKLOG = 1_000
"""Maximum number of events that wait for one listener; beyond it, the listener must fetch
everything again.
"""
_BATCH = 1_000
_IDLE_S = 30.0
_PAUSE_S = 0.02
_RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class _Message:
    event: Event
    frame: bytes


@dataclass(frozen=True, slots=True)
class Messages:
    """Result of one call of ``Subscription.get``."""

    reset: bool
    """Whether events were dropped, so that the client has to load its data again."""
    last_id: int
    """ID of the newest event that was processed for the client."""
    events: tuple[bytes, ...]
    """Serialized events, oldest first."""


class Subscription:
    """One client's subscription to events. ``actor`` is replaced when the user's permissions
    change.
    """

    def __init__(self, actor: Actor, start_id: int, *, backlog: int) -> None:
        self.actor = actor
        self.start_id = start_id
        self._backlog = backlog
        self._waiting: deque[bytes] = deque()
        self._last_id = start_id
        self._reset = False
        self._ready = asyncio.Event()

    async def get(self) -> Messages:
        """Wait for messages since the last call and return them; empty if the hub has stopped."""
        await self._ready.wait()
        self._ready.clear()
        taken = Messages(self._reset, self._last_id, tuple(self._waiting))
        self._waiting.clear()
        self._reset = False
        return taken

    def queue_messages(self, messages: Iterable[_Message]) -> None:
        """Queue the messages whose events the actor may see."""
        for message in messages:
            self._last_id = message.event.id
            if is_event_visible(message.event, self.actor):
                self._waiting.append(message.frame)
        if len(self._waiting) > self._backlog:
            self.reset()
        elif self._waiting:
            self._ready.set()

    def reset(self) -> None:
        """Drop the queued events. The next ``get`` returns a message of type ``reset``, which tells the
        client that events were lost and that it must load its data again.
        """
        self._waiting.clear()
        self._reset = True
        self._ready.set()

    def wake(self) -> None:
        """End the waiting call of ``get``, even if there is no message for it."""
        self._ready.set()


class EventHub:
    """Component that reads new events from the database, between ``start`` and ``stop``, and
    distributes them to the subscriptions in the same portal process.
    """

    def __init__(
        self, store: ClusterStore, *, history: int = HISTORY, backlog: int = BACKLOG
    ) -> None:
        self._store = store
        self._backlog = backlog
        self._limit = history
        self._history: deque[_Message] = deque()
        self._floor = 0
        """ID after which all events are in the history."""
        self._last_id = 0
        self._listeners: set[Subscription] = set()
        self._callbacks: list[Callable[[Sequence[Event]], None]] = []
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.problem: str | None = "The event stream has not started."
        """Reason why no events are distributed; None while they are."""
        self.stopped = False

    async def start(self) -> None:
        """Load the newest events, then start to read new events continuously."""
        self._last_id = await self._store.get_last_event_id()
        self._floor = max(0, self._last_id - self._limit)
        reached = self._floor
        while reached < self._last_id:
            batch = await self._store.list_events_after(reached, limit=_BATCH)
            if not batch:
                break
            self._remember(map(_make_message, batch))
            reached = batch[-1].id
        self._last_id = max(self._last_id, reached)
        self.problem = None
        self._task = asyncio.create_task(self._read_continuously(), name="events")
        self._task.add_done_callback(self._handle_task_end)

    async def stop(self) -> None:
        """Stop reading events, and end all calls that wait for events."""
        self.stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        self.notify_change()
        for listener in self._listeners:
            listener.wake()

    @contextmanager
    def subscribe(self, actor: Actor, *, after: int | None = None) -> Iterator[Subscription]:
        """Subscribe to events from now on or, if ``after`` is still in the history, from the event
        after that id.
        """
        subscription = Subscription(actor, self._last_id, backlog=self._backlog)
        if after is not None and after != self._last_id:
            if self._floor <= after < self._last_id:
                subscription.queue_messages(m for m in self._history if m.event.id > after)
            else:
                subscription.reset()
        self._listeners.add(subscription)
        try:
            yield subscription
        finally:
            self._listeners.discard(subscription)

    def add_listener(self, callback: Callable[[Sequence[Event]], None]) -> None:
        """Register a callback that is called with each batch of new events, oldest first. It must
        not block.
        """
        self._callbacks.append(callback)

    def get_change_marker(self) -> asyncio.Event:
        """Return a marker of the current state for ``wait_for_change``.

        Call it before reading the store, so that ``wait_for_change`` also returns for a change during that
        read.
        """
        return self._changed

    async def wait_for_change(self, marker: asyncio.Event, timeout_s: float) -> None:
        """Wait until a change was committed after ``marker`` returned the marker, at most
        ``timeout_s`` seconds or until the hub stops.

        Only one task polls the database, however many callers wait.
        """
        if self.stopped:
            return
        try:
            async with asyncio.timeout(timeout_s):
                await marker.wait()
        except TimeoutError:
            return

    def notify_change(self) -> None:
        """Wake all callers of ``wait_for_change`` at once, because the portal itself has just made a
        change.
        """
        self._changed.set()
        self._changed = asyncio.Event()

    async def _read_continuously(self) -> None:
        while True:
            try:
                if await self._read_new_events():
                    continue
                # The next change is read at once, those that follow it within the pause together.
                await asyncio.sleep(_PAUSE_S)
                await self._store.wait_for_change(_IDLE_S)
            except StoreUnavailable as error:
                if self.problem is None:
                    log.warning("Events wait for the database: %s", error.message)
                self.problem = error.message
                await asyncio.sleep(_RETRY_S)

    def _handle_task_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("The event stream failed.", exc_info=error)
            self.problem = "The event stream failed; see the log for the reason. Restart the API."

    async def _read_new_events(self) -> bool:
        """Read and distribute new events; return True if there may be more."""
        batch = await self._store.list_events_after(self._last_id, limit=_BATCH)
        self.problem = None
        if batch:
            messages = [_make_message(event) for event in batch]
            self._last_id = batch[-1].id
            self._remember(messages)
            for listener in self._listeners:
                listener.queue_messages(messages)
            for callback in self._callbacks:
                callback(batch)
        self.notify_change()
        return len(batch) == _BATCH

    def _remember(self, messages: Iterable[_Message]) -> None:
        self._history.extend(messages)
        while len(self._history) > self._limit:
            self._floor = self._history.popleft().event.id


def is_event_visible(event: Event, actor: Actor) -> bool:
    """Return whether the actor may see the event.

    An event without an owner is visible to all users. A session token shows only events of the
    owner's jobs.
    """
    if actor.session is not None:
        return event.owner == actor.name and event.job_id is not None
    return (
        event.owner is None
        or event.owner == actor.name
        or actor.is_admin
        or event.project in actor.projects
    )


def _make_message(event: Event) -> _Message:
    # JSON has no bare line break, so one data line is enough.
    frame = f"id: {event.id}\nevent: {event.kind}\ndata: {event.model_dump_json()}\n\n"
    return _Message(event, frame.encode())
