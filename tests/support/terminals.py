"""WebSockets without a network, and jobs to open terminals in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from fastapi import FastAPI

from aitne.core.jobs.states import JobState
from aitne.core.models.job import JobChanges
from tests.support.jobs import make_job
from tests.support.stage import Stage


class Socket:
    """A browser's end of one WebSocket."""

    def __init__(self) -> None:
        self.accepted = False
        self.closed: int | None = None
        """The close code, once the server has closed the connection; 403 if it never accepted it."""
        self._to_server: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._from_server: asyncio.Queue[bytes | dict[str, Any]] = asyncio.Queue()
        self._ended = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        """Return the next message to the application."""
        return await self._to_server.get()

    async def send(self, message: Any) -> None:
        """Receive a message of the application."""
        if message["type"] == "websocket.accept":
            self.accepted = True
        elif message["type"] == "websocket.close":
            self.closed = message["code"] if self.accepted else 403
            self._ended.set()
        elif message.get("bytes") is not None:
            self._from_server.put_nowait(message["bytes"])
        else:
            self._from_server.put_nowait(json.loads(message["text"]))

    def say(self, message: bytes | dict[str, Any]) -> None:
        """Send bytes or a JSON message to the application."""
        if isinstance(message, bytes):
            self._to_server.put_nowait({"type": "websocket.receive", "bytes": message})
        else:
            text = json.dumps(message)
            self._to_server.put_nowait({"type": "websocket.receive", "text": text})

    async def hear(self, kind: str | None = None) -> Any:
        """Return the next message; with ``kind``, the next of that type (``bytes`` for output)."""
        async with asyncio.timeout(60):
            while True:
                message = await self._from_server.get()
                found = "bytes" if isinstance(message, bytes) else message["type"]
                if kind in (None, found):
                    return message

    def unread(self) -> int:
        """Return the number of messages that were received and not read."""
        return self._from_server.qsize()

    async def wait_closed(self) -> int:
        """Wait until the server closes the connection; return the close code."""
        async with asyncio.timeout(60):
            await self._ended.wait()
        return self.closed or 0

    def drop(self, code: int = 1006) -> None:
        """Break the connection with that close code."""
        self._to_server.put_nowait({"type": "websocket.disconnect", "code": code})


@asynccontextmanager
async def connected(
    app: FastAPI, path: str, query: str = "", *, address: str = "127.0.0.1", **headers: str
) -> AsyncIterator[Socket]:
    """Open one; in the end it is dropped, and the application has noticed."""
    found = Socket()
    scope = {
        "type": "websocket",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "ws",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": (address, 1),
        "server": ("portal.test", 8000),
        "subprotocols": [],
        "state": {},
    }
    found._to_server.put_nowait({"type": "websocket.connect"})
    task = asyncio.create_task(app(scope, found.receive, found.send))
    try:
        yield found
    finally:
        found.drop()
        async with asyncio.timeout(60):
            await asyncio.wait({task})


async def running_job(
    stage: Stage, nodes: tuple[str, ...] = ("node01", "node02"), **overrides: Any
) -> UUID:
    """Create a running job of ada on two nodes; return its id."""
    job = make_job(**{"owner": "ada", "project": "vision", **overrides})
    await stage.store.create_job(job)
    for state in (JobState.SUBMITTING, JobState.QUEUED, JobState.STARTING, JobState.RUNNING):
        changes = JobChanges(scheduler_id="17", nodes=nodes)
        await stage.store.transition_job(job.id, state, changes)
    return job.id
