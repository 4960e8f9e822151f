"""Explanations of failed jobs, computed on each request and not stored."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from aitne.core.errors import Conflict, InvalidInput, NotAllowed, NotFound, Unavailable
from aitne.core.jobs.error_patterns import FailureCause
from aitne.core.jobs.failure_explanation import (
    LOG_BYTES,
    Failure,
    Remedy,
    RemedyKind,
    explain_failure,
    suggest_changes,
)
from aitne.core.jobs.log_lines import LogLine, split_log_lines
from aitne.core.models.job import Job, ResubmitOptions
from aitne.core.models.user import Actor
from aitne.services.jobs.admission import Admission
from aitne.services.jobs.jobs import JobService

_OF_PACKAGES = frozenset({FailureCause.MODULE_NOT_FOUND, FailureCause.IMPORT_FAILED})


class FailureService:
    """Service that explains why a job failed, from its database row and the end of its log, and
    proposes those remedies that the cluster and the limits permit.
    """

    def __init__(self, jobs: JobService, admission: Admission) -> None:
        self._jobs = jobs
        self._admission = admission

    async def explain_failure(self, actor: Actor, job_id: UUID) -> Failure | None:
        """Return the explanation of the job's failure; None if it has not failed.

        Raises ``NotFound`` if there is no such job that the actor may see, and ``NotAllowed`` if
        the token does not permit reading.
        """
        job = await self._jobs.get(actor, job_id)
        failure = explain_failure(job, ())
        if failure is None:
            return None
        failure = explain_failure(job, await self._read_last_lines(actor, job)) or failure
        return failure.model_copy(
            update={"remedies": await self._list_remedies(actor, job, failure)}
        )

    async def _read_last_lines(self, actor: Actor, job: Job) -> Sequence[LogLine]:
        """Return the last lines of the job's log; empty if there is none or it cannot be read."""
        if job.is_array:
            return ()
        try:
            chunk = await self._jobs.read_log(
                actor, job.id, task=None, offset=-LOG_BYTES, limit=LOG_BYTES
            )
        except (Unavailable, NotAllowed, NotFound):
            return ()  # the row explains the failure, too; the view of the log has the error
        return split_log_lines(chunk.data, chunk.offset)

    async def _list_remedies(self, actor: Actor, job: Job, failure: Failure) -> tuple[Remedy, ...]:
        if failure.cause in _OF_PACKAGES:
            return (Remedy(kind=RemedyKind.PACKAGES),)
        if "resubmit" not in self._jobs.actions(actor, job):
            return ()
        for options in suggest_changes(job, failure.cause):
            if await self._can_run(actor, job, options):
                return (
                    Remedy(
                        kind=RemedyKind.RESUBMIT,
                        memory_bytes=options.memory,
                        max_duration_s=options.max_duration,
                    ),
                )
        return ()

    async def _can_run(self, actor: Actor, job: Job, options: ResubmitOptions) -> bool:
        """Return whether a repetition of the job with the changes ``options`` could run."""
        try:
            admitted = await self._admission.readmit(actor, job, options=options)
            await self._admission.find_blocking_limit(self._admission.draft(actor, admitted))
        except (InvalidInput, NotAllowed, Conflict):
            return False
        return True
