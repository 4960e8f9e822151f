"""Store of jobs' snapshots, of the files that they wrote and of their measurements."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any
from uuid import UUID

from sqlalchemy import Select, Table, delete, or_, select

from aitne.core.errors import NotFound
from aitne.store import tables
from aitne.store.database import Transaction
from aitne.store.portable_sql import insert_if_absent, upsert
from aitne.store.snapshot_and_sweep_tables import job_documents, snapshot_parts, snapshots
from aitne.store.store_part import StorePart

SNAPSHOT, PLACEMENT, SWEEP = "job.snapshot", "job.placement", "sweep.changed"
"""Kinds of events that only report that newer data were stored; they are not shown in a job's
history.
"""
_PARTS = ("git", "environment")
"""Parts of a snapshot that are usually equal for all tasks of an array and for consecutive runs,
and so are stored separately.
"""
_PART = "sha256"
_COUNT = "told"
"""Key under which the number of snapshots that the job has sent is stored; it is not part of the
snapshot.
"""
MOST_SNAPSHOTS = 50
"""Maximum number of snapshots of a job: each may add large parts, and a job can send any number."""

_jobs = tables.jobs.c


class DocumentKind(StrEnum):
    """Kind of document that an agent sends about its job; a job has at most one of each kind."""

    FILES = "files"
    """List of written files (``core.models.job_snapshot.WrittenFiles``)."""
    VALUES = "values"
    """Results (``core.models.sweep.Results``) without their series."""
    SERIES = "series"
    """Series of the results (``core.models.sweep.Results``) only."""
    PLACEMENT = "placement"
    """Placement of the ranks (``core.models.reported_placement.ReportedPlacement``)."""


class SnapshotStore(StorePart):
    """Storage of the documents that agents send about their jobs; a later document replaces an
    earlier one of the same kind.
    """

    async def save_snapshot(self, job_id: UUID, snapshot: dict[str, Any]) -> None:
        """Store the snapshot of the job's environment and code, and replace the job's event
        ``job.snapshot``.

        After many snapshots of one job, further ones are ignored. Raises ``NotFound``.
        """
        document, parts = _separate_parts(snapshot)
        async with self._db.write() as tx:
            owner, project, _, attempt = await _job_identity(tx, job_id)
            query = select(snapshots.c.data).where(snapshots.c.job_id == job_id).with_for_update()
            document[_COUNT] = ((await tx.execute(query)).scalar() or {}).get(_COUNT, 0) + 1
            if document[_COUNT] > MOST_SNAPSHOTS:
                return
            for digest, data in parts.items():
                row = {"digest": digest, "data": data}
                await tx.execute(insert_if_absent(tx.dialect, snapshot_parts), [row])
            values = {"job_id": job_id, "data": document, "attempt": attempt}
            await tx.execute(upsert(tx.dialect, snapshots, values, ["job_id"]))
            await _replace_job_event(tx, SNAPSHOT, job_id, owner, project)

    async def find_snapshot(self, job_id: UUID) -> dict[str, Any] | None:
        """Return the stored snapshot, or None if there is none."""
        query = _of_current_attempt(select(snapshots.c.data), snapshots).where(
            snapshots.c.job_id == job_id
        )
        async with self._db.read() as connection:
            document: dict[str, Any] | None = (await connection.execute(query)).scalar()
            if document is None:
                return None
            named = {name: document[name][_PART] for name in _PARTS if document.get(name)}
            rows = select(snapshot_parts).where(snapshot_parts.c.digest.in_(named.values()))
            parts = {row.digest: row.data for row in await connection.execute(rows)}
        document = {name: value for name, value in document.items() if name != _COUNT}
        return {**document, **{name: parts[digest] for name, digest in named.items()}}

    async def save_document(self, job_id: UUID, kind: DocumentKind, data: dict[str, Any]) -> None:
        """Store a document about the job.

        ``VALUES`` of an array task also replace the array's event ``sweep.changed``, and a
        ``PLACEMENT`` replaces the job's event ``job.placement``. Raises ``NotFound``.
        """
        async with self._db.write() as tx:
            owner, project, array, attempt = await _job_identity(tx, job_id)
            values = {"job_id": job_id, "kind": kind.value, "data": data, "attempt": attempt}
            await tx.execute(upsert(tx.dialect, job_documents, values, ["job_id", "kind"]))
            if kind is DocumentKind.PLACEMENT:
                await _replace_job_event(tx, PLACEMENT, job_id, owner, project)
            if array is not None and kind is DocumentKind.VALUES:
                await _replace_job_event(tx, SWEEP, array, owner, project)

    async def find_document(self, job_id: UUID, kind: DocumentKind) -> dict[str, Any] | None:
        """Return the stored document, or None if there is none."""
        query = _of_current_attempt(select(job_documents.c.data), job_documents).where(
            job_documents.c.job_id == job_id, job_documents.c.kind == kind.value
        )
        async with self._db.read() as connection:
            document: dict[str, Any] | None = (await connection.execute(query)).scalar()
        return document

    async def list_task_values(self, array_job_id: UUID) -> Mapping[UUID, dict[str, Any]]:
        """Return the documents of the kind ``DocumentKind.VALUES`` of an array's tasks, by task ID.
        Tasks without one are omitted.
        """
        columns = select(job_documents.c.job_id, job_documents.c.data)
        query = _of_current_attempt(columns, job_documents).where(
            _jobs.array_job_id == array_job_id,
            job_documents.c.kind == DocumentKind.VALUES.value,
        )
        async with self._db.read() as connection:
            return {row.job_id: row.data for row in await connection.execute(query)}


def _of_current_attempt(query: Select[Any], table: Table) -> Select[Any]:
    """Restrict a query of ``table`` to reports of each job's current attempt, because earlier
    attempts may have used other code and data. Rows without an attempt are included.
    """
    condition = or_(table.c.attempt.is_(None), table.c.attempt == _jobs.attempt)
    return query.join(tables.jobs, _jobs.id == table.c.job_id).where(condition)


async def _job_identity(tx: Transaction, job_id: UUID) -> tuple[str, str, UUID | None, int]:
    """Return the owner, the project, the ID of the array job (None: the job is not an array task)
    and the attempt of a job. Raises ``NotFound`` if the job does not exist.
    """
    columns = (_jobs.owner, _jobs.project, _jobs.array_job_id, _jobs.attempt)
    query = select(*columns).where(_jobs.id == job_id)
    row = (await tx.execute(query)).first()
    if row is None:
        raise NotFound("job", job_id)
    return row.owner, row.project, row.array_job_id, row.attempt


async def _replace_job_event(
    tx: Transaction, kind: str, job_id: UUID, owner: str, project: str
) -> None:
    # Clients fetch the newest values: a thousand tasks must not fill the event log with theirs.
    events = tables.events.c
    await tx.execute(delete(tables.events).where(events.job_id == job_id, events.kind == kind))
    tx.append_event(kind, {}, job_id=job_id, owner=owner, project=project)


def _separate_parts(snapshot: dict[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Separate the large parts of a snapshot, so that equal parts are stored once. Return the
    snapshot with the SHA-256 digest in place of each part, and the parts by digest.
    """
    document, parts = dict(snapshot), {}
    for name in _PARTS:
        if (part := snapshot.get(name)) is not None:
            text = json.dumps(part, sort_keys=True, separators=(",", ":"))
            digest = hashlib.sha256(text.encode()).hexdigest()
            parts[digest] = part
            document[name] = {_PART: digest}
    return document, parts
