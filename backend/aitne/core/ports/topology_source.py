"""Sources of topologies: one adapter for each format or program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from aitne_train.topology.topology_parts import Topology, TopologyPart


class CurrentTopology(Protocol):
    """Port to the topology of the platform's cluster."""

    async def get_topology(self) -> Topology:
        """Return what is known about the topology now; the same object until it changes."""
        ...

    async def get_reported_python_versions(self, owner: str) -> Mapping[str, str]:
        """Return the version of Python, such as ``3.11``, of each node that jobs of ``owner``, or
        jobs of two users, have reported. The claim of one other user is left out.
        """
        ...


class TopologySource(Protocol):
    """Port to one source of topologies. Each module in ``adapters/topologies`` has one
    implementation.
    """

    name: str

    def recognizes(self, path: Path, head: str) -> bool:
        """Return True if the file at ``path``, whose first characters are ``head``, or the folder
        ``path`` (then ``head`` is empty), has this source's format.
        """
        ...

    def read(self, path: Path) -> TopologyPart:
        """Return what the file or folder at ``path`` says.

        Raises:
            TopologyError: it cannot be read; the message has the file, the line where there is one,
                and the remedy.
        """
        ...
