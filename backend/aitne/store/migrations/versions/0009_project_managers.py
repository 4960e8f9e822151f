"""Tables and columns of projects' managers, invitations, requests and end dates."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def _of_projects() -> list[sa.Column[Any]]:
    return [
        sa.Column("description", sa.Text(), nullable=False, server_default=sa.text("''")),
        sa.Column("state", sa.String(length=20), nullable=False, server_default="active"),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("requested_by", sa.String(length=32), nullable=True),
        sa.Column("closed_by", sa.String(length=20), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reminded_days", sa.Integer(), nullable=True),
        sa.Column("budget", sa.JSON(), nullable=True),
        sa.Column("extension", sa.JSON(), nullable=True),
    ]


def upgrade() -> None:
    for column in _of_projects():
        op.add_column("projects", column)
    role = sa.Column("role", sa.String(length=20), nullable=False, server_default="member")
    op.add_column("members", role)
    op.create_table(
        "invitations",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("project", sa.String(length=40), nullable=False),
        sa.Column("role", sa.String(length=20), nullable=False),
        sa.Column("created_by", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("uses", sa.Integer(), nullable=False),
        sa.Column("max_uses", sa.Integer(), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["project"], ["projects.name"], name="fk_invitations_project", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_invitations"),
        sa.UniqueConstraint("token_hash", name="uq_invitations_token_hash"),
    )
    op.create_index("ix_invitations_project", "invitations", ["project"])
    op.create_table(
        "usage_months",
        sa.Column("month", sa.String(length=7), nullable=False),
        sa.Column("taken_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("source", sa.String(length=20), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("month", name="pk_usage_months"),
    )
    op.create_index("ix_jobs_ended_at", "jobs", ["ended_at"])


def downgrade() -> None:
    op.drop_index("ix_jobs_ended_at", "jobs")
    op.drop_table("usage_months")
    op.drop_index("ix_invitations_project", "invitations")
    op.drop_table("invitations")
    op.drop_column("members", "role")
    # Not copied like other tables on SQLite: dropping the old table would delete the members.
    for column in reversed(_of_projects()):
        op.drop_column("projects", column.name)
