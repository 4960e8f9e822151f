"""Database of the platform: implementations of the store ports with SQLAlchemy on SQLite and
PostgreSQL.
"""

from aitne.adapters.store.sql import SqlStore

__all__ = ["SqlStore"]
