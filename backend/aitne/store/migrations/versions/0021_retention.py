"""Deletion of ended jobs: state of their folders, usage of deleted jobs, and retention times."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from aitne.store.column_types import BigId, UtcDateTime

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_IS_DUE = sa.text("folder_due_at IS NOT NULL")
_COLUMNS = (
    ("folder_bytes", sa.BigInteger),
    ("folder_files", sa.BigInteger),
    ("folder_due_at", UtcDateTime),
    ("delete_requested_at", UtcDateTime),
    ("delete_problem", sa.Text),
)


def upgrade() -> None:
    for name, kind in _COLUMNS:
        op.add_column("jobs", sa.Column(name, kind(), nullable=True))
    op.create_index(
        "ix_jobs_folder_due_at",
        "jobs",
        ["folder_due_at"],
        sqlite_where=_IS_DUE,
        postgresql_where=_IS_DUE,
    )
    jobs = sa.table(
        "jobs",
        *(sa.column(name) for name in ("origin", "array_job_id")),
        sa.column("ended_at", UtcDateTime()),
        sa.column("folder_due_at", UtcDateTime()),
    )
    ended = (
        jobs.c.ended_at.is_not(None),
        jobs.c.array_job_id.is_(None),
        jobs.c.origin == "platform",
    )
    op.execute(sa.update(jobs).where(*ended).values(folder_due_at=jobs.c.ended_at))
    op.add_column("projects", sa.Column("retention", sa.JSON(), nullable=True))
    op.create_table(
        "deleted_runs",
        sa.Column("id", BigId, nullable=False),
        sa.Column("project", sa.String(40), nullable=False),
        sa.Column("owner", sa.String(32), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("task_count", sa.Integer(), nullable=True),
        sa.Column("nodes", sa.Integer(), nullable=False),
        sa.Column("cpus", sa.Integer(), nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=False),
        sa.Column("gpu_type", sa.String(40), nullable=True),
        sa.Column("requested_at", UtcDateTime(), nullable=False),
        sa.Column("began", UtcDateTime(), nullable=True),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_deleted_runs"),
    )
    op.create_index("ix_deleted_runs_ended_at", "deleted_runs", ["ended_at"])


def downgrade() -> None:
    op.drop_index("ix_deleted_runs_ended_at", "deleted_runs")
    op.drop_table("deleted_runs")
    op.drop_column("projects", "retention")
    op.drop_index("ix_jobs_folder_due_at", "jobs")
    for name, _ in reversed(_COLUMNS):
        op.drop_column("jobs", name)
