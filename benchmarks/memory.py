"""Memory that the processes of an idle platform use."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.figures import Figure, Row
from benchmarks.processes import pss_bytes
from benchmarks.stats import median
from benchmarks.whole import platform

NAME = "memory"
IDLE_S = 30.0
AIM_MB = 450.0
_MB = 1e6


def measure(*, quick: bool) -> Figure:
    """Measure the memory several times, after an idle period."""
    looks, pause_s = (3, 1.0) if quick else (10, 3.0)
    idle_s = 10.0 if quick else IDLE_S
    with platform() as whole:
        time.sleep(idle_s)
        status = whole.status()
        names = {entry["pid"]: entry["name"] for entry in status["processes"]}
        names[status["supervisor_pid"]] = "supervisor"
        seen: list[dict[str, float]] = []
        for _ in range(looks):
            seen.append(_look(names))
            time.sleep(pause_s)
    rows = [
        Row(name, "MB", median([each[name] for each in seen]))
        for name in sorted(seen[0], key=lambda name: -seen[0][name])
    ]
    total = median([sum(each.values()) for each in seen])
    return Figure(
        NAME,
        f"Memory (PSS) of a platform idle for {idle_s:.0f} s",
        [*rows, Row("all together", "MB", total, AIM_MB)],
        [
            "Proportional set size: what processes share is divided among them. 1 MB is 10^6 bytes. "
            "Nobody is logged in and nothing has run since the start; the jobs' own processes and "
            "kernels come on top.",
        ],
    )


def _look(names: dict[int, str]) -> dict[str, float]:
    """Return the memory of each process, its descendants included."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended meanwhile
    found = dict.fromkeys(names.values(), 0.0)
    for pid in parents:
        above = pid
        while above not in names and above in parents:
            above = parents[above]
        if above in names:
            try:
                found[names[above]] += pss_bytes(pid) / _MB
            except ProcessLookupError:
                continue
    return found
