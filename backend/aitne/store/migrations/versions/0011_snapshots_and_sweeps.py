"""Tables of job snapshots and of the results of sweeps."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "snapshot_parts",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_snapshot_parts"),
    )
    op.create_table(
        "snapshots",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_snapshots_job_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", name="pk_snapshots"),
    )
    op.create_table(
        "job_documents",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_job_documents_job_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "kind", name="pk_job_documents"),
    )


def downgrade() -> None:
    op.drop_table("job_documents")
    op.drop_table("snapshots")
    op.drop_table("snapshot_parts")
