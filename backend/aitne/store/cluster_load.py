"""Store of the load of the cluster and its partitions over time, with one row for each interval that has the
sums of its samples, and counts of the jobs in the queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from sqlalchemy import Select, and_, bindparam, case, func, insert, select, update

from aitne.core.jobs.states import ACTIVE, WAITING
from aitne.core.models.cluster_load_history import LOAD_VALUES, ClusterLoad
from aitne.store import tables
from aitne.store.admin_tables import cluster_load, partition_load
from aitne.store.database import Transaction
from aitne.store.portable_sql import make_unix_seconds
from aitne.store.store_part import StorePart, require_epoch

LOAD_STEP = timedelta(minutes=10)
LOAD_KEPT = timedelta(days=31)
MOST_ENDED = 50_000
"""Maximum number of ended jobs whose wait times are read, the last ones first: the cost of a request stays
bounded on a cluster that ends more jobs in a month.
"""
_jobs = tables.jobs
_WAITING_STATES = sorted(WAITING)
_ACTIVE_STATES = sorted(ACTIVE)
_REQUESTED_AT = func.coalesce(_jobs.c.submitted_at, _jobs.c.created_at)


@dataclass(frozen=True, slots=True)
class LoadSums:
    """Sums over the samples of one interval, from which averages are computed."""

    time: datetime
    """Start of the interval."""
    samples: int
    """Number of samples; at least 1."""
    sums: Mapping[str, float]
    """Sum of each value whose name is in ``LOAD_VALUES``."""


@dataclass(frozen=True, slots=True)
class QueuedJobs:
    """Jobs of one partition that have not ended. Each task of an array is a job."""

    partition: str | None
    """Partition of the jobs. For pending jobs that may run in several partitions, the names are
    separated by commas. None: the scheduler has not assigned a partition.
    """
    waiting: int
    """Number of jobs without an allocation."""
    running: int
    """Number of jobs with an allocation."""
    oldest_at: datetime | None
    """Earliest time at which one of the pending jobs was submitted; None if no job is pending."""


@dataclass(frozen=True, slots=True)
class WaitSums:
    """Times for which jobs of one partition were pending, as counts and sums."""

    partition: str | None
    """Partition of the jobs; None: unknown."""
    jobs: int
    """Number of jobs that started in the period."""
    total_s: float
    """Sum of their wait times in seconds."""
    longest_s: float
    """Longest wait time in seconds."""
    counts: tuple[int, ...]
    """Histogram of the wait times: for each requested bound, the number of jobs that waited shorter
    than the bound but not shorter than the previous one; then the number of all other jobs.
    """


class LoadStore(StorePart):
    """Storage of samples of the load of the cluster and its partitions, summed over intervals of ``LOAD_STEP``,
    and counts of the jobs in the queue.
    """

    async def add_load_sample(
        self, sample: ClusterLoad, partitions: Mapping[str, ClusterLoad], *, epoch: int
    ) -> None:
        """Add a sample of the cluster, and samples of its partitions by name, to the sums of their
        interval. Raises ``StaleEpoch`` if another controller is the leader.
        """
        step_s = int(LOAD_STEP.total_seconds())
        start = datetime.fromtimestamp(sample.time.timestamp() // step_s * step_s, UTC)
        async with self._db.write() as tx:
            # Only the leader writes, so no other process inserts the row meanwhile.
            await require_epoch(tx, epoch)
            columns = cluster_load.c
            values = _to_load_values(sample)
            added = {name: columns[name] + value for name, value in values.items()}
            changed = await tx.execute(
                update(cluster_load)
                .where(columns.time == start)
                .values(samples=columns.samples + 1, **added)
            )
            if not changed.rowcount:
                await tx.execute(insert(cluster_load), {"time": start, "samples": 1, **values})
            await _add_partitions(tx, start, partitions)

    async def list_load_since(
        self, time: datetime, partition: str | None = None
    ) -> Sequence[LoadSums]:
        """Return the sums of the intervals that begin at ``time`` or later, oldest first: of the
        partition, or of the cluster if it is None.
        """
        table = cluster_load if partition is None else partition_load
        query = select(table).where(table.c.time >= time).order_by(table.c.time)
        if partition is not None:
            query = query.where(partition_load.c.partition == partition)
        async with self._db.read() as connection:
            rows = (await connection.execute(query)).mappings()
            return [
                LoadSums(row["time"], row["samples"], {name: row[name] for name in LOAD_VALUES})
                for row in rows
            ]

    async def count_queued_jobs(self) -> Sequence[QueuedJobs]:
        """Return the numbers of pending and running jobs by partition, including array tasks and
        jobs that were not submitted through the platform.
        """
        number = func.coalesce(_jobs.c.task_count, 1)
        waiting = _jobs.c.state.in_(_WAITING_STATES)
        query = (
            select(
                _jobs.c.partition,
                func.sum(case((waiting, number), else_=0)).label("waiting"),
                func.sum(case((waiting, 0), else_=number)).label("running"),
                func.min(case((waiting, _REQUESTED_AT))).label("oldest_at"),
            )
            .where(_jobs.c.state.in_(_WAITING_STATES + _ACTIVE_STATES), _jobs.c.is_array.is_(False))
            .group_by(_jobs.c.partition)
        )
        async with self._db.read() as connection:
            return [
                QueuedJobs(row.partition, row.waiting, row.running, row.oldest_at)
                for row in await connection.execute(query)
            ]

    async def sum_waits_since(self, time: datetime, bounds_s: Sequence[int]) -> Sequence[WaitSums]:
        """Return the wait times of the jobs that started at ``time`` or later, by partition. Of
        ended jobs, only the last ``MOST_ENDED`` are read. ``bounds_s`` are ascending.
        """
        began = func.coalesce(_jobs.c.allocated_at, _jobs.c.started_at)
        started = select(
            _jobs.c.partition,
            _REQUESTED_AT.label("requested_at"),
            began.label("began"),
        ).where(_jobs.c.is_array.is_(False), began >= time)
        # Separate queries, so that each uses its index: there may be years of jobs.
        ended = started.where(_jobs.c.ended_at >= time).order_by(_jobs.c.ended_at.desc())
        live = started.where(_jobs.c.state.in_(_ACTIVE_STATES))
        sums: dict[str | None, WaitSums] = {}
        async with self._db.read() as connection:
            for query in (ended.limit(MOST_ENDED), live):
                summed = _select_wait_sums(query, bounds_s, connection.dialect.name)
                for row in (await connection.execute(summed)).all():
                    partition, jobs, total_s, longest_s, *counts = row
                    one = WaitSums(partition, jobs, float(total_s), float(longest_s), tuple(counts))
                    sums[partition] = _merge_wait_sums(sums.get(partition), one)
        return list(sums.values())


def _select_wait_sums(started: Select[Any], bounds_s: Sequence[int], dialect: str) -> Select[Any]:
    """Return the query that sums the wait times in the rows of ``started`` by partition."""
    rows = started.subquery()
    wait = make_unix_seconds(dialect, rows.c.began) - make_unix_seconds(
        dialect, rows.c.requested_at
    )
    waits = select(rows.c.partition, case((wait < 0, 0), else_=wait).label("wait_s")).subquery()
    edges = [0, *bounds_s]
    counts = [
        func.sum(case((and_(waits.c.wait_s >= low, waits.c.wait_s < high), 1), else_=0))
        for low, high in pairwise(edges)
    ]
    longer = func.sum(case((waits.c.wait_s >= edges[-1], 1), else_=0))
    return select(
        waits.c.partition,
        func.count(),
        func.sum(waits.c.wait_s),
        func.max(waits.c.wait_s),
        *counts,
        longer,
    ).group_by(waits.c.partition)


def _merge_wait_sums(first: WaitSums | None, second: WaitSums) -> WaitSums:
    if first is None:
        return second
    return WaitSums(
        first.partition,
        first.jobs + second.jobs,
        first.total_s + second.total_s,
        max(first.longest_s, second.longest_s),
        tuple(a + b for a, b in zip(first.counts, second.counts, strict=True)),
    )


def _to_load_values(sample: ClusterLoad) -> dict[str, float]:
    return sample.model_dump(include=set(LOAD_VALUES))


async def _add_partitions(
    tx: Transaction, start: datetime, partitions: Mapping[str, ClusterLoad]
) -> None:
    columns = partition_load.c
    query = select(columns.partition).where(columns.time == start)
    there = set((await tx.execute(query)).scalars())
    known = [name for name in partitions if name in there]
    if known:
        added = {name: columns[name] + bindparam(f"more_{name}") for name in LOAD_VALUES}
        await tx.execute(
            update(partition_load)
            .where(columns.time == start, columns.partition == bindparam("of"))
            .values(samples=columns.samples + 1, **added),
            [
                {
                    "of": name,
                    **{
                        f"more_{key}": value
                        for key, value in _to_load_values(partitions[name]).items()
                    },
                }
                for name in known
            ],
        )
    new = [name for name in partitions if name not in there]
    if new:
        await tx.execute(
            insert(partition_load),
            [
                {
                    "partition": name,
                    "time": start,
                    "samples": 1,
                    **_to_load_values(partitions[name]),
                }
                for name in new
            ],
        )
