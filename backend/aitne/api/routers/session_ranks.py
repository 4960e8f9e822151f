"""Routes of the ranks of sessions."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query, Response

from aitne.api.dependencies import IdempotencyKey, PlatformDep, Reader, Writer, WrittenDep
from aitne.api.job_query_views import JobQuery
from aitne.api.job_views import JobPage, JobView
from aitne.api.routers import V1
from aitne.api.routers.jobs import JobId, make_created_view, make_job_view, make_page_response
from aitne.core.models.job import Plan
from aitne.core.models.session_ranks_request import RanksFile

router = APIRouter(prefix=V1, tags=["sessions"])
GroupId = Annotated[UUID, Path(description="The id of a rank group of the session.")]


@router.post("/sessions/{job_id}/ranks:plan")
async def plan_ranks(job_id: JobId, body: RanksFile, actor: Writer, platform: PlatformDep) -> Plan:
    """Return the job that would run these ranks, whether it fits and whether it can start now.
    Nothing is stored."""
    return await platform.ranks.plan(actor, job_id, body)


@router.post("/sessions/{job_id}/ranks", status_code=201)
async def start_ranks(
    job_id: JobId,
    body: RanksFile,
    actor: Writer,
    platform: PlatformDep,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> JobView:
    """Start ranks for the notebook of a running session: a job of its own, which waits in the queue
    and ends with the session at the latest. Only the owner of the session may do so."""
    created = await platform.ranks.start(actor, job_id, body, idempotency_key=idempotency_key)
    return make_created_view(created, actor, platform, response)


@router.get("/sessions/{job_id}/ranks", response_model=JobPage)
async def list_ranks(
    job_id: JobId,
    where: Annotated[JobQuery, Query()],
    actor: Reader,
    platform: PlatformDep,
    written: WrittenDep,
) -> Response:
    """List the rank groups of a session, newest first, also those that have ended."""
    await platform.ranks.check_readable(actor, job_id)
    return await make_page_response(where, None, actor, platform, written, session_id=job_id)


@router.post("/sessions/{job_id}/ranks/release", status_code=202)
async def release_all_ranks(job_id: JobId, actor: Writer, platform: PlatformDep) -> JobPage:
    """Request the end of all rank groups of a session. The session and its kernels continue."""
    groups = await platform.ranks.release_all(actor, job_id)
    return JobPage(
        items=[make_job_view(group, actor, platform) for group in groups],
        next_cursor=None,
        total=len(groups),
    )


@router.post("/sessions/{job_id}/ranks/{group_id}/release", status_code=202)
async def release_ranks(
    job_id: JobId, group_id: GroupId, actor: Writer, platform: PlatformDep
) -> JobView:
    """Request the end of one rank group of a session; one that has ended does not change."""
    return make_job_view(await platform.ranks.release(actor, job_id, group_id), actor, platform)
