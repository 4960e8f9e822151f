"""CPU time of a running job's agent: its measurements of the job's processes and its reports."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.agents import Job, Platform

from aitne.core.jobs.agent_protocol import ProgramPhase
from benchmarks.figures import Figure, Row
from benchmarks.processes import BenchmarkError, stop
from benchmarks.stats import Estimate, median

NAME = "agent"
MOST_PERCENT = 0.1
PROCESSES = (1, 32)
SETTLE_S, WATCHED_S = 10.0, 60.0


def measure(*, quick: bool) -> Figure:
    """Measure a job of one process and one of many, each several times after its start."""
    times, watched_s = (1, 20.0) if quick else (5, WATCHED_S)
    rows = [
        Row(
            f"agent of a job with {count} process{'es' if count > 1 else ''}, of one CPU",
            "%",
            _percent(count, times, watched_s),
            MOST_PERCENT if count == 1 else None,
        )
        for count in PROCESSES
    ]
    return Figure(
        NAME,
        "A running job's agent",
        rows,
        [
            f"The job's processes sleep. {times} periods of {watched_s:g} s, from {SETTLE_S:g} s after the "
            "start on, with a measurement every 2 s, as in the first ten minutes of a job; later "
            "intervals are longer. All that the agent does is counted: it samples CPU, memory and I/O, "
            "looks for metrics and profiles, and sends reports over loopback.",
        ],
    )


def _percent(processes: int, times: int, watched_s: float) -> Estimate:
    platform = Platform()
    with TemporaryDirectory(prefix="aitne-bench-") as name:
        job = Job(Path(name))
        sleep = f"sleep {2 * (SETTLE_S + times * watched_s):.0f}"
        agent = job.start(" & ".join([sleep] * processes), url=platform.url, sample_interval_s=2.0)
        try:
            platform.report(ProgramPhase.STARTED)
            time.sleep(SETTLE_S)
            found = [_share(agent.pid, watched_s) for _ in range(times)]
        finally:
            stop(agent)
            platform.close()
    if not any(report.samples for report in platform.reports):
        raise BenchmarkError("the agent has reported no measurement")
    return median([share * 100 for share in found])


def _share(pid: int, seconds: float) -> float:
    """CPU seconds of the process during ``seconds``, over the seconds."""
    began, before = time.monotonic(), _cpu_s(pid)
    time.sleep(seconds)
    return (_cpu_s(pid) - before) / (time.monotonic() - began)


def _cpu_s(pid: int) -> float:
    """CPU time of all threads; the first number of ``schedstat`` has nanoseconds."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((each / "schedstat").read_text().split()[0]) for each in threads) / 1e9
