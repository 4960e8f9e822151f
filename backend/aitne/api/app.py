"""The API application of a platform: routes, state and middleware. Importing this module creates
nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import cast

from fastapi import FastAPI, Request
from starlette.responses import JSONResponse

from aitne.api.audit_middleware import AuditMiddleware
from aitne.api.cluster_page_cache import ClusterPageCache
from aitne.api.dependencies import cookie_name
from aitne.api.edge_middleware import EdgeMiddleware
from aitne.api.job_metrics_text import render_job_metrics
from aitne.api.job_view_cache import JobViewCache
from aitne.api.metrics import ApiMetrics
from aitne.api.openapi import make_document
from aitne.api.portal_files import portal_dir, portal_router
from aitne.api.rate_limits import RateLimits
from aitne.api.request_fairness import FairShare
from aitne.api.routes import anonymous_paths, bare_app
from aitne.api.streaming import OpenStreams
from aitne.api.terminal_socket import UnauthenticatedSockets
from aitne.api.trusted_proxy import TrustedProxy
from aitne.api.uploads import OpenUploads
from aitne.bootstrap.platform_services import PlatformServices
from aitne.core.errors import AitneError
from aitne.core.models.event import Event
from aitne.core.ports.scheduler import Scheduler
from aitne.core.users.ended_credentials import EndedCredentials
from aitne.services.monitoring.measurements import FRESH_S
from aitne.services.platform.ttl_cache import TtlCache
from aitne.services.users.expired_credential_watch import ExpiryWatch

log = logging.getLogger(__name__)


def create_app(platform: PlatformServices) -> FastAPI:
    """Create the API application of a platform whose database connection is open.

    ``app.state.streams.close()`` ends streams that would not end by themselves; a server calls it
    when it stops.
    """
    expiry = ExpiryWatch(platform.store, platform.clock, platform.close_connections)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await platform.events.start()
        await platform.health.start()
        await platform.audit_checks.start()
        await platform.hub_logouts.start()
        await expiry.start()
        # A scheduler that is slow to answer must not keep the portal from starting.
        starting = asyncio.create_task(_start_scheduler(platform.scheduler))
        try:
            yield
        finally:
            app.state.streams.close()
            await expiry.stop()
            await platform.terminals.close()
            await platform.hub_logouts.stop()
            await platform.measurements.stop()
            await platform.audit_checks.stop()
            await platform.health.stop()
            await platform.events.stop()
            await platform.agents.stop()
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            if platform.scheduler is not None:
                await platform.scheduler.close()

    app = bare_app(lifespan=lifespan)
    app.state.platform = platform
    app.state.metrics = ApiMetrics()
    app.state.job_metrics = TtlCache(partial(_render_job_metrics, platform), FRESH_S)
    app.state.rates = RateLimits(platform.settings.rates)
    app.state.streams = OpenStreams()
    app.state.uploads = OpenUploads()
    platform.end_streams.append(app.state.streams.end_streams)
    platform.events.add_listener(partial(_end_session_streams, app.state.streams))
    app.state.expiry = expiry
    app.state.unauthenticated_sockets = UnauthenticatedSockets()
    app.state.written = JobViewCache()
    app.state.written_cluster = ClusterPageCache()
    app.state.spec = cache(lambda: JSONResponse(make_document(app)))
    app.add_api_route("/api/v1/openapi.json", openapi, include_in_schema=False)
    app.include_router(portal_router(portal_dir()))
    app.add_middleware(AuditMiddleware, audit=platform.audit)
    app.add_middleware(FairShare, cookie=cookie_name(platform.settings))
    app.add_middleware(
        EdgeMiddleware,
        metrics=app.state.metrics,
        https=platform.settings.portal_url.startswith("https:"),
        anonymous_paths=anonymous_paths(),
    )
    app.add_middleware(TrustedProxy)
    return app


# Not inside ``create_app``: FastAPI keeps a reference to each endpoint and to its closure.
async def openapi(request: Request) -> JSONResponse:
    """Return the OpenAPI document of this application."""
    return cast(JSONResponse, request.app.state.spec())


def _end_session_streams(streams: OpenStreams, events: Sequence[Event]) -> None:
    """End the streams that were opened with the tokens of sessions that have ended."""
    ids = frozenset(str(event.job_id) for event in events if event.ends_job)
    if ids:
        streams.end_streams(EndedCredentials(ids=ids))


async def _render_job_metrics(platform: PlatformServices) -> bytes:
    # Not on the event loop: with 10,000 jobs other requests would wait.
    return await asyncio.to_thread(render_job_metrics, platform.agents.usage.usages())


async def _start_scheduler(scheduler: Scheduler | None) -> None:
    if scheduler is None:
        return
    try:
        await scheduler.start()
    except AitneError as error:
        # The controller reports it at the platform's start; here only forecasts are missing.
        log.warning("The scheduler cannot give forecasts: %s", error.message)
