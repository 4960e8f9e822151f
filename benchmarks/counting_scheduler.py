"""A local scheduler that writes a line into a file for every poll.

Loaded by the controller as any other installed plug-in is, by the entry point that ``installed`` writes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from aitne.adapters.schedulers.local import LocalScheduler
from aitne.core.ports.scheduler import SchedulerJob

FILE = "AITNE_BENCHMARK_QUERIES"


class CountingScheduler(LocalScheduler):
    """Notes when it is asked."""

    name = "counting"

    async def poll(self) -> Sequence[SchedulerJob]:
        """Note the time, then answer."""
        with Path(os.environ[FILE]).open("a") as file:
            file.write(f"{time.time()}\n")
        return await super().poll()


def installed(folder: Path) -> dict[str, str]:
    """Install the plug-in in ``folder``; return the environment of a controller that uses it."""
    about = folder / "aitne_benchmark-0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: aitne-benchmark\nVersion: 0\n")
    plugin = f"{CountingScheduler.name} = {__name__}:{CountingScheduler.__name__}"
    (about / "entry_points.txt").write_text(f"[aitne.schedulers]\n{plugin}\n")
    path = [str(folder), str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    file = folder / "queries"
    file.touch()
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "AITNE_SCHEDULER": CountingScheduler.name,
        FILE: str(file),
    }


def queries(env: dict[str, str]) -> list[float]:
    """Return the times of the scheduler's polls in seconds since 1970."""
    return [float(line) for line in Path(env[FILE]).read_text().split()]
