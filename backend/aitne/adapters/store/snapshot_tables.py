"""The tables of jobs' snapshots, of the files that they wrote and of their measurements."""

from __future__ import annotations

from sqlalchemy import JSON, Column, ForeignKey, Integer, String, Table, Uuid

from aitne.adapters.store.tables import metadata

# What many jobs have in common, such as the packages of an environment: once, by its digest.
snapshot_parts = Table(
    "snapshot_parts",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("data", JSON, nullable=False),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("job_id", Uuid, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    # With the digest of a part in its place.
    Column("data", JSON, nullable=False),
    Column("attempt", Integer),
)

job_documents = Table(
    "job_documents",
    metadata,
    Column("job_id", Uuid, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("kind", String(20), primary_key=True),
    Column("data", JSON, nullable=False),
    Column("attempt", Integer),
)
