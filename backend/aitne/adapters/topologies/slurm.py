"""The output of ``scontrol show topology``, stored in a file."""

from __future__ import annotations

import re
from pathlib import Path

from typing_extensions import override

from aitne.adapters.topologies._bounded_files import read_bounded_text
from aitne.core.ports.topology_source import TopologySource
from aitne_train.topology.errors import TopologyError
from aitne_train.topology.slurm import parse_shown_topology
from aitne_train.topology.topology_parts import TopologyPart

_SHOWN = re.compile(
    r"^(SwitchName=\S+ Level=|(BlockName|AggregatedBlock)=\S+ BlockIndex=)", re.MULTILINE
)


class SlurmTopology(TopologySource):
    """Topology that slurmctld uses."""

    name = "slurm"

    @override
    def recognizes(self, path: Path, head: str) -> bool:
        return _SHOWN.search(head) is not None

    @override
    def read(self, path: Path) -> TopologyPart:
        switches = parse_shown_topology(read_bounded_text(path), str(path))
        if not switches:
            raise TopologyError(
                "it shows no switch and no block",
                "Configure TopologyPlugin in slurm.conf, or give the output of `scontrol show topology`.",
                file=str(path),
            )
        return TopologyPart(tuple(switches))
