"""Deletion of ended jobs on request, one or many at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from aitne.core.errors import Conflict, NotFound
from aitne.core.jobs.states import TERMINAL, JobState
from aitne.core.models.base import Frozen
from aitne.core.models.job import Job, JobFilter
from aitne.core.models.user import Actor
from aitne.core.users.permissions import PolicyAction, decide_access, require_permission
from aitne.services.jobs.bulk_cancellation import list_expected_jobs
from aitne.services.jobs.jobs import JobService
from aitne.store import Store
from aitne.store.ended_job_folders import JobFolders
from aitne.store.job_deletion import DeleteRefusal


class DeleteOutcome(StrEnum):
    """Outcome of the request to delete one job, such as requested or refused."""

    REQUESTED = "requested"
    """The deletion of the job and its folder was requested."""
    NOT_ENDED = "not_ended"
    """The job has not ended; nothing was done."""
    ARRAY_TASK = "array_task"
    """The job is a task of an array: only whole array jobs can be deleted."""
    NEEDED = "needed"
    """Another job that has not ended depends on the job."""
    NOT_FOUND = "not_found"
    """There is no such job, or the actor may not see it."""
    NOT_ALLOWED = "not_allowed"


class Deleted(Frozen):
    """Result for one job in a request to delete several jobs."""

    id: UUID
    outcome: DeleteOutcome
    """Outcome for this job."""
    name: str | None = None
    state: JobState | None = None
    reason: str | None = None
    """Sentence that explains why nothing was done; None if the deletion was requested."""


class JobDeletion:
    """Service that requests the deletion of ended jobs with their folders. The controller deletes
    them later; until then the jobs remain visible.
    """

    def __init__(self, jobs: JobService, store: Store, clock: Callable[[], datetime]) -> None:
        self._jobs = jobs
        self._store = store
        self._clock = clock

    async def request_deletion(self, actor: Actor, job_id: UUID) -> Job:
        """Request the deletion of one job; a repeated request has no further effect.

        Raises:
            NotFound, NotAllowed: the actor may not see or may not delete the job.
            Conflict: the job has not ended, is a task of an array, or another job depends on it.
        """
        job = await self._store.get_job(job_id)
        require_permission(
            PolicyAction.JOB_DELETE, actor, "job", job_id, owner=job.owner, project=job.project
        )
        request = (await self._store.request_delete([job_id], self._clock())).get(job_id)
        if request is None:
            raise NotFound("job", job_id)
        if request.refusal is not None:
            raise Conflict(_describe_refusal(request.job, request.refusal))
        return request.job

    async def get_folder_sizes(self, actor: Actor) -> JobFolders:
        """Return the total disk space of the folders of the actor's ended jobs.

        Raises ``NotAllowed`` if the token does not permit reading.
        """
        require_permission(
            PolicyAction.STORAGE_READ, actor, "storage", actor.name, owner=actor.name
        )
        return await self._store.get_job_folders(actor.name)

    async def request_deletion_by_ids(self, actor: Actor, ids: Sequence[UUID]) -> list[Deleted]:
        """Request the deletion of the jobs with these IDs. Each is decided separately.

        Return one result for each distinct ID, in the order given.
        """
        jobs_by_id = {
            job.id: job for job in await self._store.find_jobs(ids) if not job.is_task_group
        }
        results: dict[UUID, Deleted] = {}
        permitted: list[UUID] = []
        for job_id in dict.fromkeys(ids):
            job = jobs_by_id.get(job_id)
            results[job_id] = _make_unknown_result(job_id)
            if job is None:
                continue
            decision = decide_access(
                PolicyAction.JOB_DELETE, actor, owner=job.owner, project=job.project
            )
            if decision.allowed:
                permitted.append(job_id)
            elif decision.visible:
                results[job_id] = _make_deletion_result(
                    job, DeleteOutcome.NOT_ALLOWED, decision.reason
                )
        requests = await self._store.request_delete(permitted, self._clock()) if permitted else {}
        for job_id, (job, refusal) in requests.items():
            results[job_id] = (
                _make_deletion_result(job, DeleteOutcome.REQUESTED, None)
                if refusal is None
                else _make_deletion_result(
                    job, DeleteOutcome(refusal.value), _describe_refusal(job, refusal)
                )
            )
        return list(results.values())

    async def request_deletion_by_filter(
        self, actor: Actor, job_filter: JobFilter, expected: int
    ) -> list[Deleted]:
        """Request the deletion of all jobs that match ``job_filter`` and have ended, if their number
        is ``expected``, which the user has confirmed.

        Raises:
            Conflict: more or fewer jobs than ``expected`` match; then none is deleted.
            InvalidInput: more jobs match than one request may delete.
        """
        states = (job_filter.states or TERMINAL) & TERMINAL
        ended_filter = job_filter.model_copy(update={"states": states, "top_level_only": True})
        ended = await list_expected_jobs(
            self._jobs, actor, ended_filter, expected, "ended jobs", "deleted"
        )
        return await self.request_deletion_by_ids(actor, [job.id for job in ended])


def _make_deletion_result(job: Job, outcome: DeleteOutcome, reason: str | None) -> Deleted:
    return Deleted(id=job.id, outcome=outcome, name=job.name, state=job.state, reason=reason)


def _describe_refusal(job: Job, refusal: DeleteRefusal) -> str:
    if refusal is DeleteRefusal.ARRAY_TASK:
        return (
            f"Job {job.id} is a task of the array job {job.array_job_id}: only the whole array job "
            "can be deleted."
        )
    if refusal is DeleteRefusal.NEEDED:
        return (
            f"A job that has not ended depends on job {job.id}. Delete this one after that job has "
            "ended."
        )
    return (
        f"Job {job.id} has not ended (it is {job.state}). Cancel it first (cancel), and delete it "
        "when it has ended."
    )


def _make_unknown_result(job_id: UUID) -> Deleted:
    """Return the result for a job that does not exist or that the actor may not see. The two cases
    are not distinguished.
    """
    return Deleted(
        id=job_id,
        outcome=DeleteOutcome.NOT_FOUND,
        reason="This job does not exist, or you have no access to it.",
    )
