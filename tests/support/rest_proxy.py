"""A proxy between a scheduler and slurmrestd that drops answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import Enum
from urllib.parse import urlsplit

from aitne.core.platform.dev_cluster_record import DevCluster


class Cut(Enum):
    """The point at which the connection breaks."""

    BEFORE = "slurmrestd never hears of it"
    AFTER = "slurmrestd has done it, and nobody hears the answer"


@asynccontextmanager
async def proxy(
    cluster: DevCluster, cut: Callable[[int], Cut | None] = lambda _: Cut.AFTER
) -> AsyncIterator[str]:
    """Pass requests to slurmrestd during the block; yield the URL.

    ``cut`` gets the number of each submission, from 0, and returns where the connection breaks.
    """
    real = urlsplit(cluster.rest_url)
    submissions = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal submissions
        there, back = await asyncio.open_connection(real.hostname, real.port)
        try:
            while head := await read_head(reader):
                length = _length(head)
                body = await reader.readexactly(length) if length else b""
                broken = None
                if b"/job/submit" in head.split(b"\r\n", 1)[0]:
                    broken = cut(submissions)
                    submissions += 1
                if broken is Cut.BEFORE:
                    break
                back.write(head + body)
                await back.drain()
                answer = await read_head(there)
                said = await there.readexactly(_length(answer))
                if broken is Cut.AFTER:
                    break
                writer.write(answer + said)
                await writer.drain()
        finally:
            back.close()
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def read_head(reader: asyncio.StreamReader) -> bytes:
    """Return the first line and the headers of a message; empty at the end of the connection."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0
