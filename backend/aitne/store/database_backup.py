"""Copies of databases for backups, and their restoration."""

from __future__ import annotations

import errno
import os
import re
import shutil
import sqlite3
import subprocess
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from sqlalchemy import text

from aitne.core.errors import SetupError, Unavailable
from aitne.core.models.audit import RESTORE, AuditDraft, Outcome
from aitne.store import Store
from aitne.store.database import Database
from aitne.store.database_address import Address, parse_address
from aitne.store.database_error_messages import convert_database_errors
from aitne.store.migrate import is_known_revision, read_revision

Kind = Literal["sqlite", "postgresql"]

_BUSY_S = 30.0
_PROGRAMS = Path("/usr/lib/postgresql")
"""Folder in which Debian has the programs of each release of PostgreSQL."""
_PASSWORD = re.compile(r"(?<=://)([^/?#@]*?):([^/?#@]*)@")
_PASSWORD_OPTION = re.compile(r"[?&]password=([^&]*)")
_PUBLIC = "public"


def parse_database_kind(url: str) -> Kind:
    """Return the kind of the database at ``url``. Raises ``SetupError`` for other URLs."""
    return "sqlite" if parse_address(url).path is not None else "postgresql"


def sqlite_file(url: str) -> Path:
    """Return the file of the SQLite database at ``url``."""
    path = parse_address(url).path
    assert path is not None  # noqa: S101 (the caller has checked the kind)
    return path


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy a database that may be in use to the new file ``target``, in the state of one moment.

    With the write-ahead log neither readers nor the writer wait meanwhile. All pages are copied in
    one step, because a copy in steps begins anew after each commit.

    Raises:
        OSError: ``target`` cannot be written, for example because the disk is full.
        Unavailable: ``source`` cannot be read.
    """
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        with (
            closing(
                sqlite3.connect(f"{source.as_uri()}?mode=rw", uri=True, timeout=_BUSY_S)
            ) as live,
            closing(sqlite3.connect(target, isolation_level=None)) as copy,
        ):
            # A copy that a crash damages is never used.
            copy.execute("PRAGMA journal_mode=OFF")
            copy.execute("PRAGMA synchronous=OFF")
            live.backup(copy)
            # The copy is read where its folder cannot be written.
            copy.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.Error as error:
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target)) from error
        raise Unavailable(
            f"The database {source} cannot be copied: {error}. `aitne admin health` shows its state."
        ) from error


def check_sqlite(path: Path) -> None:
    """Check the integrity of a copy of a database that is not in use. Raises ``SetupError``."""
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        verdict = str(error)
    if verdict != "ok":
        raise SetupError(f"The database {path.name} in the backup is damaged: {verdict}.")


def dump_postgres(url: str, target: Path) -> None:
    """Write the PostgreSQL database at ``url`` to the new file ``target``, in the state of one
    moment, in the custom format of ``pg_dump``.

    Raises:
        SetupError: ``pg_dump`` is missing, or older than the server.
        OSError: ``target`` cannot be written.
        Unavailable: ``pg_dump`` failed for another reason.
    """
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    options = ["--format=custom", "--no-owner", "--no-privileges", f"--schema={_PUBLIC}"]
    _run_client_program("pg_dump", [*options, f"--file={target}"], parse_address(url))


def restore_postgres(url: str, dump: Path) -> None:
    """Read a dump into the empty PostgreSQL database at ``url``, in one transaction.

    Raises:
        SetupError: ``pg_restore`` is missing.
        Unavailable: ``pg_restore`` failed; the database has not changed.
    """
    options = ["--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction"]
    _run_client_program(
        "pg_restore", [*options, "--clean", "--if-exists", str(dump)], parse_address(url)
    )


async def read_schema_revision(url: str) -> str | None:
    """Return the schema revision of the database at ``url``; None if it contains no tables of the
    platform. Raises ``StoreUnavailable`` if the database does not answer.
    """
    database = _make_database(url)
    try:
        with convert_database_errors(database.address):
            async with database.raw_read() as connection:
                return await connection.run_sync(read_revision)
    finally:
        await database.close()


async def rename_schema(url: str, name: str) -> None:
    """Rename the schema of a PostgreSQL database, with all its tables, and create an empty schema
    with the original name. ``restore_renamed_schema`` reverts this.

    Args:
        url: URL of the database.
        name: new name of the schema.

    Raises:
        StoreUnavailable: the database does not answer.
    """
    await _execute_statements(
        url, f'ALTER SCHEMA {_PUBLIC} RENAME TO "{name}"', f"CREATE SCHEMA {_PUBLIC}"
    )


async def restore_renamed_schema(url: str, name: str) -> None:
    """Revert ``rename_schema``: drop the current schema of a PostgreSQL database, and give the renamed
    schema its original name again. Has no effect if there is no schema ``name``.

    Args:
        url: URL of the database.
        name: name to which ``rename_schema`` has renamed the schema.

    Raises:
        StoreUnavailable: the database does not answer.
    """
    await _execute_statements(
        url,
        f"""DO $$ BEGIN
            IF EXISTS (SELECT FROM pg_namespace WHERE nspname = '{name}') THEN
                DROP SCHEMA {_PUBLIC} CASCADE;
                ALTER SCHEMA "{name}" RENAME TO {_PUBLIC};
            END IF;
        END $$""",
    )


def check_schema_not_newer(backup_schema: str, release: str) -> None:
    """Check that this release can read the schema of a backup.

    Args:
        backup_schema: schema revision of the backup.
        release: release of the platform that made the backup, for the message.

    Raises:
        SetupError: the schema is of a newer release.
    """
    if not is_known_revision(backup_schema):
        raise SetupError(
            f"The backup is of a newer release (Aitne {release}, schema {backup_schema}), which this one "
            "cannot read. Install that release, then restore the backup."
        )


async def complete_restore(url: str, *, actor: str, backup_at: datetime, path: str) -> None:
    """Migrate a restored database to the schema of this release, and record the restoration in its
    audit log, where the controller finds it.

    Raises:
        SetupError: the database cannot be migrated.
        StoreUnavailable: the database does not answer.
    """
    store = Store(url)
    try:
        await store.start()
        await store.append_audit_entry(
            AuditDraft(
                time=datetime.now(UTC),
                actor=actor,
                action=RESTORE,
                object=path,
                outcome=Outcome.ALLOWED,
                details={"backup_of": backup_at.isoformat()},
            )
        )
    finally:
        await store.close()


def _make_database(url: str) -> Database:
    return Database(parse_address(url), lambda: datetime.now(UTC), outlived=False)


async def _execute_statements(url: str, *statements: str) -> None:
    database = _make_database(url)
    try:
        with convert_database_errors(database.address):
            async with database.raw_write() as connection:
                for statement in statements:
                    await connection.execute(text(statement))
    finally:
        await database.close()


def _run_client_program(name: str, options: list[str], address: Address) -> None:
    """Run a client program of PostgreSQL under the effective account of this process. The password
    is passed in the environment, because all accounts can see command lines.

    Args:
        name: name of the program, such as ``pg_dump``.
        options: its options, except the database.
        address: the database.

    Raises:
        OSError: the disk is full.
        SetupError: the program is missing, or older than the server.
        Unavailable: the program failed for another reason.
    """
    dsn, password = _without_password(address.dsn)
    environment = os.environ if password is None else {**os.environ, "PGPASSWORD": password}
    done = subprocess.run(
        [_find_client_program(name), f"--dbname={dsn}", *options],
        env=environment,
        user=os.geteuid(),
        group=os.getegid(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode == 0:
        return
    lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    if os.strerror(errno.ENOSPC) in done.stderr:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), address.shown)
    if "server version mismatch" in done.stderr:
        raise SetupError(
            f"{name} is older than the server of {address.shown}. Install the package "
            "postgresql-client of the server's release on this machine."
        )
    raise Unavailable(f"{name} failed for {address.shown}: {' / '.join(lines[-3:])}")


def _find_client_program(name: str) -> str:
    """Return the path of a client program of the newest installed PostgreSQL release. Raises
    ``SetupError`` if the program is not installed.
    """
    releases = [path for path in _PROGRAMS.glob(f"*/bin/{name}") if path.parts[4].isdecimal()]
    if releases:
        return str(max(releases, key=lambda path: int(path.parts[4])))
    found = shutil.which(name)
    if found is None:
        raise SetupError(
            f"{name} is not installed, and the platform's database is PostgreSQL. Install the "
            "package postgresql-client of the server's release."
        )
    return found


def _without_password(dsn: str) -> tuple[str, str | None]:
    """Split the password from a URL: return the URL without it, and the password (None: the URL has
    none).
    """
    found = _PASSWORD.search(dsn) or _PASSWORD_OPTION.search(dsn)
    if found is None:
        return dsn, None
    if found.re is _PASSWORD:
        return dsn.replace(found[0], f"{found[1]}@", 1), unquote(found[2])
    rest = dsn[: found.start()], dsn[found.end() :].removeprefix("&")
    return (rest[0] + (f"{found[0][0]}{rest[1]}" if rest[1] else "")), unquote(found[1])
