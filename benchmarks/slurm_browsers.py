"""Load on slurmctld with a thousand browsers, which is the same as with one."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.figures import Figure, Row
from benchmarks.processes import eventually
from benchmarks.slurm import USER, Slurm, cluster, platform
from benchmarks.slurm_submit import BODY
from benchmarks.sse_clients import listening
from benchmarks.stats import median, median_ratio
from benchmarks.submit import submit_all

NAME = "slurm_browsers"
BROWSERS = 1_000
INTERVAL_S = 2.0
MOST_RATIO = 1.1
JOBS = 100
"""More jobs than the adapter polls by REST."""
_CHANGE_EVERY_S = 1.0
_QUEUE = frozenset({"REQUEST_JOB_INFO", "REQUEST_JOB_USER_INFO", "REQUEST_JOB_INFO_SINGLE"})
"""The messages of squeue and of slurmrestd's job lists (https://slurm.schedmd.com/sdiag.html)."""


def measure(*, quick: bool) -> Figure:
    """Measure phases with one listener and with a thousand in turn, while jobs change."""
    rounds, phase_s = (2, 12.0) if quick else (8, 30.0)
    pairs: list[tuple[dict[str, float], dict[str, float]]] = []
    with cluster() as slurm, TemporaryDirectory(prefix="aitne-bench-") as folder:
        Path(folder).chmod(0o755)
        with (
            platform(slurm, Path(folder), "slurm", poll_interval_s=INTERVAL_S) as ours,
            ours.controller(),
        ):
            token = ours.token_of(USER)
            submit_all(ours, token, JOBS, BODY)
            numbers = slurm.run("squeue", "--noheader", "--format=%i").split()
            for number in range(rounds):
                found = {}
                for count in (1, BROWSERS) if number % 2 else (BROWSERS, 1):
                    with listening(ours.settings.port, count, token):
                        found[count] = _phase(slurm, numbers, phase_s)
                pairs.append((found[BROWSERS], found[1]))
            slurm.cancel_all()
            eventually("the platform's notice of it", lambda: not ours.live())
        release = slurm.about.slurm_release
    rows = []
    for kind, target in (("queue", MOST_RATIO), ("all", None)):
        both = [(many[kind], one[kind]) for many, one in pairs]
        what = "questions about the queue" if kind == "queue" else "messages of the platform"
        rows += [
            Row(f"{what} per interval, one browser", "", median([one for _, one in both])),
            Row(f"{what} per interval, {BROWSERS}", "", median([many for many, _ in both])),
            Row(f"{what}: {BROWSERS} over one", "x", median_ratio(both), target),
        ]
    return Figure(
        NAME,
        f"What {BROWSERS} browsers ask of slurmctld",
        rows,
        [
            f"Slurm {release}, {JOBS} jobs queued, of which ten are held or released every "
            f"{_CHANGE_EVERY_S:g} s; {rounds} rounds of two phases of {phase_s:g} s, in turn. Each "
            f"browser has an event stream open; the poll interval is {INTERVAL_S:g} s.",
            "Counted by slurmctld itself (`sdiag`): all messages about jobs, and all that the broker's "
            "operator sends: nodes, partitions and reservations are asked for when jobs have changed, "
            "accounting's limits from time to time.",
        ],
    )


def _phase(slurm: Slurm, numbers: list[str], seconds: float) -> dict[str, float]:
    """Change jobs for some seconds; return the messages to slurmctld per interval, by type."""
    before, began = slurm.questions(), time.monotonic()
    step = 0
    while time.monotonic() < began + seconds:
        verb = ("hold", "release")[step % 2]
        start = step // 2 * 10 % len(numbers)
        slurm.run("scontrol", verb, ",".join(numbers[start : start + 10]))
        step += 1
        time.sleep(_CHANGE_EVERY_S)
    after, took = slurm.questions(), time.monotonic() - began
    grown = {kind: count - before.get(kind, 0) for kind, count in after.items()}
    per_interval = INTERVAL_S / took
    return {
        "queue": sum(grown.get(kind, 0) for kind in _QUEUE) * per_interval,
        "all": grown.get(slurm.about.operator, 0) * per_interval,
    }
