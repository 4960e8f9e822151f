"""Longer types of GPUs, as Slurm finds them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # SQLite enforces no lengths.
    if op.get_bind().dialect.name != "sqlite":
        op.alter_column("jobs", "gpu_type", type_=sa.String(80))


def downgrade() -> None:
    """The column stays longer, because an older release works with it and types would not fit."""
