"""The store's part about the cluster, the leases of controllers, and the event log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from aitne.core.models.event import Event
from aitne.core.models.node import Cluster, Node, SchedulerStatus
from aitne.core.ports.store.records import Lease


class ClusterStore(Protocol):
    """The nodes, the leases of controllers, and the event log."""

    async def save_cluster(self, cluster: Cluster, *, epoch: int) -> None:
        """Replace the snapshot; writes ``nodes.changed`` (with the names of the nodes) only if
        something other than ``seen_at`` differs. Raises ``StaleEpoch``."""
        ...

    async def cluster(self) -> Cluster:
        """Return the latest snapshot, nodes by name; an empty one before the first."""
        ...

    async def save_scheduler(self, status: SchedulerStatus, *, epoch: int) -> None:
        """Note whether the scheduler answers, with the event ``scheduler.changed`` if that is new.

        Raises ``StaleEpoch``."""
        ...

    async def scheduler(self) -> SchedulerStatus | None:
        """Return the status of the scheduler; None before the first query."""
        ...

    async def nodes(self) -> Sequence[Node]:
        """Return the nodes of the latest snapshot, by name; empty before the first."""
        ...

    async def take_lease(
        self,
        name: str,
        holder: str,
        *,
        duration_s: float,
        counters: Mapping[str, dict[str, float]] | None = None,
    ) -> Lease | None:
        """Take or renew the named lease; None while another holder's has not expired."""
        ...

    async def current_lease(self, name: str) -> Lease | None:
        """Return the lease, expired or not; None if it was given up or never taken."""
        ...

    async def drop_lease(self, name: str, holder: str) -> None:
        """Release the lease, if ``holder`` still has it."""
        ...

    async def events_after(self, event_id: int, *, limit: int = 1_000) -> Sequence[Event]:
        """List the events that were committed after ``event_id``, oldest first."""
        ...

    async def last_event_id(self) -> int:
        """Return the newest event's id; 0 if there is none."""
        ...

    async def add_event(self, kind: str, data: dict[str, Any]) -> None:
        """Append an event that belongs to no job and that all users may see."""
        ...

    async def wait_for_change(self, timeout_s: float) -> bool:
        """Return True soon (aim 50 ms) after any process committed a change, False after the
        timeout.

        Cheap when nothing happens: SQLite looks at ``PRAGMA data_version``, PostgreSQL LISTENs.
        Spurious True is allowed; a change is never missed (each waiter compares with the state at
        the end of its previous call).
        """
        ...

    async def prune(self, *, events_before: datetime, idempotency_before: datetime) -> None:
        """Delete older events, measurements and keys, and every secret and web session that has
        expired."""
        ...
