"""TensorBoard as pages of the session's own server, below ``tensorboard/``.

TensorBoard has no login, so on a node with several users any of them could connect to its port. So
it listens on no port: its WSGI program runs inside this server, which passes it only requests of
logged-in users. It is started by the first request.

Runs in the session's environment: it may import only Jupyter and TensorBoard, and no other module
of this package.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote

from jupyter_server.base.handlers import JupyterHandler
from tornado import web
from tornado.ioloop import IOLoop
from tornado.wsgi import WSGIContainer

PAGE = "tensorboard"
_AT_ONCE = 4
"""Maximum number of requests that TensorBoard answers at the same time."""

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Board:
    """TensorBoard instance, which is started on the first request."""

    def __init__(self, folder: str, prefix: str) -> None:
        """Store the ``folder`` in which (or in whose subfolders) the event files are, and the
        ``prefix`` of TensorBoard's URLs.
        """
        self._folder = folder
        self._prefix = prefix
        self._starting = threading.Lock()
        self._program: Wsgi | None = None
        self.threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix=PAGE)

    def handle_request(self, environ: dict[str, Any]) -> tuple[str, list[tuple[str, str]], bytes]:
        """Pass a request (WSGI environment) to TensorBoard; return status, headers and body of its
        response.

        Blocks for a while, so it must be called in a thread.
        """
        with self._starting:
            if self._program is None:
                self._program = _start_tensorboard(self._folder, self._prefix)
        response: list[Any] = []

        def begin(status: str, headers: list[tuple[str, str]], _: object = None) -> None:
            response[:] = status, headers

        body = b"".join(self._program(environ, begin))
        return response[0], response[1], body


class _Held:
    """Replacement of TensorBoard's own web server. It keeps TensorBoard's WSGI program and listens
    on no port.
    """

    def __init__(self, program: Wsgi, _: object) -> None:
        self.program = program

    def serve_forever(self) -> None:
        """Return immediately: requests come through the session's server."""

    def get_url(self) -> str:
        """Return an empty URL, because there is none."""
        return ""


def _start_tensorboard(folder: str, prefix: str) -> Wsgi:
    from tensorboard import default, program

    servers: list[_Held] = []

    def hold(wsgi: Wsgi, flags: object) -> _Held:
        servers.append(_Held(wsgi, flags))
        return servers[0]

    board = program.TensorBoard(plugins=default.get_plugins(), server_class=hold)
    # The fast loader is a separate program with a port that is open to all users of the node.
    board.configure(
        [PAGE, f"--logdir={folder}", f"--path_prefix={prefix}", "--load_fast=false"],
    )
    board.launch()
    return servers[0].program


class BoardHandler(JupyterHandler):  # type: ignore[misc]
    """Handler of logged-in users' requests below ``tensorboard/``."""

    def initialize(self, board: Board) -> None:
        """Store the TensorBoard instance; Tornado calls this for each request."""
        self.board = board

    def check_xsrf_cookie(self) -> None:
        """Refuse requests from pages of other sites, instead of requiring an XSRF token.

        TensorBoard's pages send no XSRF token, and their requests change nothing.
        """
        # Tornado calls this before the user is known, and Jupyter afterwards again.
        if hasattr(self, "_jupyter_current_user") and not self.check_origin():
            raise web.HTTPError(403, "Only TensorBoard's own page may send this request.")

    @web.authenticated  # type: ignore[untyped-decorator]
    async def get(self) -> None:
        """Return a file of TensorBoard's page, or data that the page requests."""
        await self._forward_request()

    @web.authenticated  # type: ignore[untyped-decorator]
    async def post(self) -> None:
        """Return data that the page requests with a query that is too long for a URL."""
        await self._forward_request()

    async def _forward_request(self) -> None:
        environ = WSGIContainer(self.board.handle_request).environ(self.request)
        threads = self.board.threads
        status, headers, body = await IOLoop.current().run_in_executor(
            threads, self.board.handle_request, environ
        )
        code, _, reason = status.partition(" ")
        self.set_status(int(code), reason)
        for name, value in headers:
            if name.lower() == "content-security-policy" and "frame-ancestors" not in value:
                value += ";frame-ancestors 'self'"
            if name.lower() != "content-length":
                self.set_header(name, value)
        if code != "304":
            self.write(body)
        await self.finish()


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(server: Any) -> None:
    prefix = server.web_app.settings["base_url"].rstrip("/") + f"/{PAGE}"
    board = Board(server.root_dir, unquote(prefix))
    pattern = rf"{re.escape(prefix)}(?:/.*)?"
    server.web_app.add_handlers(".*$", [(pattern, BoardHandler, {"board": board})])
