"""Table of users' preferences in the portal."""

from __future__ import annotations

from sqlalchemy import JSON, Column, ForeignKey, String, Table

from aitne.store.column_types import UserName
from aitne.store.tables import metadata

preferences = Table(
    "preferences",
    metadata,
    Column("user_name", UserName, ForeignKey("users.name", ondelete="CASCADE"), primary_key=True),
    Column("key", String(40), primary_key=True),
    Column("data", JSON, nullable=False),
)
