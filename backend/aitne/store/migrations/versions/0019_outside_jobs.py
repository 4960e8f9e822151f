"""Column of a job's origin, and the log of a job that was not submitted through the platform."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_IS_OUTSIDE = sa.text("origin = 'outside'")


def upgrade() -> None:
    op.add_column(
        "jobs", sa.Column("origin", sa.String(20), nullable=False, server_default="platform")
    )
    op.add_column("jobs", sa.Column("log_path", sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("log_seal", sa.Text(), nullable=True))
    op.create_index(
        "ix_jobs_outside",
        "jobs",
        ["scheduler_id"],
        sqlite_where=_IS_OUTSIDE,
        postgresql_where=_IS_OUTSIDE,
    )


def downgrade() -> None:
    # An earlier release would take these jobs for its own, and submit or cancel them.
    op.execute(sa.text(f"DELETE FROM jobs WHERE {_IS_OUTSIDE}"))  # noqa: S608 - a constant
    op.drop_index("ix_jobs_outside", "jobs")
    op.drop_column("jobs", "log_seal")
    op.drop_column("jobs", "log_path")
    op.drop_column("jobs", "origin")
