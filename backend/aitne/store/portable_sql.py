"""SQL statements of SQLite and PostgreSQL for which SQLAlchemy has no common construct."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Select, Table, Text, cast, func
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import Insert


def _make_insert(dialect: str, table: Table) -> postgresql.Insert | sqlite.Insert:
    return sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)


def insert_if_absent(dialect: str, table: Table) -> Insert:
    """Return an INSERT that leaves an existing row unchanged.

    If another transaction is inserting the same row, the statement waits until that transaction
    ends.
    """
    return _make_insert(dialect, table).on_conflict_do_nothing()


def upsert(dialect: str, table: Table, values: dict[str, Any], key: Sequence[str]) -> Insert:
    """Return an INSERT that overwrites an existing row with the same values of the ``key`` columns."""
    rest = {name: value for name, value in values.items() if name not in key}
    return (
        _make_insert(dialect, table)
        .values(values)
        .on_conflict_do_update(index_elements=list(key), set_=rest)
    )


def upsert_many(dialect: str, table: Table, columns: Sequence[str], key: Sequence[str]) -> Insert:
    """Return an INSERT of many rows with these columns that overwrites existing rows with the same
    values of the ``key`` columns.
    """
    statement = _make_insert(dialect, table)
    rest = {name: statement.excluded[name] for name in columns if name not in key}
    return statement.on_conflict_do_update(index_elements=list(key), set_=rest)


def upsert_selected(
    dialect: str, table: Table, columns: Sequence[str], rows: Select[Any], key: Sequence[str]
) -> Insert:
    """Return an INSERT of the selected rows with these columns that overwrites existing rows with
    the same values of the ``key`` columns. The query needs a WHERE clause, as SQLite's grammar does.

    If another transaction is inserting one of the rows, the statement waits until that transaction
    ends, and overwrites its row.
    """
    return upsert_many(dialect, table, columns, key).from_select(list(columns), rows)


def make_unix_seconds(dialect: str, column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the SQL expression of a time in whole seconds since 1970."""
    if dialect == "sqlite":
        return cast(func.strftime("%s", cast(column, Text)), BigInteger)
    return cast(func.floor(func.extract("epoch", column)), BigInteger)
