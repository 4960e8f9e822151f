"""Types of columns that mean the same on both databases."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import BigInteger, DateTime, Dialect, Integer, Text, TypeDecorator


class UtcDateTime(TypeDecorator[datetime]):
    """Aware UTC in Python on both databases; SQLite has no time zones, so there it is stored without."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse a time without a zone rather than guess one."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone")
        utc = value.astimezone(UTC)
        return utc.replace(tzinfo=None) if dialect.name == "sqlite" else utc

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Give every time its zone back."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Prose(TypeDecorator[str]):
    """Text for users. PostgreSQL's text has no NUL, and no sentence needs one."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Show a NUL as the character for what cannot be shown."""
        return None if value is None else value.replace("\0", "\ufffd")


BigId = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts up only a primary key of exactly this type."""
