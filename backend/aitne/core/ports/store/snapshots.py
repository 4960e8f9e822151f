"""The store's part about what jobs ran on, wrote and measured."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID


class DocumentKind(StrEnum):
    """What a job has one document of."""

    FILES = "files"
    """``core.models.snapshot.WrittenFiles``."""
    VALUES = "values"
    """``core.models.sweep.Results`` without its series."""
    SERIES = "series"
    """Only those."""


class SnapshotStore(Protocol):
    """Documents that agents send of their jobs. The last one counts."""

    async def put_snapshot(self, job_id: UUID, snapshot: dict[str, Any]) -> None:
        """Keep what the job ran on, and append the event ``job.snapshot``, of which each job has one
        at most. After many of one job no more are kept. Raises ``NotFound``."""
        ...

    async def snapshot(self, job_id: UUID) -> dict[str, Any] | None:
        """What was kept; None: nothing."""
        ...

    async def put_document(self, job_id: UUID, kind: DocumentKind, data: dict[str, Any]) -> None:
        """Keep a document. The values of an array's task append the event ``sweep.changed`` of the
        array, of which it has one at most. Raises ``NotFound``."""
        ...

    async def document(self, job_id: UUID, kind: DocumentKind) -> dict[str, Any] | None:
        """What was kept; None: nothing."""
        ...

    async def values_of_tasks(self, array_job_id: UUID) -> Mapping[UUID, dict[str, Any]]:
        """The ``VALUES`` of all tasks that have told any, by the task's id."""
        ...
