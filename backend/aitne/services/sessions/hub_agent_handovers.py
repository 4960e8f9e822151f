"""Data that JupyterHub passes to the agents of sessions (hand-overs), and the certificates of
sessions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from uuid import UUID

from aitne.core.errors import Conflict, NotFound
from aitne.core.jobs.agent_protocol import CertificateRequest, Handover
from aitne.core.models.base import Frozen
from aitne.core.models.job import Job, JobType
from aitne.core.sessions import session_variables
from aitne.services.jobs.requests_from_agents import job_of_token
from aitne.services.platform.encryption import Cipher
from aitne.services.platform.event_hub import EventHub
from aitne.services.platform.shared_secrets import hash_secret, new_secret
from aitne.services.sessions.session_address_check import NodeAddresses
from aitne.store import Store

LONGEST_WAIT_S = 30.0
SignRequest = Callable[[str, str, str], str]
"""Function that signs a session's certificate: takes owner, address and certificate signing
request, and returns PEM.
"""


class HubJob(Frozen):
    """Data about a session that JupyterHub's spawner may read."""

    job_id: UUID
    owner: str
    address: str | None
    live: bool
    confirmed: bool = True
    """Whether the agent has verified that the process listening at the address runs under the job's
    own account.
    """
    refused: str | None = None
    """Reason why the address must not be used; None if it may."""


class HandoverService:
    """Service that gives the agents of sessions the hand-overs of JupyterHub and certificates, and
    gives JupyterHub the addresses of sessions.
    """

    def __init__(
        self,
        store: Store,
        events: EventHub,
        addresses: NodeAddresses,
        cipher: Cipher,
        *,
        url: str,
        trusted: bool,
        certificates: SignRequest | None,
    ) -> None:
        """Store the dependencies.

        ``url`` is the address at which programs on nodes reach the API; ``trusted``: agents run
        under the platform's own account; ``certificates`` is None if the platform does not use TLS.
        """
        self._store = store
        self._events = events
        self._addresses = addresses
        self._cipher = cipher
        self._url = url
        self._trusted = trusted
        self._certificates = certificates

    async def handover(self, token: str, job_id: UUID, *, wait_s: float = 0) -> Handover | None:
        """Return the hand-over (environment of the single-user server) that JupyterHub stored for
        the session's agent; None if there is none within ``wait_s`` seconds.

        Raises ``NotAuthenticated`` if the token is not the job's, or the job has ended.
        """
        deadline = asyncio.get_running_loop().time() + min(wait_s, LONGEST_WAIT_S)
        while True:
            mark = self._events.get_change_marker()
            await job_of_token(self._store, token, job_id)
            payload = await self._store.find_handover(job_id)
            if payload is not None:
                return self._decrypt_handover(payload, job_id)
            remaining_s = deadline - asyncio.get_running_loop().time()
            if remaining_s <= 0 or self._events.stopped:
                return None
            await self._events.wait_for_change(mark, remaining_s)

    async def issue_certificate(self, token: str, job_id: UUID, request: CertificateRequest) -> str:
        """Return a certificate (PEM) for the server of a session, at the address that the session
        has reported.

        Raises:
            NotAuthenticated: the token is not this job's, or the job has ended.
            NotFound: the platform does not use TLS, or the job is no session.
            Conflict: the address differs from the stored one, for example after a restart that no
                poll has shown yet, or does not belong to the session's nodes.
            InvalidInput: the request is invalid, or its key is too weak.
            Unavailable: the nodes of the job are not known yet.
        """
        job = await job_of_token(self._store, token, job_id)
        if self._certificates is None or job.type is not JobType.SESSION:
            raise NotFound("certificate", job_id)
        if job.address is None or job.address != request.address:
            raise Conflict(
                f"The session {job_id} has not reported the address {request.address} yet."
            )
        refused = await self._addresses.find_problem(job)
        if refused is not None:
            raise Conflict(refused)
        return await asyncio.to_thread(self._certificates, job.owner, job.address, request.request)

    async def hub_job(self, job_id: UUID) -> HubJob:
        """Return the data about a session that JupyterHub's spawner needs.

        Raises:
            NotFound: there is no such session.
            Unavailable: the session's address cannot be verified yet.
        """
        job = await self._get_session(job_id)
        live = not job.state.is_terminal
        refused = await self._addresses.find_problem(job) if live else None
        return HubJob(
            job_id=job.id,
            owner=job.owner,
            address=job.address if refused is None else None,
            live=live,
            confirmed=self._trusted or job.ready_at is not None,
            refused=refused,
        )

    async def set_handover(self, job_id: UUID, handover: Handover) -> None:
        """Store a hand-over for the session's agent: the environment of the single-user server.
        Address, session token and names with which programs of the session use the API are added.

        A repeated hand-over contains the same session token, because the agent may have passed on
        the first one.

        Raises:
            NotFound: there is no such session.
            Conflict: the session has ended.
        """
        job = await self._get_session(job_id)
        if job.state.is_terminal:
            raise Conflict(f"The session {job_id} has ended ({job.state}); its agent has exited.")
        while not await self._replace_handover(job, handover):
            pass  # another one was stored meanwhile, so this ends
        self._events.notify_change()

    async def _replace_handover(self, job: Job, handover: Handover) -> bool:
        """Store the hand-over with the session token of the stored one or, if none is stored, with
        a new token. Returns False if another request has stored or removed a hand-over in the
        meantime.
        """
        stored = await self._store.find_handover(job.id)
        earlier = {} if stored is None else self._decrypt_handover(stored, job.id).env
        token = earlier.get(session_variables.TOKEN) or new_secret(session_variables.PREFIX)
        own = {
            session_variables.URL: self._url,
            session_variables.TOKEN: token,
            session_variables.SESSION: str(job.id),
            session_variables.PROJECT: job.project,
        }
        whole = handover.model_copy(update={"env": {**handover.env, **own}})
        encrypted = self._cipher.encrypt(whole.model_dump_json(), _make_cipher_purpose(job.id))
        new = session_variables.TOKEN not in earlier
        return await self._store.save_handover(
            job.id,
            encrypted,
            replaces=stored,
            session_token_hash=hash_secret(token) if new else None,
        )

    async def live_job_ids(self) -> Sequence[UUID]:
        """Return the IDs of the sessions that have not ended."""
        return [job.id for job in await self._store.list_live_jobs() if job.type is JobType.SESSION]

    def _decrypt_handover(self, payload: str, job_id: UUID) -> Handover:
        return Handover.model_validate_json(
            self._cipher.decrypt(payload, _make_cipher_purpose(job_id))
        )

    async def _get_session(self, job_id: UUID) -> Job:
        job = await self._store.get_job(job_id)
        if job.type is not JobType.SESSION:
            raise NotFound("session", job_id)
        return job


def _make_cipher_purpose(job_id: UUID) -> str:
    return f"hand-over of job {job_id}"
