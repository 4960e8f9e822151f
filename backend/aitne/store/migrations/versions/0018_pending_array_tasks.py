"""Columns with which the pending tasks of an array share one row."""

from __future__ import annotations

from uuid import UUID

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_IS_TASK_GROUP = sa.text("task_count IS NOT NULL")


def upgrade() -> None:
    op.add_column("jobs", sa.Column("array_task_ids", sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("task_count", sa.Integer(), nullable=True))
    op.create_index(
        "ix_jobs_task_count",
        "jobs",
        ["state", "owner", "project", "task_count"],
        sqlite_where=_IS_TASK_GROUP,
        postgresql_where=_IS_TASK_GROUP,
    )


def downgrade() -> None:
    _split(op.get_bind())
    op.drop_index("ix_jobs_task_count", "jobs")
    op.drop_column("jobs", "task_count")
    op.drop_column("jobs", "array_task_ids")


def _split(connection: sa.Connection) -> None:
    """Insert a separate row for each task, as in the previous release."""
    jobs = sa.Table("jobs", sa.MetaData(), autoload_with=connection)
    id_type = sa.Uuid()
    groups = sa.select(jobs).where(jobs.c.task_count.is_not(None))
    for group in connection.execute(groups).mappings().all():
        array_id = _uuid(group["array_job_id"])
        rows = []
        for index in _indices(group["array_task_ids"]):
            columns = {
                "id": UUID(int=array_id.int + index + 1),
                "array_job_id": array_id,
                "array_task_id": index,
                "array_task_ids": None,
                "task_count": None,
                "scheduler_id": group["scheduler_id"] and f"{group['scheduler_id']}_{index}",
            }
            rows.append({**group, **columns})
        connection.execute(sa.delete(jobs).where(jobs.c.id == group["id"]))
        typed = {"id": id_type, "array_job_id": id_type}
        values = {name: sa.bindparam(name, type_=typed.get(name)) for name in rows[0]}
        connection.execute(sa.insert(jobs).values(values), rows)


def _uuid(value: object) -> UUID:
    return value if isinstance(value, UUID) else UUID(str(value))


def _indices(ranges: str) -> list[int]:
    indices: list[int] = []
    for piece in ranges.split(","):
        ends, _, step = piece.partition(":")
        first, _, last = ends.partition("-")
        indices += range(int(first), int(last or first) + 1, int(step or 1))
    return indices
