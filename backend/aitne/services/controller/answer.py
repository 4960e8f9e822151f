"""What became of a submission, and what that changes in the job's rows."""

from __future__ import annotations

from dataclasses import dataclass

from aitne.core.models.job import Job, JobChanges
from aitne.core.ports.store import Move, OutboxItem
from aitne.core.states import JobState

OPEN = frozenset({JobState.SUBMITTING, JobState.UNCERTAIN})
"""The submission's outcome is not written down yet."""
RETRY_S = 2.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one: the state of the job's rows, and what to write.

    ``delay_s``: try again after so long. ``dependency``: try again when that job has ended or an id.
    """

    item: OutboxItem
    job: Job
    to: JobState
    changes: JobChanges
    since: frozenset[JobState] | None = None
    scheduler_id: str | None = None
    delay_s: float | None = None
    dependency: Job | None = None


def accepted(item: OutboxItem, job: Job, scheduler_id: str) -> Answer:
    """Its id is noted in any state: the agent may be heard before the scheduler answers."""
    return Answer(item, job, JobState.QUEUED, JobChanges(), OPEN, scheduler_id=scheduler_id)


def move_of(
    job: Job,
    to: JobState,
    changes: JobChanges,
    since: frozenset[JobState] | None,
    scheduler_id: str | None = None,
) -> Move:
    """Return the change of the job's row; of an array, of the rows of its tasks too."""
    if scheduler_id is not None:
        changes = changes.model_copy(update={"scheduler_id": scheduler_id})
    return Move(
        job.id,
        to,
        changes,
        job.attempt,
        since=since,
        anyway=scheduler_id is not None,
        with_tasks=job.is_array,
    )
