"""Restriction of a session to logged-in browsers: security headers, and closing of open connections
after a logout.

Runs in the session's environment: it may import only Jupyter and no other module of this package.
"""

from __future__ import annotations

import hmac
import weakref
from typing import Any

from jupyter_server.auth.decorator import allow_unauthenticated
from tornado.ioloop import IOLoop
from tornado.web import HTTPError, RequestHandler
from tornado.websocket import WebSocketHandler

HEADERS = {
    # A page that opened this one, or is opened by it, cannot access its window.
    "Cross-Origin-Opener-Policy": "same-origin",
    # Other origins cannot load resources of this one as images or scripts.
    "Cross-Origin-Resource-Policy": "same-origin",
}
LOGGED_OUT = 4401
"""Code with which a WebSocket is closed when its login has ended."""
_LATE_S = 2.0
_open: weakref.WeakSet[WebSocketHandler] = weakref.WeakSet()


class LoginsHandler(RequestHandler):  # type: ignore[misc]
    """Handler of JupyterHub's request that reports ended logins. The request is authenticated with
    this server's own token.
    """

    def initialize(self, server: Any) -> None:
        """Store the server; Tornado calls this for each request."""
        self.server = server

    def check_xsrf_cookie(self) -> None:
        """Accept the request without an XSRF cookie: it is authenticated by a token and uses no
        cookies.
        """

    @allow_unauthenticated  # type: ignore[untyped-decorator]
    async def post(self) -> None:
        """Clear the cache of logins, and close the WebSockets whose login has ended."""
        hub_auth = self.server.identity_provider.hub_auth
        authorization = self.request.headers.get("Authorization", "").encode()
        if not hmac.compare_digest(authorization, f"token {hub_auth.api_token}".encode()):
            raise HTTPError(403)
        await _close_logged_out(hub_auth)
        # Again later, for an answer of the Hub or a WebSocket that was in progress.
        IOLoop.current().call_later(_LATE_S, _close_logged_out, hub_auth)
        self.set_status(204)


async def _close_logged_out(hub_auth: Any) -> None:
    hub_auth.cache = type(hub_auth.cache)(hub_auth.cache_max_age)
    for handler in list(_open):
        if handler.ws_connection is not None and not await _is_logged_in(hub_auth, handler):
            handler.close(LOGGED_OUT, "logged out")


async def _is_logged_in(hub_auth: Any, handler: WebSocketHandler) -> bool:
    token = hub_auth.get_token(handler)
    session_id = hub_auth.get_session_id(handler)
    if not token:
        return False
    user = await hub_auth.user_for_token(token, session_id=session_id, sync=False)
    return user is not None


def _track_open_websockets() -> None:
    get = WebSocketHandler.get

    async def remembered(self: WebSocketHandler, *args: Any, **options: Any) -> None:
        _open.add(self)
        await get(self, *args, **options)

    WebSocketHandler.get = remembered


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(server: Any) -> None:
    _track_open_websockets()
    headers = server.web_app.settings.setdefault("headers", {})
    for name, value in HEADERS.items():
        headers.setdefault(name, value)
    base = server.web_app.settings["base_url"].rstrip("/")
    route = (f"{base}/aitne/logins", LoginsHandler, {"server": server})
    server.web_app.add_handlers(".*$", [route])
