"""Tables of invitations to projects and of monthly usage."""

from __future__ import annotations

from sqlalchemy import JSON, Column, ForeignKey, Index, Integer, String, Table, Text

from aitne.store.column_types import BigId, ProjectName, UserName, UtcDateTime
from aitne.store.tables import metadata

invitations = Table(
    "invitations",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("token_hash", Text, nullable=False, unique=True),
    Column(
        "project",
        ProjectName,
        ForeignKey("projects.name", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    Column("role", String(20), nullable=False),
    Column("created_by", UserName, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("uses", Integer, nullable=False),
    Column("max_uses", Integer, nullable=False),
    Column("revoked_at", UtcDateTime),
)

# One row for each month: accounting deletes old records, and repeated queries of a month are costly.
usage_months = Table(
    "usage_months",
    metadata,
    Column("month", String(7), primary_key=True),
    Column("taken_at", UtcDateTime, nullable=False),
    Column("source", String(20), nullable=False),
    Column("data", JSON, nullable=False),
)

# What usage is computed from, of jobs that were deleted: one row for each job, task or task group.
deleted_runs = Table(
    "deleted_runs",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("project", ProjectName, nullable=False),
    Column("owner", UserName, nullable=False),
    Column("state", String(20), nullable=False),
    Column("task_count", Integer),
    Column("nodes", Integer, nullable=False),
    Column("cpus", Integer, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("gpu_type", String(40)),
    Column("requested_at", UtcDateTime, nullable=False),
    Column("began", UtcDateTime),
    Column("ended_at", UtcDateTime),
    Index("ix_deleted_runs_ended_at", "ended_at"),
)
