"""A client for unfinished answers: it reads them as they arrive, and can disconnect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.datastructures import Headers

SOON_S = 10.0
"""Less than the heartbeat of a stream, at which it notices by itself what it was not told."""


class OpenAnswer:
    """The part of one answer that was received so far."""

    def __init__(self, *, stalled: bool = False) -> None:
        self.status = 0
        self.headers = Headers()
        self.ended = False
        self.task: asyncio.Task[None]
        self._stalled = stalled
        self._gone = asyncio.Event()
        self._asked = False
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._started = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        """Return an empty request body; then wait for the client to disconnect."""
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        """Receive one ASGI message of the application."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = Headers(raw=message["headers"])
            self._started.set()
            return
        if self._stalled:
            await self._gone.wait()
        if message.get("body"):
            self._chunks.put_nowait(message["body"])
        self.ended = not message.get("more_body", False)

    async def until(self, text: bytes, timeout_s: float = SOON_S) -> bytes:
        """Read until ``text`` has come; everything read."""
        read = b""
        async with asyncio.timeout(timeout_s):
            while text not in read:
                read += await self._chunks.get()
        return read

    async def wait_started(self) -> None:
        """Wait for the status line."""
        async with asyncio.timeout(60):
            await self._started.wait()

    def leave(self) -> None:
        """Disconnect, as a browser does that closes a page."""
        self._gone.set()


@asynccontextmanager
async def open_answer(
    app: Any, path: str, headers: dict[str, str], *, stalled: bool = False
) -> AsyncIterator[OpenAnswer]:
    """GET ``path`` and do not wait for the end. With ``stalled`` the body is not read at all."""
    path, _, query = path.partition("?")
    answer = OpenAnswer(stalled=stalled)
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("portal.test", 8000),
    }
    answer.task = asyncio.create_task(app(scope, answer.receive, answer.send))
    try:
        await answer.wait_started()
        yield answer
    finally:
        answer.leave()
        async with asyncio.timeout(60):
            await asyncio.wait({answer.task})
