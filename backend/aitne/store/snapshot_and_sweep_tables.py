"""Tables of jobs' snapshots (code, data and environment), of the files that jobs wrote, and of
sweeps' results.
"""

from __future__ import annotations

from sqlalchemy import JSON, Column, ForeignKey, Integer, String, Table, Uuid

from aitne.store.tables import metadata

# Parts that many jobs share, such as the packages of an environment: stored once, by digest.
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
    # Each part is replaced by its digest.
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
