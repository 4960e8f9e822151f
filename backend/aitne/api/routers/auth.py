"""Routes of login and logout, and of the current user."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import RedirectResponse

from aitne import __version__
from aitne.api.account_views import (
    EnrolmentView,
    LoginButton,
    LoginSources,
    ResetDone,
    ResetUse,
    SecondFactorNeeded,
    SecondStepUse,
    SignedIn,
)
from aitne.api.dependencies import (
    Caller,
    CallerDep,
    Limited,
    MetricsDep,
    PlatformDep,
    browser_cookie_name,
    check_origin,
    cookie_name,
    get_caller,
    get_request_origin,
)
from aitne.api.job_query_views import (
    Impersonation,
    Login,
    LoginLink,
    LoginLinkUse,
    Me,
    MeUser,
    PlatformInfo,
)
from aitne.api.routers import V1
from aitne.bootstrap.platform_services import PlatformServices
from aitne.core.errors import AitneError, NotAuthenticated, Unavailable
from aitne.core.ports.identity_source import LoginDenied
from aitne.core.users.auth_settings import SourceName
from aitne.core.users.ended_credentials import EndedCredentials
from aitne.services.users.authentication_service import REDIRECT_LIFETIME_S
from aitne.services.users.known_browser_lockout import LIFETIME_S
from aitne.services.users.login_results import SecondStep, WebLogin
from aitne.services.users.second_factor import Enrolment
from aitne.services.users.shared_account_restriction import shared_account

router = APIRouter(prefix=V1, tags=["auth"])
Source = Annotated[SourceName, Path(description="One of the identity sources.", examples=["oidc"])]


@router.get("/auth/sources")
async def list_login_sources(platform: PlatformDep) -> LoginSources:
    """List the identity sources with which users can log in to this platform."""
    arrivals = platform.identity.arrivals
    return LoginSources(
        title=platform.settings.title,
        form=arrivals.takes_passwords,
        buttons=[
            LoginButton(
                name=redirect.name, label=redirect.label, url=f"{V1}/auth/{redirect.name}/start"
            )
            for redirect in arrivals.list_redirect_sources
        ],
    )


@router.post("/auth/login", responses={202: {"model": SecondFactorNeeded}})
async def login(
    body: Login,
    request: Request,
    response: Response,
    platform: PlatformDep,
    metrics: MetricsDep,
    _: Limited,
) -> Me | SecondFactorNeeded:
    """Log in with name and password; the answer sets the login cookie, or 202 if a code of the
    second factor is required."""
    check_origin(request, platform.settings, required=False)
    try:
        outcome = await platform.identity.login(
            body.username, body.password, get_request_origin(request)
        )
    except AitneError as error:
        metrics.count_rejected_credential("password", error)
        raise
    if isinstance(outcome, SecondStep):
        response.status_code = 202
        return SecondFactorNeeded(
            second_factor_required=True,
            ticket=outcome.ticket,
            expires_at=outcome.expires_at,
            enrol=None if outcome.enrol is None else make_enrolment_view(outcome.enrol),
        )
    return await _complete_login(outcome, request, response, platform)


@router.post("/auth/totp")
async def finish_login(
    body: SecondStepUse,
    request: Request,
    response: Response,
    platform: PlatformDep,
    metrics: MetricsDep,
    _: Limited,
) -> SignedIn:
    """Finish a login with a code of the second factor; the answer sets the login cookie."""
    check_origin(request, platform.settings, required=False)
    try:
        web = await platform.identity.complete_second_step(
            body.ticket, body.code, get_request_origin(request)
        )
    except AitneError as error:
        metrics.count_rejected_credential("totp", error)
        raise
    me = await _complete_login(web, request, response, platform)
    return SignedIn(**dict(me), recovery_codes=list(web.recovery_codes))


@router.get("/auth/{source}/start", status_code=302, response_class=RedirectResponse)
async def start_login(
    source: Source,
    platform: PlatformDep,
    _: Limited,
    next: Annotated[  # noqa: A002 - named as in the portal
        str, Query(max_length=2_000, description="Page of the portal to return to.")
    ] = "/",
) -> RedirectResponse:
    """Redirect the browser to an identity provider."""
    try:
        departure = await platform.identity.begin_redirect(source, next)
    except Unavailable:
        return _redirect_to_login(platform, "unavailable")
    answer = RedirectResponse(departure.url, 302)
    answer.set_cookie(
        _get_proof_cookie_name(platform),
        departure.proof,
        max_age=REDIRECT_LIFETIME_S,
        path=f"{V1}/auth",
        secure=platform.settings.portal_url.startswith("https:"),
        httponly=True,
        samesite="lax",
    )
    return answer


@router.get("/auth/{source}/callback", status_code=302, response_class=RedirectResponse)
async def end_login(
    source: Source, request: Request, platform: PlatformDep, metrics: MetricsDep, _: Limited
) -> RedirectResponse:
    """Complete a login at an identity provider. The provider redirects the browser to this route,
    which redirects it to a page of the portal.
    """
    proof = request.cookies.get(_get_proof_cookie_name(platform), "")
    try:
        outcome, next_path = await platform.identity.finish_redirect(
            source, dict(request.query_params), proof, get_request_origin(request)
        )
    except (NotAuthenticated, LoginDenied, Unavailable) as error:
        metrics.count_rejected_credential("redirect", error)
        reason = error.why if isinstance(error, LoginDenied) else error.code
        return _redirect_to_login(platform, reason)
    if isinstance(outcome, SecondStep):
        target = (
            f"/login?next={quote(_restrict_to_portal(next_path), safe='')}#ticket={outcome.ticket}"
        )
        return RedirectResponse(f"{platform.settings.portal_url}{target}", 302)
    answer = RedirectResponse(
        f"{platform.settings.portal_url}{_restrict_to_portal(next_path)}", 302
    )
    await _complete_login(outcome, request, answer, platform)
    answer.delete_cookie(
        _get_proof_cookie_name(platform), path=f"{V1}/auth", httponly=True, samesite="lax"
    )
    return answer


@router.post("/auth/login-link")
async def use_login_link(
    body: LoginLinkUse,
    request: Request,
    response: Response,
    platform: PlatformDep,
    metrics: MetricsDep,
    _: Limited,
) -> Me:
    """Log in with the token of a one-time link; the answer sets the login cookie."""
    check_origin(request, platform.settings, required=False)
    try:
        web = await platform.identity.login_by_link(body.token, get_request_origin(request))
    except AitneError as error:
        metrics.count_rejected_credential("login_link", error)
        raise
    return await _complete_login(web, request, response, platform)


@router.post("/auth/login-links", status_code=201)
async def create_login_link(caller: CallerDep, platform: PlatformDep) -> LoginLink:
    """Create a one-time link that logs you in, for example in another browser."""
    link = await platform.identity.links.create(caller.actor)
    return LoginLink(url=link.url, expires_at=link.expires_at)


@router.post("/auth/reset")
async def reset_password(
    body: ResetUse, request: Request, platform: PlatformDep, metrics: MetricsDep, _: Limited
) -> ResetDone:
    """Set a new password with the token of an administrator's link. All logins of the account
    end."""
    check_origin(request, platform.settings, required=False)
    try:
        name = await platform.account.reset_password(
            body.token, body.password, delete_tokens=body.delete_tokens
        )
    except AitneError as error:
        metrics.count_rejected_credential("reset", error)
        raise
    await platform.close_connections_of_user(name)
    await platform.audit.record(
        actor=name,
        action="reset_password",
        object=name,
        outcome="allowed",
        address=get_request_origin(request).address,
    )
    return ResetDone(name=name)


@router.post("/auth/logout", status_code=204)
async def logout(
    request: Request, response: Response, platform: PlatformDep, metrics: MetricsDep
) -> None:
    """End the login of this browser. Without a login, do nothing."""
    name = cookie_name(platform.settings)
    cookie = request.cookies.get(name)
    if cookie is None:
        return
    if await platform.identity.is_logged_in(cookie):
        caller = await get_caller(request, platform, metrics)
        await platform.identity.logout(cookie)
        sign_in_id = caller.actor.sign_in_id or ""
        await platform.close_connections(EndedCredentials(ids=frozenset({sign_in_id})))
    response.delete_cookie(name, path="/api", httponly=True, samesite="lax")


@router.post("/auth/activity", status_code=204)
async def report_activity(caller: CallerDep) -> None:
    """Report that the user is at work in a page of the portal, so that the login of this browser does
    not end as unused. Other requests that only read do not count as use."""


@router.post("/auth/end-impersonation", status_code=204)
async def end_impersonation(caller: CallerDep, request: Request, platform: PlatformDep) -> None:
    """End the impersonation of another user."""
    cookie = request.cookies.get(cookie_name(platform.settings))
    await platform.account.end_impersonation(caller.actor, cookie)
    ended = frozenset({caller.actor.credential})
    await platform.close_connections(EndedCredentials(ids=ended))


@router.get("/me")
async def get_me(caller: CallerDep, platform: PlatformDep) -> Me:
    """Return the current user, the user's projects, and the platform."""
    return _make_me(caller, platform)


def make_enrolment_view(enrolment: Enrolment) -> EnrolmentView:
    """Return the API's representation of the secret for a second factor that is being set up."""
    return EnrolmentView(secret=enrolment.secret, uri=enrolment.uri, qr_svg=enrolment.qr_svg)


async def _complete_login(
    web: WebLogin, request: Request, response: Response, platform: PlatformServices
) -> Me:
    name = cookie_name(platform.settings)
    if (old := request.cookies.get(name)) is not None:
        await platform.identity.end_previous_sign_in(old, web)
    response.set_cookie(
        name,
        web.token,
        max_age=platform.settings.auth.session_lifetime,
        path="/api",
        secure=platform.settings.portal_url.startswith("https:"),
        httponly=True,
        samesite="lax",
    )
    response.set_cookie(
        browser_cookie_name(platform.settings),
        web.browser,
        max_age=LIFETIME_S,
        path=f"{V1}/auth",
        secure=platform.settings.portal_url.startswith("https:"),
        httponly=True,
        samesite="lax",
    )
    return _make_me(Caller(web.actor, web.csrf), platform)


def _get_proof_cookie_name(platform: PlatformServices) -> str:
    return f"{cookie_name(platform.settings)}_start"


def _restrict_to_portal(path: str) -> str:
    """Return ``path`` if it is a path within this portal, otherwise ``/``. This prevents redirects
    to other sites."""
    plain = path.isascii() and path.isprintable() and "\\" not in path
    return path if plain and path.startswith("/") and not path.startswith("//") else "/"


def _redirect_to_login(platform: PlatformServices, reason: str) -> RedirectResponse:
    return RedirectResponse(f"{platform.settings.portal_url}/login?failed={reason}", 302)


def _make_me(caller: Caller, platform: PlatformServices) -> Me:
    user, settings = caller.actor.user, platform.settings
    impersonator = caller.actor.impersonator
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
            can_drain=settings.capabilities.drains,
            limits_applied=platform.projects.support.applied,
            retention=settings.retention,
            sessions_origin=settings.sessions_origin,
            shared_account=shared_account(settings) if settings.trusted_users else None,
            unix_accounts=settings.broker.socket is not None,
            user_domains=settings.has_user_domains,
            documentation_url=settings.documentation_url,
            sessions_address=settings.sessions_address,
        ),
        impersonation=None
        if impersonator is None or caller.acting_until is None
        else Impersonation(impersonator=impersonator, until=caller.acting_until),
    )
