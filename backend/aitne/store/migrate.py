"""Migration of a database to this release's schema, safe if several processes start at the same
time.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text
from sqlalchemy.ext.asyncio import AsyncConnection

from aitne.core.errors import SetupError
from aitne.store.database import MIGRATION_LOCK, Database
from aitne.store.database_error_messages import convert_startup_errors
from aitne.store.migrations import HEAD

SCRIPTS = Path(__file__).with_name("migrations")
_VERSION_TABLE = "alembic_version"


async def migrate_database(database: Database) -> None:
    """Migrate the database to the revision ``HEAD``, in one transaction under one lock: if it
    fails, nothing has changed.

    Raises:
        SetupError: the database is damaged, cannot be written, or newer than this release.
        StoreUnavailable: the database does not answer.
    """
    with convert_startup_errors(database.address):
        async with database.raw_read() as connection:
            if await connection.run_sync(read_revision) == HEAD:
                return
        async with database.raw_write() as connection:
            await _take_migration_lock(connection)
            # Check again: another process may have migrated while this one waited for the lock.
            present = await connection.run_sync(read_revision)
            if present != HEAD:
                await connection.run_sync(_upgrade_schema, present, database.address.shown)


async def _take_migration_lock(connection: AsyncConnection) -> None:
    # On SQLite the transaction itself is the lock.
    if connection.dialect.name == "postgresql":
        await connection.execute(text("SET LOCAL lock_timeout = '5min'"))
        await connection.execute(text(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"))


def read_revision(connection: Connection) -> str | None:
    """Return the database's schema revision; None if the database is empty."""
    if not inspect(connection).has_table(_VERSION_TABLE):
        return None
    version: str | None = connection.execute(
        text(f"SELECT version_num FROM {_VERSION_TABLE}")  # noqa: S608  (a constant)
    ).scalar()
    return version


def is_known_revision(schema: str) -> bool:
    """Return whether this release knows the schema revision: it is this release's or an older
    one.
    """
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    scripts = ScriptDirectory.from_config(config).walk_revisions()
    return any(script.revision == schema for script in scripts)


def _upgrade_schema(connection: Connection, present: str | None, shown: str) -> None:
    # Imported only for an upgrade: it takes memory and start-up time in every process.
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    if present is not None and not is_known_revision(present):
        raise SetupError(
            f"The database {shown} was last used by a newer release (its schema {present} is not "
            "known to this one). Install that release again, or restore a backup from before the "
            "upgrade."
        )
    if present is None:
        _check_no_foreign_tables(connection, shown)
    command.upgrade(config, "head")


def _check_no_foreign_tables(connection: Connection, shown: str) -> None:
    strangers = inspect(connection).get_table_names()
    if strangers:
        raise SetupError(
            f"The database {shown} contains tables of another program ({', '.join(strangers[:3])}). "
            "Give the platform a separate database."
        )
