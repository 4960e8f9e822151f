"""Time of commands of the command line, compared with the bare interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence

from benchmarks.figures import Figure, Row
from benchmarks.processes import BenchmarkError
from benchmarks.stats import median, median_ratio
from benchmarks.whole import AITNE, Whole, platform

NAME = "cli"
JOBS = 20
BARE = (sys.executable, "-c", "pass")
VERBS = {
    "aitne ps": ("ps", "--all"),
    "aitne --version": ("--version",),
    "aitne --help": ("--help",),
}

Times = tuple[float, float]
"""Elapsed time and CPU time in seconds."""


def measure(*, quick: bool) -> Figure:
    """Measure each command and the bare interpreter in turn."""
    pairs = 12 if quick else 60
    with platform() as whole:
        http = whole.http()
        for number in range(JOBS):
            body = {"name": f"benchmark {number}", "commands": ["true"], "workdir": "/tmp"}
            http.post("/api/v1/jobs", body)
        time.sleep(5.0 if quick else 20.0)
        rows: list[Row] = []
        for name, arguments in VERBS.items():
            rows += _compare(name, [str(AITNE), *arguments], whole, pairs)
    return Figure(
        NAME,
        "Commands over a bare `python -c pass`",
        rows,
        [
            f"`aitne ps --all` asks a running platform with {JOBS} jobs for its table; the other two ask "
            "nobody. The bare program is the same interpreter in the same environment.",
            "Times of the CPUs are user and system time of the command alone: they hold on a busy machine.",
        ],
    )


def _compare(name: str, argv: Sequence[str], whole: Whole, pairs: int) -> list[Row]:
    env = {**whole.env, "AITNE_DATA_DIR": str(whole.data_dir), "COLUMNS": "120"}
    _run(argv, env)
    taken: list[tuple[Times, Times]] = []
    for number in range(pairs):
        if number % 2:
            taken.append((_run(argv, env), _run(BARE, env)))
        else:
            bare = _run(BARE, env)
            taken.append((_run(argv, env), bare))
    return [
        Row(f"{name} over bare", "x", median_ratio([(a[0], b[0]) for a, b in taken])),
        Row(f"{name} over bare, CPU time", "x", median_ratio([(a[1], b[1]) for a, b in taken])),
        Row(name, "ms", median([a[0] * 1e3 for a, _ in taken])),
        Row(f"bare beside {name}", "ms", median([b[0] * 1e3 for _, b in taken])),
    ]


def _run(argv: Sequence[str], env: dict[str, str]) -> Times:
    began = time.perf_counter()
    process = subprocess.Popen(
        argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    _, status, usage = os.wait4(process.pid, 0)
    took = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    with process:
        said = process.stderr.read() if process.stderr is not None else b""
    if process.returncode != 0:
        raise BenchmarkError(f"{' '.join(argv)} ended with {process.returncode}: {said[-300:]!r}")
    return took, usage.ru_utime + usage.ru_stime
