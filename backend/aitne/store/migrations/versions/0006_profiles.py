"""Table of the profiles of distributed jobs, with the latest report of each job."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "profiles",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_profiles_job_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", name="pk_profiles"),
    )


def downgrade() -> None:
    op.drop_table("profiles")
