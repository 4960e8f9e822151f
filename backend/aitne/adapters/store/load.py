"""Store of the cluster's load over time: one row for each interval, with the sums of the
measurements in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import func, insert, select, update
from typing_extensions import override

from aitne.adapters.store import tables
from aitne.adapters.store.admin_tables import cluster_load
from aitne.adapters.store.base import StorePart, require_epoch
from aitne.core.jobs.states import WAITING
from aitne.core.models.cluster_load import LOAD_VALUES, ClusterLoad
from aitne.core.ports.store.load import LoadStore, LoadSums

LOAD_STEP = timedelta(minutes=10)
LOAD_KEPT = timedelta(days=8)
_jobs = tables.jobs
_WAITING_STATES = sorted(WAITING)


class LoadRecords(StorePart, LoadStore):
    """Implementation of ``LoadStore`` in SQL."""

    @override
    async def add_load(self, sample: ClusterLoad, *, epoch: int) -> None:
        step_s = int(LOAD_STEP.total_seconds())
        start = datetime.fromtimestamp(sample.time.timestamp() // step_s * step_s, UTC)
        values = sample.model_dump(include=set(LOAD_VALUES))
        async with self._db.write() as tx:
            # Only the leader writes, so no other process inserts the row meanwhile.
            await require_epoch(tx, epoch)
            columns = cluster_load.c
            added = {name: columns[name] + value for name, value in values.items()}
            changed = await tx.execute(
                update(cluster_load)
                .where(columns.time == start)
                .values(samples=columns.samples + 1, **added)
            )
            if not changed.rowcount:
                await tx.execute(insert(cluster_load), {"time": start, "samples": 1, **values})

    @override
    async def load_since(self, time: datetime) -> Sequence[LoadSums]:
        query = (
            select(cluster_load).where(cluster_load.c.time >= time).order_by(cluster_load.c.time)
        )
        async with self._db.read() as connection:
            rows = (await connection.execute(query)).mappings()
            return [
                LoadSums(row["time"], row["samples"], {name: row[name] for name in LOAD_VALUES})
                for row in rows
            ]

    @override
    async def count_waiting(self) -> int:
        query = select(func.sum(func.coalesce(_jobs.c.task_count, 1))).where(
            _jobs.c.state.in_(_WAITING_STATES), _jobs.c.is_array.is_(False)
        )
        async with self._db.read() as connection:
            return (await connection.execute(query)).scalar() or 0
