"""The application: routers, errors and the edge around them. Nothing is made at import."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.responses import JSONResponse

from aitne import __version__
from aitne.api import oauth, problems
from aitne.api.metrics import Metrics
from aitne.api.middleware import Edge
from aitne.api.openapi import document
from aitne.api.routers import (
    auth,
    cluster,
    events,
    health,
    internal,
    jobs,
    projects,
    sessions,
    users,
)
from aitne.api.static import portal_dir, portal_router
from aitne.api.streaming import OpenStreams
from aitne.api.written import WrittenJobs
from aitne.api.written_cluster import WrittenCluster
from aitne.bootstrap import Platform
from aitne.core.errors import AitneError
from aitne.core.ports.scheduler import Scheduler

log = logging.getLogger(__name__)


def create_app(platform: Platform) -> FastAPI:
    """The API over a platform whose store is started.

    ``app.state.streams.close()`` ends what would never end by itself; a server that stops calls it.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await platform.events.start()
        # A scheduler that is slow to answer must not keep the portal from starting.
        starting = asyncio.create_task(_start(platform.scheduler))
        try:
            yield
        finally:
            app.state.streams.close()
            await platform.events.stop()
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            if platform.scheduler is not None:
                await platform.scheduler.close()

    app = bare_app(lifespan=lifespan)
    app.state.platform = platform
    app.state.metrics = Metrics()
    app.state.streams = OpenStreams()
    app.state.written = WrittenJobs()
    app.state.written_cluster = WrittenCluster()
    spec = cache(lambda: JSONResponse(document(app)))

    @app.get("/api/v1/openapi.json", include_in_schema=False)
    async def openapi() -> JSONResponse:
        return spec()

    app.include_router(portal_router(portal_dir()))
    app.add_middleware(
        Edge,
        metrics=app.state.metrics,
        https=platform.settings.portal_url.startswith("https:"),
    )
    return app


async def _start(scheduler: Scheduler | None) -> None:
    if scheduler is None:
        return
    try:
        await scheduler.start()
    except AitneError as error:
        # The controller says it to whoever starts the platform; here only forecasts go without.
        log.warning("The scheduler cannot be asked for forecasts: %s", error.message)


def bare_app(**options: Any) -> FastAPI:
    """The routes alone, with no platform behind them: enough to describe them."""
    app = FastAPI(
        title="Aitne",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=_operation_id,
        **options,
    )
    problems.install(app)
    for part in (auth, users, projects, jobs, sessions, cluster, events, oauth, internal, health):
        app.include_router(part.router)
    return app


def _operation_id(route: APIRoute) -> str:
    """The handler's name: stable, and good to read in a generated client."""
    return route.name
