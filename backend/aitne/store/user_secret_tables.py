"""Table of users' secrets."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, String, Table, Text

from aitne.store.column_types import UserName, UtcDateTime
from aitne.store.tables import metadata

user_secrets = Table(
    "user_secrets",
    metadata,
    Column("owner", UserName, ForeignKey("users.name", ondelete="CASCADE"), primary_key=True),
    Column("name", String(128), primary_key=True),
    Column("encrypted", Text, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
)
