"""Operations that exist only for sessions, such as opening an app."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from aitne.core.errors import Conflict, NotFound
from aitne.core.jobs.states import JobState
from aitne.core.models.job import Job, JobChanges, JobType
from aitne.core.models.user import Actor
from aitne.core.sessions.entry_points import entry_points
from aitne.core.users.permissions import PolicyAction, require_permission
from aitne.services.jobs.jobs import JobService
from aitne.services.jobs.time_limit_extensions import ExtensionService
from aitne.store import Store
from aitne.store.job_tokens_and_samples import QueuePosition
from aitne.store.new_jobs import CreatedJob


class SessionService:
    """Service for operations that only sessions have: open, extend, keep and stop. ``JobService``
    creates, lists and reads sessions.
    """

    def __init__(
        self,
        jobs: JobService,
        extensions: ExtensionService,
        store: Store,
        clock: Callable[[], datetime],
    ) -> None:
        self._jobs = jobs
        self._extensions = extensions
        self._store = store
        self._clock = clock

    async def get_app_url(self, actor: Actor, job_id: UUID, app: str | None = None) -> str:
        """Return the URL at which the session, or its app ``app``, can be opened.

        Raises:
            NotFound: there is no such session, or it has no such app.
            NotAllowed: the session belongs to another user.
            Conflict: the session is not ready.
        """
        job = await self._get_permitted_session(PolicyAction.JOB_OPEN, actor, job_id)
        if job.state is not JobState.READY or job.url is None:
            message = f" {job.message}" if job.message else ""
            advice = "Start a new one." if job.state.is_terminal else "Wait until it is READY."
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

        Raises the same errors as ``ExtensionService.extend``.
        """
        await self._get_permitted_session(PolicyAction.JOB_EXTEND, actor, job_id)
        return await self._extensions.extend(actor, job_id, seconds)

    async def restart_inactivity(self, actor: Actor, job_id: UUID) -> Job:
        """Restart the session's inactivity duration on request of a user, as if the session had
        just been used.

        Raises:
            NotFound, NotAllowed: as ``get_app_url``.
            Conflict: the session does not run.
        """
        job = await self._get_permitted_session(PolicyAction.JOB_EXTEND, actor, job_id)
        if not job.state.is_active or job.cancel_requested_at:
            raise Conflict(
                f"The session cannot be kept: it is {job.state}, and nothing runs in it."
            )
        if job.spec.inactivity_duration_s is None:
            return job
        now = self._clock()
        await self._store.record_activity(job_id, active_at=now, seen_at=now)
        while job.idle_ends_at is not None:
            try:
                return await self._store.transition_job(
                    job_id, job.state, JobChanges(idle_ends_at=None), version=job.version
                )
            except Conflict:
                job = await self._store.get_job(job_id)
                if job.state.is_terminal:
                    raise
        return job

    async def relaunch(
        self, actor: Actor, job_id: UUID, *, idempotency_key: str | None = None
    ) -> CreatedJob:
        """Start a new session with the template, parameters and resources of an ended one.

        Raises:
            Conflict: the session has not ended.
            NotFound, NotAllowed: as ``get_app_url``.
            InvalidInput: the platform can no longer provide what the session used.
        """
        job = await self._get_permitted_session(PolicyAction.JOB_RESUBMIT, actor, job_id)
        if not job.state.is_terminal:
            raise Conflict(
                f"The session has not ended: it is {job.state}. Stop it first, or open it."
            )
        return await self._jobs.resubmit(actor, job_id, idempotency_key=idempotency_key)

    async def queue_position(self, actor: Actor, job_id: UUID) -> QueuePosition | None:
        """Return the position of a job or session in the queue; None if it is not queued or its
        position is unknown.

        Raises ``NotFound`` if there is no such job that the actor may see, and ``NotAllowed`` if
        the token does not permit reading.
        """
        return await self._store.find_queue_position(await self._jobs.get(actor, job_id))

    async def stop(self, actor: Actor, job_id: UUID) -> Job:
        """Stop the session: its state becomes CANCELLED, with the message "Stopped by …".

        Raises ``NotFound`` if there is no such session that the actor may see, and ``NotAllowed``
        if the actor may not stop it.
        """
        await self._get_permitted_session(PolicyAction.JOB_CANCEL, actor, job_id)
        return await self._jobs.cancel(actor, job_id)

    async def _get_permitted_session(self, action: PolicyAction, actor: Actor, job_id: UUID) -> Job:
        job = await self._store.get_job(job_id)
        require_permission(action, actor, "session", job_id, owner=job.owner, project=job.project)
        if job.type is not JobType.SESSION:
            raise NotFound("session", job_id)
        return job
