"""The store's part for the deletion of ended jobs, and for the work on their folders.

A deletion is requested first: the job stays visible until the controller has removed its folder, and
then all that is stored about it is deleted in one transaction, which appends the event
``job.deleted``. What usage is computed from is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, Protocol
from uuid import UUID

from pydantic import Field

from aitne.core.models.base import Frozen
from aitne.core.models.job import Job
from aitne.core.models.project import Retention
from aitne.core.ports.files import FolderSize
from aitne.core.retention import KeepTimes


class DeleteRefusal(StrEnum):
    """Reason why a job cannot be deleted now."""

    NOT_ENDED = "not_ended"
    ARRAY_TASK = "array_task"
    """Only whole arrays are deleted."""
    NEEDED = "needed"
    """A job that has not ended depends on it."""


class DeleteRequest(NamedTuple):
    """Outcome of the request to delete one job: the job, and why it is not deleted, if so."""

    job: Job
    refusal: DeleteRefusal | None


@dataclass(frozen=True, slots=True)
class FolderResult:
    """Outcome of work on the folder of an ended job: its ``size``, or when to try again."""

    job_id: UUID
    attempt: int
    size: FolderSize | None = None
    due_at: datetime | None = None
    problem: str | None = None
    """Why the folder of a job that is being deleted could not be removed."""


class JobFolders(Frozen):
    """Job folders of a user's ended jobs, as they were measured when the jobs ended."""

    jobs: int = Field(description="Number of ended jobs with a folder that was measured.")
    size_bytes: int = Field(description="Disk space of their folders.")
    files: int = Field(description="Files and folders in them.")


class DeletionStore(Protocol):
    """Storage of requests to delete jobs, and of the work on the folders of ended jobs."""

    async def request_delete(
        self, job_ids: Sequence[UUID], now: datetime
    ) -> Mapping[UUID, DeleteRequest]:
        """Request the deletion of these jobs; each is decided separately, and a second request is
        no error. Jobs that do not exist are missing in the answer.
        """
        ...

    async def expire_jobs(
        self,
        keep: KeepTimes,
        by_project: Mapping[str, KeepTimes],
        now: datetime,
        *,
        limit: int,
        epoch: int,
    ) -> int:
        """Request the deletion of up to ``limit`` jobs that are kept no longer, the oldest first;
        return their number. Jobs that others depend on are left out.

        ``by_project`` has the times of projects that differ from ``keep``. Raises ``StaleEpoch``.
        """
        ...

    async def due_folders(self, now: datetime, limit: int) -> Sequence[Job]:
        """List the ended jobs whose folder is to be measured or removed, the earliest first."""
        ...

    async def note_folders(self, results: Sequence[FolderResult], *, epoch: int) -> None:
        """Store the outcomes of work on folders. Raises ``StaleEpoch``."""
        ...

    async def delete_job(self, job_id: UUID, *, epoch: int) -> bool:
        """Delete all that is stored about a job whose deletion was requested, with its tasks; keep
        what usage is computed from.

        Return False if a job depends on it now: then it is not deleted. Raises ``StaleEpoch``.
        """
        ...

    async def job_folders(self, owner: str) -> JobFolders:
        """Return the sum of the folders of the user's ended jobs."""
        ...

    async def retention_of_projects(self) -> Mapping[str, Retention]:
        """Return the retention of the projects that have set one."""
        ...
