"""An array of 10,000 tasks: submitted, listed and cancelled by the platform and by Slurm's commands."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.figures import Figure, Row
from benchmarks.processes import BenchmarkError, Http, eventually
from benchmarks.slurm import USER, OnSlurm, Slurm, cluster, platform
from benchmarks.stats import median, median_ratio

NAME = "slurm_array"
TASKS = 10_000
ROUNDS = 2
"""Slurm keeps ended tasks for ``MinJobAge`` and refuses more than ``MaxJobCount``: here 60,000."""
STEPS = {"submit": "sbatch", "list": "squeue --array", "cancel": "scancel"}
"""Each step, and the command that does it."""
_PAGE = 500
_LOOK_EVERY_S = 0.01
_END_S = 300.0
_SCRIPT = "#!/bin/sh\ntrue\n"


def measure(*, quick: bool) -> Figure:
    """Rounds of the platform and of the commands, in turn."""
    rounds = 1 if quick else ROUNDS
    taken: list[tuple[dict[str, float], dict[str, float]]] = []
    with cluster() as slurm, TemporaryDirectory(prefix="aitne-bench-") as folder:
        Path(folder).chmod(0o755)
        limits = {"max_array_tasks": TASKS, "max_live_jobs": 2 * TASKS}
        with platform(slurm, Path(folder), "slurm", limits=limits) as ours, ours.controller():
            token = ours.token_of(USER)
            for number in range(rounds):
                found = {}
                for mine in (True, False) if number % 2 else (False, True):
                    found[mine] = (
                        _platform(slurm, ours, ours.http(token)) if mine else _commands(slurm)
                    )
                taken.append((found[True], found[False]))
        release = slurm.about.slurm_release
    rows = []
    for step, command in STEPS.items():
        pairs = [(mine[step], theirs[step]) for mine, theirs in taken]
        rows += [
            Row(f"{step}: over {command}", "x", median_ratio(pairs)),
            Row(f"{step} by the platform", "s", median([mine for mine, _ in pairs])),
            Row(command, "s", median([theirs for _, theirs in pairs])),
        ]
    return Figure(
        NAME,
        f"An array of {TASKS:,} tasks over Slurm's own commands",
        rows,
        [
            f"Slurm {release}, one array of {USER}'s at a time, the two in turn, all nodes drained: no "
            "task starts.",
            "Submit: from `POST /api/v1/jobs` until each task's id of Slurm's is in the database, over "
            f"one sbatch. List: all pages of {_PAGE} tasks as JSON, over `squeue --array` with a line "
            "for each. Cancel: from the request until no task lives, in the database and in Slurm.",
        ],
    )


def _platform(slurm: Slurm, ours: OnSlurm, http: Http) -> dict[str, float]:
    body = {
        "name": "benchmark",
        "commands": ["true"],
        "workdir": "/tmp",
        "array": f"0-{TASKS - 1}",
        "resources": {"memory": "64M"},
        "max_duration": "1m",
    }
    known = ours.count("scheduler_id IS NOT NULL")
    began = time.perf_counter()
    job = http.post("/api/v1/jobs", body)
    _until("the submission", lambda: ours.count("scheduler_id IS NOT NULL") - known > TASKS)
    submitted = time.perf_counter()
    listed = _list(http, str(job["id"]))
    seen = time.perf_counter()
    if listed != TASKS:
        raise BenchmarkError(f"the platform lists {listed} of {TASKS} tasks")
    http.post(f"/api/v1/jobs/{job['id']}/cancel", {})
    _until("the end of all tasks", lambda: not ours.live())
    ended = time.perf_counter()
    eventually("an empty queue", lambda: not slurm.queued(), _END_S)
    return {"submit": submitted - began, "list": seen - submitted, "cancel": ended - seen}


def _list(http: Http, array: str) -> int:
    """Read all pages; how many tasks they hold."""
    count, cursor = 0, ""
    while True:
        path = f"/api/v1/jobs?array_job_id={array}&limit={_PAGE}{cursor}"
        status, answer = http.get(path)
        if status != 200:
            raise BenchmarkError(f"GET {path} was answered {status}: {answer[:300]!r}")
        page = json.loads(answer)
        count += len(page["items"])
        if page["next_cursor"] is None:
            return count
        cursor = f"&cursor={page['next_cursor']}"


def _commands(slurm: Slurm) -> dict[str, float]:
    options = ("--parsable", "--chdir=/tmp", "--output=/dev/null", "--mem=64M", "--time=1")
    began = time.perf_counter()
    argv = ("sbatch", *options, f"--account={slurm.account}", f"--array=0-{TASKS - 1}")
    number = slurm.run_as(USER, argv, _SCRIPT).strip()
    submitted = time.perf_counter()
    argv = ("squeue", "--noheader", "--array", f"--jobs={number}", "--format=%i %T %r")
    lines = slurm.run_as(USER, argv).splitlines()
    seen = time.perf_counter()
    if len(lines) != TASKS:
        raise BenchmarkError(f"squeue lists {len(lines)} of {TASKS} tasks")
    slurm.run_as(USER, ("scancel", number))
    _until("the end of all tasks", lambda: not slurm.queued())
    ended = time.perf_counter()
    return {"submit": submitted - began, "list": seen - submitted, "cancel": ended - seen}


def _until(what: str, check: Callable[[], bool]) -> None:
    give_up = time.monotonic() + _END_S
    while not check():
        if time.monotonic() > give_up:
            raise BenchmarkError(f"{what} did not come within {_END_S:.0f} s")
        time.sleep(_LOOK_EVERY_S)
