"""Status, ranks and extension of a session, requested from JupyterLab in the session with the job
token.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

from aitne.core.errors import NotAuthenticated, NotFound
from aitne.core.jobs.agent_protocol import AttachedRanks, SessionStatus
from aitne.core.jobs.states import LIVE
from aitne.core.models.access_token import Scope
from aitne.core.models.job import Job, JobFilter, JobType
from aitne.core.models.user import Actor
from aitne.services.platform.shared_secrets import hash_secret
from aitne.store import Store

_MEASURED_WITHIN_S = 300.0
"""Maximum age in seconds of a resource usage sample that counts as the current one."""
_MOST_GROUPS = 20
"""Maximum number of rank groups in the status."""


class InsideService:
    """Service for the page shown in a session, whose server authenticates with the job token."""

    def __init__(self, store: Store, clock: Callable[[], datetime], portal_url: str) -> None:
        self._store = store
        self._clock = clock
        self._portal_url = portal_url

    async def status(self, token: str, job_id: UUID) -> SessionStatus:
        """Return the time at which the session ends, the resources in use and its rank groups.

        Raises:
            NotAuthenticated: the token is not this job's, or the job has ended.
            NotFound: the job is no session.
        """
        job = await self._authenticate_session(token, job_id)
        since = self._clock() - timedelta(seconds=_MEASURED_WITHIN_S)
        samples = await self._store.list_samples(job.id, since=since)
        last = samples[-1] if samples else None
        loads = (
            []
            if last is None
            else [float(gpu["utilization"]) for gpu in last.gpu if "utilization" in gpu]
        )
        resources = job.spec.resources
        groups = await self._store.list_jobs(
            JobFilter(session_id=job.id, states=LIVE),
            visible_to=None,
            limit=_MOST_GROUPS,
            descending=False,
        )
        return SessionStatus(
            name=job.spec.name,
            portal_url=f"{self._portal_url}/jobs/{job.id}",
            cancel_requested=job.cancel_requested_at is not None,
            expires_at=job.expires_at,
            memory_bytes=None if last is None else last.memory_bytes,
            memory_limit_bytes=resources.memory_bytes,
            gpus=resources.gpu.count,
            gpu_utilization=sum(loads) / len(loads) if loads else None,
            ranks=tuple(_make_attached_ranks(group) for group in groups.items),
        )

    async def owner(self, token: str, job_id: UUID) -> Actor:
        """Return the owner of the session as an actor who may read and extend it.

        Raises the same errors as ``status``.
        """
        job = await self._authenticate_session(token, job_id)
        user = await self._store.get_user(job.owner)
        return Actor(user=user, scopes=frozenset({Scope.READ, Scope.WRITE}))

    async def _authenticate_session(self, token: str, job_id: UUID) -> Job:
        job = await self._store.find_job_by_token(hash_secret(token))
        if job is None or job.id != job_id:
            raise NotAuthenticated("This is not the token of a live job.")
        if job.type is not JobType.SESSION:
            raise NotFound("session", job_id)
        return job


def _make_attached_ranks(group: Job) -> AttachedRanks:
    distributed = group.spec.distributed
    per_node = 0 if distributed is None else distributed.ranks_per_node
    return AttachedRanks(
        job_id=group.id,
        state=group.state,
        cancel_requested=group.cancel_requested_at is not None,
        ranks=per_node * group.spec.resources.nodes,
        nodes=group.spec.resources.nodes,
        message=group.message,
        expires_at=group.expires_at,
    )
