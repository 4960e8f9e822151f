"""Messages of jobs that the scheduler cancelled because a job that they depend on ended otherwise
than they require.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.job import Job, JobChanges
from aitne.services.controller.dependency_evaluation import (
    evaluate_dependencies,
    list_dependencies,
    with_causing_jobs,
)
from aitne.store import Store
from aitne.store.transitions import TransitionRequest

_FAILED = TerminationReason.DEPENDENCY_FAILED


def is_unexplained(move: TransitionRequest) -> bool:
    """Return whether the change ends a job because of its dependencies without naming the job that
    caused it.
    """
    changes = move.changes
    return changes is not None and changes.reason is _FAILED and changes.message is None


async def with_dependency_messages(
    moves: Sequence[TransitionRequest], jobs: Sequence[Job], store: Store
) -> list[TransitionRequest]:
    """Return the changes with messages that name the job that caused them.

    Args:
        moves: changes for which ``is_unexplained`` returns True; all others of the same poll have
            been written.
        jobs: the jobs that they end, in this order.
        store: store of all jobs.
    """
    ending = {
        job.id: job.model_copy(update={"state": JobState.CANCELLED, "reason": _FAILED})
        for job in jobs
    }
    needed = {job_id for job in jobs for _, job_id in list_dependencies(job)} - ending.keys()
    stored = await store.find_jobs(needed)
    known = await with_causing_jobs({job.id: job for job in stored} | ending, store)
    return [
        replace(
            move,
            changes=(move.changes or JobChanges()).model_copy(
                update=_make_message_field(job, known)
            ),
        )
        for move, job in zip(moves, jobs, strict=True)
    ]


def _make_message_field(job: Job, known: Mapping[UUID, Job]) -> dict[str, str]:
    """Return the field with the message; empty if the job depends on none."""
    never = evaluate_dependencies(job, known).never
    first = next((job_id for _, job_id in list_dependencies(job)), None)
    if first is None:
        return {}
    if never is None or never.endswith("is gone."):
        # The scheduler knows the end first, for example of one task of an array.
        never = f"It was to run after job {first}, which cannot end as that requires."
    return {"message": never}
