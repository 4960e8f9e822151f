"""Checks of the database."""

from __future__ import annotations

from aitne.core.errors import SetupError
from aitne.operations.doctor.check_registry import Subject, check
from aitne.operations.doctor.checked_host import CheckedHost
from aitne.operations.requirements.findings import (
    Finding,
    make_failed_finding,
    make_ok_finding,
    make_warning_finding,
)


@check("database", Subject.DATABASE, "The database answers.")
async def check_database_answer(host: CheckedHost) -> Finding:
    """Check that the database answers, as the health page does."""
    return await host.check_health("database")


@check("database-schema", Subject.DATABASE, "The database has the schema of this release.")
async def check_schema_revision(host: CheckedHost) -> Finding:
    """Compare the schema's revision with the one of this release."""
    store = host.store
    try:
        state = await store.read_schema_state()
    except SetupError as error:
        return make_failed_finding(
            error.message, "Correct the setting `database`, or restore the last backup."
        )
    if state.present == state.expected:
        return make_ok_finding(f"The schema has the revision {state.present} of this release.")
    if state.present is None and state.tables:
        return make_failed_finding(
            f"The database has {state.tables} tables of another program, and none of Aitne.",
            "Correct the setting `database`: the platform needs a database of its own.",
        )
    if state.present is None:
        return make_warning_finding(
            "The database is empty.", "The next `aitne up` creates the tables."
        )
    if not state.known:
        return make_failed_finding(
            f"The schema has the revision {state.present}, which this release does not know: a newer "
            "release has used the database.",
            "Install that release again, or restore a backup from before the update.",
        )
    return make_warning_finding(
        f"The schema has the revision {state.present}; this release needs {state.expected}.",
        "Finish the update: make a backup, then restart the platform, which migrates the database.",
    )


@check(
    "database-integrity",
    Subject.DATABASE,
    "SQLite's file is intact; PostgreSQL vacuums its tables.",
)
async def check_database_integrity(host: CheckedHost) -> Finding:
    """Check the pages of SQLite's file, or when PostgreSQL last vacuumed."""
    store = host.store
    try:
        problems = await store.find_integrity_problems()
    except SetupError as error:
        return make_failed_finding(
            error.message, "Restore the last backup, as docs/handbook/recover.md describes."
        )
    if not problems:
        return make_ok_finding(
            "The database is intact." if host.settings.database is None else "It is vacuumed."
        )
    said = " ".join(problems)
    if host.settings.database is None:
        return make_failed_finding(
            f"The database is damaged: {said}",
            "Restore the last backup, as docs/handbook/recover.md describes. Jobs' files are not affected.",
        )
    return make_warning_finding(
        said, "Enable autovacuum, or run `vacuumdb --analyze` on the database."
    )
