"""Login with a name and a password, or with a code that the user confirms in the portal. Both
return a personal access token, the only credential that a client keeps."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from aitne.client.api_session import API, TIMEOUT_S, ApiSession, RequestBackoff, make_transport
from aitne.client.http_transport import ConnectionFailed
from aitne.client.platform_discovery import Platform
from aitne.client.record_base import Record

if TYPE_CHECKING:
    from aitne.client.transport import Reply, RequestTransport


def create_token_by_password(
    url: str,
    name: str,
    password: str,
    *,
    token_name: str,
    expires_in: str | None = "90d",
    code: Callable[[], str] | None = None,
    ca_file: str | None = None,
    transport: RequestTransport | None = None,
) -> str:
    """Log in with a password, create a personal access token, log out, and return the token.

    ``code`` is called to get a code of the second factor if one is required. ``expires_in`` is the
    token's validity; None: unlimited. ``ca_file`` has CA certificates to trust in addition to the
    system's.

    Raises:
        NotAuthenticated: name, password or code is wrong, or a required code is missing.
        RateLimited: too many attempts.
        Unavailable: the platform does not answer.
    """
    browser = _Browser(Platform(url, None, ca_file=ca_file), transport)
    me = browser.post("/auth/login", {"username": name, "password": password})
    if "ticket" in me:
        me = browser.post(
            "/auth/totp", {"ticket": me["ticket"], "code": _get_second_factor_code(me, code)}
        )
    browser.csrf = str(me["csrf_token"])
    made = browser.post(
        "/tokens",
        {"name": token_name, "scopes": _select_scopes(me), "expires_in": expires_in},
    )
    browser.post("/auth/logout", None)
    return str(made["token"])


class DeviceCodes(Record):
    """Codes of a login that the user confirms in the portal (RFC 8628)."""

    device_code: str
    """Secret with which the client requests the token."""
    user_code: str
    """Code that the user enters in the portal."""
    verification_uri: str
    """URL of the portal page on which the code is entered."""
    verification_uri_complete: str
    """The same URL, or with platforms of earlier releases one that fills the code in."""
    expires_in: int
    """Validity of the codes in seconds."""
    interval: int
    """Minimum time between two requests for the token, in seconds."""


def begin_device_login(session: ApiSession, token_name: str) -> DeviceCodes:
    """Begin a login that the user confirms in the portal. The resulting token will be called
    ``token_name``.

    Raises:
        RateLimited: too many logins.
        Unavailable: the platform does not answer.
    """
    body = {"name": token_name[:100]}
    return DeviceCodes(session.request_json("POST", "/auth/device", body=body, repeatable=True))


def wait_for_device_token(session: ApiSession, codes: DeviceCodes) -> str:
    """Wait until the user has confirmed the code in the portal, and return the access token.

    Raises:
        NotAllowed: the user has refused the login.
        NotAuthenticated: the code has expired.
        Unavailable: the platform does not answer.
    """
    from aitne.core.errors import AuthorizationPending, RateLimited

    body = {"device_code": codes.device_code}
    while True:
        session.sleep(codes.interval)
        try:
            # An answer that is lost has used up the code, so this request is never repeated.
            return str(session.request_json("POST", "/auth/device/token", body=body)["token"])
        except AuthorizationPending:
            continue
        except RateLimited as error:
            session.sleep(error.retry_after_s)


def _get_second_factor_code(challenge: Mapping[str, Any], code: Callable[[], str] | None) -> str:
    from aitne.core.errors import NotAuthenticated

    if challenge["enrol"] is not None:
        raise NotAuthenticated(
            "This platform requires a second factor. Log in to the portal once and set "
            "it up there, then log in here."
        )
    if code is None:
        raise NotAuthenticated("A code of your second factor is needed: pass it with --code.")
    return code()


def _select_scopes(me: Mapping[str, Any]) -> list[str]:
    scopes = ["read", "write"]
    return [*scopes, "admin"] if me["user"]["role"] == "admin" else scopes


class _Browser:
    """HTTP client that logs in like a browser: with a cookie, an ``Origin`` header and a CSRF
    token."""

    def __init__(self, platform: Platform, transport: RequestTransport | None) -> None:
        self._platform = platform
        self._transport = transport or make_transport(platform)
        self._cookie: str | None = None
        self.csrf: str | None = None

    def post(self, path: str, body: object) -> Any:
        headers = {"Content-Type": "application/json", "Origin": self._platform.url}
        if self._cookie is not None:
            headers["Cookie"] = self._cookie
        if self.csrf is not None:
            headers["X-CSRF-Token"] = self.csrf
        patience = RequestBackoff(ApiSession(self._platform, transport=self._transport))
        while True:
            try:
                return self._send_post(path, headers, json.dumps(body).encode())
            except ConnectionFailed as failure:
                patience.handle_failure(failure, repeatable=False)

    def _send_post(self, path: str, headers: Mapping[str, str], body: bytes) -> Any:
        reply = self._transport.send(
            "POST", API + path, headers=headers, body=body, timeout_s=TIMEOUT_S
        )
        try:
            answer = b"".join(reply.chunks())
        finally:
            reply.close()
        if reply.status >= 400:
            from aitne.client.errors import make_error_from_problem

            raise make_error_from_problem(reply.status, reply.headers, answer)
        self._store_cookie(reply)
        return json.loads(answer) if answer else None

    def _store_cookie(self, reply: Reply) -> None:
        cookie = reply.headers.get("set-cookie")
        if cookie is not None and self._cookie is None:
            self._cookie = cookie.partition(";")[0]
