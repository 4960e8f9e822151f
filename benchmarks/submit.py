"""CPU time of a job from `POST /jobs` until the local scheduler has it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.ports import reserve_ports

from aitne.local_system.settings_loader import load_settings
from benchmarks.figures import Figure, Row
from benchmarks.processes import BenchmarkError, cpu_seconds, eventually
from benchmarks.slurm import OnSlurm, api
from benchmarks.slurm_raw import spread
from benchmarks.stats import median

NAME = "submit"
LIMIT_MS = 10.0
_BODY = {
    "name": "benchmark",
    "commands": ["true"],
    "resources": {"memory": "16M"},
    "max_duration": "1m",
}
_LOOK_EVERY_S = 0.05
_QUIET_S = 3.0


def measure(*, quick: bool) -> Figure:
    """Measure jobs that four clients submit while another job holds all processors."""
    rounds, jobs = (3, 100) if quick else (10, 200)
    api_ms, controller_ms, idle = list[float](), list[float](), list[float]()
    with TemporaryDirectory(prefix="aitne-bench-") as folder:
        settings = load_settings(
            Path(folder) / "data", scheduler="local", port=reserve_ports(4), broker={"socket": None}
        )
        with api(settings) as ours, ours.controller() as controller, _full(ours):
            for _ in range(rounds):
                time.sleep(1)
                rest = _cpu(ours.api_pid, controller, lambda: time.sleep(_QUIET_S))
                began = time.perf_counter()
                used = _cpu(ours.api_pid, controller, lambda: submit_all(ours, ours.token, jobs))
                share = (time.perf_counter() - began) / _QUIET_S
                costs = [1e3 * (a - share * b) / jobs for a, b in zip(used, rest, strict=True)]
                api_ms.append(costs[0])
                controller_ms.append(costs[1])
                idle.append(100 * sum(rest) / _QUIET_S)
                _cancel(ours, "benchmark", left=1)
    both = [a + b for a, b in zip(api_ms, controller_ms, strict=True)]
    return Figure(
        NAME,
        "CPU time of a submission",
        [
            Row("CPU time of a job, API and controller", "ms", median(both), LIMIT_MS),
            Row("API", "ms", median(api_ms)),
            Row("controller, with the local scheduler", "ms", median(controller_ms)),
            Row("both at rest, of one CPU", "%", median(idle)),
        ],
        [
            f"Rounds of {jobs} jobs, four clients at once, SQLite, the local scheduler, on which no job "
            "starts: one has all processors. From the first `POST /api/v1/jobs` until the last job is in "
            "the scheduler; user and kernel time of each process, less what it uses at rest.",
        ],
    )


def submit_all(ours: OnSlurm, token: str, jobs: int, body: object = _BODY) -> tuple[float, float]:
    """Submit jobs; seconds until the API has taken them, and until the scheduler has."""

    def client() -> Callable[[], None]:
        http = ours.http(token)
        return lambda: http.post("/api/v1/jobs", body)

    last, began, start = ours.last_event(), time.time(), time.perf_counter()
    accepted = spread(jobs, client)
    give_up = start + 60 + jobs / 5
    while len(times := ours.submitted(last)) < jobs:
        if time.perf_counter() > give_up:
            raise BenchmarkError(f"the scheduler has {len(times)} of {jobs} jobs")
        time.sleep(_LOOK_EVERY_S)
    return accepted, max(accepted, times[jobs - 1] - began)


def _cpu(api_pid: int, controller: int, work: Callable[[], object]) -> tuple[float, float]:
    before = cpu_seconds(api_pid), cpu_seconds(controller)
    work()
    return cpu_seconds(api_pid) - before[0], cpu_seconds(controller) - before[1]


@contextmanager
def _full(ours: OnSlurm) -> Iterator[None]:
    """Let a job hold all processors."""
    body = {
        **_BODY,
        "name": "filler",
        "commands": ["sleep 3600"],
        "resources": {"cpu": os.cpu_count(), "memory": "16M"},
        "max_duration": "1h",
    }
    ours.http().post("/api/v1/jobs", body)
    eventually("a job that takes all processors", lambda: ours.count("state = 'RUNNING'") == 1)
    try:
        yield
    finally:
        _cancel(ours, "filler", left=0)


def _cancel(ours: OnSlurm, name: str, *, left: int) -> None:
    """Cancel all jobs of this name, and wait until so many live ones are left."""
    body = {"filter": {"q": name}, "expected": ours.live() - left}
    ours.http().post("/api/v1/jobs:cancel", body)
    eventually("the end of all jobs", lambda: ours.live() == left)
