"""Store of nodes, leases and the event log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pydantic import Field
from sqlalchemy import Integer, bindparam, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from aitne.core.models.base import Frozen
from aitne.core.models.cluster import Cluster, Node, SchedulerStatus
from aitne.core.models.event import Event
from aitne.store import node_state_history, tables
from aitne.store.admin_tables import cluster_load, partition_load
from aitne.store.admin_tables import node_history as _node_history
from aitne.store.alerts import make_old_alerts_delete
from aitne.store.cluster_load import LOAD_KEPT
from aitne.store.database import Transaction
from aitne.store.outside_jobs import prune_outside_jobs
from aitne.store.portable_sql import upsert
from aitne.store.rows import event_of, node_data, node_of
from aitne.store.sign_in_tables import attempts, lockouts, secrets
from aitne.store.store_part import StorePart, require_epoch

_nodes = tables.nodes
_clusters = tables.clusters
_leases = tables.leases
_events = tables.events

CLUSTER = "local"
"""Name of the one cluster in ``clusters``."""
_ATTEMPTS_KEPT = timedelta(days=1)
_HISTORY_KEPT = timedelta(days=730)
_LOCKOUTS_KEPT = timedelta(days=30)


_LAST_EVENT = select(func.max(_events.c.id))
_EVENTS_AFTER = (
    select(_events)
    .where(_events.c.id > bindparam("after"))
    .order_by(_events.c.id)
    .limit(bindparam("most", type_=Integer))
)


class Lease(Frozen):
    """Lease that makes one controller the leader."""

    holder: str
    """Name of the controller that holds the lease."""
    epoch: int
    """Number of the leadership; each new holder gets a higher one."""
    expires_at: datetime
    expired: bool = False
    """Whether the lease has expired, by the clock of the database if it has one."""
    counters: dict[str, dict[str, float]] = Field(default_factory=dict)
    """Counters of the holder since its start, by metric and label. They are published through the
    lease because the controller listens on no port.
    """


class ClusterStore(StorePart):
    """Storage of the last state of the cluster and its scheduler, the leases of controllers, and
    the event log.
    """

    async def save_cluster(self, cluster: Cluster, *, epoch: int) -> None:
        """Replace the stored state of the cluster.

        Adds the event ``nodes.changed`` with the names of nodes that differ in more than
        ``seen_at``, if there are any. Raises ``StaleEpoch`` if another controller is the leader.
        """
        # Only the rows of changed nodes are written, since there may be many nodes.
        now = cluster.seen_at or self._clock()
        new_nodes = {(node.cluster, node.name): node_data(node) for node in cluster.nodes}
        seen_at = {(node.cluster, node.name): node.seen_at for node in cluster.nodes}
        facts = cluster.model_dump(mode="json", exclude={"nodes", "seen_at"})
        async with self._db.write() as tx:
            await require_epoch(tx, epoch)
            rows = await tx.execute(select(_nodes.c.cluster, _nodes.c.name, _nodes.c.data))
            old_nodes = {(row.cluster, row.name): row.data for row in rows}
            differing = sorted(
                key
                for key in old_nodes.keys() | new_nodes.keys()
                if old_nodes.get(key) != new_nodes.get(key)
            )
            await node_state_history.insert_state_changes(
                tx, node_state_history.find_state_changes(old_nodes, new_nodes, now)
            )
            row_keys = [{"of": key[0], "node": key[1]} for key in differing if key in old_nodes]
            if row_keys:
                condition = (
                    _nodes.c.cluster == bindparam("of"),
                    _nodes.c.name == bindparam("node"),
                )
                await tx.execute(delete(_nodes).where(*condition), row_keys)
            made = [
                {"cluster": key[0], "name": key[1], "seen_at": seen_at[key], "data": new_nodes[key]}
                for key in differing
                if key in new_nodes
            ]
            if made:
                await tx.execute(insert(_nodes), made)
            for moment in {seen_at[key] for key in new_nodes.keys() - {*differing}}:
                await tx.execute(update(_nodes).values(seen_at=moment))
            query = select(_clusters.c.data).where(_clusters.c.name == CLUSTER)
            changed = (await tx.execute(query)).scalar() != facts
            values = {"name": CLUSTER, "data": facts, "seen_at": now}
            await tx.execute(upsert(tx.dialect, _clusters, values, ["name"]))
            if differing or changed:
                tx.append_event("nodes.changed", {"nodes": [name for _, name in differing]})

    async def get_cluster(self) -> Cluster:
        """Return the stored state of the cluster, nodes by name; an empty cluster if none was
        stored yet.
        """
        query = select(_clusters.c.data, _clusters.c.seen_at).where(_clusters.c.name == CLUSTER)
        async with self._db.read() as connection:
            row = (await connection.execute(query)).first()
            nodes = await self._read_nodes(connection)
        if row is None or row.data is None:
            return Cluster(nodes=tuple(nodes))
        return Cluster.model_validate({**row.data, "nodes": nodes, "seen_at": row.seen_at})

    async def list_nodes(self) -> Sequence[Node]:
        """Return the nodes of the stored state of the cluster, by name; empty if none was stored
        yet.
        """
        async with self._db.read() as connection:
            return await self._read_nodes(connection)

    async def _read_nodes(self, connection: AsyncConnection) -> Sequence[Node]:
        query = select(_nodes).order_by(_nodes.c.cluster, _nodes.c.name)
        return [node_of(row) for row in (await connection.execute(query)).mappings()]

    async def save_scheduler_status(self, status: SchedulerStatus, *, epoch: int) -> None:
        """Store whether the scheduler answers and accepts jobs; add the event ``scheduler.changed``
        if that changed.

        Raises ``StaleEpoch`` if another controller is the leader.
        """
        values = {
            "name": CLUSTER,
            "answering": status.responding,
            "since": status.since,
            "message": status.message,
        }
        async with self._db.write() as tx:
            await require_epoch(tx, epoch)
            query = select(_clusters.c.answering, _clusters.c.message).where(
                _clusters.c.name == CLUSTER
            )
            before = (await tx.execute(query)).first()
            await tx.execute(upsert(tx.dialect, _clusters, values, ["name"]))
            if before is None or tuple(before) != (status.responding, status.message):
                tx.append_event("scheduler.changed", status.model_dump(mode="json"))

    async def find_scheduler_status(self) -> SchedulerStatus | None:
        """Return the status of the scheduler; None before the first query."""
        query = select(_clusters).where(
            _clusters.c.name == CLUSTER, _clusters.c.answering.is_not(None)
        )
        async with self._db.read(brief=True) as connection:
            row = (await connection.execute(query)).first()
        if row is None:
            return None
        return SchedulerStatus(responding=row.answering, since=row.since, message=row.message)

    async def acquire_lease(
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
        try:
            async with self._db.write() as tx:
                return await self._acquire_lease(tx, name, holder, duration_s, dict(counters or {}))
        except IntegrityError:
            return None  # another controller took it at the same moment

    async def _acquire_lease(
        self,
        tx: Transaction,
        name: str,
        holder: str,
        duration_s: float,
        counters: dict[str, dict[str, float]],
    ) -> Lease | None:
        query = select(_leases).where(_leases.c.name == name).with_for_update()
        row = (await tx.execute(query)).first()
        now = await self._read_lease_time(tx)
        expires_at = now + timedelta(seconds=duration_s)
        if row is not None and row.holder == holder:
            epoch = row.epoch
        elif row is None or row.holder is None or row.expires_at <= now:
            epoch = await _next_epoch(tx)
        else:
            return None
        values = {
            "holder": holder,
            "epoch": epoch,
            "expires_at": expires_at,
            "counters": counters,
        }
        if row is None:
            await tx.execute(insert(_leases), {"name": name, **values})
        else:
            await tx.execute(update(_leases).where(_leases.c.name == name).values(values))
        return Lease.model_validate(values)

    async def find_lease(self, name: str) -> Lease | None:
        """Return the lease ``name``, also an expired one; None if it was released or
        never taken.
        """
        async with self._db.read(brief=True) as connection:
            row = (await connection.execute(select(_leases).where(_leases.c.name == name))).first()
            now = await self._read_lease_time(connection)
        if row is None or row.holder is None:
            return None
        return Lease(
            holder=row.holder,
            epoch=row.epoch,
            expires_at=row.expires_at,
            expired=row.expires_at <= now,
            counters=row.counters,
        )

    async def release_lease(self, name: str, holder: str) -> None:
        """Release the lease, if ``holder`` still has it."""
        condition = (_leases.c.name == name, _leases.c.holder == holder)
        async with self._db.write() as tx:
            if (await tx.execute(select(_leases).where(*condition).with_for_update())).first():
                values = {"holder": None, "epoch": await _next_epoch(tx)}
                await tx.execute(update(_leases).where(*condition).values(values))

    async def list_events_after(self, event_id: int, *, limit: int = 1_000) -> Sequence[Event]:
        """List up to ``limit`` events that were committed after ``event_id``, oldest first. IDs are
        assigned in commit order, so no event with a lower ID can appear later.
        """
        values = {"after": event_id, "most": limit}
        async with self._db.read(brief=True) as connection:
            rows = await connection.execute(_EVENTS_AFTER, values)
            return [event_of(row) for row in rows.mappings()]

    async def get_last_event_id(self) -> int:
        """Return the newest event's id; 0 if there is none."""
        async with self._db.read(brief=True) as connection:
            return (await connection.execute(_LAST_EVENT)).scalar() or 0

    async def add_event(self, kind: str, data: dict[str, Any]) -> None:
        """Add an event that belongs to no job and that all users may see."""
        async with self._db.write() as tx:
            tx.append_event(kind, data)

    async def wait_for_change(self, timeout_s: float) -> bool:
        """Wait until any process commits a change to the database and return True (usually within
        50 ms); return False after ``timeout_s`` seconds.

        It may return True without a change but never misses one, because each caller compares with
        the state at the end of its previous call. Waiting causes little load: SQLite reads ``PRAGMA
        data_version``, PostgreSQL uses LISTEN.
        """
        # The last read of the waiter also counts as its previous call.
        return await self._db.feed.wait_for_change(timeout_s)

    async def delete_old_records(
        self, *, events_before: datetime, idempotency_before: datetime
    ) -> None:
        """Delete events and samples older than ``events_before``, idempotency keys older than
        ``idempotency_before``, and all expired secrets.

        Also deletes those jobs that were not submitted through the platform and ended before
        ``events_before``, and of each user all but the newest.
        """
        newest = select(func.max(_events.c.id)).scalar_subquery()
        now = self._clock()
        async with self._db.write() as tx:
            for statement in (
                delete(_events).where(_events.c.time < events_before, _events.c.id < newest),
                delete(tables.samples).where(tables.samples.c.time < events_before),
                delete(_node_history).where(_node_history.c.time < now - _HISTORY_KEPT),
                make_old_alerts_delete(now),
                delete(cluster_load).where(cluster_load.c.time < now - LOAD_KEPT),
                delete(partition_load).where(partition_load.c.time < now - LOAD_KEPT),
                delete(tables.idempotency).where(
                    tables.idempotency.c.created_at < idempotency_before
                ),
                delete(secrets).where(secrets.c.expires_at <= now),
                delete(attempts).where(attempts.c.time < now - _ATTEMPTS_KEPT),
                delete(lockouts).where(
                    lockouts.c.failed_at < now - _LOCKOUTS_KEPT,
                    func.coalesce(lockouts.c.locked_until, lockouts.c.failed_at) < now,
                ),
            ):
                await tx.execute(statement)
            await prune_outside_jobs(tx, events_before)


async def _next_epoch(tx: Transaction) -> int:
    highest: int | None = (await tx.execute(select(func.max(_leases.c.epoch)))).scalar()
    return (highest or 0) + 1
