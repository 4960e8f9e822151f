"""Signs that a process that does not answer yet works on its start."""

from __future__ import annotations

from pathlib import Path

_DEPTH = 20
_BUSY = frozenset("RD")
"""States of a thread that runs or waits for a disk; one that sleeps or is stopped is not busy."""


class ProgressWatch:
    """Comparison of a process, its threads and its descendants with the previous look at them."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before: dict[str, int] = {}

    def works(self) -> bool:
        """Return whether any of them has used a CPU since the previous call, or runs or waits for a
        disk now; also if the kernel does not tell.
        """
        used: dict[str, int] = {}
        busy = _look(self._pid, used, _DEPTH)
        before, self._before = self._before, used
        return busy or not used or used != before


def _look(pid: int, used: dict[str, int], depth: int) -> bool:
    """Add the CPU time of each thread in nanoseconds to ``used``; return whether one is busy."""
    busy = False
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        try:
            used[thread.name] = int((thread / "schedstat").read_text().split()[0])
            busy |= (thread / "stat").read_text().rpartition(")")[2].split()[0] in _BUSY
            children = (thread / "children").read_text().split()
        except (OSError, ValueError, IndexError):
            continue  # the thread has ended
        if depth:
            for child in children:
                busy |= _look(int(child), used, depth - 1)
    return busy
