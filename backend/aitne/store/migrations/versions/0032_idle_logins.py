"""Logins that end when they are not used, and indexes of the times at which credentials end."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from aitne.store.column_types import UtcDateTime

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None

_INDEXES = (
    ("web_sessions", "expires_at"),
    ("web_sessions", "idle_ends_at"),
    ("tokens", "expires_at"),
)


def upgrade() -> None:
    op.add_column("web_sessions", sa.Column("idle_ends_at", UtcDateTime()))
    for table, column in _INDEXES:
        op.create_index(f"ix_{table}_{column}", table, [column])


def downgrade() -> None:
    for table, column in _INDEXES:
        op.drop_index(f"ix_{table}_{column}", table)
    op.drop_column("web_sessions", "idle_ends_at")
