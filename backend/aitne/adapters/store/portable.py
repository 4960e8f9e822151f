"""Statements that both databases have but that SQLAlchemy does not provide for both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import Insert


def _insert(dialect: str, table: Table) -> postgresql.Insert | sqlite.Insert:
    return sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)


def insert_if_absent(dialect: str, table: Table) -> Insert:
    """Return an INSERT that does not change an existing row.

    If another transaction is inserting the same row, it waits for the end of that one.
    """
    return _insert(dialect, table).on_conflict_do_nothing()


def upsert(dialect: str, table: Table, values: dict[str, Any], key: Sequence[str]) -> Insert:
    """Return an INSERT that overwrites the row with the same ``key``."""
    rest = {name: value for name, value in values.items() if name not in key}
    return (
        _insert(dialect, table)
        .values(values)
        .on_conflict_do_update(index_elements=list(key), set_=rest)
    )


def upsert_many(dialect: str, table: Table, columns: Sequence[str], key: Sequence[str]) -> Insert:
    """Return an INSERT for many rows of ``columns`` that overwrites those with the same ``key``."""
    statement = _insert(dialect, table)
    rest = {name: statement.excluded[name] for name in columns if name not in key}
    return statement.on_conflict_do_update(index_elements=list(key), set_=rest)
