"""Dependencies of a job, evaluated when the job is about to be submitted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from aitne.core.jobs.array_job_state import task_id
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.common_job_fields import DEPENDENCIES
from aitne.core.models.job import Job
from aitne.store import Store

_SATISFIED_BY = {
    "after": (True, False),
    "aftercorr": (True, False),
    "afterany": (True, True),
    "afternotok": (False, True),
}
"""Two flags for each kind of dependency: whether it is satisfied by a job that completed, and by a
job that ended in another way.
"""
_DEPENDENCY_FAILED = TerminationReason.DEPENDENCY_FAILED
_MOST_CULPRITS = 1_000
"""Number of jobs that are read at most to find out why others never ran."""


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


def list_dependencies(job: Job) -> Iterator[tuple[str, UUID]]:
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


def evaluate_dependencies(job: Job, jobs: Mapping[UUID, Job]) -> Dependencies:
    """Evaluate the dependencies of ``job`` and return what it has to wait for.

    ``jobs`` contains the jobs that it depends on, by ID. A dependency on a job that is missing from
    it counts as one on a job that no longer exists.
    """
    dependencies = Dependencies()
    for kind, job_id in list_dependencies(job):
        other = jobs.get(job_id)
        by_success, by_failure = _SATISFIED_BY[kind]
        if other is None or other.state.is_terminal:
            completed = other is not None and other.state is JobState.COMPLETED
            if by_success if completed else by_failure:
                continue
            only = "" if by_success else " if that did not complete"
            why = _describe_end(other, jobs)
            return Dependencies(never=f"It was to run after job {job_id}{only}, which {why}.")
        # The scheduler would wait for this attempt only, and a retry is another one.
        if other.scheduler_id is None or other.spec.retry.max:
            dependencies.waits_for = dependencies.waits_for or other
        else:
            dependencies.ids[kind].append(other.scheduler_id)
    return dependencies


async def with_causing_jobs(jobs: Mapping[UUID, Job], store: Store) -> dict[UUID, Job]:
    """Return the jobs, which others depend on, together with those because of which some of them
    never ran.
    """
    known = dict(jobs)
    while len(known) < len(jobs) + _MOST_CULPRITS:
        never_ran = [job for job in known.values() if job.reason is _DEPENDENCY_FAILED]
        needed = {
            job_id for job in never_ran for _, job_id in list_dependencies(job)
        } - known.keys()
        found = await store.find_jobs(needed)
        if not found:
            break
        known |= {job.id: job for job in found}
    return known


def _describe_end(other: Job | None, jobs: Mapping[UUID, Job]) -> str:
    """Return how a job ended that another one depends on, as the end of a sentence; if it never
    ran, because of which job.
    """
    if other is None:
        return "is gone"
    culprit = other
    for _ in range(len(jobs)):
        if culprit.reason is not _DEPENDENCY_FAILED:
            break
        above = (jobs.get(job_id) for _, job_id in list_dependencies(culprit))
        ended = [job for job in above if job is not None and job.state.is_terminal]
        failed = [job for job in ended if job.state is not JobState.COMPLETED]
        if not ended:
            break
        culprit = (failed or ended)[0]
    if culprit is other:
        return _format_end_state(other)
    return f"did not run because job {culprit.id} {_format_end_state(culprit)}"


def _format_end_state(job: Job) -> str:
    if job.signal:
        return f"ended {job.state} by signal {job.signal}"
    return f"ended {job.state}" + (f" with exit code {job.exit_code}" if job.exit_code else "")
