"""Column of the session to which a rank group belongs; null for all other jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

_OF_A_SESSION = sa.text("session_id IS NOT NULL")


def upgrade() -> None:
    op.add_column("jobs", sa.Column("session_id", sa.Uuid(), nullable=True))
    op.create_index(
        "ix_jobs_session_id",
        "jobs",
        ["session_id"],
        sqlite_where=_OF_A_SESSION,
        postgresql_where=_OF_A_SESSION,
    )


def downgrade() -> None:
    op.drop_index("ix_jobs_session_id", "jobs")
    op.drop_column("jobs", "session_id")
