"""Jobs whose state is uncertain because the database was restored from a backup.

Since the backup, the scheduler may have received a job that the database shows as waiting, an
attempt may have ended and another one begun, and the folder of an ended job may have been deleted.
A missing trace of a job therefore proves nothing: the scheduler is searched for a job before it is
submitted, and a run without a trace is not repeated.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from aitne.core.models.audit import RESTORE, AuditFilter
from aitne.core.models.job import Job
from aitne.store import Store


class RestoredJobs:
    """Registry of the jobs that existed when the database was last restored, according to the audit
    log.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._at: datetime | None = None
        self._searched: set[tuple[UUID, int]] = set()

    @property
    def restored_at(self) -> datetime | None:
        """Time of the last restoration; None: the database was never restored."""
        return self._at

    async def load(self) -> None:
        """Read the time of the last restoration. Each new leader calls this."""
        page = await self._store.list_audit_entries(AuditFilter(action=RESTORE), limit=1)
        self._at = page.items[0].time if page.items else None
        self._searched.clear()

    def must_search(self, job: Job) -> bool:
        """Return whether the scheduler must be searched for the job's current attempt before it is
        submitted, because the attempt may have been submitted after the backup.
        """
        return (
            self._at is not None
            and job.created_at <= self._at
            and (job.id, job.attempt) not in self._searched
        )

    def record_search(self, job: Job) -> None:
        """Record that a search has not found the job's current attempt in the scheduler."""
        self._searched.add((job.id, job.attempt))

    def submitted_before(self, job: Job) -> bool:
        """Return whether the job's current attempt was submitted before the restoration."""
        return self._at is not None and (job.submitted_at or job.created_at) <= self._at
