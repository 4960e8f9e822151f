"""Server part of the status bar in JupyterLab: the session's end, its resource usage, and the
button to extend it.

JupyterLab's page requests these from this server, which requests them from the platform with the
job's token that it received from the agent. The token is in no page, file or environment variable.

Runs in the session's environment: it may import only the standard library and Jupyter, and no other
module of this package.
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from jupyter_server.base.handlers import APIHandler
from tornado import web
from tornado.ioloop import IOLoop

_ANSWER_S = 10.0
_MOST_BYTES = 65_536
_EXTENSION_S = 3_600
_threads = ThreadPoolExecutor(2, thread_name_prefix="aitne-session")


class SessionApi:
    """Client of the platform's API for this session."""

    def __init__(self, url: str, token: str, authority: str | None) -> None:
        """Create a client for ``url``. ``authority`` is the CA (PEM) that signed the platform's
        certificate; None: a CA of the system.
        """
        self._url = url
        self._token = token
        context = ssl.create_default_context()
        if authority is not None:
            context.load_verify_locations(cadata=authority)
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )

    def ask(self, path: str = "", body: dict[str, Any] | None = None) -> tuple[int, bytes]:
        """Send a request to the platform; return status and body of its response.

        Blocks, so it must be called in a thread. Raises ``OSError`` if there is no response.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, data, headers)  # noqa: S310 (the agent's own URL)
        try:
            with self._opener.open(request, timeout=_ANSWER_S) as answer:
                return answer.status, answer.read(_MOST_BYTES)
        except urllib.error.HTTPError as error:
            return error.code, error.read(_MOST_BYTES)


_platform: list[SessionApi] = []


def configure(url: str, token: str, authority: str | None) -> None:
    """Set the platform's URL, token and CA; called before the server starts."""
    _platform[:] = [SessionApi(url, token, authority)]


class _Handler(APIHandler):  # type: ignore[misc]
    async def answer(self, *request: Any) -> None:
        try:
            status, body = await IOLoop.current().run_in_executor(
                _threads, _platform[0].ask, *request
            )
        except OSError as error:
            raise web.HTTPError(503, "The platform does not answer.") from error
        self.set_status(status)
        self.set_header("Content-Type", "application/json")
        self.finish(body)


class StatusHandler(_Handler):
    """Handler of the page's requests for the session's status."""

    # The bar asks while no user works: that keeps no session alive.
    _track_activity = False

    @web.authenticated  # type: ignore[untyped-decorator]
    async def get(self) -> None:
        """Return the end of the session and its resource usage."""
        await self.answer()


class ExtendHandler(_Handler):
    """Handler of the button in JupyterLab that extends the session."""

    @web.authenticated  # type: ignore[untyped-decorator]
    async def post(self) -> None:
        """Extend the session by an hour."""
        await self.answer("/extend", {"duration_s": _EXTENSION_S})


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(server: Any) -> None:
    if not _platform:
        return
    base = server.web_app.settings["base_url"].rstrip("/")
    routes = [(f"{base}/aitne/session", StatusHandler), (f"{base}/aitne/extend", ExtendHandler)]
    server.web_app.add_handlers(".*$", routes)
