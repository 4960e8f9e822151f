"""Logging in and out, and who one is."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from aitne import __version__
from aitne.api.deps import (
    Caller,
    CallerDep,
    MetricsDep,
    PlatformDep,
    check_origin,
    cookie_name,
    get_caller,
)
from aitne.api.routers import V1
from aitne.api.views import Login, LoginLink, LoginLinkUse, Me, MeUser, PlatformInfo
from aitne.bootstrap import Platform
from aitne.core.errors import AitneError
from aitne.services.identity import WebLogin

router = APIRouter(prefix=V1, tags=["auth"])


@router.post("/auth/login")
async def login(
    body: Login, request: Request, response: Response, platform: PlatformDep, metrics: MetricsDep
) -> Me:
    """Log in with name and password; the answer sets the login cookie."""
    check_origin(request, platform.settings, required=False)
    address = request.client.host if request.client else "unknown"
    try:
        web = await platform.identity.login(body.username, body.password, address=address)
    except AitneError as error:
        metrics.auth_failed("password", error)
        raise
    return await _logged_in(web, request, response, platform)


@router.post("/auth/login-link")
async def use_login_link(
    body: LoginLinkUse,
    request: Request,
    response: Response,
    platform: PlatformDep,
    metrics: MetricsDep,
) -> Me:
    """Log in with the token of a one-time link; the answer sets the login cookie."""
    check_origin(request, platform.settings, required=False)
    try:
        web = await platform.identity.login_by_link(body.token)
    except AitneError as error:
        metrics.auth_failed("login_link", error)
        raise
    return await _logged_in(web, request, response, platform)


@router.post("/auth/login-links", status_code=201)
async def create_login_link(caller: CallerDep, platform: PlatformDep) -> LoginLink:
    """Make a one-time link that logs you in, in another browser for instance."""
    link = await platform.identity.create_login_link(caller.actor)
    return LoginLink(url=link.url, expires_at=link.expires_at)


@router.post("/auth/logout", status_code=204)
async def logout(
    request: Request, response: Response, platform: PlatformDep, metrics: MetricsDep
) -> None:
    """End the login of this browser. Without one there is nothing to do."""
    name = cookie_name(platform.settings)
    cookie = request.cookies.get(name)
    if cookie is None:
        return
    if await platform.identity.is_logged_in(cookie):
        await get_caller(request, platform, metrics)
        await platform.identity.logout(cookie)
    response.delete_cookie(name, path="/api", httponly=True, samesite="lax")


@router.get("/me")
async def get_me(caller: CallerDep, platform: PlatformDep) -> Me:
    """Who you are, your projects, and which platform this is."""
    return _me(caller, platform)


async def _logged_in(web: WebLogin, request: Request, response: Response, platform: Platform) -> Me:
    name = cookie_name(platform.settings)
    if (old := request.cookies.get(name)) is not None:
        await platform.identity.logout(old)
    response.set_cookie(
        name,
        web.token,
        max_age=platform.settings.auth.session_lifetime,
        path="/api",
        secure=platform.settings.portal_url.startswith("https:"),
        httponly=True,
        samesite="lax",
    )
    return _me(Caller(web.actor, web.csrf), platform)


def _me(caller: Caller, platform: Platform) -> Me:
    user, settings = caller.actor.user, platform.settings
    return Me(
        user=MeUser(
            name=user.name,
            display_name=user.display_name,
            role=user.role,
            default_project=user.default_project,
        ),
        projects=sorted(caller.actor.projects),
        csrf_token=caller.csrf,
        platform=PlatformInfo(
            title=settings.title,
            version=__version__,
            cluster=settings.cluster,
            scheduler=settings.scheduler,
            sessions_origin=settings.sessions_origin,
        ),
    )
