"""Routes of jobs: submit, list, change, delete, and read their logs and measurements."""

from __future__ import annotations

import asyncio
from typing import Annotated
from urllib.parse import quote
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse
from pydantic import WrapValidator

from aitne.api import profile_metrics_text
from aitne.api.audit_middleware import NotesDep
from aitne.api.bulk_views import (
    BatchResult,
    BatchResults,
    CancelJobs,
    CancelResults,
    DeleteJobs,
    DeleteResults,
    JobBatch,
    JobCounts,
)
from aitne.api.dependencies import (
    IdempotencyKey,
    MetricsDep,
    PlatformDep,
    Reader,
    Writer,
    WrittenDep,
    get_caller,
)
from aitne.api.event_stream import stream_while_allowed
from aitne.api.job_query_views import (
    AnyJobQuery,
    EventList,
    Extension,
    JobChange,
    JobFailure,
    JobMetrics,
    JobQuery,
    JobQueue,
    JobRecord,
    LogQuery,
    SampleSummary,
)
from aitne.api.job_view_cache import JobViewCache
from aitne.api.job_views import JobPage, JobView
from aitne.api.problems import make_problem
from aitne.api.routers import V1
from aitne.api.streaming import StreamedResponse, get_open_streams
from aitne.api.validation_errors import validate_part
from aitne.bootstrap.platform_services import PlatformServices
from aitne.core.jobs.env_visibility import hide_env_values
from aitne.core.jobs.usage_sample_values import DRAWN
from aitne.core.models.base import validate_as_written
from aitne.core.models.collective_profile import Profile
from aitne.core.models.job import Job, JobType, Plan, ResubmitOptions
from aitne.core.models.job_file import JobFile
from aitne.core.models.job_search import JobSearch
from aitne.core.models.reported_placement import JobPlacement
from aitne.core.models.user import Actor
from aitne.services.jobs.rank_metrics import RankMetrics
from aitne.store.new_jobs import CreatedJob

router = APIRouter(prefix=V1, tags=["jobs"])
VIEWS_AT_ONCE = 25
"""Number of job views that are serialized before other requests may run: about 5 ms."""
NOTEBOOK_TYPE = "application/x-ipynb+json"
_SANDBOX = {
    "Content-Security-Policy": "sandbox; default-src 'none'; img-src data:; "
    "style-src 'unsafe-inline'; frame-ancestors 'self'",
    "X-Frame-Options": "SAMEORIGIN",
}
"""Headers of what a job wrote: no scripts, no requests, no origin; only the portal may frame it."""
JobId = Annotated[UUID, Path(description="The id of a job, session or array task.")]


@router.post("/jobs:plan")
async def plan_job(body: JobFile, actor: Reader, platform: PlatformDep) -> Plan:
    """Return the job that a job file would create, whether it fits and whether it can start now.
    Nothing is stored."""
    return await platform.jobs.plan(actor, body)


@router.post("/jobs", status_code=201)
async def create_job(
    body: JobFile,
    actor: Writer,
    platform: PlatformDep,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> JobView:
    """Submit a job file, which may describe a job or a session."""
    created = await platform.jobs.create(actor, body, idempotency_key=idempotency_key)
    return make_created_view(created, actor, platform, response)


@router.post("/jobs:batch")
async def create_jobs(
    body: JobBatch,
    actor: Writer,
    platform: PlatformDep,
    request: Request,
    notes: NotesDep,
    idempotency_key: IdempotencyKey = None,
) -> BatchResults:
    """Submit up to 100 job files in one transaction. Each is validated by itself: for a rejected
    one the answer contains a problem in place of its job, and the others are submitted."""
    files = [validate_part(JobFile, file, create_job) for file in body.items]
    results = await platform.jobs.create_many(
        actor, files, body.items, idempotency_key=idempotency_key
    )
    created = [result for result in results if isinstance(result, CreatedJob)]
    notes["jobs"] = [str(result.job.id) for result in created if not result.replayed]
    return BatchResults(
        created=len(notes["jobs"]),
        items=[
            BatchResult(
                job=make_job_view(result.job, actor, platform),
                problem=None,
                replayed=result.replayed,
            )
            if isinstance(result, CreatedJob)
            else BatchResult(job=None, problem=make_problem(result, request.url.path))
            for result in results
        ],
    )


@router.get("/jobs", response_model=JobPage)
async def list_jobs(
    where: Annotated[AnyJobQuery, Query()],
    actor: Reader,
    platform: PlatformDep,
    written: WrittenDep,
) -> Response:
    """List the jobs and sessions that you may see, newest first."""
    return await make_page_response(where, where.type, actor, platform, written)


@router.get("/jobs:count")
async def count_jobs(
    where: Annotated[JobSearch, Query()], actor: Reader, platform: PlatformDep
) -> JobCounts:
    """Count the jobs and sessions that you may see in each state."""
    return JobCounts.from_states(await platform.jobs.count(actor, where.to_filter()))


@router.post("/jobs:cancel", status_code=202)
async def cancel_jobs(
    body: CancelJobs, actor: Writer, platform: PlatformDep, notes: NotesDep
) -> CancelResults:
    """Request cancellation of many jobs at once: either the jobs in `ids`, or all unfinished jobs
    that match `filter`. With `filter`, `expected` must be the number of matching jobs; otherwise
    the answer is 409 and no job is cancelled. The answer has an outcome for each job.
    """
    if body.filter is not None and body.expected is not None:
        results = await platform.bulk.cancel_by_filter(
            actor, body.filter.to_filter(), body.expected
        )
    else:
        results = await platform.bulk.cancel_by_ids(actor, body.ids or [])
    notes["asked"] = body.model_dump(mode="json", exclude_none=True)
    return CancelResults.from_items(results)


@router.post("/jobs:delete", status_code=202)
async def delete_jobs(
    body: DeleteJobs, actor: Writer, platform: PlatformDep, notes: NotesDep
) -> DeleteResults:
    """Delete many ended jobs at once, with their folders: either the jobs in `ids`, or all ended
    jobs that match `filter`. With `filter`, `expected` must be the number of matching jobs;
    otherwise the answer is 409 and no job is deleted. The answer has an outcome for each job.
    """
    if body.filter is not None and body.expected is not None:
        results = await platform.deletion.request_deletion_by_filter(
            actor, body.filter.to_filter(), body.expected
        )
    else:
        results = await platform.deletion.request_deletion_by_ids(actor, body.ids or [])
    notes["asked"] = body.model_dump(mode="json", exclude_none=True)
    return DeleteResults.from_items(results)


@router.get("/jobs/{job_id}")
async def get_job(
    job_id: JobId, actor: Reader, platform: PlatformDep, response: Response
) -> JobView:
    """Return one job, session or array task."""
    job = await platform.jobs.get(actor, job_id)
    response.headers["ETag"] = f'"{job.version}"'
    return make_job_view(job, actor, platform)


@router.delete("/jobs/{job_id}", status_code=202)
async def delete_job(job_id: JobId, actor: Writer, platform: PlatformDep) -> JobView:
    """Delete an ended job with its log, metrics and job folder, including checkpoints in it. The
    job remains visible until its folder is removed; its usage is still counted."""
    return make_job_view(await platform.deletion.request_deletion(actor, job_id), actor, platform)


@router.post("/jobs/{job_id}/cancel", status_code=202)
async def cancel_job(job_id: JobId, actor: Writer, platform: PlatformDep) -> JobView:
    """Request cancellation of a job in any state. A job that has ended does not change."""
    return make_job_view(await platform.jobs.cancel(actor, job_id), actor, platform)


@router.post("/jobs/{job_id}/extend")
async def extend_job(
    job_id: JobId, body: Extension, actor: Writer, platform: PlatformDep
) -> JobView:
    """Extend the time limit of a running job or session, as far as the limits allow."""
    job = await platform.extensions.extend(actor, job_id, body.duration)
    return make_job_view(job, actor, platform)


@router.post("/jobs/{job_id}/hold", status_code=202)
async def hold_job(job_id: JobId, actor: Writer, platform: PlatformDep) -> JobView:
    """Hold a pending job, or the pending tasks of an array job, until it is released."""
    return make_job_view(await platform.jobs.hold(actor, job_id), actor, platform)


@router.post("/jobs/{job_id}/release", status_code=202)
async def release_job(job_id: JobId, actor: Writer, platform: PlatformDep) -> JobView:
    """Release a job that is held, or the held tasks of an array job."""
    return make_job_view(await platform.jobs.release(actor, job_id), actor, platform)


@router.patch("/jobs/{job_id}", status_code=202)
async def change_job(
    job_id: JobId, body: JobChange, actor: Writer, platform: PlatformDep
) -> JobView:
    """Change how many tasks of an array job may run at once. Running tasks continue."""
    job = await platform.jobs.throttle(actor, job_id, body.max_parallel)
    return make_job_view(job, actor, platform)


@router.post("/jobs/{job_id}/resubmit", status_code=201)
async def resubmit_job(
    job_id: JobId,
    actor: Writer,
    platform: PlatformDep,
    response: Response,
    body: Annotated[ResubmitOptions | None, WrapValidator(validate_as_written)] = None,
    idempotency_key: IdempotencyKey = None,
) -> JobView:
    """Submit the same job again as a new job, optionally with other resources."""
    created = await platform.jobs.resubmit(
        actor, job_id, idempotency_key=idempotency_key, options=body
    )
    return make_created_view(created, actor, platform, response)


@router.get("/jobs/{job_id}/queue")
async def get_job_queue(job_id: JobId, actor: Reader, platform: PlatformDep) -> JobQueue:
    """Return the position of a pending job in the queue, as far as the scheduler reports it, and
    advice."""
    position = await platform.sessions.queue_position(actor, job_id)
    return JobQueue(position=position, advice=await platform.advice.get_start_advice(actor, job_id))


@router.get("/jobs/{job_id}/failure")
async def get_job_failure(job_id: JobId, actor: Reader, platform: PlatformDep) -> JobFailure:
    """Explain why a job failed: the cause, the line of its log that shows it, and remedies."""
    return JobFailure(failure=await platform.failures.explain_failure(actor, job_id))


@router.get("/jobs/{job_id}/record")
async def get_job_record(job_id: JobId, actor: Reader, platform: PlatformDep) -> JobRecord:
    """Return the scheduler's raw record of the job at its last change."""
    return JobRecord(record=(await platform.jobs.get(actor, job_id)).scheduler_record)


@router.get("/jobs/{job_id}/script", response_class=PlainTextResponse)
async def get_job_script(job_id: JobId, actor: Reader, platform: PlatformDep) -> str:
    """Return the batch script of the job exactly as it was submitted to the scheduler."""
    return await platform.jobs.script(actor, job_id)


@router.get(
    "/jobs/{job_id}/notebook",
    response_class=Response,
    responses={200: {"content": {NOTEBOOK_TYPE: {"schema": {"type": "object"}}}}},
)
async def get_job_notebook(
    job_id: JobId, request: Request, actor: Reader, platform: PlatformDep
) -> Response:
    """Return the executed copy of the notebook that the job runs; while it runs and after a failure,
    the part that was executed."""
    name, content = await platform.notebooks.open_executed(actor, job_id)
    disposition = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
    return StreamedResponse(
        content.parts,
        get_open_streams(request.app),
        actor,
        media_type=NOTEBOOK_TYPE,
        headers={**_SANDBOX, "Content-Disposition": disposition},
        size=content.size,
    )


@router.get("/jobs/{job_id}/notebook.html", response_class=HTMLResponse)
async def get_job_notebook_page(
    job_id: JobId, request: Request, actor: Reader, platform: PlatformDep
) -> Response:
    """Return the executed notebook as a page without scripts, which browsers give no origin."""
    page = await platform.notebooks.open_page(actor, job_id)
    return StreamedResponse(
        page.parts,
        get_open_streams(request.app),
        actor,
        media_type="text/html; charset=utf-8",
        headers=_SANDBOX,
        size=page.size,
    )


@router.get("/jobs/{job_id}/metrics")
async def get_job_metrics(job_id: JobId, actor: Reader, platform: PlatformDep) -> JobMetrics:
    """Return measurements of the resources that the job's processes used, and a summary."""
    samples = await platform.jobs.samples(actor, job_id)
    return JobMetrics(
        samples=list(samples), summary=SampleSummary.from_samples(samples), values=list(DRAWN)
    )


@router.get("/jobs/{job_id}/metrics/ranks")
async def get_job_rank_metrics(job_id: JobId, actor: Reader, platform: PlatformDep) -> RankMetrics:
    """Return the metrics of the job by node and by rank, with few enough points for charts, and
    with the ranks for which the others wait."""
    return await platform.snapshots.rank_metrics(actor, job_id)


@router.get("/jobs/{job_id}/placement")
async def get_job_placement(job_id: JobId, actor: Reader, platform: PlatformDep) -> JobPlacement:
    """Return the nodes of the job in the order of its ranks, the costs of this order on the network,
    and what the ranks are bound to."""
    return await platform.placements.placement(actor, job_id)


@router.get(
    "/jobs/{job_id}/profile",
    response_model=Profile,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def get_job_profile(
    job_id: JobId, request: Request, actor: Reader, platform: PlatformDep
) -> Profile | Response:
    """Return the profile of a distributed job's collectives. With `Accept: text/plain` it has
    Prometheus' text format."""
    profile = await platform.jobs.profile(actor, job_id)
    if profile_metrics_text.prefers_text(request.headers.get("accept")):
        return Response(
            profile_metrics_text.render_profile(profile),
            media_type=profile_metrics_text.CONTENT_TYPE,
        )
    return profile


@router.get("/jobs/{job_id}/events")
async def get_job_events(job_id: JobId, actor: Reader, platform: PlatformDep) -> EventList:
    """Return the history of the job, oldest first."""
    return EventList(items=list(await platform.jobs.events(actor, job_id)))


@router.get(
    "/jobs/{job_id}/logs",
    response_class=PlainTextResponse,
    responses={
        200: {
            "headers": {
                "X-Log-Offset": {
                    "description": "Offset in the log of the first byte of the answer.",
                    "schema": {"type": "integer"},
                },
                "X-Log-Size": {
                    "description": "Size of the log at that moment, in bytes.",
                    "schema": {"type": "integer"},
                },
            }
        }
    },
)
async def get_job_logs(
    job_id: JobId,
    where: Annotated[LogQuery, Query()],
    request: Request,
    actor: Reader,
    platform: PlatformDep,
    metrics: MetricsDep,
) -> Response:
    """Return the log of the job: stdout and stderr merged."""
    limit = 1 if where.follow else where.limit
    first = where.offset
    if where.tail == 0:
        # A negative offset cannot mean the very end, so read the size of the log.
        first = (
            await platform.jobs.read_log(actor, job_id, task=where.task, offset=0, limit=1)
        ).size
    elif where.tail is not None:
        first = -where.tail
    chunk = await platform.jobs.read_log(actor, job_id, task=where.task, offset=first, limit=limit)
    headers = {"X-Log-Offset": str(chunk.offset), "X-Log-Size": str(chunk.size)}
    if not where.follow:
        return PlainTextResponse(chunk.data, headers=headers)

    async def again() -> None:
        caller = await get_caller(request, platform, metrics)
        await platform.jobs.get(caller.actor, job_id)

    lines = platform.jobs.follow_log(actor, job_id, task=where.task, offset=chunk.offset)
    return StreamedResponse(
        stream_while_allowed(lines, again),
        get_open_streams(request.app),
        actor,
        media_type="text/plain; charset=utf-8",
        headers=headers,
    )


def make_job_view(job: Job, actor: Actor, platform: PlatformServices) -> JobView:
    """Return the API's view of a job, with the actions that ``actor`` may perform."""
    return JobView.from_job(hide_env_values(actor, job), platform.jobs.actions(actor, job))


def make_created_view(
    created: CreatedJob, actor: Actor, platform: PlatformServices, response: Response
) -> JobView:
    """Return the view of a created job, and set the response's ``Location`` header. If an earlier
    request with the same Idempotency-Key created the job, ``Idempotency-Replayed`` is set too."""
    response.headers["Location"] = f"/api/v1/jobs/{created.job.id}"
    if created.replayed:
        response.headers["Idempotency-Replayed"] = "true"
    return make_job_view(created.job, actor, platform)


async def make_page_response(
    query: JobQuery | AnyJobQuery,
    kind: JobType | None,
    actor: Actor,
    platform: PlatformServices,
    cache: JobViewCache,
    *,
    session_id: UUID | None = None,
) -> Response:
    """Return one page of jobs as a JSON response; ``kind`` restricts it to jobs or sessions, None:
    both; ``session_id`` restricts it to the rank groups of this session.

    The JSON of each view comes from ``cache``, and the response is not validated again, which makes
    long lists fast. Other requests may run between the views of a long page.
    """
    page = await platform.jobs.list(
        actor,
        query.to_filter(kind).model_copy(update={"session_id": session_id}),
        cursor=query.cursor,
        limit=query.limit,
        sort=query.sort,
        descending=query.order == "desc",
    )
    items: list[bytes] = []
    for job in page.items:
        if len(items) % VIEWS_AT_ONCE == VIEWS_AT_ONCE - 1:
            await asyncio.sleep(0)
        items.append(cache.render_job(job, platform.jobs.actions(actor, job), actor))
    return Response(
        cache.render_page(items, page.next_cursor, page.total), media_type="application/json"
    )
