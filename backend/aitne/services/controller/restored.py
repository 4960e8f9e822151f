"""Doubt about a database that was restored from a backup: the scheduler may know more of its jobs.

A job that waited at the time of the backup may have been submitted since, an attempt may have ended
and another begun, and the folder of an ended job may have been deleted. So the absence of a trace
proves nothing about jobs of that time: each submission is searched for before it is made, and a run
without a trace is not repeated.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from aitne.core.models.audit import RESTORE, AuditFilter
from aitne.core.models.job import Job
from aitne.core.ports.store import Store


class RestoredJobs:
    """Jobs that existed when the database was restored, according to the audit log."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._at: datetime | None = None
        self._searched: set[tuple[UUID, int]] = set()

    @property
    def at(self) -> datetime | None:
        """Time of the last restoration; None: there was none."""
        return self._at

    async def load(self) -> None:
        """Read when the database was restored; called by each new leader."""
        page = await self._store.list_audit(AuditFilter(action=RESTORE), limit=1)
        self._at = page.items[0].time if page.items else None
        self._searched.clear()

    def must_search(self, job: Job) -> bool:
        """Return whether the job's current attempt may have been submitted although the database
        does not say so.
        """
        return (
            self._at is not None
            and job.created_at <= self._at
            and (job.id, job.attempt) not in self._searched
        )

    def searched(self, job: Job) -> None:
        """Note that the scheduler does not have the job's current attempt."""
        self._searched.add((job.id, job.attempt))

    def submitted_before(self, job: Job) -> bool:
        """Return whether the job's current attempt was submitted before the restoration."""
        return self._at is not None and (job.submitted_at or job.created_at) <= self._at
