"""Requests of the cluster page with 1,024 nodes, compared with a bare handler; sizes of the answers."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import event
from tests.support.ports import reserve_ports

from aitne.adapters.broker_scheduler import BrokerScheduler
from aitne.core.settings import Settings
from aitne.store import Store
from benchmarks.figures import Figure, Row
from benchmarks.processes import BenchmarkError, Http, answers, eventually, running
from benchmarks.slurm import OnSlurm, cluster, platform
from benchmarks.stats import Estimate, median, median_ratio, quantile_estimate, quantile_ratio

NAME = "nodes"
NODES = 1_024
TARGET = 3.0
_OLD_S = 0.55
"""The API and the broker cache the nodes for half a second."""
_NODES, _PARTITIONS = "/api/v1/cluster/nodes", "/api/v1/cluster/partitions"
_KB = 1e3
Pairs = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Request:
    """One way to ask."""

    name: str
    path: str
    etag: bool = False
    first: bool = False
    """No request came for so long that the API reads the nodes anew."""


REQUESTS = (
    Request("nodes", _NODES),
    Request("nodes, 304", _NODES, etag=True),
    Request("nodes, looked at anew", _NODES, first=True),
    Request("partitions", _PARTITIONS),
)


def measure(*, quick: bool) -> Figure:
    """Measure each request and the bare handler in turn, while a controller polls the nodes."""
    pairs, looks = (40, 4) if quick else (300, 20)
    with cluster(NODES) as slurm, TemporaryDirectory(prefix="aitne-bench-") as folder:
        Path(folder).chmod(0o755)
        with platform(slurm, Path(folder), "slurm") as ours, ours.controller():
            http = ours.http()
            # Those with a slurmd come on top.
            whole = NODES + len(slurm.about.nodes)
            eventually("the first look at the nodes", lambda: _count(http) == whole)
            with _bare(ours.settings, Path(folder)) as theirs:
                rows = [row for each in REQUESTS for row in _compare(each, ours, theirs, pairs)]
            rows += [*_sizes(http), _look(ours.settings, looks)]
        release = slurm.about.slurm_release
    return Figure(
        NAME,
        f"The cluster page of {NODES} nodes",
        rows,
        [
            f"Slurm {release} with {NODES} CLOUD nodes that are powered down and four with a slurmd; a "
            "controller keeps the list up to date meanwhile.",
            "The bare handler asks the database for the same rows with the same statement, and "
            "returns their JSON: no login, no models, no ETag, nothing kept. The API keeps the written "
            "list for half a second.",
            "Sizes are of the bodies; compressed is gzip at level 6, as a proxy in front would do it. "
            "1 kB is 1000 bytes.",
        ],
    )


def _count(http: Http) -> int:
    return len(json.loads(http.get(_NODES)[1])["items"])


@contextmanager
def _bare(settings: Settings, folder: Path) -> Iterator[Http]:
    port, config = reserve_ports(), folder / "bare.json"
    database = str(settings.data_dir / "aitne.db")
    statement = asyncio.run(_statement(settings))
    config.write_text(json.dumps({"port": port, "sqlite": database, "nodes": statement}))
    argv = [sys.executable, "-m", "benchmarks.bare_page", str(config)]
    with running(argv, folder / "bare.log"):
        eventually("a server's start", lambda: answers(port))
        yield Http(port)


async def _statement(settings: Settings) -> tuple[str, list[Any]]:
    """Return the SQL statement with which the store reads the nodes, and its parameters."""
    seen: list[tuple[str, list[Any]]] = []
    store = Store(settings.database_url)

    def note(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        seen.append((statement, list(parameters)))

    event.listen(store._db._engine.sync_engine, "before_cursor_execute", note)
    try:
        await store.list_nodes()
    finally:
        await store.close()
    return next(each for each in seen if "FROM nodes" in each[0])


def _compare(request: Request, ours: OnSlurm, theirs: Http, count: int) -> list[Row]:
    etag = {"If-None-Match": _etag(ours, request.path)} if request.etag else {}
    http = Http(ours.settings.port, {"Authorization": f"Bearer {ours.token}", **etag})
    expected = 304 if request.etag else 200

    def timed_request() -> float:
        began = time.perf_counter()
        status, _ = http.get(request.path)
        took = time.perf_counter() - began
        if status != expected:
            raise BenchmarkError(f"GET {request.path} was answered {status}, not {expected}")
        return took

    pairs: Pairs = []
    for _ in range(5):
        timed_request(), theirs.time_get("/nodes")
    for number in range(count // 4 if request.first else count):
        time.sleep(_OLD_S if request.first else 0)
        if number % 2:
            took = timed_request()
            pairs.append((took, theirs.time_get("/nodes")))
        else:
            bare = theirs.time_get("/nodes")
            pairs.append((timed_request(), bare))
    name = request.name
    return [
        Row(f"{name}: p95 over bare p95", "x", quantile_ratio(pairs, 0.95), TARGET),
        Row(f"{name}: median of the pairs' ratios", "x", median_ratio(pairs)),
        Row(f"{name}: median", "ms", median([took * 1e3 for took, _ in pairs])),
        Row(f"{name}: p95", "ms", quantile_estimate([took * 1e3 for took, _ in pairs], 0.95)),
        Row(f"bare beside {name}: median", "ms", median([bare * 1e3 for _, bare in pairs])),
    ]


def _etag(ours: OnSlurm, path: str) -> str:
    return str(ours.http().headers(path)["etag"])


def _sizes(http: Http) -> list[Row]:
    rows = []
    for name, path in (("nodes", _NODES), ("partitions", _PARTITIONS)):
        _, body = http.get(path)
        packed = gzip.compress(body, 6)
        rows += [
            Row(f"{name}: size", "kB", _exact(len(body) / _KB)),
            Row(f"{name}: size, compressed", "kB", _exact(len(packed) / _KB)),
        ]
    return rows


def _look(settings: Settings, looks: int) -> Row:
    """Measure the time that the controller waits for the broker's answer about the nodes."""

    async def look() -> list[float]:
        scheduler = BrokerScheduler(settings)
        await scheduler.start()
        took = []
        try:
            for _ in range(looks):
                await asyncio.sleep(_OLD_S)
                began = time.perf_counter()
                await scheduler.read_cluster()
                took.append((time.perf_counter() - began) * 1e3)
        finally:
            await scheduler.close()
        return took

    return Row("a controller's look at the nodes", "ms", median(asyncio.run(look())))


def _exact(value: float) -> Estimate:
    return Estimate(value, value, value, 1)
