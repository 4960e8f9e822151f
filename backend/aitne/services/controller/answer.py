"""Outcome of a submission, and the resulting changes of the job's rows."""

from __future__ import annotations

from dataclasses import dataclass

from aitne.core.jobs.states import JobState
from aitne.core.models.job import Job, JobChanges
from aitne.core.ports.store import OutboxItem, TransitionRequest

OPEN = frozenset({JobState.SUBMITTING, JobState.UNCERTAIN})
"""States of a job before the outcome of its submission is stored."""
RETRY_S = 2.0


@dataclass(frozen=True, slots=True)
class SubmissionOutcome:
    """Result of submitting one outbox item: the job's next state, and the changes to store.

    ``delay_s`` is the number of seconds until the item is submitted again, None if it is not. If
    ``dependency`` is set, the item becomes due again when that job has ended or has a scheduler ID.
    """

    item: OutboxItem
    job: Job
    to: JobState
    changes: JobChanges
    since: frozenset[JobState] | None = None
    scheduler_id: str | None = None
    delay_s: float | None = None
    dependency: Job | None = None


def accepted(item: OutboxItem, job: Job, scheduler_id: str) -> SubmissionOutcome:
    """Return the outcome of a submission that the scheduler has accepted.

    The scheduler ID is stored whatever the state of the job, because its agent may report before
    the scheduler has answered the submission.
    """
    return SubmissionOutcome(
        item, job, JobState.QUEUED, JobChanges(), OPEN, scheduler_id=scheduler_id
    )


def move_of(
    job: Job,
    to: JobState,
    changes: JobChanges,
    since: frozenset[JobState] | None,
    scheduler_id: str | None = None,
) -> TransitionRequest:
    """Return the transition that sets the state ``to`` and stores ``changes`` in the job's database
    row; for an array job, also in the rows of its tasks.
    """
    if scheduler_id is not None:
        changes = changes.model_copy(update={"scheduler_id": scheduler_id})
    return TransitionRequest(
        job.id,
        to,
        changes,
        job.attempt,
        since=since,
        anyway=scheduler_id is not None,
        with_tasks=job.is_array,
    )
