"""Inspection of a database that may be damaged, foreign or of another release. Nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, inspect, text

from aitne.store.database import Database
from aitne.store.database_error_messages import convert_startup_errors
from aitne.store.migrate import SCRIPTS, read_revision
from aitne.store.migrations import HEAD

_VACUUM = text(
    "SELECT relname, n_dead_tup, n_live_tup FROM pg_stat_user_tables"
    " WHERE n_dead_tup > 100000 AND n_dead_tup > n_live_tup ORDER BY n_dead_tup DESC LIMIT 5"
)
_AGE = text("SELECT age(datfrozenxid) FROM pg_database WHERE datname = current_database()")
_WRAPAROUND = 1_000_000_000
"""Age in transactions from which on PostgreSQL has not frozen rows for too long; it stops at 2^31."""


@dataclass(frozen=True, slots=True)
class SchemaState:
    """Schema of a database."""

    present: str | None
    """Schema revision of the database; None: it has none."""
    expected: str
    """Schema revision of this release."""
    known: bool
    """Whether this release knows the revision of the database."""
    tables: int
    """Number of tables. If there is no revision, they may belong to another program."""


async def read_schema_state(database: Database) -> SchemaState:
    """Return the schema of the database.

    Raises:
        SetupError: the database cannot be read until an administrator repairs it.
        StoreUnavailable: the database does not answer.
    """
    with convert_startup_errors(database.address):
        async with database.raw_read() as connection:
            return await connection.run_sync(_read_schema_state)


async def find_integrity_problems(database: Database) -> list[str]:
    """Check the integrity of the database, and return its problems as sentences: damaged pages on
    SQLite; tables that were not vacuumed, or rows that were not frozen, on PostgreSQL. SQLite reads
    the whole file for this, which can take minutes.

    Raises:
        SetupError: the database cannot be read until an administrator repairs it.
        StoreUnavailable: the database does not answer.
    """
    with convert_startup_errors(database.address):
        async with database.raw_read() as connection:
            if connection.dialect.name == "sqlite":
                rows = await connection.execute(text("PRAGMA quick_check(5)"))
                said = [str(row[0]) for row in rows]
                return [] if said == ["ok"] else said
            dead = (await connection.execute(_VACUUM)).all()
            age = (await connection.execute(_AGE)).scalar_one()
    problems = [
        f"The table {name} has {dead_rows} dead rows and {live_rows} live ones."
        for name, dead_rows, live_rows in dead
    ]
    if age > _WRAPAROUND:
        problems.append(f"The oldest row was not frozen for {age} transactions.")
    return problems


def _read_schema_state(connection: Connection) -> SchemaState:
    present = read_revision(connection)
    known = present is not None and any(
        path.name.startswith(f"{present}_") for path in (SCRIPTS / "versions").glob("*.py")
    )
    tables = len(inspect(connection).get_table_names())
    return SchemaState(present, HEAD, known, tables)
