"""Routes for the platform's own programs, not part of the public OpenAPI document: agents, which
run inside jobs and send a job token, and JupyterHub's spawner, which sends a secret."""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse

from aitne.api.audit_middleware import set_actor
from aitne.api.dependencies import (
    PlatformDep,
    find_bearer_token,
    get_rate_limits,
    get_request_origin,
)
from aitne.core.errors import NotAuthenticated
from aitne.core.jobs.agent_protocol import (
    AgentReply,
    AgentReport,
    CertificateRequest,
    Handover,
    IssuedCertificate,
    JobSecrets,
    ProgramMessage,
    ProgramStatus,
    SessionExtension,
    SessionStatus,
)
from aitne.core.models.base import Frozen
from aitne.services.platform.shared_secrets import hash_secret, read_secret
from aitne.services.sessions.hub_agent_handovers import HubJob
from aitne.services.users.authentication_service import address_lockout_key

router = APIRouter(include_in_schema=False)


class LiveJobIds(Frozen):
    """Ids of the sessions that have not ended, whose servers JupyterHub must keep."""

    job_ids: list[UUID]


async def get_job_token(request: Request) -> str:
    """Return the job token that an agent has sent; it is not verified here. Raises
    ``NotAuthenticated`` if there is none."""
    token = find_bearer_token(request.headers)
    if token is None:
        raise NotAuthenticated("An agent sends its job's token as Authorization: Bearer.")
    return token


@contextmanager
def limit_job_requests(request: Request, token: str, sender: str = "agent") -> Iterator[None]:
    """Count a request of a job's agent or program against the rate limit of the job or, until its
    token was accepted, of the client's network. The token must be verified in the context.

    The rate is limited, because the job's own programs can read the job token and send the requests
    of its agent too. Raises ``RateLimited``.
    """
    rates, token_hash = get_rate_limits(request).jobs, hash_secret(token)
    network = address_lockout_key(get_request_origin(request).address)
    counted = network if rates.count_request(sender, token_hash, network) else None
    try:
        yield
    except NotAuthenticated:
        rates.reject_token(token_hash)
        raise
    rates.accept_token(token_hash, counted)


async def check_hub(request: Request, platform: PlatformDep) -> None:
    """Check that the request has the secret of the platform's own JupyterHub. Raises
    ``NotAuthenticated``."""
    secret = read_secret(platform.settings, "hub_service_secret")
    token = find_bearer_token(request.headers) or ""
    if not hmac.compare_digest(token.encode(), secret.encode()):
        raise NotAuthenticated("Only the platform's own JupyterHub may send this request.")


JobToken = Annotated[str, Depends(get_job_token)]
Hub = Depends(check_hub)


@router.post("/agent/v1/jobs/{job_id}/report")
async def report(
    job_id: UUID, body: AgentReport, token: JobToken, request: Request, platform: PlatformDep
) -> AgentReply:
    """Process a report of a job's agent."""
    with limit_job_requests(request, token):
        return await platform.agents.report(token, job_id, body)


@router.get("/agent/v1/jobs/{job_id}/handover", response_model=Handover)
async def get_handover(
    job_id: UUID,
    token: JobToken,
    request: Request,
    platform: PlatformDep,
    wait_s: Annotated[float, Query(ge=0, le=60)] = 0,
) -> Handover | Response:
    """Return the environment variables that JupyterHub stored for a session's server, after waiting
    up to ``wait_s`` seconds for them; 204 if there are none yet."""
    with limit_job_requests(request, token):
        handover = await platform.handovers.handover(token, job_id, wait_s=wait_s)
    return Response(status_code=204) if handover is None else handover


@router.get("/agent/v1/jobs/{job_id}/secrets")
async def get_secrets(
    job_id: UUID, token: JobToken, request: Request, platform: PlatformDep
) -> JobSecrets:
    """Return the values of the secrets that the job uses, which belong to the job's owner."""
    with limit_job_requests(request, token):
        return await platform.agents.secrets(token, job_id)


@router.get("/agent/v1/jobs/{job_id}/tree")
async def get_tree(
    job_id: UUID, token: JobToken, request: Request, platform: PlatformDep
) -> StreamingResponse:
    """Stream the uploaded working tree in which the job runs."""
    with limit_job_requests(request, token):
        length, pieces = await platform.agents.read_tree(token, job_id)
    headers = {"Content-Length": str(length)}
    return StreamingResponse(pieces, media_type="application/octet-stream", headers=headers)


@router.get("/agent/v1/jobs/{job_id}/status")
async def get_program_status(
    job_id: UUID,
    token: JobToken,
    request: Request,
    platform: PlatformDep,
    task: Annotated[int | None, Query(ge=0)] = None,
) -> ProgramStatus:
    """Return to the job's own program when the job reaches its time limit. Its requests do not use
    up the limit of the agent's."""
    with limit_job_requests(request, token, "program"):
        return await platform.programs.status(token, job_id, task)


@router.post("/agent/v1/jobs/{job_id}/message", status_code=204)
async def send_program_message(
    job_id: UUID, body: ProgramMessage, token: JobToken, request: Request, platform: PlatformDep
) -> None:
    """Send a message of the job's own program to the job's owner, as a notification."""
    with limit_job_requests(request, token, "program"):
        job = await platform.programs.job_of(token, job_id, body.task)
    get_rate_limits(request).messages.take_token(job.owner)
    await platform.programs.send(job, body.text)


@router.post("/agent/v1/jobs/{job_id}/certificate")
async def issue_certificate(
    job_id: UUID,
    body: CertificateRequest,
    token: JobToken,
    request: Request,
    platform: PlatformDep,
) -> IssuedCertificate:
    """Issue a TLS certificate for the key of a session's server."""
    with limit_job_requests(request, token):
        issued = await platform.handovers.issue_certificate(token, job_id, body)
    return IssuedCertificate(certificate=issued)


@router.get("/agent/v1/jobs/{job_id}/session")
async def get_session_status(
    job_id: UUID, token: JobToken, request: Request, platform: PlatformDep
) -> SessionStatus:
    """Return the session's end and the resources it uses, to be shown on its own page."""
    with limit_job_requests(request, token):
        return await platform.inside.status(token, job_id)


@router.post("/agent/v1/jobs/{job_id}/session/extend", name="extend_session")
async def extend_own_session(
    job_id: UUID, body: SessionExtension, token: JobToken, request: Request, platform: PlatformDep
) -> SessionStatus:
    """Extend a session from its own page. The audit log records it as an action of the session's
    owner."""
    with limit_job_requests(request, token):
        actor = await platform.inside.owner(token, job_id)
    set_actor(request, actor)
    await platform.sessions.extend(actor, job_id, body.duration_s)
    return await platform.inside.status(token, job_id)


@router.get("/internal/hub/v1/jobs/{job_id}", dependencies=[Hub])
async def hub_job(job_id: UUID, platform: PlatformDep) -> HubJob:
    """Return the data of a session that JupyterHub's spawner needs."""
    return await platform.handovers.hub_job(job_id)


@router.put("/internal/hub/v1/jobs/{job_id}/handover", status_code=204, dependencies=[Hub])
async def put_handover(job_id: UUID, body: Handover, platform: PlatformDep) -> None:
    """Store the environment variables of a session's server, for which the job's agent waits."""
    await platform.handovers.set_handover(job_id, body)


@router.get("/internal/hub/v1/live", dependencies=[Hub])
async def live_jobs(platform: PlatformDep) -> LiveJobIds:
    """Return the ids of the sessions that have not ended."""
    return LiveJobIds(job_ids=list(await platform.handovers.live_job_ids()))
