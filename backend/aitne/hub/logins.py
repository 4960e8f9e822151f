"""Logins at JupyterHub: cookies that are not sent to sessions' servers, and the end of logins.

Runs inside JupyterHub, in its environment: it may import only the standard library, JupyterHub and
Tornado.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ssl
import time
from collections.abc import Iterable, Mapping
from typing import Any

from jupyterhub import orm
from jupyterhub.apihandlers.base import APIHandler
from jupyterhub.handlers import base
from jupyterhub.handlers.login import LogoutHandler
from jupyterhub.scopes import needs_scope
from jupyterhub.utils import make_ssl_context
from oauthenticator import oauth2
from oauthenticator.generic import GenericOAuthenticator
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.web import HTTPError

END_LOGINS = r"/api/platform/users/([^/]+)/logins"
_HUB_CLIENT = "jupyterhub"
"""OAuth client of tokens that belong to the servers themselves and not to a browser."""
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
_ANSWER_S = 10.0
_notifications: set[asyncio.Task[None]] = set()
_ended_at: dict[str, float] = {}
"""Time of the last request to end logins of each user."""


class PortalAuthenticator(GenericOAuthenticator):  # type: ignore[misc]
    """Login at the portal, whose names of users JupyterHub keeps as they are. By default it would
    replace capital letters, so that a user could not open a session.
    """

    def normalize_username(self, username: str) -> str:
        """Return the name of the user at the portal unchanged."""
        return username


def confine_cookies(*, host_prefix: bool) -> None:
    """Restrict the cookies of browser sessions and of logins in progress to the paths of JupyterHub
    itself.

    By default browsers send them to the servers of all users, too; one of them contains the PKCE
    verifier.

    Args:
        host_prefix: name them ``__Host-…``, which no page of another host can set.
    """
    if host_prefix:
        base.SESSION_COOKIE_NAME = f"__Host-{base.SESSION_COOKIE_NAME}"
        oauth2.STATE_COOKIE_NAME = f"__Host-{oauth2.STATE_COOKIE_NAME}"
    confined = {base.SESSION_COOKIE_NAME, oauth2.STATE_COOKIE_NAME}
    set_cookie, clear_cookie = base.BaseHandler._set_cookie, base.BaseHandler.clear_cookie

    def place(handler: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
        if name in confined:
            options.pop("domain", None)
            options["path"] = handler.hub.base_url
        return options

    def set_confined(
        self: Any, key: str, value: str, encrypted: bool = True, **options: Any
    ) -> None:
        set_cookie(self, key, value, encrypted, **place(self, key, options))

    def clear_confined(self: Any, cookie_name: str, **options: Any) -> None:
        clear_cookie(self, cookie_name, **place(self, cookie_name, options))

    base.BaseHandler._set_cookie = set_confined
    base.BaseHandler.clear_cookie = clear_confined


def bind_login(_: Any, handler: Any, auth_model: dict[str, Any]) -> dict[str, Any]:
    """Bind the login of a browser to its sign-in at the portal: all tokens that JupyterHub issues to
    the browser get the sign-in's session ID. It is the hook ``Authenticator.post_auth_hook``.

    Raises ``HTTPError`` if logins of the user were ended after this request began.
    """
    if handler.request._start_time <= _ended_at.get(auth_model["name"], 0.0):
        raise HTTPError(403, "This login has ended meanwhile. Open the page again.")
    sign_in_id = auth_model["auth_state"]["oauth_user"]["sid"]
    handler._session_id = _session_id(handler, sign_in_id)
    handler.set_session_cookie()
    return auth_model


def _session_id(handler: Any, sign_in_id: str) -> str:
    """Return the session ID of the browser with this sign-in. Only JupyterHub can compute it, so
    that no browser takes the session ID of another one.
    """
    key: bytes = handler.settings["cookie_secret"]
    return hmac.new(key, b"sign-in " + sign_in_id.encode(), hashlib.sha256).hexdigest()


class EndLoginsHandler(APIHandler):  # type: ignore[misc]
    """Handler of requests to end logins of one user, at JupyterHub and at the user's servers, in one
    transaction.
    """

    @needs_scope("admin:users")  # type: ignore[untyped-decorator]
    def delete(self, user_name: str) -> None:
        """End the user's logins except those of the sign-ins that ``keep`` names; do nothing if
        JupyterHub does not know the user.
        """
        _ended_at[user_name] = time.time()
        user = orm.User.find(self.db, user_name)
        if user is not None:
            kept = {_session_id(self, sign_in_id) for sign_in_id in self.get_arguments("keep")}
            user.cookie_id = orm.new_token()
            tokens = [token for token in user.api_tokens if token.client_id != _HUB_CLIENT]
            codes = self.db.query(orm.OAuthCode).filter_by(user_id=user.id)
            for row in [*tokens, *codes]:
                if row.session_id not in kept:
                    self.db.delete(row)
            self.db.commit()
            _notify_servers(self, {user.id})
        self.set_status(204)


def install_session_logout() -> None:
    """Make ``/hub/logout`` end all logins of the browser, even if its login at JupyterHub itself
    has ended.
    """
    LogoutHandler.default_handle_logout = _log_out


async def _log_out(self: Any) -> None:
    session_id = self.get_session_cookie()
    if session_id:
        tokens = self.db.query(orm.APIToken).filter_by(session_id=session_id).all()
        codes = self.db.query(orm.OAuthCode).filter_by(session_id=session_id).all()
        owners = {token.user_id for token in tokens}
        for row in [*tokens, *codes]:
            self.db.delete(row)
        self.db.commit()
        _notify_servers(self, owners)
        self.clear_cookie(base.SESSION_COOKIE_NAME)
    self.clear_cookie(self.hub.cookie_name, path=self.hub.base_url)


def _notify_servers(handler: Any, user_ids: Iterable[int]) -> None:
    for user_id in user_ids:
        for spawner in handler.users[user_id].spawners.values():
            if spawner.active:
                task = asyncio.get_running_loop().create_task(_notify_server(spawner))
                _notifications.add(task)
                task.add_done_callback(_notifications.discard)


def _server_context(settings: Mapping[str, Any]) -> ssl.SSLContext | None:
    """Return the TLS context with which JupyterHub connects to servers, made from the
    ``internal_ssl_*`` settings.
    """
    key, certificate, authority = (
        settings.get(f"internal_ssl_{name}") for name in ("key", "cert", "ca")
    )
    context: ssl.SSLContext | None = make_ssl_context(key, certificate, cafile=authority)
    return context


async def _notify_server(spawner: Any) -> None:
    """Request that a server clears its cache of logins and closes connections whose login has
    ended.

    The request is repeated as long as the server exists and does not answer.
    """
    pause = _SHORTEST_PAUSE_S
    while spawner.active and spawner.server is not None:
        request = HTTPRequest(
            f"{spawner.server.url}aitne/logins",
            method="POST",
            headers={"Authorization": f"token {spawner.api_token}"},
            body=b"",
            connect_timeout=_ANSWER_S,
            request_timeout=_ANSWER_S,
            follow_redirects=False,
            ssl_options=_server_context(spawner.user.settings),
        )
        try:
            await AsyncHTTPClient().fetch(request)
            return
        except HTTPClientError as error:
            if error.code < 500:
                spawner.log.warning("Server %s checks no logins: %s", spawner.name, error)
                return
        except OSError as error:
            spawner.log.info("Server %s does not check its logins yet: %s", spawner.name, error)
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)
