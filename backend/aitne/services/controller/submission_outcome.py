"""Outcome of a submission, and the resulting changes of the job's rows."""

from __future__ import annotations

from dataclasses import dataclass

from aitne.core.jobs.states import JobState
from aitne.core.models.job import Job, JobChanges
from aitne.store.action_outbox import OutboxItem
from aitne.store.transitions import TransitionRequest

OPEN = frozenset({JobState.SUBMITTING, JobState.UNCERTAIN})
"""States of a job before the outcome of its submission is stored."""
RETRY_S = 2.0


@dataclass(frozen=True, slots=True)
class SubmissionOutcome:
    """Result of submitting one outbox item: the next state of its job, and the changes to store."""

    item: OutboxItem
    job: Job
    to: JobState
    """State that the job changes to."""
    changes: JobChanges
    since: frozenset[JobState] | None = None
    """States in which the job may be for the change to take effect; None: any state."""
    scheduler_id: str | None = None
    """ID that the scheduler has assigned; None: the scheduler has not accepted the job."""
    delay_s: float | None = None
    """Seconds until the item is submitted again; None: it is not submitted again."""
    dependency: Job | None = None
    """Job that this one waits for: the item becomes due again when that job has ended or has a
    scheduler ID. None: the job waits for no other job.
    """


def make_accepted_outcome(item: OutboxItem, job: Job, scheduler_id: str) -> SubmissionOutcome:
    """Return the outcome of a submission that the scheduler has accepted.

    The scheduler ID is stored whatever the state of the job, because its agent may report before
    the scheduler has answered the submission.
    """
    return SubmissionOutcome(
        item, job, JobState.QUEUED, JobChanges(), OPEN, scheduler_id=scheduler_id
    )


def make_transition(
    job: Job,
    to: JobState,
    changes: JobChanges,
    since: frozenset[JobState] | None,
    scheduler_id: str | None = None,
) -> TransitionRequest:
    """Return the transition that changes the job to the state ``to`` and stores ``changes`` in its
    database row; for an array job, also in the rows of its tasks.

    Args:
        since: states in which the job may be for the transition to take effect; None: any state.
        scheduler_id: ID to store as well; None: the scheduler has assigned none. With an ID,
            ``changes`` and the ID are stored whatever the state of the job.
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
