"""A real Slurm behind slurmrestd, and ways to come between the two."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aitne.adapters.schedulers.slurm import SlurmScheduler
from aitne.core.platform.dev_cluster_record import DevCluster
from tests.support.rest_proxy import read_head
from tests.support.schedulers import Bench, Clusters, opened, slurm

Open = Callable[..., Any]


@pytest.fixture
def cluster(slurm_cluster: DevCluster) -> DevCluster:
    return slurm_cluster


@pytest.fixture
def bench(cluster: DevCluster, tmp_path: Path) -> Open:
    """A function that opens a bench; settings that are not given are the cluster's own."""
    clusters: Clusters = lambda _: cluster  # noqa: E731

    @asynccontextmanager
    async def make(**changes: Any) -> AsyncIterator[Bench]:
        rest = {"rest_url": cluster.rest_url, "jwt_key": cluster.jwt_key} | changes
        with slurm(SlurmScheduler, "system", tmp_path, clusters, **rest) as (factory, stand):
            async with opened(factory, tmp_path, stand) as opened_bench:
                yield opened_bench

    return make


@asynccontextmanager
async def saying(status: int, body: Any) -> AsyncIterator[str]:
    """Run a server that gives one answer to all requests; yield its URL."""
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(head.encode() + data)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
