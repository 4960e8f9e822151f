"""Streaming responses, which stop when the client disconnects or the server stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import cast

from fastapi import FastAPI
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from aitne.core.errors import RateLimited
from aitne.core.models.user import Actor
from aitne.core.users.ended_credentials import EndedCredentials

MAX_STREAMS_PER_USER = 64
"""Maximum number of open streams of one user: each tab of the portal uses one, and each followed
log."""
_RETRY_S = 5.0


class OpenStreams:
    """Registry of the streams that are open now. A server that stops closes them first, because
    they would not end by themselves."""

    def __init__(self) -> None:
        self._pumps: dict[asyncio.Task[None], Actor | None] = {}
        self._closed = False

    def check_limit(self, user: str) -> None:
        """Check that the user may open another stream. Raises ``RateLimited`` if too many are
        open."""
        opened = sum(actor is not None and actor.name == user for actor in self._pumps.values())
        if opened >= MAX_STREAMS_PER_USER:
            raise RateLimited(
                f"You have {MAX_STREAMS_PER_USER} open streams. Close a tab of the portal or a "
                "followed log.",
                _RETRY_S,
            )

    def add(self, pump: asyncio.Task[None], actor: Actor | None) -> None:
        """Register the task ``pump`` that sends a stream, until it ends; cancel it at once if the
        server is already stopping.

        ``actor`` is the one who opened it; None for a stream with limits and an end of its own.
        """
        self._pumps[pump] = actor
        pump.add_done_callback(self._discard)
        if self._closed:
            pump.cancel()

    def _discard(self, pump: asyncio.Task[None]) -> None:
        self._pumps.pop(pump, None)

    def end_streams(self, ended: EndedCredentials) -> None:
        """End all streams that were opened with ended credentials; they may be opened again with a
        valid one.
        """
        for pump, actor in tuple(self._pumps.items()):
            if actor is not None and ended.includes(actor.name, actor.credential):
                pump.cancel()

    def close(self) -> None:
        """End all open streams, and from now on also each new one."""
        self._closed = True
        for pump in tuple(self._pumps):
            pump.cancel()


def get_open_streams(app: FastAPI) -> OpenStreams:
    """Return the open streams of this application."""
    return cast(OpenStreams, app.state.streams)


class StreamedResponse(Response):
    """Response that sends the chunks of an async generator. The generator is always closed at the
    end."""

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        streams: OpenStreams,
        actor: Actor,
        *,
        media_type: str,
        headers: Mapping[str, str] | None = None,
        size: int | None = None,
        status: int = 200,
    ) -> None:
        """Create a response that streams ``chunks`` to ``actor``; ``size`` is their size in bytes,
        None: it is not known. Raises ``RateLimited`` if the user has too many open streams."""
        streams.check_limit(actor.name)
        super().__init__(status_code=status, media_type=media_type, headers=headers)
        del self.headers["content-length"]
        if size is not None:
            self.headers["content-length"] = str(size)
        self._chunks = chunks
        self._streams = streams
        self._actor = actor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the chunks until the generator ends, the client disconnects or the server stops."""
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            },
        )
        pump = asyncio.create_task(self._send_chunks(send))
        self._streams.add(pump, self._actor)
        disconnect = asyncio.create_task(_wait_for_disconnect(receive))
        try:
            await asyncio.wait({pump, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            disconnect.cancel()
            pump.cancel()
            await asyncio.wait({pump, disconnect})
        if not pump.cancelled() and (error := pump.exception()) is not None:
            # The status is sent: only a broken connection can still report the error.
            raise error
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_chunks(self, send: Send) -> None:
        async with aclosing(self._chunks) as chunks:
            async for chunk in chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
