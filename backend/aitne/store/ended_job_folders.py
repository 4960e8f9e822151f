"""Store of the folders of ended jobs: when they are measured or removed, and their sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from pydantic import Field
from sqlalchemy import func, select, update

from aitne.core.models.base import Frozen
from aitne.core.models.job import Job
from aitne.core.ports.job_files import FolderSize
from aitne.store import tables
from aitne.store.job_writes import append_job_event, lock_job_rows, update_jobs
from aitne.store.rows import JOB_COLUMNS, job_of
from aitne.store.store_part import StorePart, require_epoch

FOLDER = "job.folder"
"""Kind of the event that a job's folder was measured; it is not shown in the job's history."""

_jobs = tables.jobs


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


class JobFolderStore(StorePart):
    """Storage of the results of measuring and removing the folders of ended jobs."""

    async def list_due_folders(self, now: datetime, limit: int) -> Sequence[Job]:
        """List the ended jobs whose folders are to be measured or removed by ``now``, ordered by
        the time at which that is due.
        """
        query = (
            select(*JOB_COLUMNS)
            .where(_jobs.c.folder_due_at <= now)
            .order_by(_jobs.c.folder_due_at, _jobs.c.id)
            .limit(limit)
        )
        async with self._db.read() as connection:
            return [job_of(row) for row in (await connection.execute(query)).mappings()]

    async def record_folder_results(self, results: Sequence[FolderResult], *, epoch: int) -> None:
        """Store the results of measuring or removing folders of ended jobs: sizes, times of the
        next attempts, and reasons why a folder could not be removed. Results for a job that was
        retried meanwhile are ignored.

        Raises ``StaleEpoch`` if another controller is the leader.
        """
        by_id = {result.job_id: result for result in results}
        async with self._db.write() as tx:
            await require_epoch(tx, epoch)
            for job in await lock_job_rows(tx, list(by_id)):
                result = by_id[job.id]
                if job.attempt != result.attempt or not job.state.is_terminal:
                    continue  # it was retried
                values: dict[str, object] = {}
                if job.delete_requested_at is None:
                    values["folder_due_at"] = result.due_at
                elif result.due_at is not None:
                    values["folder_due_at"] = result.due_at
                    if result.problem != job.delete_problem:
                        await update_jobs(tx, [(job, {"delete_problem": result.problem})])
                if result.size is not None:
                    values |= {
                        "folder_bytes": result.size.size_bytes,
                        "folder_files": result.size.files,
                        "version": job.version + 1,
                    }
                    changed = job.model_copy(update={"version": job.version + 1})
                    append_job_event(tx, FOLDER, changed)
                if values:
                    await tx.execute(update(_jobs).where(_jobs.c.id == job.id).values(values))

    async def get_job_folders(self, owner: str) -> JobFolders:
        """Return the total size of the folders of the user's ended jobs."""
        query = select(
            func.count(),
            func.coalesce(func.sum(_jobs.c.folder_bytes), 0),
            func.coalesce(func.sum(_jobs.c.folder_files), 0),
        ).where(_jobs.c.owner == owner, _jobs.c.folder_files > 0)
        async with self._db.read() as connection:
            jobs, size_bytes, files = (await connection.execute(query)).one()
        return JobFolders(jobs=jobs, size_bytes=int(size_bytes), files=int(files))
