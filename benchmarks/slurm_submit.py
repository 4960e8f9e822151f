"""Submissions a second through `POST /jobs` until Slurm has them, compared with slurmrestd and sbatch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.figures import Figure, Row
from benchmarks.processes import BenchmarkError, cpu_seconds_of_tree, eventually
from benchmarks.slurm import USER, OnSlurm, Slurm, cluster, platform
from benchmarks.slurm_raw import PARALLEL, Raw, Submit, spread
from benchmarks.stats import median, median_ratio
from benchmarks.submit import LIMIT_MS, submit_all

NAME = "slurm_submit"
LEAST = 0.8
WAYS = {"slurm": "slurmrestd", "slurm_cli": "sbatch"}
"""Each adapter with the program that it submits by."""
BODY = {
    "name": "benchmark",
    "commands": ["true"],
    "workdir": "/tmp",
    "resources": {"memory": "64M"},
    "max_duration": "1m",
}


@dataclass
class Rates:
    """Jobs a second of one adapter's rounds."""

    ours: list[float] = field(default_factory=list)
    accepted: list[float] = field(default_factory=list)
    """Jobs a second until the API has accepted them, in the platform's rounds."""
    theirs: list[float] = field(default_factory=list)
    cpu_ms: list[list[float]] = field(default_factory=list)
    """CPU time of a job in the API, the controller and the broker with its helpers, in ms."""


def measure(*, quick: bool) -> Figure:
    """Measure each adapter in rounds: the platform, and then bare submissions the same way."""
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
                Row(
                    "CPU time of a job, all together",
                    "ms",
                    median(list(map(sum, taken.cpu_ms))),
                    LIMIT_MS,
                ),
                *(
                    Row(
                        f"CPU time of a job, {name}",
                        "ms",
                        median([each[n] for each in taken.cpu_ms]),
                    )
                    for n, name in enumerate(("API", "controller", "broker"))
                ),
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
            "Through the platform: from the first `POST /api/v1/jobs` until the event of the last job's "
            "submission; CPU time is user and kernel time; API, controller and broker each have a process. The bare jobs have the "
            "same options and a script of one line; no folder, no agent, no record.",
        ],
    )


def _rounds(
    slurm: Slurm, ours: OnSlurm, bare: Callable[[], Submit], rounds: int, jobs: int
) -> Rates:
    taken = Rates()
    token, broker = ours.token_of(USER), _broker(slurm, ours)
    for number in range(rounds):
        for mine in (True, False) if number % 2 else (False, True):
            if mine:
                with ours.controller() as controller:
                    submit_all(ours, token, PARALLEL, BODY)
                    pids = (ours.api_pid, controller, broker)
                    before = [cpu_seconds_of_tree(pid) for pid in pids]
                    accepted, whole = submit_all(ours, token, jobs, BODY)
                    after = [cpu_seconds_of_tree(pid) for pid in pids]
                    taken.cpu_ms.append(
                        [1e3 * (b - a) / jobs for a, b in zip(before, after, strict=True)]
                    )
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


def _broker(slurm: Slurm, ours: OnSlurm) -> int:
    """Return the broker process behind the platform's socket; its helpers are its descendants."""
    for entry in Path("/proc").iterdir():
        words: list[bytes] = []
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
        if b"aitne.broker" in words and b"--config" in words:
            config = Path(words[words.index(b"--config") + 1].decode())
            if str(ours.settings.broker.socket) in config.read_text():
                return int(entry.name)
    raise BenchmarkError(f"no process is the broker of {slurm.about.name}")


def _check(slurm: Slurm, jobs: int) -> None:
    names = slurm.queued()
    if len(names) != jobs or len(set(names)) != jobs:
        raise BenchmarkError(f"Slurm has {len(names)} jobs ({len(set(names))} names) of {jobs}")
