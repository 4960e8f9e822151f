"""Part of the store for the cluster, the leases of controllers, and the event log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from aitne.core.models.event import Event
from aitne.core.models.node import Cluster, Node, SchedulerStatus
from aitne.core.ports.store.records import Lease


class ClusterStore(Protocol):
    """Storage of the last state of the cluster and its scheduler, the leases of controllers, and
    the event log.
    """

    async def save_cluster(self, cluster: Cluster, *, epoch: int) -> None:
        """Replace the stored state of the cluster.

        Adds the event ``nodes.changed`` with the names of nodes that differ in more than
        ``seen_at``, if there are any. Raises ``StaleEpoch`` if another controller is the leader.
        """
        ...

    async def cluster(self) -> Cluster:
        """Return the stored state of the cluster, nodes by name; an empty cluster if none was
        stored yet.
        """
        ...

    async def save_scheduler(self, status: SchedulerStatus, *, epoch: int) -> None:
        """Store whether the scheduler answers and accepts jobs; add the event ``scheduler.changed``
        if that changed.

        Raises ``StaleEpoch`` if another controller is the leader.
        """
        ...

    async def scheduler(self) -> SchedulerStatus | None:
        """Return the status of the scheduler; None before the first query."""
        ...

    async def nodes(self) -> Sequence[Node]:
        """Return the nodes of the stored state of the cluster, by name; empty if none was stored
        yet.
        """
        ...

    async def take_lease(
        self,
        name: str,
        holder: str,
        *,
        duration_s: float,
        counters: Mapping[str, dict[str, float]] | None = None,
    ) -> Lease | None:
        """Take the lease ``name`` for ``holder``, or renew it, for ``duration_s`` seconds; None if
        another holder has a lease that has not expired.
        """
        ...

    async def current_lease(self, name: str) -> Lease | None:
        """Return the lease ``name``, also an expired one; None if it was released or
        never taken.
        """
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
        """Add an event that belongs to no job and that all users may see."""
        ...

    async def wait_for_change(self, timeout_s: float) -> bool:
        """Wait until any process commits a change to the database and return True (usually within
        50 ms); return False after ``timeout_s`` seconds.

        It may return True without a change but never misses one, because each caller compares with
        the state at the end of its previous call. Waiting causes little load: SQLite reads ``PRAGMA
        data_version``, PostgreSQL uses LISTEN.
        """
        ...

    async def prune(self, *, events_before: datetime, idempotency_before: datetime) -> None:
        """Delete events and samples older than ``events_before``, idempotency keys older than
        ``idempotency_before``, and all expired secrets.

        Also deletes those jobs that were not submitted through the platform and ended before
        ``events_before``, and of each user all but the newest.
        """
        ...
