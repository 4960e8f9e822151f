"""Part of the store for the deletion of ended jobs, and for work on their folders.

A deletion is requested first: the job stays visible until the controller has removed its folder.
Then all data about the job is deleted in one transaction, which adds the event ``job.deleted``.
Data from which usage is computed is kept.
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
    """The job is an array task: only whole array jobs can be deleted."""
    NEEDED = "needed"
    """Another job that has not ended depends on the job."""


class DeleteRequest(NamedTuple):
    """Outcome of the request to delete one job."""

    job: Job
    refusal: DeleteRefusal | None
    """Reason why the job cannot be deleted; None: the deletion was requested."""


@dataclass(frozen=True, slots=True)
class FolderResult:
    """Result of measuring or removing the folder of an ended job."""

    job_id: UUID
    attempt: int
    size: FolderSize | None = None
    """Measured size; None: not measured."""
    due_at: datetime | None = None
    """Time of the next attempt; None: no further attempt."""
    problem: str | None = None
    """Reason why the folder of a job to be deleted could not be removed; None if there is none."""


class JobFolders(Frozen):
    """Total size of the job folders of a user's ended jobs, as measured after the jobs ended."""

    jobs: int = Field(description="Number of ended jobs with a folder that was measured.")
    size_bytes: int = Field(description="Disk space of their folders.")
    files: int = Field(description="Files and folders in them.")


class DeletionStore(Protocol):
    """Storage of requests to delete jobs, and of the results of measuring and removing the folders
    of ended jobs.
    """

    async def request_delete(
        self, job_ids: Sequence[UUID], now: datetime
    ) -> Mapping[UUID, DeleteRequest]:
        """Request the deletion of these jobs. Each is decided separately; a repeated request has no
        further effect.

        Jobs that do not exist are missing in the result.
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
        """Request the deletion of up to ``limit`` jobs whose retention period is over, the oldest
        first; return their number. Jobs that others depend on are skipped.

        ``keep`` is the retention period of all projects except those in ``by_project``, which have
        their own. Raises ``StaleEpoch`` if another controller is the leader.
        """
        ...

    async def due_folders(self, now: datetime, limit: int) -> Sequence[Job]:
        """List the ended jobs whose folders are to be measured or removed by ``now``, ordered by
        the time at which that is due.
        """
        ...

    async def note_folders(self, results: Sequence[FolderResult], *, epoch: int) -> None:
        """Store the results of measuring or removing folders of ended jobs: sizes, times of the
        next attempts, and reasons why a folder could not be removed. Results for a job that was
        retried meanwhile are ignored.

        Raises ``StaleEpoch`` if another controller is the leader.
        """
        ...

    async def delete_job(self, job_id: UUID, *, epoch: int) -> bool:
        """Delete all data about a job whose deletion was requested, with its tasks; keep the data
        from which usage is computed.

        Returns False, and deletes nothing, if another job depends on it now. Raises ``StaleEpoch``
        if another controller is the leader.
        """
        ...

    async def job_folders(self, owner: str) -> JobFolders:
        """Return the total size of the folders of the user's ended jobs."""
        ...

    async def retention_of_projects(self) -> Mapping[str, Retention]:
        """Return how long ended jobs are kept, by the name of each project that has set it."""
        ...
