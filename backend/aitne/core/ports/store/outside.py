"""Part of the store for jobs that were not submitted through the platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from aitne.core.models.job import Job


@dataclass(frozen=True, slots=True)
class JobOwner:
    """User who may own jobs that were not submitted through the platform, with the projects of
    which the user is a member.
    """

    name: str
    default_project: str
    projects: frozenset[str]


class OutsideStore(Protocol):
    """Storage of jobs that users submitted directly to the scheduler. They have no secrets, no rows
    for tasks, and no outbox item when they are stored; otherwise they are stored like other jobs.
    """

    async def job_owners(self) -> Mapping[str, JobOwner]:
        """Return all users of the platform by name."""
        ...

    async def add_outside_jobs(self, jobs: Sequence[Job], *, epoch: int) -> Sequence[Job]:
        """Store the jobs that are not stored yet, each with an event, and return the added ones. A
        job is identified by scheduler ID, account and submission time.

        Raises ``StaleEpoch`` if another controller is the leader.
        """
        ...

    async def live_outside_jobs(self) -> Sequence[Job]:
        """Return the jobs that were not submitted through the platform and have not ended, oldest
        first.
        """
        ...
