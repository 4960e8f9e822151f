"""Time of a page of 100 of 10,000 jobs, compared with a bare handler that runs the same queries."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.ports import reserve_ports
from tests.support.postgres import NoPostgres, serve

from aitne.core.settings import Settings
from benchmarks import jobs_table
from benchmarks.figures import Figure, Row
from benchmarks.processes import (
    BenchmarkError,
    Http,
    answers,
    cpu_seconds,
    eventually,
    running,
)
from benchmarks.stats import Estimate, bootstrap, median_ratio, quantile_estimate, quantile_ratio

NAME = "page"
LIMIT = 100
TARGET = 3.0
WARM_UP = 30
_QUERY = "&".join([*(f"state={state}" for state in jobs_table.FILTER), f"limit={LIMIT}"])
VIEWS = {jobs_table.ADMIN: None, "user1": "user1"}
"""The name of each measured view and the owner that its jobs are restricted to; None for all owners."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running API server."""

    port: int
    pid: int

    def answers(self) -> bool:
        """Return whether the server answers its health check."""
        return answers(self.port)


def measure(*, quick: bool) -> Figure:
    """Measure SQLite, and PostgreSQL if it is installed."""
    pairs = 60 if quick else 400
    rows: list[Row] = []
    notes = [
        f"{jobs_table.JOBS} jobs, `GET /api/v1/jobs?state=COMPLETED&state=FAILED&limit={LIMIT}` with a "
        "token, once by an administrator (all jobs) and once by a user (own and the project's).",
        "The bare handler runs the same two statements over the same driver without SQLAlchemy and "
        "returns the rows: no login, no models, no stages, no actions.",
        "The same page again and again: the API keeps the written views of jobs that have not changed.",
        "CPU time is that of the server process alone for one request; it holds on a busy machine.",
    ]
    for name, database in (("SQLite", _sqlite), ("PostgreSQL", _postgres)):
        try:
            with TemporaryDirectory(prefix="aitne-bench-") as folder, database(Path(folder)) as it:
                rows += _compare(name, it, pairs)
        except NoPostgres as error:
            notes.append(f"{name} was left out: {error}")
    return Figure(NAME, "A page of 100 of 10,000 jobs over a bare handler", rows, notes)


@contextmanager
def _sqlite(folder: Path) -> Iterator[Settings]:
    yield Settings(data_dir=folder, port=reserve_ports(2))


@contextmanager
def _postgres(folder: Path) -> Iterator[Settings]:
    with serve() as server:
        url = server.url(server.create_database())
        yield Settings(data_dir=folder, port=reserve_ports(2), database=url)


def _compare(name: str, settings: Settings, pairs: int) -> list[Row]:
    tokens = asyncio.run(jobs_table.fill(settings))
    with _servers(settings) as (ours, theirs):
        return [
            row
            for who in VIEWS
            for row in _time(
                f"{name}, {'administrator' if who == jobs_table.ADMIN else 'user'}",
                Timed(ours, f"/api/v1/jobs?{_QUERY}", {"Authorization": f"Bearer {tokens[who]}"}),
                Timed(theirs, f"/jobs?page={who}"),
                pairs,
            )
        ]


@contextmanager
def _servers(settings: Settings) -> Iterator[tuple[Server, Server]]:
    folder = settings.data_dir
    pages = {
        who: asyncio.run(jobs_table.statements(settings, visible_to, LIMIT))
        for who, visible_to in VIEWS.items()
    }
    where = (
        {"sqlite": str(folder / "aitne.db")}
        if settings.database is None
        else {"postgres": settings.database}
    )
    port = settings.port + 1
    config = folder / "bare.json"
    config.write_text(json.dumps({"port": port, "pages": pages, **where}))
    env = {"AITNE_DATA_DIR": str(folder), "AITNE_PORT": str(settings.port)}
    env |= {} if settings.database is None else {"AITNE_DATABASE": settings.database}
    bare = [sys.executable, "-m", "benchmarks.bare_page", str(config)]
    with (
        running([sys.executable, "-m", "aitne.api"], folder / "api.log", env) as api,
        running(bare, folder / "bare.log") as handler,
    ):
        servers = Server(settings.port, api.pid), Server(port, handler.pid)
        for each in servers:
            eventually("a server's start", each.answers)
        yield servers


class Timed:
    """One request that is made again and again."""

    def __init__(self, server: Server, path: str, headers: Mapping[str, str] | None = None) -> None:
        self._http = Http(server.port, headers)
        self._server = server
        self._path = path
        self.cpu: list[float] = []

    def body(self) -> bytes:
        """Request the page and return the body of the answer."""
        return self._http.get(self._path)[1]

    def time(self) -> float:
        """Return the seconds of one request; record its CPU time."""
        before = cpu_seconds(self._server.pid)
        took = self._http.time_get(self._path)
        self.cpu.append(cpu_seconds(self._server.pid) - before)
        return took


def _time(name: str, ours: Timed, theirs: Timed, pairs: int) -> list[Row]:
    _check_same(ours.body(), theirs.body())
    for _ in range(WARM_UP):
        ours.time()
        theirs.time()
    ours.cpu.clear()
    theirs.cpu.clear()
    draw = random.Random(2)
    taken: list[tuple[float, float]] = []
    for _ in range(pairs):
        if draw.random() < 0.5:
            mine = ours.time()
            taken.append((mine, theirs.time()))
        else:
            bare = theirs.time()
            taken.append((ours.time(), bare))
    return [
        Row(f"{name}: p95 over bare p95", "x", quantile_ratio(taken, 0.95), TARGET),
        Row(f"{name}: median of the pairs' ratios", "x", median_ratio(taken)),
        Row(f"{name}: CPU time over bare", "x", _ratio_of_sums(ours.cpu, theirs.cpu)),
        Row(f"{name}: p95", "ms", _ms(quantile_estimate([mine for mine, _ in taken], 0.95))),
        Row(
            f"{name}: p95 of bare", "ms", _ms(quantile_estimate([bare for _, bare in taken], 0.95))
        ),
    ]


def _ratio_of_sums(ours: list[float], theirs: list[float]) -> Estimate:
    # The kernel's clock ticks are longer than a request, so only the sums mean something.
    return bootstrap(
        list(zip(ours, theirs, strict=True)),
        lambda chosen: sum(mine for mine, _ in chosen) / max(sum(bare for _, bare in chosen), 0.01),
        resamples=500,
    )


def _check_same(ours: bytes, theirs: bytes) -> None:
    mine, bare = json.loads(ours), json.loads(theirs)
    same = [item["id"].replace("-", "") for item in mine["items"]] == [
        item["id"].replace("-", "") for item in bare["items"]
    ]
    if not same or mine["total"] != bare["total"] or len(mine["items"]) != LIMIT:
        raise BenchmarkError("the two pages differ")


def _ms(seconds: Estimate) -> Estimate:
    return Estimate(seconds.value * 1e3, seconds.low * 1e3, seconds.high * 1e3, seconds.count)
