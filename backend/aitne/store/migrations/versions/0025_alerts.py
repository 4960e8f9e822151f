"""Table of the alerts of the monitoring."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from aitne.store.column_types import Prose, UtcDateTime

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "alerts",
        sa.Column("fingerprint", sa.String(64), primary_key=True),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("name", Prose(), nullable=False),
        sa.Column("severity", sa.String(20), nullable=False),
        sa.Column("summary", Prose(), nullable=False),
        sa.Column("description", Prose(), nullable=False),
        sa.Column("runbook_url", Prose()),
        sa.Column("starts_at", UtcDateTime(), nullable=False),
        sa.Column("changed_at", UtcDateTime(), nullable=False),
        sa.Column("seen_at", UtcDateTime(), nullable=False),
    )
    op.create_index("ix_alerts_status", "alerts", ["status"])


def downgrade() -> None:
    op.drop_table("alerts")
