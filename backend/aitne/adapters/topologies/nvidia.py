"""The output of ``nvidia-smi topo -m``, stored in a file."""

from __future__ import annotations

from pathlib import Path

from typing_extensions import override

from aitne.adapters.topologies._bounded_files import read_bounded_text
from aitne.core.ports.topology_source import TopologySource
from aitne_train.topology.nvidia_smi_topology import has_matrix, read_matrix
from aitne_train.topology.topology_parts import TopologyPart


class NvidiaTopology(TopologySource):
    """Links between the GPUs and network interfaces of a node."""

    name = "nvidia"

    @override
    def recognizes(self, path: Path, head: str) -> bool:
        return has_matrix(head)

    @override
    def read(self, path: Path) -> TopologyPart:
        return TopologyPart(nodes=(read_matrix(read_bounded_text(path), str(path)),))
