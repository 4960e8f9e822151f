"""What runs were and what came of them: snapshots, files, results, sweeps, comparisons, running again."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Response

from aitne.api.deps import IdempotencyKey, PlatformDep, Reader, Writer
from aitne.api.job_views import JobView
from aitne.api.routers import V1
from aitne.api.routers.jobs import JobId, present, present_created
from aitne.core.models.comparison import Comparison
from aitne.core.models.snapshot import Snapshot, WrittenFiles
from aitne.core.models.sweep import Results, Sweep
from aitne.services.reruns import Rerun

router = APIRouter(prefix=V1, tags=["jobs"])


@router.get("/jobs/{job_id}/snapshot")
async def get_job_snapshot(job_id: JobId, actor: Reader, platform: PlatformDep) -> Snapshot:
    """What it ran on: commit and changes of its folder, packages, image, datasets, node, job file."""
    return await platform.snapshots.snapshot(actor, job_id)


@router.get("/jobs/{job_id}/files")
async def get_job_files(job_id: JobId, actor: Reader, platform: PlatformDep) -> WrittenFiles:
    """The files of its folder that were changed while it ran."""
    return await platform.snapshots.files(actor, job_id)


@router.get("/jobs/{job_id}/results")
async def get_job_results(job_id: JobId, actor: Reader, platform: PlatformDep) -> Results:
    """What its program measured: the last value of each metric, and its course."""
    return await platform.snapshots.results(actor, job_id)


@router.get("/jobs/{job_id}/sweep")
async def get_job_sweep(job_id: JobId, actor: Reader, platform: PlatformDep) -> Sweep:
    """The settings of a sweep, what came of each, and which is the best so far."""
    return await platform.sweeps.sweep(actor, job_id)


@router.post("/jobs/{job_id}/sweep/stop", status_code=202)
async def stop_job_sweep(job_id: JobId, actor: Writer, platform: PlatformDep) -> JobView:
    """Cancel what has not ended, but the best task so far."""
    return present(await platform.sweeps.stop(actor, job_id), actor, platform)


@router.get("/jobs/{job_id}/compare/{other_id}")
async def compare_jobs(
    job_id: JobId,
    other_id: Annotated[UUID, Path(description="The id of the other job.")],
    actor: Reader,
    platform: PlatformDep,
) -> Comparison:
    """In what two runs differ: job file, code, packages, data, nodes, outcome, use, metrics."""
    return await platform.comparisons.compare(actor, job_id, other_id)


@router.get("/jobs/{job_id}/resubmit")
async def plan_resubmit(job_id: JobId, actor: Writer, platform: PlatformDep) -> Rerun:
    """What has changed since it ran, and whether it can be run again. Nothing is stored."""
    return await platform.reruns.plan(actor, job_id)


@router.post("/sessions/{job_id}/continue", status_code=201, tags=["sessions"])
async def continue_session(
    job_id: JobId,
    actor: Writer,
    platform: PlatformDep,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> JobView:
    """Start a session that has ended again, with the notebooks that were open in it."""
    created = await platform.reruns.continue_session(actor, job_id, idempotency_key=idempotency_key)
    return present_created(created, actor, platform, response)
