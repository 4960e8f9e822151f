"""Connections and transactions that behave in the same way on SQLite and PostgreSQL.

SQLite has one writer at a time. On PostgreSQL, a transaction that appends events first takes an
advisory lock. So the IDs of events are assigned in commit order on both.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, CursorResult, Executable, event, insert, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from aitne.core.errors import SetupError, StoreUnavailable
from aitne.store import sqlite_file_checks, tables
from aitne.store.aiosqlite_connector import BEGIN, OneTripConnection, SqliteConnector
from aitne.store.change_feed import Feed, PostgresFeed, SqliteFeed
from aitne.store.database_address import Address
from aitne.store.database_error_messages import (
    BUSY_TIMEOUT_S,
    convert_database_errors,
    convert_startup_errors,
)

log = logging.getLogger(__name__)

Clock = Callable[[], datetime]

_WRITES = "aitne_writes"
_THREADS_END_S = 2.0
_NOTE_AGAIN_S = 30.0
# Arbitrary numbers of advisory locks; all processes that use a database must use the same ones.
_EVENT_LOCK = 4_158_320_901
MIGRATION_LOCK = 4_158_320_902


_ADD_EVENTS = insert(tables.events)


class Transaction:
    """Write transaction in progress. Its events are written at its end, so that the lock of the
    event log is held only briefly.

    This also prevents deadlocks, because a transaction that holds this lock requests no other
    locks.
    """

    def __init__(self, connection: AsyncConnection, clock: Clock) -> None:
        self.connection = connection
        self._clock = clock
        self._events: list[dict[str, Any]] = []

    @property
    def dialect(self) -> str:
        """Return the name of the SQL dialect: ``sqlite`` or ``postgresql``."""
        return self.connection.dialect.name

    async def execute(
        self,
        statement: Executable,
        parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    ) -> CursorResult[Any]:
        """Run one statement; if ``parameters`` is a sequence, run it once for each item."""
        return await self.connection.execute(statement, parameters)

    async def execute_without_result(
        self, statement: Executable, parameters: Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        """Run a statement without returning its result: once, or once for each item of
        ``parameters``. On SQLite the statement is deferred, so that a later statement or the commit
        raises its errors.
        """
        driver = _get_sqlite_connection(self.connection)
        if driver is None:
            await self.execute(statement, parameters)
            return
        driver.deferring = True
        try:
            await self.execute(statement, parameters)
        finally:
            driver.deferring = False

    async def acquire_lock(self, lock_name: str) -> None:
        """Acquire an exclusive lock with the name ``lock_name`` until the end of the transaction. Use it
        to check rules about rows that do not exist yet and therefore cannot be locked.

        On SQLite this does nothing, because there is only one write transaction at a time.
        """
        if self.dialect == "postgresql":
            lock = text("SELECT pg_advisory_xact_lock(hashtextextended(:what, 0))")
            await self.execute(lock, {"what": lock_name})

    def append_event(self, kind: str, data: Mapping[str, Any], **about: Any) -> None:
        """Add an event, which is written at the end of the transaction.

        Args:
            kind: kind of the event, such as ``project.changed``.
            data: content of the event.
            about: any of ``job_id``, ``owner`` and ``project``, which determine who may see it.
        """
        row = {"kind": kind, "data": dict(data), "job_id": None, "owner": None, "project": None}
        self._events.append({**row, **about, "time": self._clock()})

    async def flush_events(self) -> None:
        """Write the transaction's events and notify tasks that wait for changes; called just before
        the commit.
        """
        if self.dialect == "postgresql":
            lock = ", pg_advisory_xact_lock(:lock)" if self._events else ""
            values = {"channel": PostgresFeed.CHANNEL} | (
                {"lock": _EVENT_LOCK} if self._events else {}
            )
            await self.connection.execute(text(f"SELECT pg_notify(:channel, ''){lock}"), values)
        if self._events:
            await self.execute_without_result(_ADD_EVENTS, self._events)


class Database:
    """The platform's database: it provides connections for reads, write transactions, and the feed,
    which notifies waiting tasks of changes.
    """

    def __init__(self, address: Address, clock: Clock, *, outlived: bool) -> None:
        self.address = address
        self._clock = clock
        # The writers of one process queue here in order instead of polling for SQLite's lock.
        self._turn: AbstractAsyncContextManager[None] = (
            asyncio.Lock() if address.path is not None else nullcontext()
        )
        self._note_again_at = float("-inf")
        self.feed: Feed
        self._connector: SqliteConnector | None
        if address.path is not None:
            self.feed = SqliteFeed(address.path)
            self._connector = SqliteConnector(address.path, BUSY_TIMEOUT_S)
            self._engine = _sqlite_engine(
                address, self._connector, "FULL" if outlived else "NORMAL"
            )
            self._reader = self._engine
        else:
            self.feed = PostgresFeed(address.dsn)
            self._connector = None
            self._engine = _postgres_engine(address)
            # The statements of a read may see different states of the database.
            self._reader = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        self._writer = self._engine.execution_options(**{_WRITES: True})

    async def prepare(self) -> None:
        """Check the location of the database; create an SQLite file if it is missing. Raises
        ``SetupError``.
        """
        if self.address.path is not None:
            with convert_startup_errors(self.address):
                await asyncio.to_thread(sqlite_file_checks.prepare_file, self.address.path)

    async def close(self) -> None:
        """Close every connection to the database."""
        await self.feed.close()
        await self._engine.dispose()
        if self._connector is not None:
            await self._connector.wait_for_threads(within_s=_THREADS_END_S)

    @asynccontextmanager
    async def read(self, *, brief: bool = False) -> AsyncIterator[AsyncConnection]:
        """Provide a connection for reads.

        Args:
            brief: whether each statement uses an index and returns a few hundred rows at most. On
                SQLite such statements run in the calling thread, because switching to another
                thread would take longer than the statement.

        Raises:
            StoreUnavailable: the database does not answer or reports an error, except violations of
                constraints (``IntegrityError``).
        """
        # Before the read, so that a change during it counts as not yet seen by the reader.
        self.feed.mark_read()
        with convert_database_errors(self.address):
            async with self.raw_read() as connection:
                with _run_briefly(connection, brief):
                    yield connection

    @asynccontextmanager
    async def raw_read(self) -> AsyncIterator[AsyncConnection]:
        """Provide a connection for reads, on which errors of the database driver are not converted."""
        async with self._reader.connect() as connection:
            yield connection

    @asynccontextmanager
    async def raw_write(self) -> AsyncIterator[AsyncConnection]:
        """Provide a write transaction in which errors of the database driver are not converted."""
        async with self._turn, self._writer.connect() as connection, connection.begin():
            yield connection

    @asynccontextmanager
    async def write(self, *, brief: bool = False) -> AsyncIterator[Transaction]:
        """Provide a write transaction. It is committed at the end of the ``with`` block, and rolled
        back if the block raises an exception.

        Args:
            brief: whether each statement uses an index and reads or writes a few hundred rows at
                most, as for ``read``.

        Raises:
            StoreUnavailable: the database does not answer or reports an error, except violations of
                constraints (``IntegrityError``).
        """
        with convert_database_errors(self.address):
            async with self.raw_write() as connection:
                transaction = Transaction(connection, self._clock)
                with _run_briefly(connection, brief):
                    yield transaction
                    await transaction.flush_events()

    async def execute_nonessential(self, statement: Executable) -> None:
        """Run a statement that writes a value that is not essential, such as the time of a token's
        last use. A failure is logged and not raised, so that the request continues.

        After a failure, for example because the disk is full, statements are ignored for
        ``_NOTE_AGAIN_S`` seconds, because each attempt may wait for a lock.
        """
        if time.monotonic() < self._note_again_at:
            return
        try:
            async with self.write() as tx:
                await tx.execute(statement)
        except StoreUnavailable as error:
            self._note_again_at = time.monotonic() + _NOTE_AGAIN_S
            log.warning("The time of a use is not stored: %s", error.message)


def _get_sqlite_connection(connection: AsyncConnection) -> OneTripConnection | None:
    """Return the SQLite driver's connection; None for PostgreSQL."""
    driver = connection.sync_connection.connection.driver_connection  # type: ignore[union-attr]
    return driver if isinstance(driver, OneTripConnection) else None


@contextmanager
def _run_briefly(connection: AsyncConnection, brief: bool) -> Iterator[None]:
    """On SQLite, if ``brief`` is True, run the statements of the ``with`` block in the calling
    thread. Otherwise this has no effect.
    """
    driver = _get_sqlite_connection(connection) if brief else None
    if driver is None:
        yield
        return
    driver.brief = True
    try:
        yield
    finally:
        driver.brief = False


def _sqlite_engine(address: Address, connector: SqliteConnector, synchronous: str) -> AsyncEngine:
    engine = create_async_engine(
        address.engine_url, async_creator=connector.connect, pool_size=4, max_overflow=4
    )

    @event.listens_for(engine.sync_engine, "connect")
    def _set_up(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA foreign_keys=ON")
        # With the write-ahead log and NORMAL a commit survives a crash of any process, and the file is
        # never damaged; only a power failure may lose the last commits. It also ends the jobs of this
        # machine, and each commit saves the milliseconds of an fsync. FULL is for jobs on other
        # machines, which continue: each answered commit is on the disk.
        cursor.execute(f"PRAGMA synchronous={synchronous}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def _begin(connection: Connection) -> None:
        # Reads have no transaction: each statement sees the commits before its start, as on PostgreSQL,
        # and a read takes five round trips to the driver's thread instead of eight.
        if connection.get_execution_options().get(_WRITES):
            connection.exec_driver_sql(BEGIN)

    return engine


def _postgres_engine(address: Address) -> AsyncEngine:
    import asyncpg

    async def connect() -> Any:
        try:
            return await asyncpg.connect(
                address.dsn,
                user=address.user,
                timeout=10,
                server_settings={
                    "application_name": "aitne",
                    "jit": "off",
                    "lock_timeout": f"{BUSY_TIMEOUT_S:g}s",
                    # A process that hangs inside a transaction must not block all others forever.
                    "idle_in_transaction_session_timeout": f"{2 * BUSY_TIMEOUT_S:g}s",
                },
            )
        except ValueError as error:
            raise SetupError(
                f"The setting database has an option that PostgreSQL's driver rejects: {error}. "
                "See https://www.postgresql.org/docs/current/libpq-connect.html for the valid options."
            ) from error

    return create_async_engine(
        address.engine_url,
        async_creator=connect,
        pool_size=5,
        max_overflow=10,
        # A pooled connection that was closed by a restart of the server is replaced transparently.
        pool_pre_ping=True,
    )
