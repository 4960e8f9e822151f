"""Extensions of the time limit of running jobs and sessions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

from aitne.core.errors import Conflict, InvalidInput
from aitne.core.models.job import Job, JobType
from aitne.core.models.user import Actor
from aitne.core.settings import Settings
from aitne.core.units import format_duration
from aitne.core.users.permissions import PolicyAction, require_permission
from aitne.services.jobs.outside_job_checks import check_not_outside
from aitne.services.projects.limit_checks import check_job_limits
from aitne.store import Store

EXTENDED = "job.extended"
"""Event kind of an extension; the event contains the user who extended the job."""


class ExtensionService:
    """Service that moves the end of a running job or session, within the limits of the platform,
    the partition and the project. The controller passes the new limit to the scheduler.
    """

    def __init__(self, store: Store, settings: Settings, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock

    async def extend(self, actor: Actor, job_id: UUID, seconds: int) -> Job:
        """Move the end of the job by ``seconds``.

        Raises:
            InvalidInput: the job would last longer than a limit allows.
            NotFound, NotAllowed: the actor may not see or extend the job.
            Conflict: the job does not run, or is an array job, whose tasks are extended one by one.
        """
        # Read before the job: an extension carried out in between has moved the end read then.
        pending_limit_s = await self._store.find_requested_time_limit(job_id)
        job = await self._store.get_job(job_id)
        require_permission(
            PolicyAction.JOB_EXTEND, actor, "job", job_id, owner=job.owner, project=job.project
        )
        check_not_outside(job, "extended")
        noun = "session" if job.type is JobType.SESSION else "job"
        if job.is_array:
            raise Conflict("An array job cannot be extended: extend its running tasks one by one.")
        began = job.allocated_at or job.started_at
        ends = job.expires_at
        if began is None or ends is None or not job.state.is_active or job.cancel_requested_at:
            raise Conflict(
                f"The {noun} cannot be extended: it is {job.state}. Only a running one has an end "
                "that can be moved."
            )
        if seconds < 1:
            raise InvalidInput.field(
                "duration", "it must be longer than zero", value=seconds, allowed="at least 1s"
            )
        max_s, limit = await self._get_longest_duration(job)
        ends = max(ends, began + timedelta(seconds=pending_limit_s or 0))
        limit_s = round((ends - began).total_seconds()) + seconds
        if limit_s > max_s:
            current_s = max(0, limit_s - seconds)
            raise InvalidInput.field(
                "duration",
                f"a {noun} may last {format_duration(max_s)} in all ({limit}), and "
                f"this one already has {format_duration(current_s)}",
                value=format_duration(seconds),
                allowed=f"at most {format_duration(max(0, max_s - current_s))}",
            )
        await self._check_project(job, limit_s)
        if ends + timedelta(seconds=seconds) <= self._clock():
            raise Conflict(f"The {noun} has already reached its end; start a new one.")
        extended_job = await self._store.request_extend(
            job_id, limit_s, latest_requested_s=pending_limit_s
        )
        details = {"by": actor.name, "seconds": seconds, "time_limit_s": limit_s}
        await self._store.add_job_event(job_id, EXTENDED, details)
        return extended_job

    async def _get_longest_duration(self, job: Job) -> tuple[int, str]:
        """Return the maximum total duration of the job in seconds, and a name of the limit for
        messages.
        """
        longest = self._settings.limits.max_duration, "limits.max_duration"
        named = job.partition or job.spec.slurm.partition
        for part in (await self._store.get_cluster()).partitions:
            ours = part.name in named.split(",") if named else part.default
            if ours and part.max_time_s is not None and part.max_time_s < longest[0]:
                longest = part.max_time_s, f"MaxTime of the partition {part.name}"
        return longest

    async def _check_project(self, job: Job, limit_s: int) -> None:
        """Check a new time limit of ``limit_s`` seconds against the maximum of the project and the
        QOS.

        Raises ``InvalidInput`` if it is exceeded.
        """
        reading = await self._store.find_limit_usage()
        if reading is None:
            return
        spec = job.spec.model_copy(update={"max_duration_s": limit_s})
        for problem in check_job_limits(spec, reading[0], job.account or job.owner).problems:
            if problem.field == "max_duration":
                raise InvalidInput.field(
                    "duration", problem.message, value=problem.value, allowed=problem.allowed
                )
