"""Logins of programs that wait for the confirmation of a user."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from aitne.store.column_types import Prose, UtcDateTime

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "device_logins",
        sa.Column("code_hash", sa.String(64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("program", Prose(), nullable=False),
        sa.Column("address", sa.Text()),
        sa.Column("network", sa.String(64), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.Column("seen_by", sa.String(32)),
        sa.Column("seen_at", UtcDateTime()),
        sa.PrimaryKeyConstraint("code_hash"),
    )
    for column in ("network", "expires_at"):
        op.create_index(f"ix_device_logins_{column}", "device_logins", [column])


def downgrade() -> None:
    op.drop_table("device_logins")
