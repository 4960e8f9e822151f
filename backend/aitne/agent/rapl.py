"""Energy of the node's CPUs and memory, from the counters of RAPL
(https://docs.kernel.org/power/powercap/powercap.html). Since Linux 5.10 only root may read them,
unless the site permits it."""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from collections.abc import Mapping

POWERCAP = "/sys/class/powercap"
READ_AT_LEAST_EVERY_S = 60.0
"""Seconds after which the counters must be read again: at 1,000 W the smallest one, of 2^32 units of
15.3 µJ, begins anew after 65 s."""
_PACKAGE = re.compile(r"intel-rapl:[0-9]+")
_DOMAIN = re.compile(r"intel-rapl:[0-9]+:[0-9]+")
_COUNT = re.compile(r"([0-9]+)(?:\(x[0-9]+\))?(?:,|$)")


class Rapl:
    """Meter of the energy that all CPU packages and their memory use.

    Other domains are not counted, because they overlap: the domains ``core`` and ``uncore`` are
    part of a package, and the domain ``psys`` contains the packages.
    """

    def __init__(self, root: str = POWERCAP) -> None:
        """Create the reader. ``root`` is ``/sys/class/powercap`` or a copy of it."""
        self._zones: dict[str, tuple[int, int]] = {}
        """Last value of each counter, and the value at which it wraps around, in microjoules."""
        self._total_uj = 0
        try:
            for name in os.listdir(root):
                zone = f"{root}/{name}"
                if _is_counted(name, zone):
                    limit_uj = int(_read_file(f"{zone}/max_energy_range_uj"))
                    self._zones[zone] = int(_read_file(f"{zone}/energy_uj")), limit_uj
        except (OSError, ValueError):
            self._zones = {}  # a part would look like the whole

    @property
    def is_readable(self) -> bool:
        """Return whether all counters could be read when the reader was created."""
        return bool(self._zones)

    def energy_j(self) -> float | None:
        """Read the counters and return the energy in joules since this object was created. Return
        None if the counters cannot be read."""
        try:
            values = {zone: int(_read_file(f"{zone}/energy_uj")) for zone in self._zones}
        except (OSError, ValueError):
            return None  # the next reading includes it
        for zone, value_uj in values.items():
            last_uj, limit_uj = self._zones[zone]
            self._total_uj += value_uj - last_uj + (limit_uj if value_uj < last_uj else 0)
            self._zones[zone] = value_uj, limit_uj
        return self._total_uj / 1e6 if self._zones else None


def has_whole_nodes(environ: Mapping[str, str]) -> bool:
    """Return whether the job is allocated all CPUs of its nodes, so that no other job runs there.
    All nodes are assumed to have as many CPUs as this one."""
    counts = _COUNT.findall(environ.get("SLURM_JOB_CPUS_PER_NODE", ""))
    return {*map(int, counts)} == {os.cpu_count()}


def _is_counted(name: str, zone: str) -> bool:
    if _PACKAGE.fullmatch(name):
        return _read_file(f"{zone}/name").startswith("package-")
    return _DOMAIN.fullmatch(name) is not None and _read_file(f"{zone}/name") == "dram"


def _read_file(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read(64).strip()
