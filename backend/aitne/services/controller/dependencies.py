"""Dependencies of a job, evaluated when the job is about to be submitted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from aitne.core.jobs.arrays import task_id
from aitne.core.jobs.states import JobState
from aitne.core.models.job import Job
from aitne.core.models.job_options import DEPENDENCIES

_SATISFIED_BY = {
    "after": (True, False),
    "aftercorr": (True, False),
    "afterany": (True, True),
    "afternotok": (False, True),
}
"""Two flags for each kind of dependency: whether it is satisfied by a job that completed, and by a
job that ended in another way.
"""


@dataclass(slots=True)
class Dependencies:
    """Result of evaluating the dependencies of a job: what the job has to wait for.

    At most one of ``never`` and ``waits_for`` is set; ``ids`` is complete only if both are None.
    """

    never: str | None = None
    """Why the job can never start; None if it can."""
    waits_for: Job | None = None
    """Job that must end or get a scheduler ID before this one is submitted; None: there is none."""
    ids: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in DEPENDENCIES})
    """Scheduler IDs of the jobs that the scheduler has to wait for, by kind of dependency."""


def named(job: Job) -> Iterator[tuple[str, UUID]]:
    """Yield the kind of each dependency of the job and the ID of the job that it names.

    For a single task of an array that is submitted again, an ``aftercorr`` dependency yields the
    corresponding task of the other array instead of the whole array.
    """
    for kind in DEPENDENCIES:
        for job_id in getattr(job.spec, kind):
            if kind == "aftercorr" and job.array_task_id is not None:
                yield "after", task_id(job_id, job.array_task_id)
            else:
                yield kind, job_id


def judge(job: Job, jobs: Mapping[UUID, Job]) -> Dependencies:
    """Evaluate the dependencies of ``job`` and return what it has to wait for.

    ``jobs`` contains the jobs that it depends on, by ID. A dependency on a job that is missing from
    it counts as one on a job that no longer exists.
    """
    dependencies = Dependencies()
    for kind, job_id in named(job):
        other = jobs.get(job_id)
        by_success, by_failure = _SATISFIED_BY[kind]
        if other is None or other.state.terminal:
            completed = other is not None and other.state is JobState.COMPLETED
            if by_success if completed else by_failure:
                continue
            state = "is gone" if other is None else f"ended {other.state}"
            only = "" if by_success else " if that did not complete"
            return Dependencies(never=f"It was to run after job {job_id}{only}, which {state}.")
        # The scheduler would wait for this attempt only, and a retry is another one.
        if other.scheduler_id is None or other.spec.retry.max:
            dependencies.waits_for = dependencies.waits_for or other
        else:
            dependencies.ids[kind].append(other.scheduler_id)
    return dependencies
