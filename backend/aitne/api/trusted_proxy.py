"""Addresses of clients behind a reverse proxy on the same machine."""

from __future__ import annotations

import ipaddress

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send


class TrustedProxy:
    """ASGI middleware that takes the client's address from the header ``X-Forwarded-For``, but only
    for connections over the UNIX socket of a reverse proxy.

    The permissions of the socket exclude other accounts of the machine. Over TCP any local process
    could send any address, so the header is ignored there.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or WebSocket, with the address that the proxy has sent if it came over
        the UNIX socket."""
        if scope["type"] in ("http", "websocket") and not scope.get("client"):
            scope = {
                **scope,
                "client": _find_client_address(Headers(scope=scope).getlist("x-forwarded-for")),
            }
        await self._app(scope, receive, send)


def _find_client_address(forwarded: list[str]) -> tuple[str, int] | None:
    """Return the last address of the ``X-Forwarded-For`` headers, which the proxy itself has added;
    None if there is none."""
    last = ",".join(forwarded).rpartition(",")[2].strip()
    try:
        return str(ipaddress.ip_address(last)), 0
    except ValueError:
        return None
