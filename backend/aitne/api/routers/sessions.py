"""Routes of sessions: interactive jobs with an app."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from aitne.api.dependencies import IdempotencyKey, PlatformDep, Reader, Writer, WrittenDep
from aitne.api.job_query_views import Extension, JobQuery, SessionFile, SessionUrl
from aitne.api.job_views import JobPage, JobView
from aitne.api.routers import V1
from aitne.api.routers.jobs import JobId, make_created_view, make_job_view, make_page_response
from aitne.core.errors import NotFound
from aitne.core.models.job import JobType

router = APIRouter(prefix=V1, tags=["sessions"])


@router.post("/sessions", status_code=201)
async def create_session(
    body: SessionFile,
    actor: Writer,
    platform: PlatformDep,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> JobView:
    """Start a session from a template or a job file."""
    created = await platform.jobs.create(actor, body, idempotency_key=idempotency_key)
    return make_created_view(created, actor, platform, response)


@router.get("/sessions", response_model=JobPage)
async def list_sessions(
    where: Annotated[JobQuery, Query()],
    actor: Reader,
    platform: PlatformDep,
    written: WrittenDep,
) -> Response:
    """List the sessions that you may see, newest first."""
    return await make_page_response(where, JobType.SESSION, actor, platform, written)


@router.get("/sessions/{job_id}")
async def get_session(
    job_id: JobId, actor: Reader, platform: PlatformDep, response: Response
) -> JobView:
    """Return one session that you may see."""
    job = await platform.jobs.get(actor, job_id)
    if job.type is not JobType.SESSION:
        raise NotFound("session", job_id)
    response.headers["ETag"] = f'"{job.version}"'
    return make_job_view(job, actor, platform)


@router.post("/sessions/{job_id}/open")
async def open_session(
    job_id: JobId,
    actor: Writer,
    platform: PlatformDep,
    app: Annotated[
        str | None,
        Query(description="The name of one of its apps; omitted: the default one.", max_length=60),
    ] = None,
) -> SessionUrl:
    """Return the URL of the session; the answer is 409 while it is not READY."""
    return SessionUrl(url=await platform.sessions.get_app_url(actor, job_id, app))


@router.post("/sessions/{job_id}/extend")
async def extend_session(
    job_id: JobId, body: Extension, actor: Writer, platform: PlatformDep
) -> JobView:
    """Extend the time limit of a session, as far as the limits allow."""
    job = await platform.sessions.extend(actor, job_id, body.duration)
    return make_job_view(job, actor, platform)


@router.post("/sessions/{job_id}/keep")
async def keep_session(job_id: JobId, actor: Writer, platform: PlatformDep) -> JobView:
    """Report that the session is in use, so that its idle time starts again from zero."""
    return make_job_view(await platform.sessions.restart_inactivity(actor, job_id), actor, platform)


@router.post("/sessions/{job_id}/relaunch", status_code=201)
async def relaunch_session(
    job_id: JobId,
    actor: Writer,
    platform: PlatformDep,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> JobView:
    """Start the same session again after it has ended."""
    created = await platform.sessions.relaunch(actor, job_id, idempotency_key=idempotency_key)
    return make_created_view(created, actor, platform, response)


@router.post("/sessions/{job_id}/stop", status_code=202)
async def stop_session(job_id: JobId, actor: Writer, platform: PlatformDep) -> JobView:
    """Request the end of the session."""
    return make_job_view(await platform.sessions.stop(actor, job_id), actor, platform)
