"""Time to submit, list and cancel an array of 10,000 tasks, compared with Slurm's commands."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.figures import Figure, Row
from benchmarks.processes import BenchmarkError, Http, eventually
from benchmarks.slurm import USER, OnSlurm, Slurm, cluster, platform
from benchmarks.stats import median, median_ratio, quantile_estimate

NAME = "slurm_array"
TASKS = 10_000
ROUNDS = 10
"""The rounds stay below ``MaxJobCount``, as Slurm keeps ended tasks for ``MinJobAge``."""
LIMIT = 2.0
STEPS = {
    "submit, until it is answered": ("sbatch", LIMIT),
    "submit, until Slurm has it": ("sbatch", LIMIT),
    "list": ("squeue", LIMIT),
    "list, one entry for each task": ("squeue --array", None),
    "cancel, until it is answered": ("scancel", LIMIT),
    "cancel, until no task lives": ("scancel", LIMIT),
}
"""Each step, the command that does it and the target."""
_PAGE = 500
_LOOK_EVERY_S = 0.002
_QUIET_S = 5.0
_END_S = 300.0
_SCRIPT = "#!/bin/sh\ntrue\n"


def measure(*, quick: bool) -> Figure:
    """Measure the platform and Slurm's commands in turn."""
    rounds = 2 if quick else ROUNDS
    taken: list[tuple[dict[str, float], dict[str, float]]] = []
    with cluster() as slurm, TemporaryDirectory(prefix="aitne-bench-") as folder:
        Path(folder).chmod(0o755)
        limits = {"max_array_tasks": TASKS, "max_live_jobs": 2 * TASKS}
        with platform(slurm, Path(folder), "slurm", limits=limits) as ours, ours.controller():
            token = ours.token_of(USER)
            with Reader(ours.http(token)) as reader:
                time.sleep(_QUIET_S)
            quiet, busy = reader.times, list[float]()
            for number in range(rounds):
                found = {}
                for mine in (True, False) if number % 2 else (False, True):
                    if mine:
                        with Reader(ours.http(token)) as reader:
                            found[mine] = _platform(slurm, ours, ours.http(token))
                        busy += reader.times
                    else:
                        found[mine] = _commands(slurm)
                taken.append((found[True], found[False]))
        release = slurm.about.slurm_release
    rows = []
    for step, (command, limit) in STEPS.items():
        pairs = [(mine[step], theirs[command]) for mine, theirs in taken]
        rows += [
            Row(f"{step}: over {command}", "x", median_ratio(pairs), limit),
            Row(step, "s", median([mine for mine, _ in pairs])),
        ]
    for command in dict.fromkeys(command for command, _ in STEPS.values()):
        rows.append(Row(command, "s", median([theirs[command] for _, theirs in taken])))
    rows += [
        Row(
            "GET /jobs: 95th percentile",
            "ms",
            quantile_estimate([1000 * each for each in busy], 0.95),
        ),
        Row(
            "GET /jobs: 95th percentile while quiet",
            "ms",
            quantile_estimate([1000 * each for each in quiet], 0.95),
        ),
    ]
    return Figure(
        NAME,
        f"An array of {TASKS:,} tasks over Slurm's own commands",
        rows,
        [
            f"Slurm {release}, one array of {USER}'s at a time, the two in turn, all nodes drained: no "
            "task starts.",
            "List: one page of jobs as JSON, over `squeue`, which have one entry for the array. One entry "
            f"for each task: all pages of {_PAGE} tasks as JSON, over `squeue --array`.",
            "No task lives: in the database, which hears of it by the poll after `scancel`.",
            "GET /jobs: a page of the same user every 20 ms, in all rounds of the platform.",
        ],
    )


class Reader:
    """Reads a page of jobs again and again in a thread of its own."""

    def __init__(self, http: Http) -> None:
        self.times: list[float] = []
        """Seconds for each request."""
        self._http = http
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _read(self) -> None:
        while not self._stop.wait(0.02):
            began = time.perf_counter()
            self._http.get("/api/v1/jobs?top_level=true&limit=50")
            self.times.append(time.perf_counter() - began)


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
    accepted = time.perf_counter()
    _until("the submission", lambda: ours.count("scheduler_id IS NOT NULL") > known)
    submitted = time.perf_counter()
    status, answer = http.get("/api/v1/jobs?top_level=true&limit=50")
    seen = time.perf_counter()
    if status != 200 or json.loads(answer)["items"][0]["id"] != job["id"]:
        raise BenchmarkError(f"the array is not in the list: {answer[:300]!r}")
    listed = _list(http, str(job["id"]))
    all_seen = time.perf_counter()
    if listed != TASKS:
        raise BenchmarkError(f"the platform lists {listed} of {TASKS} tasks")
    asked = time.perf_counter()
    http.post(f"/api/v1/jobs/{job['id']}/cancel", {})
    answered = time.perf_counter()
    _until("the end of all tasks", lambda: not ours.live())
    ended = time.perf_counter()
    eventually("an empty queue", lambda: not slurm.queued(), _END_S)
    taken = (
        *(accepted - began, submitted - began),
        *(seen - submitted, all_seen - seen),
        *(answered - asked, ended - asked),
    )
    return dict(zip(STEPS, taken, strict=True))


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
    form = "--format=%i %T %r"
    lines = slurm.run_as(USER, ("squeue", "--noheader", f"--user={USER}", form)).splitlines()
    seen = time.perf_counter()
    if len(lines) != 1:
        raise BenchmarkError(f"squeue lists {len(lines)} jobs instead of one")
    argv = ("squeue", "--noheader", "--array", f"--jobs={number}", form)
    lines = slurm.run_as(USER, argv).splitlines()
    all_seen = time.perf_counter()
    if len(lines) != TASKS:
        raise BenchmarkError(f"squeue lists {len(lines)} of {TASKS} tasks")
    slurm.run_as(USER, ("scancel", number))
    ended = time.perf_counter()
    eventually("an empty queue", lambda: not slurm.queued(), _END_S)
    return {
        "sbatch": submitted - began,
        "squeue": seen - submitted,
        "squeue --array": all_seen - seen,
        "scancel": ended - all_seen,
    }


def _until(what: str, check: Callable[[], bool]) -> None:
    give_up = time.monotonic() + _END_S
    while not check():
        if time.monotonic() > give_up:
            raise BenchmarkError(f"{what} did not come within {_END_S:.0f} s")
        time.sleep(_LOOK_EVERY_S)
