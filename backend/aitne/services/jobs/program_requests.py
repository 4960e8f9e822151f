"""Requests of a job's own program, which authenticates with the job token."""

from __future__ import annotations

from uuid import UUID

from aitne.core.errors import NotAuthenticated, NotFound
from aitne.core.jobs.agent_protocol import ProgramStatus
from aitne.core.models.job import Job
from aitne.services.notifications.notification_texts import MESSAGE
from aitne.services.platform.shared_secrets import hash_secret
from aitne.store import Store


class ProgramService:
    """Service for programs that run in jobs and ask about their job, or tell its owner something."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def job_of(self, token: str, job_id: UUID, task: int | None) -> Job:
        """Return the job with this token or, with ``task``, that task of the array.

        Raises:
            NotAuthenticated: the token is not the job's, or the job has ended.
            NotFound: the array has no such task.
        """
        job = await self._store.find_job_by_token(hash_secret(token))
        if job is None or job_id not in (job.id, job.array_job_id):
            raise NotAuthenticated("This is not the token of a live job.")
        if not job.is_array:
            return job
        row = (
            None if task is None else await self._store.find_array_task(job.id, task, own_row=True)
        )
        if row is None:
            raise NotFound("task of job", job_id, f"Job {job.name} has no task {task}.")
        return row

    async def status(self, token: str, job_id: UUID, task: int | None) -> ProgramStatus:
        """Return when the job reaches its time limit. Raises the errors of ``job_of``."""
        job = await self.job_of(token, job_id, task)
        return ProgramStatus(expires_at=job.expires_at)

    async def send(self, job: Job, text: str) -> None:
        """Send a message to the owner of the job, on the channels that the owner has chosen."""
        await self._store.add_job_event(job.id, MESSAGE, {"text": text})
