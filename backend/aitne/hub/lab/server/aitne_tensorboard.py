"""TensorBoard as a page of the session's own server, below ``tensorboard/``.

TensorBoard has no login, and on a node with other users any of them could reach its port. So it
listens on none: its program runs inside this server and receives the requests of logged-in users.
It starts with the first request.

Runs in the session's environment: Jupyter and TensorBoard only; nothing else of this package is
there.
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
"""Number of requests that are answered at the same time."""

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Board:
    """TensorBoard instance, started on the first request."""

    def __init__(self, folder: str, prefix: str) -> None:
        """Store the ``folder`` with the event files, which may also be in folders below it."""
        self._folder = folder
        self._prefix = prefix
        self._starting = threading.Lock()
        self._program: Wsgi | None = None
        self.threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix=PAGE)

    def answer(self, environ: dict[str, Any]) -> tuple[str, list[tuple[str, str]], bytes]:
        """Return status, headers and body.

        Blocks for a while, so it is called in a thread.
        """
        with self._starting:
            if self._program is None:
                self._program = _start(self._folder, self._prefix)
        response: list[Any] = []

        def begin(status: str, headers: list[tuple[str, str]], _: object = None) -> None:
            response[:] = status, headers

        body = b"".join(self._program(environ, begin))
        return response[0], response[1], body


class _Held:
    """Replacement of TensorBoard's own web server: holds the program and listens on no port."""

    def __init__(self, program: Wsgi, _: object) -> None:
        self.program = program

    def serve_forever(self) -> None:
        """Return at once: requests come from this server."""

    def get_url(self) -> str:
        """Return an empty URL, because there is none."""
        return ""


def _start(folder: str, prefix: str) -> Wsgi:
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
        """Called by Tornado for each request."""
        self.board = board

    def check_xsrf_cookie(self) -> None:
        """Refuse requests from pages of other sites.

        TensorBoard's page has no token to send, and its requests change nothing.
        """
        # Tornado calls this before the user is known, and Jupyter afterwards again.
        if hasattr(self, "_jupyter_current_user") and not self.check_origin():
            raise web.HTTPError(403, "Only TensorBoard's own page may send this request.")

    @web.authenticated  # type: ignore[untyped-decorator]
    async def get(self) -> None:
        """Return a file of TensorBoard's page, or the values that the page requests."""
        await self._hand_on()

    @web.authenticated  # type: ignore[untyped-decorator]
    async def post(self) -> None:
        """Return values, for a query that is too long for a URL."""
        await self._hand_on()

    async def _hand_on(self) -> None:
        environ = WSGIContainer(self.board.answer).environ(self.request)
        threads = self.board.threads
        status, headers, body = await IOLoop.current().run_in_executor(
            threads, self.board.answer, environ
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
