"""The folder ``/sys`` of a node, or a copy of it: no program is needed."""

from __future__ import annotations

from pathlib import Path

from typing_extensions import override

from aitne.core.ports.topology_source import TopologySource
from aitne_train.topology.sysfs import read_sysfs
from aitne_train.topology.topology_parts import TopologyPart


class SysfsTopology(TopologySource):
    """NUMA nodes, GPUs and network interfaces as the kernel shows them. NVLink is not in ``/sys``."""

    name = "sysfs"

    @override
    def recognizes(self, path: Path, head: str) -> bool:
        return (path / "devices" / "system" / "node").is_dir()

    @override
    def read(self, path: Path) -> TopologyPart:
        return TopologyPart(nodes=(read_sysfs(str(path)),))
