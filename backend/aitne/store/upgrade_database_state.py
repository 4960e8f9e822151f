"""State of a database, of this release's schema or another one, for an upgrade."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, func, select

from aitne.store.database import Database
from aitne.store.database_address import parse_address
from aitne.store.database_error_messages import convert_database_errors
from aitne.store.migrate import read_revision
from aitne.store.tables import jobs


@dataclass(frozen=True, slots=True)
class DatabaseState:
    """State of a database."""

    revision: str | None
    """Schema revision; None: the database is empty."""
    jobs_since: int
    """Number of jobs that were accepted at or after the time ``since``."""


async def read_database_state(url: str, since: datetime) -> DatabaseState:
    """Return the state of a database without migrating it.

    Args:
        url: URL of the database.
        since: jobs that were accepted at or after this time are counted.

    Raises:
        SetupError: the URL is invalid.
        StoreUnavailable: the database does not answer.
    """
    database = Database(parse_address(url), lambda: datetime.now(UTC), outlived=False)
    try:
        with convert_database_errors(database.address):
            async with database.raw_read() as connection:
                return await connection.run_sync(_read_state, since)
    finally:
        await database.close()


def _read_state(connection: Connection, since: datetime) -> DatabaseState:
    present = read_revision(connection)
    if present is None:
        return DatabaseState(None, 0)
    query = select(func.count()).select_from(jobs).where(jobs.c.created_at >= since)
    return DatabaseState(present, connection.execute(query).scalar_one())
