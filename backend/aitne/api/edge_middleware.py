"""Middleware for every request: limits of size, measured times, security headers, errors.

Plain ASGI: streams pass through unbuffered.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aitne.api.metrics import ApiMetrics
from aitne.api.problems import make_internal_error_response, problem_response
from aitne.core.dataset_manifest import MOST_BYTES

MAX_BODY_BYTES = 1 << 20
MAX_ANONYMOUS_BODY_BYTES = 16 << 10
"""Maximum size of a body for a route that needs no login."""
MAX_QUERY_BYTES = 8 << 10
UPLOADS = ("/api/v1/manifests/", "/api/v1/trees/")
"""Prefixes of the routes that read bodies in chunks and write them to disk, so that they may be
larger."""

_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin-allow-popups",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_API_CSP = "default-src 'none'; frame-ancestors 'none'"


def portal_csp(nonce: str) -> str:
    """Return the Content-Security-Policy of a portal page: scripts may come only from the portal's
    files, styles also from the page itself with ``nonce``."""
    return (
        f"default-src 'self'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; "
        "img-src 'self' data:; font-src 'self' data:; connect-src 'self'; object-src 'none'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )


class EdgeMiddleware:
    """Outermost ASGI middleware of the API, which limits the size of requests, measures their
    times, adds security headers and reports errors.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        metrics: ApiMetrics,
        https: bool,
        anonymous_paths: Collection[str] = (),
    ) -> None:
        """Wrap ``app``. ``https``: the portal is served over TLS. ``anonymous_paths`` are the paths
        that need no login, whose bodies may have at most ``MAX_ANONYMOUS_BODY_BYTES``."""
        self._app = app
        self._metrics = metrics
        self._anonymous_paths = frozenset(anonymous_paths)
        self._headers: Mapping[str, str] = (
            {**_ALWAYS, "Strict-Transport-Security": "max-age=31536000"} if https else _ALWAYS
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. Its time is measured until the response begins, because a stream does
        not end."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 0

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self._add_headers(MutableHeaders(raw=message.setdefault("headers", [])))
                self._record_request(scope, status, time.perf_counter() - began)
            await send(message)

        try:
            await self._serve_request(scope, receive, send_marked)
        except Exception as error:
            response = make_internal_error_response(scope["path"], error)
            if status:
                raise  # the answer has begun: only a broken connection can report the error
            await response(scope, receive, send_marked)

    async def _serve_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        length = dict(scope["headers"]).get(b"content-length", b"")
        promised = int(length) if length.isdigit() else 0
        max_bytes = self._max_body_bytes(scope)
        too_large = f"The body is larger than {max_bytes} bytes, the maximum of the platform."
        read = 0
        if len(scope["query_string"]) > MAX_QUERY_BYTES:
            detail = (
                f"The query is longer than {MAX_QUERY_BYTES} bytes, the maximum of the platform."
            )
            response = problem_response(414, "too_long", detail, instance=scope["path"])
            await response(scope, receive, send)
            return

        async def receive_bounded() -> Message:
            nonlocal read
            if promised > max_bytes:
                raise HTTPException(413, too_large)
            message = await receive()
            read += len(message.get("body", b""))
            if read > max_bytes:
                raise HTTPException(413, too_large)
            return message

        await self._app(scope, receive_bounded, send)

    def _max_body_bytes(self, scope: Scope) -> int:
        if scope["method"] == "PUT" and scope["path"].startswith(UPLOADS):
            return MOST_BYTES
        if scope["path"] in self._anonymous_paths:
            return MAX_ANONYMOUS_BODY_BYTES
        return MAX_BODY_BYTES

    def _record_request(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "unmatched")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics.record_request(method, route, status, seconds)

    def _add_headers(self, headers: MutableHeaders) -> None:
        for name, value in self._headers.items():
            headers.setdefault(name, value)
        headers.setdefault("Content-Security-Policy", _API_CSP)
        headers.setdefault("Cache-Control", "no-store")


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
