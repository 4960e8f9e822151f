"""Number of CPUs that this process may use: by its affinity, and by the quota of its cgroups."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_GROUPS = Path("/proc/self/cgroup")
_MOUNT = Path("/sys/fs/cgroup")


def count_available_cpus(groups: Path = _GROUPS, mount: Path = _MOUNT) -> int:
    """Return how many CPUs this process may keep busy, at least 1.

    A scheduler binds a job to CPUs, or permits it a part of the time of all.

    Args:
        groups: list of the process's cgroups, as in ``/proc/self/cgroup``.
        mount: folder at which cgroups are mounted.
    """
    bound = len(os.sched_getaffinity(0))
    # A share of a CPU counts as a CPU.
    quotas = [-(-quota // period) for quota, period in _read_quotas(groups, mount)]
    return max(1, min([bound, *quotas]))


def _read_quotas(groups: Path, mount: Path) -> Iterator[tuple[int, int]]:
    """Yield the time and the period, in microseconds, of each limit on this process's CPU time."""
    try:
        lines = groups.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        names = controllers.split(",")
        if controllers and "cpu" not in names:
            continue
        base = mount / controllers if controllers else mount
        folder = base / path.lstrip("/")
        # The limit of a group holds for the groups in it.
        for group in (folder, *folder.parents):
            if not group.is_relative_to(base):
                break
            limit = _read_limit(group)
            if limit is not None and min(limit) > 0:
                yield limit


def _read_limit(group: Path) -> tuple[int, int] | None:
    try:
        quota, period = (group / "cpu.max").read_text().split()
        return None if quota == "max" else (int(quota), int(period))
    except (OSError, ValueError):
        pass
    try:
        quota = (group / "cpu.cfs_quota_us").read_text()
        return int(quota), int((group / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return None
