"""Detection of progress in a process that does not answer yet."""

from __future__ import annotations

from pathlib import Path

_DEPTH = 20
_BUSY = frozenset("RD")
"""States of a thread that is running or waiting for a disk."""


class ProgressWatch:
    """Observer of the CPU time that a process, its threads and its descendants use between two
    calls of ``has_progressed``.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before: dict[str, int] = {}

    def has_progressed(self) -> bool:
        """Return whether a thread of the process or its descendants has used CPU time since the
        last call, or is running or waiting for a disk now. Also True if the kernel does not report
        this.
        """
        used: dict[str, int] = {}
        busy = _add_cpu_times(self._pid, used, _DEPTH)
        before, self._before = self._before, used
        return busy or not used or used != before


def _add_cpu_times(pid: int, used: dict[str, int], depth: int) -> bool:
    """Add the CPU time in nanoseconds of each thread of the process and its descendants to
    ``used``, by thread ID; return True if a thread is running or waiting for a disk. ``depth`` is
    the number of generations of descendants to include.
    """
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
                busy |= _add_cpu_times(int(child), used, depth - 1)
    return busy
