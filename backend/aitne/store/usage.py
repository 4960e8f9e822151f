"""Store of monthly usage, and of the times for which jobs were pending."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import func, select

from aitne.core.models.job import Job
from aitne.core.models.limits import Usage
from aitne.core.ports.accounting import JobEnergy
from aitne.store import tables
from aitne.store.invitation_usage_tables import deleted_runs, usage_months
from aitne.store.job_writes import update_jobs
from aitne.store.jobs import LIVE_STATES
from aitne.store.portable_sql import upsert
from aitne.store.rows import JOB_COLUMNS, job_of
from aitne.store.store_part import MOST_IDS, StorePart, require_epoch, split_into_batches

_jobs = tables.jobs
_TIMES = ("project", "owner", "nodes", "cpus", "gpus", "gpu_type", "began", "ended_at")
_SAME_END = timedelta(hours=1)
"""Maximum difference of the times at which the platform and accounting saw the end of a job."""
_began = func.coalesce(_jobs.c.allocated_at, _jobs.c.started_at)


class StoredMonth(NamedTuple):
    """Usage of one month by project and user."""

    taken_at: datetime
    """Time at which the source reported the usage."""
    source: str
    """Source of the figures, such as Slurm's accounting."""
    rows: Sequence[Usage]


class JobTime(NamedTuple):
    """Period in which a job had an allocation. ``cpus`` and ``gpus`` are the numbers on each
    node.
    """

    project: str
    user: str
    nodes: int
    cpus: int
    gpus: int
    gpu_type: str | None
    """GPU type of the job; None: it requested no type."""
    started_at: datetime
    ended_at: datetime | None
    """End of the allocation; None: the job is still running."""


class WaitTime(NamedTuple):
    """Seconds that one job of ``user`` was pending before it got its nodes."""

    user: str
    seconds: float


class UsageStore(StorePart):
    """Storage of usage by month, and queries of the times from which it is computed."""

    async def list_usage_months(self, months: Sequence[str]) -> Mapping[str, StoredMonth]:
        """Return the stored usage of these months by month (``YYYY-MM``); months without stored
        usage are missing.
        """
        query = select(usage_months).where(usage_months.c.month.in_(months))
        async with self._db.read() as connection:
            return {
                row.month: StoredMonth(
                    row.taken_at, row.source, [Usage.model_validate(usage) for usage in row.data]
                )
                for row in await connection.execute(query)
            }

    async def save_month_usage(self, month: str, month_usage: StoredMonth) -> None:
        """Replace the stored usage of the month (``YYYY-MM``) by ``month_usage``."""
        values = {
            "month": month,
            "taken_at": month_usage.taken_at,
            "source": month_usage.source,
            "data": [usage.model_dump(mode="json") for usage in month_usage.rows],
        }
        async with self._db.write() as tx:
            await tx.execute(upsert(tx.dialect, usage_months, values, ["month"]))

    async def list_job_times(self, start: datetime, end: datetime) -> Sequence[JobTime]:
        """Return the periods in which jobs of the platform had allocations, as far as they overlap
        with the time from ``start`` to ``end``.
        """
        wish = _jobs.c.spec["resources"]
        columns = (
            _jobs.c.project,
            _jobs.c.owner,
            wish["nodes"].as_integer().label("nodes"),
            wish["cpu"].as_integer().label("cpus"),
            wish["gpu"]["count"].as_integer().label("gpus"),
            wish["gpu"]["type"].as_string().label("gpu_type"),
            _began.label("began"),
            _jobs.c.ended_at,
        )
        ran = select(*columns).where(_jobs.c.is_array.is_(False), _began < end)
        ended_jobs = ran.where(_jobs.c.ended_at > start)
        # Separate queries, so that each uses its index: there may be years of jobs.
        live = ran.where(_jobs.c.ended_at.is_(None), _jobs.c.state.in_(LIVE_STATES))
        deleted = select(*(deleted_runs.c[name] for name in _TIMES)).where(
            deleted_runs.c.began < end, deleted_runs.c.ended_at > start
        )
        times: list[JobTime] = []
        async with self._db.read() as connection:
            for query in (ended_jobs, live, deleted):
                times += [JobTime._make(row) for row in await connection.execute(query)]
        return times

    async def list_wait_times(
        self, project: str, start: datetime, end: datetime
    ) -> Sequence[WaitTime]:
        """List the waiting times of those jobs of the project that got their nodes between
        ``start`` and ``end``.
        """
        requested_at = func.coalesce(_jobs.c.submitted_at, _jobs.c.created_at)
        query = select(_jobs.c.owner, requested_at.label("asked"), _began.label("began")).where(
            _jobs.c.project == project,
            _jobs.c.is_array.is_(False),
            _began >= start,
            _began < end,
        )
        runs = deleted_runs.c
        deleted = select(runs.owner, runs.requested_at.label("asked"), runs.began).where(
            runs.project == project, runs.began >= start, runs.began < end
        )
        async with self._db.read() as connection:
            return [
                WaitTime(row.owner, max(0.0, (row.began - row.asked).total_seconds()))
                for part in (query, deleted)
                for row in await connection.execute(part)
            ]

    async def count_ended_jobs(
        self, project: str, start: datetime, end: datetime
    ) -> Mapping[str, int]:
        """Count the project's jobs that ended between ``start`` and ``end``, by state."""
        query = (
            select(_jobs.c.state, func.sum(func.coalesce(_jobs.c.task_count, 1)).label("jobs"))
            .where(
                _jobs.c.project == project,
                _jobs.c.is_array.is_(False),
                _jobs.c.ended_at >= start,
                _jobs.c.ended_at < end,
            )
            .group_by(_jobs.c.state)
        )
        runs = deleted_runs.c
        deleted = (
            select(runs.state, func.sum(func.coalesce(runs.task_count, 1)).label("jobs"))
            .where(runs.project == project, runs.ended_at >= start, runs.ended_at < end)
            .group_by(runs.state)
        )
        counts: Counter[str] = Counter()
        async with self._db.read() as connection:
            for part in (query, deleted):
                for row in await connection.execute(part):
                    counts[row.state] += row.jobs
        return counts

    async def save_energy(self, records: Sequence[JobEnergy], *, epoch: int) -> None:
        """Store the energy of ended jobs. Raises ``StaleEpoch`` if another controller is the
        leader.
        """
        # In parts, so that other writers need not wait for all.
        for some in split_into_batches(records, MOST_IDS):
            ends = {energy.scheduler_id: energy for energy in some}
            query = (
                select(*JOB_COLUMNS)
                .where(
                    _jobs.c.scheduler_id.in_(ends),
                    _jobs.c.ended_at >= min(each.ended_at for each in some) - _SAME_END,
                    _jobs.c.ended_at <= max(each.ended_at for each in some) + _SAME_END,
                )
                .order_by(_jobs.c.id)
                .with_for_update(key_share=True)
            )
            async with self._db.write() as tx:
                await require_epoch(tx, epoch)
                jobs = map(job_of, (await tx.execute(query)).mappings())
                pairs = [(job, ends[job.scheduler_id or ""]) for job in jobs]
                await update_jobs(
                    tx,
                    [
                        (job, {"energy_j": energy.energy_j})
                        for job, energy in pairs
                        if _is_energy_of(energy, job)
                    ],
                )


def _is_energy_of(energy: JobEnergy, job: Job) -> bool:
    """Return whether a record of accounting belongs to the job: the scheduler may reuse an ID, so
    the end times must agree.
    """
    return (
        job.state.is_terminal
        and job.ended_at is not None
        and abs(job.ended_at - energy.ended_at) <= _SAME_END
    )
