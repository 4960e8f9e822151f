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
    """Outcome of one submission: the new state of the job's rows and the changes to store.

    ``delay_s``: seconds until the next try. ``dependency``: try again when that job has ended or
    has a scheduler ID.
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
    """Return the answer for an accepted submission.

    Its scheduler ID is stored in any state, because the agent may report before the scheduler
    answers.
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
    """Return the change of the job's row; for an array, of the rows of its tasks too."""
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
