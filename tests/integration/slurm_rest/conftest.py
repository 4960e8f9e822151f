"""A real Slurm behind slurmrestd, and ways to come between the two."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from aitne.adapters.schedulers.slurm import SlurmScheduler
from aitne.core.dev_cluster import DevCluster
from tests.support.schedulers import Bench, Clusters, opened, slurm

Open = Callable[..., Any]


@pytest.fixture
def cluster(slurm_cluster: DevCluster) -> DevCluster:
    return slurm_cluster


@pytest.fixture
def bench(cluster: DevCluster, tmp_path: Path) -> Open:
    """``async with bench(rest_url=…) as bench``; what is not given is the cluster's own."""
    clusters: Clusters = lambda _: cluster  # noqa: E731

    @asynccontextmanager
    async def make(**changes: Any) -> AsyncIterator[Bench]:
        rest = {"rest_url": cluster.rest_url, "jwt_key": cluster.jwt_key} | changes
        with slurm(SlurmScheduler, "system", tmp_path, clusters, **rest) as (factory, stand):
            async with opened(factory, tmp_path, stand) as opened_bench:
                yield opened_bench

    return make


@asynccontextmanager
async def swallowing(cluster: DevCluster) -> AsyncIterator[str]:
    """Passes all to the real slurmrestd, and breaks off instead of giving back a submission's answer."""
    real = urlsplit(cluster.rest_url)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(real.hostname, real.port)
        try:
            while head := await _head(reader):
                length = _length(head)
                back.write(head + (await reader.readexactly(length) if length else b""))
                await back.drain()
                answer = await _head(there)
                body = await there.readexactly(_length(answer))
                if b"/job/submit" in head.split(b"\r\n", 1)[0]:
                    break
                writer.write(answer + body)
                await writer.drain()
        finally:
            back.close()
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@asynccontextmanager
async def saying(status: int, body: Any) -> AsyncIterator[str]:
    """A server that gives one answer to everything."""
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _head(reader)
        writer.write(head.encode() + data)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0
