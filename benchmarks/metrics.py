"""Cost of a Prometheus scrape of the platform while 10,000 live jobs report."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import insert, select, update
from tests.support.ports import reserve_ports

from aitne.core.jobs.states import JobState
from aitne.core.settings import Settings
from aitne.services.monitoring.measurements import FRESH_S
from aitne.services.platform.shared_secrets import hash_secret
from aitne.store import Store, tables
from aitne.supervisor.secret_files import ensure_secrets
from benchmarks import jobs_table
from benchmarks.figures import Figure, Row
from benchmarks.processes import BenchmarkError, Http, answers, eventually, running
from benchmarks.stats import Estimate, median, quantile_estimate

NAME = "metrics"
ENDED, LIVE = 100_000, 10_000
MOST_MS = 100.0
PATHS = ("/metrics", "/metrics/jobs")
_NODE = "node0001"
_GPU = {
    "index": 0,
    "utilization": 0.93,
    "memory_bytes": 60 << 30,
    "power_w": 612.5,
    "energy_j": 1_234_567.8,
    "ecc_errors": 0,
}


def measure(*, quick: bool) -> Figure:
    """Measure an API with a full database; the agent of every live job has sent a report."""
    live, scrapes = (LIVE // 10, 5) if quick else (LIVE, 15)
    with TemporaryDirectory(prefix="aitne-bench-") as name:
        settings = Settings(data_dir=Path(name), port=reserve_ports())
        ensure_secrets(settings.secrets_dir)
        token = (settings.secrets_dir / "metrics_token").read_text().strip()
        asyncio.run(jobs_table.fill(settings, ended=ENDED, live=live))
        jobs = asyncio.run(_run(settings))
        with _api(settings) as pid:
            before = _memory(pid)
            for job in jobs:
                _report(settings.port, job)
            after = _memory(pid)
            http = Http(settings.port, {"Authorization": f"Bearer {token}"})
            fresh: dict[str, list[float]] = {path: [] for path in PATHS}
            cached: dict[str, list[float]] = {path: [] for path in PATHS}
            for _ in range(scrapes):
                time.sleep(FRESH_S)
                for path in PATHS:
                    fresh[path].append(1_000 * http.time_get(path))
                    cached[path].append(1_000 * http.time_get(path))
            bodies = {path: http.get(path)[1] for path in PATHS}
            scraped = _memory(pid)
    rows = []
    for path in PATHS:
        rows += [
            Row(f"{path}: p95", "ms", quantile_estimate(fresh[path], 0.95), MOST_MS),
            Row(f"{path}: median", "ms", median(fresh[path])),
            Row(f"{path}: median again within {FRESH_S:g} s", "ms", median(cached[path])),
            Row(f"{path}: series", "", _exact(_series(bodies[path]))),
            Row(f"{path}: size", "MB", _exact(len(bodies[path]) / 1e6)),
        ]
    rows += [
        Row("memory for the jobs' reports", "MB", _exact((after - before) / 1e6)),
        Row("memory for the scrapes", "MB", _exact((scraped - after) / 1e6)),
    ]
    notes = [
        f"{live} running jobs with a GPU, each with one report, and {ENDED} ended jobs in SQLite. "
        f"{scrapes} scrapes over loopback, each after the {FRESH_S:g} s for which values are kept.",
    ]
    return Figure(NAME, f"A scrape with {live} live jobs", rows, notes)


async def _run(settings: Settings) -> list[str]:
    """Let the live jobs run, each with a token that is its own ID; return their IDs."""
    store = Store(settings.database_url)
    jobs = tables.jobs
    queued = jobs.c.state == JobState.QUEUED
    try:
        async with store._db.raw_write() as connection:
            ids = [row.id for row in await connection.execute(select(jobs.c.id).where(queued))]
            tokens = [{"job_id": job, "token_hash": hash_secret(str(job))} for job in ids]
            await connection.execute(insert(tables.job_secrets), tokens)
            for number, job in enumerate(ids):
                values = {"state": JobState.RUNNING, "scheduler_id": str(number), "nodes": [_NODE]}
                await connection.execute(update(jobs).where(jobs.c.id == job).values(values))
    finally:
        await store.close()
    return [str(job) for job in ids]


def _report(port: int, job: str) -> None:
    sample = {
        "time": datetime.now(UTC).isoformat(),
        "node": _NODE,
        "cpu": 3.875,
        "memory_bytes": 12 << 30,
        "processes": 9,
        "read_bytes": 123_456_789_012,
        "written_bytes": 98_765_432,
        "gpu": [_GPU],
    }
    report = {"protocol": 1, "attempt": 1, "phase": "running", "node": _NODE, "samples": [sample]}
    http = Http(port, {"Authorization": f"Bearer {job}"})
    http.post(f"/agent/v1/jobs/{job}/report", report)
    http.close()


@contextmanager
def _api(settings: Settings) -> Iterator[int]:
    env = {"AITNE_DATA_DIR": str(settings.data_dir), "AITNE_PORT": str(settings.port)}
    log = settings.data_dir / "api.log"
    with running([sys.executable, "-m", "aitne.api"], log, env) as process:
        eventually("the API's start", lambda: answers(settings.port))
        yield process.pid


def _memory(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return float(line.split()[1]) * 1_024
    raise BenchmarkError("the API has ended")


def _series(body: bytes) -> int:
    return sum(not line.startswith(b"#") for line in body.splitlines())


def _exact(value: float) -> Estimate:
    return Estimate(value, value, value, 1)
