"""A forward proxy that leads targets of other sites to servers of a test, and a TLS server."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class ForwardProxy:
    """Proxy that answers CONNECT for the targets in ``routes`` and refuses all others with 403."""

    port: int = 0
    routes: dict[str, int] = field(default_factory=dict)
    """Port on this machine that stands for each target, such as ``1.2.3.4:443``."""
    requests: list[str] = field(default_factory=list)
    """First line of each request."""

    @property
    def url(self) -> str:
        """URL of the proxy for the settings."""
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and carry bytes both ways until one side ends."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        line = head.partition("\r\n")[0]
        self.requests.append(line)
        method, target, _ = line.split(" ")
        port = self.routes.get(target)
        if method != "CONNECT" or port is None:
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            writer.close()
            return
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(_carry(reader, inner_writer), _carry(inner_reader, writer))


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while part := await reader.read(65_536):
            writer.write(part)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def listening(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    context: ssl.SSLContext | None = None,
) -> AsyncIterator[int]:
    """Serve on a free port of this machine during the block, and yield the port."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()
