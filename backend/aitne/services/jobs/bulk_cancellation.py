"""Cancellation of several jobs in one request, which affects only the jobs that the user has
seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from aitne.core.errors import Conflict, InvalidInput
from aitne.core.jobs.states import LIVE, JobState
from aitne.core.models.base import Frozen
from aitne.core.models.job import Job, JobFilter, JobType
from aitne.core.models.user import Actor
from aitne.core.users.permissions import PolicyAction, decide_access
from aitne.services.jobs.jobs import JobService
from aitne.store import Store

MOST = 1_000
"""Maximum number of jobs in one request."""


async def list_expected_jobs(
    jobs: JobService, actor: Actor, job_filter: JobFilter, expected: int, subject: str, verb: str
) -> Sequence[Job]:
    """Return the jobs that match ``job_filter``, if their number is ``expected``, which the user has
    confirmed. An empty set of states matches no job.

    ``subject`` and ``verb`` are words of the error message, such as ``ended jobs`` and ``deleted``.

    Raises:
        Conflict: more or fewer jobs than ``expected`` match.
        InvalidInput: ``expected`` is more than one request may change.
    """
    if expected > MOST:
        raise InvalidInput.field(
            "expected", "too many jobs for one request", value=expected, allowed=f"0 to {MOST}"
        )
    if not job_filter.states:
        return []
    page = await jobs.list(actor, job_filter, cursor=None, limit=MOST)
    if page.total != expected:
        raise Conflict(
            f"{page.total} {subject} match, not {expected}. Nothing was {verb}; reload the list."
        )
    return page.items


class CancelOutcome(StrEnum):
    """Outcome of the request to cancel one job, such as cancelled or refused."""

    ASKED = "asked"
    """The cancellation was requested; the job ends now or shortly."""
    ENDED = "ended"
    """The job had already ended; nothing was done."""
    NOT_FOUND = "not_found"
    """There is no such job, or the actor may not see it."""
    NOT_ALLOWED = "not_allowed"


class Cancelled(Frozen):
    """Result for one job in a request to cancel several jobs."""

    id: UUID
    outcome: CancelOutcome
    """Outcome for this job."""
    name: str | None = None
    state: JobState | None = None
    reason: str | None = None
    """Sentence that explains why nothing was done; None if the job is cancelled."""


class BulkCancel:
    """Service that cancels several jobs by one request. Each job is decided separately: a refusal
    does not affect the others.
    """

    def __init__(self, jobs: JobService, store: Store, clock: Callable[[], datetime]) -> None:
        self._jobs = jobs
        self._store = store
        self._clock = clock

    async def cancel_by_ids(self, actor: Actor, ids: Sequence[UUID]) -> list[Cancelled]:
        """Cancel the jobs with these IDs.

        Return one result for each distinct ID, in the order given.
        """
        jobs_by_id = {
            job.id: job for job in await self._store.find_jobs(ids) if not job.is_task_group
        }
        return [
            await self._cancel_one(actor, job_id, jobs_by_id.get(job_id))
            for job_id in dict.fromkeys(ids)
        ]

    async def cancel_by_filter(
        self, actor: Actor, job_filter: JobFilter, expected: int
    ) -> list[Cancelled]:
        """Cancel all jobs that match ``job_filter`` and have not ended, if their number is
        ``expected``, which the user has confirmed.

        Raises:
            Conflict: more or fewer jobs than ``expected`` match; then none is cancelled.
            InvalidInput: more jobs match than one request may cancel.
        """
        live_filter = job_filter.model_copy(update={"states": (job_filter.states or LIVE) & LIVE})
        live = await list_expected_jobs(
            self._jobs, actor, live_filter, expected, "jobs that have not ended", "cancelled"
        )
        return [await self._cancel_one(actor, job.id, job) for job in live]

    async def _cancel_one(self, actor: Actor, job_id: UUID, job: Job | None) -> Cancelled:
        if job is None:
            return _make_unknown_result(job_id)
        decision = decide_access(
            PolicyAction.JOB_CANCEL, actor, owner=job.owner, project=job.project
        )
        if not decision.visible:
            return _make_unknown_result(job_id)
        outcome, reason, now = CancelOutcome.ASKED, None, job
        if not decision.allowed:
            outcome, reason = CancelOutcome.NOT_ALLOWED, decision.reason
        elif job.state.is_terminal:
            outcome, reason = CancelOutcome.ENDED, "The job had already ended."
        else:
            verb = "Stopped" if job.type is JobType.SESSION else "Cancelled"
            message = f"{verb} by {actor.name}."
            now = await self._store.request_cancel(job_id, self._clock(), message)
        return Cancelled(id=job_id, outcome=outcome, name=job.name, state=now.state, reason=reason)


def _make_unknown_result(job_id: UUID) -> Cancelled:
    """Return the result for a job that does not exist or that the actor may not see. The two cases
    are not distinguished.
    """
    return Cancelled(
        id=job_id,
        outcome=CancelOutcome.NOT_FOUND,
        reason="This job does not exist, or you have no access to it.",
    )
