"""Table of the audit log, with triggers that reject changes of entries."""

from __future__ import annotations

from sqlalchemy import DDL, JSON, Column, Index, String, Table, Text, event

from aitne.store.column_types import BigId, UtcDateTime
from aitne.store.tables import metadata

audit = Table(
    "audit",
    metadata,
    # Assigned by the writer without gaps, so that a missing row is detected.
    Column("id", BigId, primary_key=True, autoincrement=False),
    Column("time", UtcDateTime, nullable=False, index=True),
    Column("actor", Text, nullable=False),
    Column("impersonator", Text),
    Column("action", String(100), nullable=False),
    Column("object", Text),
    Column("outcome", String(10), nullable=False),
    Column("address", Text),
    Column("details", JSON, nullable=False),
    Column("previous", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    # Lists are newest first; each index serves one filter in that order.
    Index("ix_audit_actor", "actor", "id"),
    Index("ix_audit_impersonator", "impersonator", "id"),
    Index("ix_audit_action", "action", "id"),
    Index("ix_audit_object", "object", "id"),
)

_TRIGGERS = {
    "sqlite": (
        "CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit BEGIN "
        "SELECT RAISE(ABORT, 'the audit log is append only'); END",
        "CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit BEGIN "
        "SELECT RAISE(ABORT, 'the audit log is append only'); END",
    ),
    "postgresql": (
        "CREATE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "RAISE EXCEPTION 'the audit log is append only'; END $$",
        "CREATE TRIGGER audit_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON audit "
        "FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse()",
    ),
}
for _dialect, _statements in _TRIGGERS.items():
    for _statement in _statements:
        _trigger = DDL(_statement)  # type: ignore[no-untyped-call]
        event.listen(audit, "after_create", _trigger.execute_if(dialect=_dialect))
