"""Tables of the limits of projects and their members, and of their current usage."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "limits",
        sa.Column("project", sa.String(length=40), nullable=False),
        sa.Column("user_name", sa.String(length=32), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project"], ["projects.name"], name="fk_limits_project", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("project", "user_name", name="pk_limits"),
    )
    op.create_table(
        "in_use",
        sa.Column("cluster", sa.String(length=40), nullable=False),
        sa.Column("taken_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", name="pk_in_use"),
    )


def downgrade() -> None:
    op.drop_table("in_use")
    op.drop_table("limits")
