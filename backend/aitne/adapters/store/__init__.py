"""Store of the platform's records: SQLAlchemy on SQLite and PostgreSQL."""

from aitne.adapters.store.sql import SqlStore

__all__ = ["SqlStore"]
