"""Database of the platform, with SQLAlchemy on SQLite and PostgreSQL: one class for each subject, and
``Store``, which combines them.
"""

from aitne.store.store import Store

__all__ = ["Store"]
