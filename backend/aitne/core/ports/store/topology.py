"""Part of the store for the topology of the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from aitne.core.models.topology import StoredTopology, TopologyOrigin


class TopologyStore(Protocol):
    """Storage of what each source says about the topology, one row for each."""

    async def topologies_after(self, version: int) -> Sequence[StoredTopology]:
        """Return the rows that changed after ``version``, in the order of their changes."""
        ...

    async def topology(self, origin: TopologyOrigin, name: str) -> StoredTopology | None:
        """Return one row; None if the source was never read."""
        ...

    async def save_topology(
        self,
        origin: TopologyOrigin,
        name: str,
        content: Mapping[str, Any] | None,
        *,
        epoch: int | None = None,
    ) -> None:
        """Store what a source says; None: that it has no topology. Add the event
        ``topology.changed`` if that is something else than before.

        Raises ``StaleEpoch`` if ``epoch`` is given and another controller is the leader.
        """
        ...

    async def note_topology_problem(
        self, origin: TopologyOrigin, name: str, problem: str, *, epoch: int | None = None
    ) -> None:
        """Store why a source could not be read. What it said before is kept.

        Raises ``StaleEpoch`` if ``epoch`` is given and another controller is the leader.
        """
        ...
