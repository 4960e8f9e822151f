"""State of a database, of this release's schema or another one, for an upgrade."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, func, select

from aitne.adapters.store.engine import Database
from aitne.adapters.store.faults import translated
from aitne.adapters.store.migrate import revision
from aitne.adapters.store.tables import jobs
from aitne.adapters.store.urls import parse


@dataclass(frozen=True, slots=True)
class DatabaseState:
    """Schema revision of a database (None: it is empty), and how many jobs it has accepted."""

    revision: str | None
    jobs_since: int
    """Number of jobs that were accepted at or after the time that was asked for."""


async def database_state(url: str, since: datetime) -> DatabaseState:
    """Return the state of the database at ``url``; it is not migrated.

    Raises:
        SetupError: the URL is invalid.
        StoreUnavailable: the database does not answer.
    """
    database = Database(parse(url), lambda: datetime.now(UTC), outlived=False)
    try:
        with translated(database.address):
            async with database.raw_read() as connection:
                return await connection.run_sync(_state, since)
    finally:
        await database.close()


def _state(connection: Connection, since: datetime) -> DatabaseState:
    present = revision(connection)
    if present is None:
        return DatabaseState(None, 0)
    query = select(func.count()).select_from(jobs).where(jobs.c.created_at >= since)
    return DatabaseState(present, connection.execute(query).scalar_one())
