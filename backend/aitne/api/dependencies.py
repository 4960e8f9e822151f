"""FastAPI dependencies shared by all routes: platform, authenticated caller, scopes, rate
limits."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, cast

from fastapi import Depends, Header, Request

from aitne.api.audit_middleware import set_actor
from aitne.api.cluster_page_cache import ClusterPageCache
from aitne.api.connections import identify_connection
from aitne.api.job_view_cache import JobViewCache
from aitne.api.metrics import ApiMetrics
from aitne.api.rate_limits import RateLimits
from aitne.api.session_token_operations import check_operation
from aitne.bootstrap.platform_services import PlatformServices
from aitne.core.errors import AitneError, NotAllowed, NotAuthenticated
from aitne.core.models.access_token import Scope
from aitne.core.models.user import Actor, Role
from aitne.core.settings import Settings
from aitne.services.users.authentication_service import address_lockout_key
from aitne.services.users.login_results import RequestOrigin

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
CSRF_HEADER = "x-csrf-token"


def cookie_name(settings: Settings) -> str:
    """Return the name of the login cookie, which differs between platforms on one host, because
    cookies ignore ports."""
    identity = f"{settings.data_dir}\0{settings.portal_url}".encode()
    return f"aitne_{hashlib.sha256(identity).hexdigest()[:8]}"


def browser_cookie_name(settings: Settings) -> str:
    """Return the name of the cookie that marks a browser in which a user has logged in before."""
    return f"{cookie_name(settings)}_browser"


# All of these are coroutines although they never wait: FastAPI calls a function in a thread.
async def get_platform(request: Request) -> PlatformServices:
    """Return the services of the platform that this application serves."""
    return cast(PlatformServices, request.app.state.platform)


async def get_metrics(request: Request) -> ApiMetrics:
    """Return the metrics of this application."""
    return cast(ApiMetrics, request.app.state.metrics)


async def get_job_view_cache(request: Request) -> JobViewCache:
    """Return this application's cache of serialized jobs."""
    return cast(JobViewCache, request.app.state.written)


async def get_cluster_page_cache(request: Request) -> ClusterPageCache:
    """Return this application's cache of serialized nodes and partitions."""
    return cast(ClusterPageCache, request.app.state.written_cluster)


PlatformDep = Annotated[PlatformServices, Depends(get_platform)]
MetricsDep = Annotated[ApiMetrics, Depends(get_metrics)]
WrittenClusterDep = Annotated[ClusterPageCache, Depends(get_cluster_page_cache)]
WrittenDep = Annotated[JobViewCache, Depends(get_job_view_cache)]


@dataclass(frozen=True, slots=True)
class Caller:
    """Authenticated sender of a request."""

    actor: Actor
    csrf: str | None = None
    """CSRF token of the browser's login; None: the request was authenticated by an access token."""
    acting_until: datetime | None = None
    """Time until which an administrator acts as another user; None without impersonation."""


def get_request_origin(request: Request) -> RequestOrigin:
    """Return the origin of a request: client address, user agent and browser cookie."""
    address = request.client.host if request.client else None
    settings: Settings = request.app.state.platform.settings
    browser = request.cookies.get(browser_cookie_name(settings))
    return RequestOrigin(address, request.headers.get("user-agent"), browser)


def get_rate_limits(request: Request) -> RateLimits:
    """Return the rate limits of this application."""
    return cast(RateLimits, request.app.state.rates)


async def limit_client_network(request: Request) -> None:
    """Count a request without a login against the rate limit of the client's network. Raises
    ``RateLimited``."""
    get_rate_limits(request).logins.take_token(
        address_lockout_key(get_request_origin(request).address)
    )


Limited = Annotated[None, Depends(limit_client_network)]


def find_bearer_token(headers: Mapping[str, str]) -> str | None:
    """Return the token of the header ``Authorization: Bearer``; None if there is none."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def check_origin(request: Request, settings: Settings, *, required: bool) -> None:
    """Reject a request that a page of another origin has sent.

    The origin is read from the headers ``Origin`` and ``Sec-Fetch-Site``. With ``required``,
    requests without both are rejected too; only browsers send them. A page inside a user's session
    has the same site as the portal (cookies and SameSite ignore ports), but never its origin.

    Raises:
        NotAllowed: the request came from another origin.
    """
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if site == "same-origin" or origin == settings.portal_url:
        return
    if required or origin is not None or site not in (None, "none"):
        raise NotAllowed(
            f"This request did not come from a page of the portal at {settings.portal_url}. "
            "Open the portal at that address, or use a personal access token."
        )


def _check_browser(request: Request, settings: Settings, csrf: str) -> None:
    if request.method in SAFE_METHODS:
        navigation = request.headers.get("sec-fetch-mode") == "navigate"
        if not navigation:
            check_origin(request, settings, required=False)
        return
    check_origin(request, settings, required=True)
    token = request.headers.get(CSRF_HEADER, "")
    if not hmac.compare_digest(token.encode(), csrf.encode()):
        raise NotAllowed(
            "The header X-CSRF-Token is missing or is not this login's. Reload the page; a script "
            "reads it from GET /api/v1/me or uses a personal access token."
        )


async def get_caller(request: Request, platform: PlatformDep, metrics: MetricsDep) -> Caller:
    """Authenticate a request and return its caller. An access token takes precedence over a login
    cookie.

    Raises:
        NotAuthenticated: the credential is missing or not valid.
        NotAllowed: a request with a login cookie did not come from the portal.
        RateLimited: the user has sent too many changing requests.
    """
    token = find_bearer_token(request.headers)
    cookie = request.cookies.get(cookie_name(platform.settings))
    try:
        if token is not None:
            actor = await platform.identity.authenticate_token(token)
            set_actor(request, actor)
            check_operation(request, actor)
            return _count_connection(request, Caller(actor))
        if cookie is not None:
            # Pages read by themselves; a change, or a report of input, is the work of the user.
            used = request.method not in SAFE_METHODS
            address = get_request_origin(request).address
            session = await platform.identity.authenticate_sign_in(cookie, address, used=used)
            _check_browser(request, platform.settings, session.csrf)
            set_actor(request, session.actor)
            return _count_connection(
                request, Caller(session.actor, session.csrf, session.acting_until)
            )
    except AitneError as error:
        metrics.count_rejected_credential("token" if token is not None else "cookie", error)
        raise
    raise NotAuthenticated(
        "You are not logged in. Log in at the portal, or send a personal access token as "
        "Authorization: Bearer."
    )


def _count_connection(request: Request, caller: Caller) -> Caller:
    """Return the caller unchanged, after counting the request's connection against the user's
    limit, and a request that may change something against the user's rate limit. Raises
    ``RateLimited``."""
    user = caller.actor.impersonator or caller.actor.name
    identify_connection(request.scope, user)
    if request.method not in SAFE_METHODS:
        get_rate_limits(request).changes.take_token(user)
    return caller


CallerDep = Annotated[Caller, Depends(get_caller)]


def _require_scope(actor: Actor, scope: Scope) -> Actor:
    if scope not in actor.scopes:
        scopes = ", ".join(sorted(actor.scopes)) or "none"
        raise NotAllowed(
            f"This needs a token with the scope {scope}; the one in use has: {scopes}. "
            "Create another one under Tokens in the portal."
        )
    return actor


async def get_reader(caller: CallerDep) -> Actor:
    """Return the actor. Raises ``NotAllowed`` unless its credential has the scope ``read``."""
    return _require_scope(caller.actor, Scope.READ)


async def get_writer(caller: CallerDep) -> Actor:
    """Return the actor. Raises ``NotAllowed`` unless its credential has the scope ``write``."""
    return _require_scope(caller.actor, Scope.WRITE)


async def get_admin(caller: CallerDep) -> Actor:
    """Return the actor. Raises ``NotAllowed`` unless it is an administrator whose credential has
    the scope ``admin``."""
    if caller.actor.user.role is not Role.ADMIN:
        raise NotAllowed("Only an administrator may do this.")
    return _require_scope(caller.actor, Scope.ADMIN)


Reader = Annotated[Actor, Depends(get_reader)]
Writer = Annotated[Actor, Depends(get_writer)]
Admin = Annotated[Actor, Depends(get_admin)]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="Any text. A repeated request with the same key and body returns the same "
        "job; with another body it is rejected (409).",
    ),
]
