"""OAuth2 provider with which the platform's own JupyterHub logs users in (RFC 6749 authorization
code flow with PKCE, RFC 7636)."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated
from urllib.parse import parse_qsl, quote, unquote_plus, urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from aitne.api.dependencies import MetricsDep, PlatformDep, cookie_name, find_bearer_token
from aitne.core.errors import NotAuthenticated
from aitne.core.users.permissions import refuse_impersonation
from aitne.services.users.hub_oauth_provider import AuthorizationRequest, OAuthError, UserInfo

router = APIRouter(prefix="/api/oauth", include_in_schema=False)
Parameter = Annotated[str, Query(max_length=2_000)]


@router.get("/authorize")
async def authorize(
    request: Request,
    platform: PlatformDep,
    client_id: Parameter = "",
    redirect_uri: Parameter = "",
    response_type: Parameter = "",
    state: Parameter = "",
    code_challenge: Parameter = "",
    code_challenge_method: Parameter = "",
) -> Response:
    """Redirect the browser back to JupyterHub with an authorization code, after a login if
    necessary."""
    platform.oauth.check_client(client_id, redirect_uri)
    try:
        platform.oauth.check_request(
            AuthorizationRequest(response_type, code_challenge, code_challenge_method)
        )
    except OAuthError as error:
        return _redirect_back(
            redirect_uri, state, error=error.code, error_description=error.message
        )
    cookie = request.cookies.get(cookie_name(platform.settings))
    try:
        session = await platform.identity.authenticate_sign_in(cookie or "")
        refuse_impersonation(session.actor, "open their sessions")
    except NotAuthenticated:
        current_path = request.url.path + "?" + request.url.query
        return RedirectResponse(
            f"{platform.settings.portal_url}/login?next={quote(current_path, safe='')}", 302
        )
    code = await platform.oauth.issue_code(session.actor, redirect_uri, code_challenge)
    return _redirect_back(redirect_uri, state, code=code)


@router.post("/token")
async def token(request: Request, platform: PlatformDep, metrics: MetricsDep) -> Response:
    """Exchange an authorization code for an access token."""
    try:
        form = _parse_form(await request.body(), request.headers.get("content-type", ""))
        client_id, secret = _parse_client_credentials(request, form)
        access = await platform.oauth.exchange(
            client_id=client_id,
            client_secret=secret,
            grant_type=form.get("grant_type", ""),
            code=form.get("code", ""),
            redirect_uri=form.get("redirect_uri", ""),
            code_verifier=form.get("code_verifier", ""),
        )
    except OAuthError as error:
        metrics.count_rejected_credential("oauth", error)
        status = 401 if error.code == "invalid_client" else 400
        headers = {"WWW-Authenticate": 'Basic realm="aitne"'} if status == 401 else None
        return JSONResponse(
            {"error": error.code, "error_description": error.message}, status, headers
        )
    return JSONResponse(
        {
            "access_token": access.token,
            "token_type": "Bearer",
            "expires_in": access.expires_in_s,
            "scope": "identity",
        }
    )


@router.get("/userinfo")
async def userinfo(request: Request, platform: PlatformDep) -> UserInfo:
    """Return the user of the access token. The token is valid for this request only."""
    return await platform.oauth.userinfo(find_bearer_token(request.headers) or "")


def _redirect_back(redirect_uri: str, state: str, **answer: str) -> RedirectResponse:
    query = urlencode(answer | ({"state": state} if state else {}))
    return RedirectResponse(f"{redirect_uri}?{query}", 302)


def _parse_form(body: bytes, content_type: str) -> dict[str, str]:
    if content_type.split(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise OAuthError("invalid_request", "The body must be application/x-www-form-urlencoded.")
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=50
        )
    except ValueError as error:
        raise OAuthError("invalid_request", f"The body cannot be read: {error}.") from error
    form = dict(pairs)
    if len(form) != len(pairs):
        raise OAuthError("invalid_request", "A parameter is given twice.")
    return form


def _parse_client_credentials(request: Request, form: dict[str, str]) -> tuple[str, str]:
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return form.get("client_id", ""), form.get("client_secret", "")
    try:
        name, _, secret = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise OAuthError("invalid_client", "The Basic credentials cannot be read.") from error
    return unquote_plus(name), unquote_plus(secret)
