"""Column types that behave in the same way on SQLite and PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import BigInteger, DateTime, Dialect, Integer, String, Text, TypeDecorator


class UtcDateTime(TypeDecorator[datetime]):
    """Column type for times, which are ``datetime`` objects in UTC with a time zone in Python.
    SQLite stores them without the time zone.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert the time to UTC. Raises ``ValueError`` for a time without a time zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone")
        utc = value.astimezone(UTC)
        return utc.replace(tzinfo=None) if dialect.name == "sqlite" else utc

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Add the time zone UTC to a time that was read."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Prose(TypeDecorator[str]):
    """Column type for texts by users. NUL characters are replaced, since PostgreSQL cannot store
    them.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Replace NUL by the Unicode replacement character."""
        return None if value is None else value.replace("\0", "\ufffd")


BigId = BigInteger().with_variant(Integer, "sqlite")
"""Type of IDs: SQLite increments only a primary key of exactly this type."""


def _make_widened_type(length: int, before: int) -> String:
    """Return the type of a column that was once created for ``before`` characters. SQLite enforces no
    lengths and cannot change them without a copy of the table, so it keeps the first one.
    """
    return String(length).with_variant(String(before), "sqlite")


UserName = _make_widened_type(128, 32)
UnixName = _make_widened_type(128, 64)
ProjectName = _make_widened_type(64, 40)
GpuType = _make_widened_type(80, 40)
