"""The routes of all routers, and an application that consists only of these."""

from __future__ import annotations

from functools import cache
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.routing import BaseRoute

from aitne import __version__
from aitne.api import oauth_provider, problems, validation_errors
from aitne.api.dependencies import SAFE_METHODS, limit_client_network
from aitne.api.routers import (
    V1,
    account,
    alertmanager,
    announcements_and_maintenance,
    audit,
    auth,
    batch_script_import,
    cluster,
    datasets,
    device_login,
    events,
    files,
    images,
    internal,
    job_results_and_sweeps,
    jobs,
    notifications,
    platform_health_and_settings,
    preferences,
    probes_and_metrics,
    project_invitations,
    projects,
    secrets,
    session_ranks,
    sessions,
    storage,
    terminals,
    trees,
    usage,
    users_and_tokens,
)


def bare_app(**options: Any) -> FastAPI:
    """Create an application with all routes but without a platform, which is enough to describe
    them."""
    app = FastAPI(
        title="Aitne",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        routes=_make_routes(),
        **options,
    )
    problems.install_handlers(app)
    return app


@cache
def _make_routes() -> list[BaseRoute]:
    """Return the routes of all routers. They are created once and shared between applications,
    because FastAPI needs a tenth of a second for that."""
    together = APIRouter(
        generate_unique_id_function=_operation_id,
        dependencies=[Depends(validation_errors.refuse_repeated_parameters)],
    )
    for part in (
        *(
            auth,
            device_login,
            account,
            users_and_tokens,
            projects,
            usage,
            project_invitations,
            jobs,
            job_results_and_sweeps,
            sessions,
            session_ranks,
            images,
            datasets,
            trees,
            files,
            storage,
        ),
        *(
            preferences,
            secrets,
            batch_script_import,
            cluster,
            events,
            oauth_provider,
            internal,
            probes_and_metrics,
            audit,
            announcements_and_maintenance,
            platform_health_and_settings,
            alertmanager,
        ),
        terminals,
        notifications,
    ):
        together.include_router(part.router)
    return together.routes


def anonymous_paths() -> set[str]:
    """Return the paths of the routes that read a request body without a login, which are those that
    depend on ``limit_client_network``.

    JupyterHub and programs that log in with a code send their credentials in the body.
    """
    return {"/api/oauth/token", f"{V1}/auth/device/token"} | {
        context.path
        for context in iter_route_contexts(_make_routes())
        if context.path is not None
        and isinstance(context.original_route, APIRoute)
        and (context.methods or set()) - SAFE_METHODS
        and any(
            dependency.call is limit_client_network
            for dependency in context.original_route.dependant.dependencies
        )
    }


def _operation_id(route: APIRoute) -> str:
    """Return the name of the route's function as its OpenAPI operation id, which stays stable and
    is readable in generated clients."""
    return route.name
