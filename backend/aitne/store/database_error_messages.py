"""Conversion of database drivers' errors to sentences that say what an administrator can do."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from aitne.core.errors import InvalidInput, SetupError, StoreUnavailable
from aitne.store.database_address import Address

BUSY_TIMEOUT_S = 15.0
"""Seconds for which a writer waits for another writer's lock before it fails."""

_BACKUP = (
    "Stop the platform, move the file and its -wal and -shm neighbours away, and put a backup in "
    "their place (without one: start with an empty database; jobs' files are not affected)."
)
_SQLITE_FAULTS: dict[int, tuple[str, bool]] = {
    sqlite3.SQLITE_CORRUPT: (f"The database {{where}} is damaged. {_BACKUP}", True),
    sqlite3.SQLITE_NOTADB: (f"The file {{where}} is not a database. {_BACKUP}", True),
    sqlite3.SQLITE_FULL: (
        "The disk that holds the database {where} is full. Free some space there; what was being "
        "written was not stored.",
        True,
    ),
    sqlite3.SQLITE_READONLY: (
        "The database {where} cannot be written. Give the platform's user write permission on the "
        "file and on its directory, or choose another --data-dir.",
        True,
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "The database {where} cannot be opened. Check that its directory exists and that the "
        "platform's user may write there, or choose another --data-dir.",
        True,
    ),
    sqlite3.SQLITE_IOERR: (
        "Reading or writing the database {where} failed: the disk may be full or faulty. Check "
        "the free space and the system's log.",
        True,
    ),
    sqlite3.SQLITE_BUSY: (
        f"The database {{where}} stayed locked by another process for {BUSY_TIMEOUT_S:g} s. Try "
        "again; if it lasts, look for a hung process that has the file open.",
        False,
    ),
}
_POSTGRES_FAULTS: dict[str, tuple[str, bool]] = {
    "53100": ("The disk of the database server {where} is full. Free some space there.", True),
    "25006": (
        "The database {where} is read-only: it may be a standby server. Set the primary one.",
        True,
    ),
    "28": (
        "The database server {where} refused the login. Correct user and password in the "
        "setting database, or the server's pg_hba.conf.",
        True,
    ),
    "3D000": ("The database {where} does not exist. Create it: createdb -O USER NAME.", True),
    "42501": (
        "The database user may not do this in {where}. Make it the database's owner: "
        "ALTER DATABASE name OWNER TO user.",
        True,
    ),
    "XX001": ("The database {where} is damaged. Restore it from a backup.", True),
    "XX002": ("An index of the database {where} is damaged. Run REINDEX DATABASE there.", True),
    "53300": (
        "The database server {where} accepts no further connections. Raise its max_connections.",
        False,
    ),
    "55P03": (
        f"A row of the database {{where}} stayed locked for {BUSY_TIMEOUT_S:g} s. Try again; if it "
        "lasts, look for a hung transaction in pg_stat_activity.",
        False,
    ),
}
_BAD_TEXT = {"22021", "22P05"}


@dataclass(frozen=True, slots=True)
class DatabaseFault:
    """Cause of a database error."""

    sentence: str
    """Cause and remedy, for the administrator."""
    lasting: bool
    """Whether retries fail until an administrator applies the remedy."""


def find_fault(error: BaseException, address: Address) -> DatabaseFault | None:
    """Return the cause of an error of the database; None if the error is not one of the database."""
    cause: BaseException = error
    if isinstance(error, DBAPIError) and error.orig is not None:
        cause = error.orig
    location = address.shown
    if isinstance(cause, sqlite3.Error):
        # The low byte is the primary code; the other bytes distinguish variants.
        code = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_IOERR) & 0xFF
        if code == sqlite3.SQLITE_ERROR:
            return None  # a statement of the platform is wrong: raise the original error
        sentence, lasting = _SQLITE_FAULTS.get(
            code, ("The database {where} does not answer. Try again.", False)
        )
        return DatabaseFault(
            f"{sentence.format(where=location)} (SQLite: {' '.join(str(cause).split())})", lasting
        )
    state = getattr(cause, "sqlstate", None)
    if isinstance(state, str):
        if state not in _POSTGRES_FAULTS and state[:2] in ("22", "42"):
            return None  # a statement or value of the platform is wrong: raise the original error
        sentence, lasting = _POSTGRES_FAULTS.get(
            state,
            _POSTGRES_FAULTS.get(
                state[:2], ("The database {where} could not do this. Try again.", False)
            ),
        )
        return DatabaseFault(
            f"{sentence.format(where=location)} (PostgreSQL {state}: {_first_line(cause)})", lasting
        )
    if isinstance(cause, OSError) and cause.errno == errno.ENOSPC:
        return DatabaseFault(
            f"The disk that holds the database {location} is full. Free some space.", True
        )
    if isinstance(cause, PoolTimeout):
        return DatabaseFault(
            f"Every connection to the database {location} is in use. Try again; if it lasts, look for "
            "slow queries.",
            False,
        )
    if isinstance(error, (DBAPIError, OSError)) or type(cause).__module__.startswith("asyncpg"):
        return DatabaseFault(
            f"The database {location} does not answer. Check that its server runs and can be reached; the "
            f"platform continues when it answers again. ({_first_line(cause) or type(cause).__name__})",
            False,
        )
    return None


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else ""


@contextmanager
def convert_database_errors(address: Address) -> Iterator[None]:
    """Convert errors of the database in the ``with`` block to ``StoreUnavailable``, except
    violations of constraints, which are raised unchanged.
    """
    try:
        yield
    except IntegrityError:
        raise
    except Exception as error:
        if getattr(getattr(error, "orig", None), "sqlstate", None) in _BAD_TEXT:
            raise InvalidInput(
                "A text contains a NUL character, which the database cannot store. Remove it."
            ) from error
        fault = find_fault(error, address)
        if fault is None:
            raise
        raise StoreUnavailable(fault.sentence) from error


@contextmanager
def convert_startup_errors(address: Address) -> Iterator[None]:
    """Convert errors of the database like ``convert_database_errors``, but to ``SetupError`` if an administrator
    must act before the platform can start.
    """
    try:
        yield
    except Exception as error:
        fault = find_fault(error, address)
        if fault is None:
            raise
        raise (SetupError if fault.lasting else StoreUnavailable)(fault.sentence) from error
