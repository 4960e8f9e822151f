"""The store's part about jobs that were submitted past the platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from aitne.core.models.job import Job


@dataclass(frozen=True, slots=True)
class JobOwner:
    """User to whom jobs from outside may belong, with the projects of which the user is a
    member.
    """

    name: str
    default_project: str
    projects: frozenset[str]


class OutsideStore(Protocol):
    """Storage of jobs from outside. They have no outbox item when they are stored, no secrets and
    no tasks; beside that they are jobs like any other.
    """

    async def job_owners(self) -> Mapping[str, JobOwner]:
        """Return all users of the platform by name."""
        ...

    async def add_outside_jobs(self, jobs: Sequence[Job], *, epoch: int) -> Sequence[Job]:
        """Store those of the jobs that are not stored yet, each with its event; return these.

        Scheduler ID, account and time of the submission identify a job. Raises ``StaleEpoch``.
        """
        ...

    async def live_outside_jobs(self) -> Sequence[Job]:
        """Return the jobs from outside that have not ended, oldest first."""
        ...
