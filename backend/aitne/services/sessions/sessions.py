"""Sessions: the operations that other jobs do not have."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

from aitne.core.errors import Conflict, InvalidInput, NotFound
from aitne.core.jobs.states import JobState
from aitne.core.models.job import Job, JobChanges, JobType
from aitne.core.models.user import Actor
from aitne.core.ports.store import CreatedJob, QueuePlace, Store
from aitne.core.sessions.names import entry_points
from aitne.core.settings import Settings
from aitne.core.units import format_duration
from aitne.core.users.policy import PolicyAction, require
from aitne.services.jobs.jobs import JobService

EXTENDED = "job.extended"
"""Event kind of an extension, with the user who extended the session."""


class SessionService:
    """Service for what is specific to sessions: open, extend, keep and stop them. ``JobService``
    creates, lists and reads them.
    """

    def __init__(
        self, jobs: JobService, store: Store, settings: Settings, clock: Callable[[], datetime]
    ) -> None:
        self._jobs = jobs
        self._store = store
        self._settings = settings
        self._clock = clock

    async def open(self, actor: Actor, job_id: UUID, app: str | None = None) -> str:
        """Return the URL at which the session, or its app ``app``, can be opened.

        Raises:
            NotFound: there is no such session, or it has no such app.
            NotAllowed: the session belongs to another user.
            Conflict: the session is not ready.
        """
        job = await self._session(PolicyAction.JOB_OPEN, actor, job_id)
        if job.state is not JobState.READY or job.url is None:
            message = f" {job.message}" if job.message else ""
            advice = "Start a new one." if job.state.terminal else "Wait until it is READY."
            raise Conflict(f"The session cannot be opened: it is {job.state}.{message} {advice}")
        if app is None:
            return job.url
        entries = entry_points(job)
        url = next((entry.url for entry in entries if entry.name == app), None)
        if url is None:
            names = ", ".join(entry.name for entry in entries)
            raise NotFound("entry point", app, f"Session {job.name} has {names}, and no {app}.")
        return url

    async def extend(self, actor: Actor, job_id: UUID, seconds: int) -> Job:
        """Move the session's end by ``seconds``.

        Raises:
            InvalidInput: the session would last longer than the platform allows.
            NotFound, NotAllowed: as ``open``.
            Conflict: the session does not run.
        """
        # Read before the session: an extension carried out in between has moved the end read then.
        pending_limit_s = await self._store.limit_asked(job_id)
        job = await self._session(PolicyAction.JOB_EXTEND, actor, job_id)
        began = job.allocated_at or job.started_at
        ends = job.expires_at
        if began is None or ends is None or not job.state.active or job.cancel_requested_at:
            raise Conflict(
                f"The session cannot be extended: it is {job.state}. Only a running one has an end "
                "that can be moved."
            )
        if seconds < 1:
            raise InvalidInput.field(
                "duration", "it must be longer than zero", value=seconds, allowed="at least 1s"
            )
        max_s, whose = await self._longest(job)
        ends = max(ends, began + timedelta(seconds=pending_limit_s or 0))
        limit_s = round((ends - began).total_seconds()) + seconds
        if limit_s > max_s:
            current_s = max(0, limit_s - seconds)
            raise InvalidInput.field(
                "duration",
                f"a session may last {format_duration(max_s)} in all ({whose}), and "
                f"this one already has {format_duration(current_s)}",
                value=format_duration(seconds),
                allowed=f"at most {format_duration(max(0, max_s - current_s))}",
            )
        if ends + timedelta(seconds=seconds) <= self._clock():
            raise Conflict("The session has already reached its end; start a new one.")
        extended_job = await self._store.request_extend(job_id, limit_s, asked=pending_limit_s)
        details = {"by": actor.name, "seconds": seconds, "time_limit_s": limit_s}
        await self._store.add_job_event(job_id, EXTENDED, details)
        return extended_job

    async def keep(self, actor: Actor, job_id: UUID) -> Job:
        """Restart the session's inactivity duration, because a user wants to keep the session.

        Raises:
            NotFound, NotAllowed: as ``open``.
            Conflict: the session does not run.
        """
        job = await self._session(PolicyAction.JOB_EXTEND, actor, job_id)
        if not job.state.active or job.cancel_requested_at:
            raise Conflict(
                f"The session cannot be kept: it is {job.state}, and nothing runs in it."
            )
        if job.spec.inactivity_duration_s is None:
            return job
        now = self._clock()
        await self._store.note_activity(job_id, active_at=now, seen_at=now)
        while job.idle_ends_at is not None:
            try:
                return await self._store.transition(
                    job_id, job.state, JobChanges(idle_ends_at=None), version=job.version
                )
            except Conflict:
                job = await self._store.get_job(job_id)
                if job.state.terminal:
                    raise
        return job

    async def _longest(self, job: Job) -> tuple[int, str]:
        """Return the longest total duration of the session in seconds, and the limit's name."""
        longest = self._settings.limits.max_duration, "limits.max_duration"
        named = job.partition or job.spec.slurm.partition
        for part in (await self._store.cluster()).partitions:
            ours = part.name in named.split(",") if named else part.default
            if ours and part.max_time_s is not None and part.max_time_s < longest[0]:
                longest = part.max_time_s, f"MaxTime of the partition {part.name}"
        return longest

    async def relaunch(
        self, actor: Actor, job_id: UUID, *, idempotency_key: str | None = None
    ) -> CreatedJob:
        """Start a new session with the template, parameters and resources of an ended one.

        Raises:
            Conflict: the session has not ended.
            NotFound, NotAllowed: as ``open``.
            InvalidInput: the platform can no longer provide what the session used.
        """
        job = await self._session(PolicyAction.JOB_RESUBMIT, actor, job_id)
        if not job.state.terminal:
            raise Conflict(
                f"The session has not ended: it is {job.state}. Stop it first, or open it."
            )
        return await self._jobs.resubmit(actor, job_id, idempotency_key=idempotency_key)

    async def place(self, actor: Actor, job_id: UUID) -> QueuePlace | None:
        """Return the position of a job or session in the queue; None if it does not wait or its
        position is unknown.

        Raises ``NotFound``, ``NotAllowed``.
        """
        return await self._store.queue_place(await self._jobs.get(actor, job_id))

    async def stop(self, actor: Actor, job_id: UUID) -> Job:
        """Stop the session: its state becomes CANCELLED, with the message "Stopped by …".

        Raises ``NotFound``, ``NotAllowed``.
        """
        await self._session(PolicyAction.JOB_CANCEL, actor, job_id)
        return await self._jobs.cancel(actor, job_id)

    async def _session(self, action: PolicyAction, actor: Actor, job_id: UUID) -> Job:
        job = await self._store.get_job(job_id)
        require(action, actor, "session", job_id, owner=job.owner, project=job.project)
        if job.type is not JobType.SESSION:
            raise NotFound("session", job_id)
        return job
