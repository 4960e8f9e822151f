"""aiosqlite with fewer ways to its thread and back.

For each statement SQLAlchemy makes a cursor, executes, fetches and closes, and after each read it rolls
back. With aiosqlite every one of these is a round trip between two threads, which costs more than most
of the queries. Here a statement with all its rows is one, and a rollback of nothing is none.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import aiosqlite

_CHUNK = 64


class OneTripCursor:
    """What SQLAlchemy uses of a cursor."""

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
        """Run one statement and take its rows."""
        await self._connection.call(self._run, "execute", statement, parameters)
        return self

    async def executemany(self, statement: str, parameters: Any) -> Self:
        """Run one statement for each of the parameters."""
        await self._connection.call(self._run, "executemany", statement, parameters)
        return self

    def _run(self, method: str, statement: str, parameters: Any) -> None:
        # In the connection's thread.
        cursor = getattr(self._connection._conn, method)(statement, parameters)
        try:
            self.description = cursor.description
            self._rows = cursor.fetchall() if self.description else []
            self.rowcount, self.lastrowid = cursor.rowcount, cursor.lastrowid
        finally:
            cursor.close()

    async def fetchall(self) -> list[Any]:
        """The rows, once."""
        rows, self._rows = self._rows, []
        return rows

    async def close(self) -> None:
        """Nothing is open."""


class OneTripConnection(aiosqlite.Connection):
    """What SQLAlchemy's aiosqlite dialect connects to."""

    def cursor(self) -> OneTripCursor:  # type: ignore[override]
        """A cursor, without asking the thread for one."""
        return OneTripCursor(self)

    async def call(self, function: Callable[..., None], *arguments: Any) -> None:
        """Run a function in the connection's thread."""
        await self._execute(function, *arguments)  # type: ignore[no-untyped-call]

    async def rollback(self) -> None:
        """Roll back if there is anything to."""
        if self.in_transaction:
            await super().rollback()


def connector(path: Path, timeout_s: float) -> OneTripConnection:
    """A connection to be awaited."""

    def connect() -> sqlite3.Connection:
        # The driver must not begin transactions by itself: it would begin them as readers, and a
        # reader that wants to write while another writes fails at once instead of waiting.
        return sqlite3.connect(path, timeout=timeout_s, isolation_level=None)

    connection = OneTripConnection(connect, _CHUNK)
    # As SQLAlchemy does for its own: a connection that was forgotten must not keep the process.
    connection._thread.daemon = True
    return connection
