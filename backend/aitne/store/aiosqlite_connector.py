"""Connections of aiosqlite with fewer round trips to their thread.

For each statement SQLAlchemy creates a cursor, executes the statement, fetches the rows and closes
the cursor; after each read it rolls back. In aiosqlite each of these steps is a round trip between
two threads, which takes longer than most queries. Here a statement and its rows need only one round
trip, and a rollback without an open transaction needs none. BEGIN, and statements whose result is
not
needed, are deferred: they share the round trip of the next statement or of the commit. Brief
statements need no round trip: they run in the thread of the event loop, unless they would have to
wait for another writer.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread
from typing import Any, Self

import aiosqlite

BEGIN = "BEGIN IMMEDIATE"
_CHUNK = 64


class OneTripCursor:
    """Database cursor for SQLAlchemy. It executes a statement and fetches all its rows in one round
    trip to the connection's thread.
    """

    def __init__(self, connection: OneTripConnection) -> None:
        self._connection = connection
        self._rows: list[Any] = []
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None
        self.arraysize = 1

    async def __aenter__(self) -> Self:
        return self

    async def execute(self, statement: str, parameters: Any = ()) -> Self:
        """Run one statement and fetch all its rows."""
        if statement == BEGIN or self._connection.deferring:
            self._connection.defer("execute", statement, parameters)
        elif self._connection.can_run_in_caller:
            self._connection.run_in_calling_thread(
                self._run_statement, "execute", statement, parameters
            )
        else:
            await self._connection.run_in_connection_thread(
                self._run_statement, "execute", statement, parameters
            )
        return self

    async def executemany(self, statement: str, parameters: Any) -> Self:
        """Run one statement for each item of ``parameters``."""
        if self._connection.deferring:
            self._connection.defer("executemany", statement, parameters)
        else:
            await self._connection.run_in_connection_thread(
                self._run_statement, "executemany", statement, parameters
            )
        return self

    def _run_statement(self, method: str, statement: str, parameters: Any) -> None:
        cursor = getattr(self._connection._conn, method)(statement, parameters)
        try:
            self.description = cursor.description
            self._rows = cursor.fetchall() if self.description else []
            self.rowcount, self.lastrowid = cursor.rowcount, cursor.lastrowid
        finally:
            cursor.close()

    async def fetchall(self) -> list[Any]:
        """Return the remaining rows; a second call returns none."""
        rows, self._rows = self._rows, []
        return rows

    async def close(self) -> None:
        """Do nothing: no resources are held."""


class OneTripConnection(aiosqlite.Connection):
    """Database connection for SQLAlchemy's aiosqlite dialect with fewer round trips to
    its thread.
    """

    _stopped = False
    deferring = False
    """True while statements are deferred to the next one or to the commit, because their results
    are not needed. Their errors are raised there.
    """
    brief = False
    """True while statements take microseconds: they find rows by an index and never wait, because
    they read or belong to a transaction that has begun.
    """

    def __init__(self, connector: Callable[[], sqlite3.Connection], chunk_size: int) -> None:
        super().__init__(connector, chunk_size)
        self._deferred: list[tuple[str, str, Any]] = []
        self._trips = 0

    @property
    def can_run_in_caller(self) -> bool:
        """Return whether a statement can run in the calling thread. It can if it is brief, does not
        have to begin a write transaction first, and the connection's thread is idle (it may still
        run a statement of a cancelled task).
        """
        return self.brief and not self._trips and (not self._deferred or self.in_transaction)

    def run_in_calling_thread(self, function: Callable[..., None], *arguments: Any) -> None:
        """Run the deferred statements and then ``function`` in the calling thread."""
        deferred, self._deferred = self._deferred, []
        self._run_deferred(deferred)
        function(*arguments)

    def cursor(self) -> OneTripCursor:  # type: ignore[override]
        """Create a cursor, which needs no round trip to the connection's thread."""
        return OneTripCursor(self)

    def defer(self, method: str, statement: str, parameters: Any) -> None:
        """Queue a statement, which runs before the next statement or the commit.

        Args:
            method: method of ``sqlite3.Connection``: ``execute`` or ``executemany``.
            statement: SQL text.
            parameters: its parameters.
        """
        self._deferred.append((method, statement, parameters))

    async def run_in_connection_thread(
        self, function: Callable[..., None], *arguments: Any
    ) -> None:
        """Run the deferred statements and then ``function`` in the connection's thread."""
        deferred, self._deferred = self._deferred, []
        self._trips += 1
        await self._execute(self._run_all, deferred, function, *arguments)  # type: ignore[no-untyped-call]

    async def commit(self) -> None:
        """Commit the transaction, if a statement has begun one."""
        if [statement for _, statement, _ in self._deferred] == [BEGIN]:
            self._deferred = []
        elif self._deferred or self.in_transaction:
            await self.run_in_connection_thread(self._conn.commit)

    async def rollback(self) -> None:
        """Roll back the transaction, if one is open."""
        self._deferred = []
        if self.in_transaction:
            await self.run_in_connection_thread(self._conn.rollback)

    def _run_all(
        self,
        deferred: Sequence[tuple[str, str, Any]],
        function: Callable[..., None],
        *arguments: Any,
    ) -> None:
        # This runs in the connection's thread.
        try:
            self._run_deferred(deferred)
            function(*arguments)
        finally:
            self._trips -= 1

    def _run_deferred(self, deferred: Sequence[tuple[str, str, Any]]) -> None:
        for method, statement, parameters in deferred:
            getattr(self._conn, method)(statement, parameters).close()

    def stop(self) -> asyncio.Future[Any] | None:
        """Stop the connection's thread. A second call returns None and has no effect.

        If the task that uses the connection is cancelled twice, SQLAlchemy stops the connection
        while it is being closed. The close then stops it again, and would wait forever for a thread
        that has already ended.
        """
        if self._stopped:
            return None
        self._stopped = True
        return super().stop()


class SqliteConnector:
    """Factory of connections to one SQLite file, which keeps track of the connections' threads."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._threads: list[Thread] = []

    async def connect(self) -> OneTripConnection:
        """Open a connection to the database."""
        connection = OneTripConnection(self._open, _CHUNK)
        thread = connection._thread
        # As in SQLAlchemy: a connection that was not closed must not prevent the process from exiting.
        thread.daemon = True
        self._threads = [worker for worker in self._threads if worker.is_alive()] + [thread]
        await connection
        return connection

    async def wait_for_threads(self, within_s: float) -> None:
        """Wait at most ``within_s`` seconds for the threads of aborted connections, which still
        report to this event loop.
        """
        until = time.monotonic() + within_s
        for thread in self._threads:
            if thread.is_alive():
                await asyncio.to_thread(thread.join, max(0.0, until - time.monotonic()))

    def _open(self) -> sqlite3.Connection:
        # The driver must not begin transactions by itself: it would begin them as readers, and a
        # reader that starts to write during another write fails at once instead of waiting.
        # Brief statements run in the event loop's thread, while the connection's own does nothing.
        return sqlite3.connect(
            self._path, timeout=self._timeout_s, isolation_level=None, check_same_thread=False
        )
