"""Notification of waiting tasks that the database has changed, by a commit of any process.

Each process has one watcher for all its waiting tasks. The watcher counts generations: a number
that increases whenever something may have been committed. A waiting task compares the current
generation with that of its last read or wait. That generation is stored in a context variable, so a
new task that is started only to wait inherits it from the task that reads.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
import weakref
from abc import ABC, abstractmethod
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Mark:
    """Generation of the database at a task's last read or wait."""

    feed: Feed
    """Feed of the database."""
    generation: int
    """Number of the generation."""
    task: weakref.ref[asyncio.Task[Any]] | None
    """The task; None: the read was made outside a task."""
    time: float
    """Time of the read or wait (``time.monotonic``)."""


_seen: ContextVar[_Mark | None] = ContextVar("aitne_seen_generation", default=None)


class Feed(ABC):
    """Source of notifications that the database has changed. Each change begins a new generation,
    and ``wait_for_change`` returns as soon as there is a newer generation than at the calling task's last read
    or wait.
    """

    RECENT_S = 1.0
    """Maximum age in seconds of the generation that a task inherits from the task that started it;
    an older one is ignored.
    """
    PAUSE_S = 0.05

    def __init__(self) -> None:
        self._generation = 0
        self._grown_at = float("-inf")
        self._waiters: set[asyncio.Future[None]] = set()

    def mark_read(self) -> None:
        """Record that the calling task reads the database now, so that its next ``wait_for_change`` returns
        only after later changes.
        """
        task = asyncio.current_task()
        task_ref = None if task is None else weakref.ref(task)
        _seen.set(_Mark(self, self._generation, task_ref, time.monotonic()))

    async def wait_for_change(self, timeout_s: float) -> bool:
        """Wait for a change of the database since the calling task's last read or wait; return True
        if there is one, False after ``timeout_s`` seconds.
        """
        await self._start_watching()
        generation, is_own = self._get_caller_generation()
        if not is_own and generation != self._generation:
            # The mark belongs to another task and is not updated here, so without a pause a loop that
            # starts such tasks would spin until the mark is too old.
            await asyncio.sleep(min(timeout_s, self.PAUSE_S))
        if generation == self._generation:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await asyncio.wait((waiter,), timeout=timeout_s)
            finally:
                self._waiters.discard(waiter)
        changed = generation != self._generation
        self.mark_read()
        return changed

    def _get_caller_generation(self) -> tuple[int, bool]:
        """Return the generation (number of the database state) that the calling task has seen, so
        that a later one ends its wait. The second value is True if the task itself recorded that
        generation when it last read or waited.
        """
        mark, now = _seen.get(), time.monotonic()
        if mark is not None and mark.feed is self:
            is_own = mark.task is not None and mark.task() is asyncio.current_task()
            if is_own or now - mark.time < self.RECENT_S:
                return mark.generation, is_own
        # It is unknown what this task has seen; it may have missed the last change if that is recent.
        return self._generation - (now - self._grown_at < self.RECENT_S), False

    def _advance_generation(self) -> None:
        self._generation += 1
        self._grown_at = time.monotonic()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    @abstractmethod
    async def _start_watching(self) -> None:
        """Start the watcher unless it runs; called at the beginning of every wait."""

    @abstractmethod
    async def close(self) -> None:
        """Stop the watcher. Tasks that are waiting run into their timeouts."""


class SqliteFeed(Feed):
    """Feed for SQLite. While any task waits, it regularly reads ``PRAGMA data_version``, which
    takes some microseconds in shared memory.

    That number changes with the commits of all other connections. The feed's own connection makes
    no commits, so it detects all commits, including those of this process.
    """

    INTERVAL_S = 0.05

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._version: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def _start_watching(self) -> None:
        self._poll_data_version()
        if self._timer is None:
            self._schedule_poll()

    def _schedule_poll(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(
            self.INTERVAL_S, self._poll_and_reschedule
        )

    def _poll_and_reschedule(self) -> None:
        self._timer = None
        self._poll_data_version()
        if self._waiters:
            self._schedule_poll()

    def _poll_data_version(self) -> None:
        try:
            if self._connection is None:
                # By URI, to open an existing file and never create one.
                self._connection = sqlite3.connect(
                    f"{self._path.as_uri()}?mode=rw", uri=True, timeout=0, isolation_level=None
                )
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error as error:
            # Waiters read after their timeout, which raises the error.
            log.warning("cannot look for changes in %s: %s", self._path, error)
            self._close_connection()
            return
        if version != self._version:
            self._version = version
            self._advance_generation()

    def _close_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
        # A new connection counts from the start, so its first value counts as a change.
        self._connection, self._version = None, None

    async def close(self) -> None:
        """Close the connection and cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._close_connection()


class PostgresFeed(Feed):
    """Feed for PostgreSQL, which uses LISTEN on a separate connection; every write transaction
    executes NOTIFY.
    """

    CHANNEL = "aitne_change"
    CHECK_S = 30.0
    """Seconds between checks of the connection, which detect that it was lost without an error."""
    RETRY_S = 2.0

    def __init__(self, dsn: str) -> None:
        super().__init__()
        self._dsn = dsn
        self._task: asyncio.Task[None] | None = None

    async def _start_watching(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._listen_for_ever(), name="store-feed")

    async def _listen_for_ever(self) -> None:
        import asyncpg

        while True:
            try:
                await self._listen_until_lost()
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                log.warning("lost the database's notifications, reconnecting: %s", error)
            await asyncio.sleep(self.RETRY_S)

    async def _listen_until_lost(self) -> None:
        import asyncpg

        connection = await asyncpg.connect(self._dsn, timeout=10)
        try:
            lost = asyncio.Event()
            connection.add_termination_listener(lambda _: lost.set())
            await connection.add_listener(self.CHANNEL, self._handle_notification)
            # Notifications that were sent before this connection were not received.
            self._advance_generation()
            while not lost.is_set():
                # Not ``wait_for``: before Python 3.12 it loses a cancellation at the time of the event.
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.CHECK_S):
                        await lost.wait()
                if not lost.is_set():
                    await connection.execute("SELECT 1", timeout=10)
        finally:
            connection.terminate()

    def _handle_notification(self, *_: Any) -> None:
        self._advance_generation()

    async def close(self) -> None:
        """Stop listening for changes."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
