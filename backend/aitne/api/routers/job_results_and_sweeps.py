"""Routes of runs: snapshots, files, results, sweeps, comparisons, resubmission."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request, Response

from aitne.api.dependencies import IdempotencyKey, PlatformDep, Reader, Writer
from aitne.api.job_views import JobView
from aitne.api.routers import V1
from aitne.api.routers.jobs import JobId, make_created_view, make_job_view
from aitne.api.streaming import StreamedResponse, get_open_streams
from aitne.core.models.comparison import Comparison
from aitne.core.models.job_snapshot import Snapshot, WrittenFiles
from aitne.core.models.sweep import Results, Sweep
from aitne.services.jobs.reruns import Rerun

router = APIRouter(prefix=V1, tags=["jobs"])


@router.get("/jobs/{job_id}/snapshot")
async def get_job_snapshot(job_id: JobId, actor: Reader, platform: PlatformDep) -> Snapshot:
    """Return the snapshot of a run: commit and changes of its folder, packages, image, datasets,
    node, job file."""
    return await platform.snapshots.snapshot(actor, job_id)


@router.get("/jobs/{job_id}/files")
async def get_job_files(job_id: JobId, actor: Reader, platform: PlatformDep) -> WrittenFiles:
    """List the files of the job's folder that were changed while it ran."""
    return await platform.snapshots.get_written_files(actor, job_id)


@router.get("/jobs/{job_id}/results")
async def get_job_results(job_id: JobId, actor: Reader, platform: PlatformDep) -> Results:
    """Return the metrics that the job's program recorded: the last value of each, and its values
    over time."""
    return await platform.snapshots.results(actor, job_id)


@router.get(
    "/jobs/{job_id}/result",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}}},
)
async def get_job_result(
    job_id: JobId,
    request: Request,
    actor: Reader,
    platform: PlatformDep,
    rank: Annotated[
        int | None,
        Query(
            ge=0,
            le=1_000_000,
            description="The rank whose value is wanted. Omitted: rank 0's, or the first "
            "exception of any rank if the job has not completed.",
        ),
    ] = None,
) -> Response:
    """Return what the function of an ended job returned or raised, as the file that the job
    wrote: a line of JSON and a pickle. Only the job's owner may read it, because loading a pickle
    runs code."""
    result = await platform.job_results.read(actor, job_id, rank)
    return StreamedResponse(
        result.parts,
        get_open_streams(request.app),
        actor,
        media_type="application/octet-stream",
        headers={"Content-Disposition": "attachment"},
        size=result.size,
    )


@router.get("/jobs/{job_id}/sweep")
async def get_job_sweep(job_id: JobId, actor: Reader, platform: PlatformDep) -> Sweep:
    """Return the tasks of a sweep, their outcomes, and the best one so far."""
    return await platform.sweeps.sweep(actor, job_id)


@router.post("/jobs/{job_id}/sweep/stop", status_code=202)
async def stop_job_sweep(job_id: JobId, actor: Writer, platform: PlatformDep) -> JobView:
    """Cancel all tasks of a sweep that have not ended, except the best one so far."""
    return make_job_view(await platform.sweeps.stop(actor, job_id), actor, platform)


@router.get("/jobs/{job_id}/compare/{other_id}")
async def compare_jobs(
    job_id: JobId,
    other_id: Annotated[UUID, Path(description="The id of the other job.")],
    actor: Reader,
    platform: PlatformDep,
) -> Comparison:
    """Return the differences between two jobs: job file, code, packages, data, nodes, outcome,
    resource usage and metrics.
    """
    return await platform.comparisons.compare(actor, job_id, other_id)


@router.get("/jobs/{job_id}/resubmit")
async def plan_resubmit(job_id: JobId, actor: Writer, platform: PlatformDep) -> Rerun:
    """Return what has changed since the job ran, and whether it can run again. Nothing is
    stored."""
    return await platform.reruns.plan(actor, job_id)


@router.post("/sessions/{job_id}/continue", status_code=201, tags=["sessions"])
async def continue_session(
    job_id: JobId,
    actor: Writer,
    platform: PlatformDep,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> JobView:
    """Start an ended session again, with the notebooks that were open in it."""
    created = await platform.reruns.continue_session(actor, job_id, idempotency_key=idempotency_key)
    return make_created_view(created, actor, platform, response)
