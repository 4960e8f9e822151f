"""A copy of ``/sys/class/powercap`` as the kernel's documentation describes it, for a node with two
packages. It was not recorded on such a node.
"""

from __future__ import annotations

from pathlib import Path

RANGE_UJ = 262_143_328_850
"""``max_energy_range_uj`` of a package; that of memory is a quarter of it."""
COUNTED = ("intel-rapl:0", "intel-rapl:0:2", "intel-rapl:1", "intel-rapl:1:0")
NAMES = {
    "intel-rapl:0": "package-0",
    "intel-rapl:1": "package-1-die-0",
    "intel-rapl:2": "psys",
    "intel-rapl:0:0": "core",
    "intel-rapl:0:1": "uncore",
    "intel-rapl:0:2": "dram",
    "intel-rapl:1:0": "dram",
    "intel-rapl-mmio:0": "package-0",
}


def limit_uj(zone: str) -> int:
    return RANGE_UJ // 4 if NAMES[zone] == "dram" else RANGE_UJ


def tree(root: Path, start_uj: int = 1_000_000) -> Path:
    """The folder ``powercap`` with all counters at ``start_uj``."""
    (root / "intel-rapl").mkdir(parents=True)
    for zone, name in NAMES.items():
        (root / zone).mkdir()
        (root / zone / "name").write_text(f"{name}\n")
        (root / zone / "max_energy_range_uj").write_text(f"{limit_uj(zone)}\n")
        set_counter(root, zone, start_uj)
    return root


def set_counter(root: Path, zone: str, value_uj: int) -> None:
    (root / zone / "energy_uj").write_text(f"{value_uj}\n")
