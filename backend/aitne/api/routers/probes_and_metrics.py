"""Routes for monitoring: liveness, readiness and metrics."""

from __future__ import annotations

import hmac

from fastapi import APIRouter, Depends, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from aitne import __version__
from aitne.api.dependencies import MetricsDep, PlatformDep, find_bearer_token, get_admin, get_caller
from aitne.bootstrap.platform_services import PlatformServices
from aitne.core.errors import AitneError
from aitne.core.models.base import Frozen
from aitne.services.platform.shared_secrets import read_secret

METRICS_TOKEN = "metrics_token"  # noqa: S105 - the name of a file
router = APIRouter(include_in_schema=False)


class PartReadiness(Frozen):
    """State of one part of the platform, with details if it does not work. The details need the
    metrics token."""

    ok: bool
    detail: str | None = None


class PlatformReadiness(Frozen):
    """State of all parts, and whether all of them work."""

    ready: bool
    version: str
    parts: dict[str, PartReadiness]


@router.get("/healthz")
async def healthz() -> dict[str, bool]:
    """Confirm that the API process is running, without checking its dependencies."""
    return {"ok": True}


@router.get("/readyz")
async def readyz(request: Request, platform: PlatformDep, response: Response) -> PlatformReadiness:
    """Answer 200 if submitted jobs are stored and processed, otherwise 503. Details are included
    only if the request has the metrics token."""
    parts = {
        "database": await _check_database(platform),
        "controller": await _check_controller(platform),
        "events": _check_events(platform),
    }
    ready = all(part.ok for part in parts.values())
    if parts["database"].ok:
        # Without its answer, jobs are stored and submitted later: that is no outage of the API.
        parts["scheduler"] = await _check_scheduler(platform)
    if not ready:
        response.status_code = 503
    if not _has_metrics_token(request, platform):
        parts = {name: PartReadiness(ok=part.ok) for name, part in parts.items()}
    return PlatformReadiness(ready=ready, version=__version__, parts=parts)


async def check_may_scrape(request: Request, platform: PlatformDep, metrics: MetricsDep) -> None:
    """Check that the request has the platform's metrics token or comes from an administrator.

    Raises ``NotAuthenticated`` without a valid credential, ``NotAllowed`` for other users.
    """
    if not _has_metrics_token(request, platform):
        await get_admin(await get_caller(request, platform, metrics))


@router.get("/metrics", dependencies=[Depends(check_may_scrape)])
async def metrics(platform: PlatformDep, metrics: MetricsDep) -> Response:
    """Return the metrics of the platform in Prometheus' text format."""
    text = metrics.render(await platform.measurements.get())
    return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})


@router.get("/metrics/jobs", dependencies=[Depends(check_may_scrape)])
async def job_metrics(request: Request) -> Response:
    """Return the metrics of the live jobs in Prometheus' text format."""
    text = await request.app.state.job_metrics.get()
    return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})


def _has_metrics_token(request: Request, platform: PlatformServices) -> bool:
    token = find_bearer_token(request.headers)
    expected = read_secret(platform.settings, METRICS_TOKEN)
    return token is not None and hmac.compare_digest(token.encode(), expected.encode())


async def _check_database(platform: PlatformServices) -> PartReadiness:
    try:
        await platform.store.ping()
    except AitneError as error:
        return PartReadiness(ok=False, detail=error.message)
    return PartReadiness(ok=True)


async def _check_controller(platform: PlatformServices) -> PartReadiness:
    try:
        lease = await platform.store.find_lease("controller")
    except AitneError as error:
        return PartReadiness(ok=False, detail=error.message)
    if lease is None:
        return PartReadiness(ok=False, detail="No controller has become the leader yet.")
    if lease.expired:
        return PartReadiness(
            ok=False, detail=f"No controller has led since {lease.expires_at.isoformat()}."
        )
    return PartReadiness(ok=True)


async def _check_scheduler(platform: PlatformServices) -> PartReadiness:
    status = await platform.store.find_scheduler_status()
    if status is None:
        return PartReadiness(ok=False, detail="The scheduler has not been polled yet.")
    if status.responding:
        return PartReadiness(ok=True)
    return PartReadiness(
        ok=False,
        detail=f"The scheduler has not answered since {status.since.isoformat()}; states may be "
        f"old. {status.message or ''}".rstrip(),
    )


def _check_events(platform: PlatformServices) -> PartReadiness:
    problem = platform.events.problem
    return PartReadiness(ok=problem is None, detail=problem)
