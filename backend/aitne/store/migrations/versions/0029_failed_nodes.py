"""Nodes that failed during earlier attempts of a job."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("excluded_nodes", sa.JSON()))


def downgrade() -> None:
    op.drop_column("jobs", "excluded_nodes")
