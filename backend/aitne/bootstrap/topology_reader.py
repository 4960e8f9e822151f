"""Topologies from files, each read by the adapter that recognizes its format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aitne.core.platform.plugin_registry import Registry
from aitne.core.ports.topology_source import TopologySource
from aitne_train.topology.errors import TopologyError
from aitne_train.topology.topology_parts import Topology, TopologyPart, combine_parts

TOPOLOGIES: Registry[TopologySource] = Registry(
    "source of topologies", "aitne.adapters.topologies", "aitne.topologies"
)
_HEAD_BYTES = 4_096


def read_topology(paths: Sequence[Path]) -> Topology:
    """Return the topology that the files and folders describe together.

    Raises:
        TopologyError: a file cannot be read or has no known format, or they contradict each other.
    """
    return combine_parts([read_part(path) for path in paths])


def read_part(path: Path) -> TopologyPart:
    """Return what one file or folder says. Raises ``TopologyError``."""
    return _find_source(path).read(path)


def _find_source(path: Path) -> TopologySource:
    """Return the only source that recognizes the format of a file. Raises ``TopologyError``."""
    head = ""
    if not path.is_dir():
        try:
            with path.open("rb") as stream:
                head = stream.read(_HEAD_BYTES).decode("utf-8-sig", "replace")
        except OSError as error:
            raise TopologyError(
                f"it cannot be read: {error.strerror}", "Give the path of a file.", file=str(path)
            ) from error
    for name in TOPOLOGIES.names():
        source = TOPOLOGIES.get(name)()
        if source.recognizes(path, head):
            return source
    raise TopologyError(
        f"it has none of the formats {', '.join(TOPOLOGIES.names())}",
        "Give a topology.conf or topology.yaml, the output of `scontrol show topology` or "
        "`nvidia-smi topo -m`, a gres.conf, an XML file of hwloc, or /sys.",
        file=str(path),
    )
