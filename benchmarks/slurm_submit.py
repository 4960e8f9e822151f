"""Submissions a second through ``POST /jobs`` until Slurm has them all, over slurmrestd and sbatch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.figures import Figure, Row
from benchmarks.processes import BenchmarkError, eventually
from benchmarks.slurm import USER, OnSlurm, Slurm, cluster, platform
from benchmarks.slurm_raw import PARALLEL, Raw, Submit, spread
from benchmarks.stats import median, median_ratio

NAME = "slurm_submit"
LEAST = 0.8
WAYS = {"slurm": "slurmrestd", "slurm_cli": "sbatch"}
"""Each adapter, and what it submits with."""
_BODY = {
    "name": "benchmark",
    "commands": ["true"],
    "workdir": "/tmp",
    "resources": {"memory": "64M"},
    "max_duration": "1m",
}
_LOOK_EVERY_S = 0.005


@dataclass
class Taken:
    """Jobs a second of one adapter's rounds."""

    ours: list[float] = field(default_factory=list)
    accepted: list[float] = field(default_factory=list)
    """Until the API has taken them, in our rounds."""
    theirs: list[float] = field(default_factory=list)


def measure(*, quick: bool) -> Figure:
    """For each adapter rounds of the platform and of what it submits with, in turn."""
    rounds, jobs = (4, 100) if quick else (12, 400)
    rows: list[Row] = []
    with cluster() as slurm, TemporaryDirectory(prefix="aitne-bench-") as folder:
        Path(folder).chmod(0o755)
        raw = Raw(slurm)
        for scheduler, way in WAYS.items():
            with platform(slurm, Path(folder), scheduler) as ours:
                bare = raw.rest if scheduler == "slurm" else raw.sbatch
                taken = _rounds(slurm, ours, bare, rounds, jobs)
            pairs = list(zip(taken.ours, taken.theirs, strict=True))
            rows += [
                Row(f"jobs a second over {way}'s", "x", median_ratio(pairs), least=LEAST),
                Row("through the platform", "/s", median(taken.ours)),
                Row("there, until the API has taken them", "/s", median(taken.accepted)),
                Row(f"{PARALLEL} times {way}", "/s", median(taken.theirs)),
            ]
        release = slurm.about.slurm_release
    return Figure(
        NAME,
        "Submissions through the platform over Slurm's own ways",
        rows,
        [
            f"Slurm {release}; rounds of {jobs} jobs of {USER}'s, {PARALLEL} clients at once, the two "
            "in turn, all nodes drained. The controller does not run meanwhile.",
            "Through the platform: from the first `POST /api/v1/jobs` until the last job's id of Slurm's "
            "is in the database; API, controller and broker each have a process. The bare jobs have the "
            "same options and a script of one line; no folder, no agent, no record.",
        ],
    )


def _rounds(
    slurm: Slurm, ours: OnSlurm, bare: Callable[[], Submit], rounds: int, jobs: int
) -> Taken:
    taken = Taken()
    token = ours.token_of(USER)
    for number in range(rounds):
        for mine in (True, False) if number % 2 else (False, True):
            if mine:
                with ours.controller():
                    through_platform(ours, token, PARALLEL)
                    accepted, whole = through_platform(ours, token, jobs)
                    _check(slurm, jobs + PARALLEL)
                    slurm.cancel_all()
                    eventually("the platform's notice of it", lambda: not ours.live())
                taken.accepted.append(jobs / accepted)
                taken.ours.append(jobs / whole)
            else:
                taken.theirs.append(jobs / spread(jobs, bare))
                _check(slurm, jobs)
                slurm.cancel_all()
    return taken


def through_platform(ours: OnSlurm, token: str, jobs: int) -> tuple[float, float]:
    """Seconds until the API has taken them, and until Slurm has them."""

    def client() -> Submit:
        http = ours.http(token)
        return lambda: http.post("/api/v1/jobs", _BODY)

    known = ours.count("scheduler_id IS NOT NULL")
    began = time.perf_counter()
    accepted = spread(jobs, client)
    give_up = began + 60 + jobs / 5
    while (there := ours.count("scheduler_id IS NOT NULL") - known) < jobs:
        if time.perf_counter() > give_up:
            raise BenchmarkError(f"Slurm has {there} of {jobs} jobs")
        time.sleep(_LOOK_EVERY_S)
    return accepted, time.perf_counter() - began


def _check(slurm: Slurm, jobs: int) -> None:
    names = slurm.queued()
    if len(names) != jobs or len(set(names)) != jobs:
        raise BenchmarkError(f"Slurm has {len(names)} jobs ({len(set(names))} names) of {jobs}")
