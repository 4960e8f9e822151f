"""Part of the store for documents from agents: snapshots, lists of written files, and results."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID


class DocumentKind(StrEnum):
    """Kind of document that an agent sends about its job; a job has at most one of each kind."""

    FILES = "files"
    """List of written files (``core.models.snapshot.WrittenFiles``)."""
    VALUES = "values"
    """Results (``core.models.sweep.Results``) without their series."""
    SERIES = "series"
    """Series of the results (``core.models.sweep.Results``) only."""
    PLACEMENT = "placement"
    """Placement of the ranks (``core.models.job_placement.ReportedPlacement``)."""


class SnapshotStore(Protocol):
    """Storage of the documents that agents send about their jobs; a later document replaces an
    earlier one of the same kind.
    """

    async def put_snapshot(self, job_id: UUID, snapshot: dict[str, Any]) -> None:
        """Store the snapshot of the job's environment and code, and replace the job's event
        ``job.snapshot``.

        After many snapshots of one job, further ones are ignored. Raises ``NotFound``.
        """
        ...

    async def snapshot(self, job_id: UUID) -> dict[str, Any] | None:
        """Return the stored snapshot, or None if there is none."""
        ...

    async def put_document(self, job_id: UUID, kind: DocumentKind, data: dict[str, Any]) -> None:
        """Store a document about the job.

        ``VALUES`` of an array task also replace the array's event ``sweep.changed``, and a
        ``PLACEMENT`` replaces the job's event ``job.placement``. Raises ``NotFound``.
        """
        ...

    async def document(self, job_id: UUID, kind: DocumentKind) -> dict[str, Any] | None:
        """Return the stored document, or None if there is none."""
        ...

    async def values_of_tasks(self, array_job_id: UUID) -> Mapping[UUID, dict[str, Any]]:
        """Return the documents of the kind ``DocumentKind.VALUES`` of an array's tasks, by task ID.
        Tasks without one are omitted.
        """
        ...
