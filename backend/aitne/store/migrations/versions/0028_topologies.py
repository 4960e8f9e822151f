"""Table of the sources of the cluster's topology."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from aitne.store.column_types import BigId, Prose, UtcDateTime

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "topologies",
        sa.Column("origin", sa.String(10), primary_key=True),
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("content", sa.JSON()),
        sa.Column("problem", Prose()),
        sa.Column("read_at", UtcDateTime(), nullable=False),
        sa.Column("version", BigId, nullable=False),
    )
    op.create_index("ix_topologies_version", "topologies", ["version"])


def downgrade() -> None:
    op.drop_table("topologies")
