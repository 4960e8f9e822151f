"""Table of the cluster's load over time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from aitne.store.column_types import UtcDateTime

revision = "0023"
down_revision = "0021"
branch_labels = None
depends_on = None

VALUES = (
    *("cpu_total", "cpu_used", "memory_total_bytes", "memory_used_bytes"),
    *("gpu_total", "gpu_used", "waiting_jobs"),
)


def upgrade() -> None:
    op.create_table(
        "cluster_load",
        sa.Column("time", UtcDateTime(), primary_key=True),
        sa.Column("samples", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Float(), nullable=False) for name in VALUES),
    )


def downgrade() -> None:
    op.drop_table("cluster_load")
