"""Table of users' preferences for the portal, and the columns by which the portal's list of jobs is
sorted and filtered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_NEW = ("gpus", "gpu_type", "template", "image")
_AT_ONCE = 500


def upgrade() -> None:
    op.create_table(
        "preferences",
        sa.Column("user_name", sa.String(length=32), nullable=False),
        sa.Column("key", sa.String(length=40), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["user_name"], ["users.name"], name="fk_preferences_user_name", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("user_name", "key", name="pk_preferences"),
    )
    for column in (
        sa.Column("gpus", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("gpu_type", sa.String(length=40), nullable=True),
        sa.Column("template", sa.String(length=100), nullable=True),
        sa.Column("image", sa.Text(), nullable=True),
    ):
        op.add_column("jobs", column)
    _fill(op.get_bind())


def downgrade() -> None:
    for name in reversed(_NEW):
        op.drop_column("jobs", name)
    op.drop_table("preferences")


def _fill(connection: sa.Connection) -> None:
    """Copy the values from the jobs' specifications in batches, since there may be jobs of several
    years.
    """
    new: list[sa.ColumnClause[Any]] = [sa.column(name) for name in _NEW]
    jobs = sa.table("jobs", sa.column("id", sa.Uuid()), sa.column("spec", sa.JSON()), *new)
    statement = (
        sa.update(jobs)
        .where(jobs.c.id == sa.bindparam("row_id"))
        .values({name: sa.bindparam(f"new_{name}") for name in _NEW})
    )
    last = None
    while True:
        query = sa.select(jobs.c.id, jobs.c.spec).order_by(jobs.c.id).limit(_AT_ONCE)
        if last is not None:
            query = query.where(jobs.c.id > last)
        rows = connection.execute(query).all()
        if not rows:
            return
        connection.execute(statement, [{"row_id": row.id, **_values(row.spec)} for row in rows])
        last = rows[-1].id


def _values(spec: Mapping[str, Any]) -> dict[str, Any]:
    resources = spec.get("resources") or {}
    gpu = resources.get("gpu") or {}
    return {
        "new_gpus": resources.get("nodes", 1) * gpu.get("count", 0),
        "new_gpu_type": gpu.get("type"),
        "new_template": spec.get("template"),
        "new_image": spec.get("image"),
    }
