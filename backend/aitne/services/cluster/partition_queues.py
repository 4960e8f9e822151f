"""Queue of each partition: pending jobs now, and the wait times of jobs that started."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from pydantic import Field

from aitne.core.models.base import Frozen, UtcTime
from aitne.core.models.cluster_load_history import LoadPeriod
from aitne.store.cluster_load import QueuedJobs, WaitSums

WAIT_BOUNDS_S = (60, 600, 3_600, 6 * 3_600)
"""Bounds between which wait times are counted, in seconds."""
QUEUES_FRESH_S = 15.0
"""Seconds for which one count of the pending and running jobs is reused for all requests."""
WAITS_FRESH_S = {LoadPeriod.DAY: 60.0, LoadPeriod.WEEK: 300.0, LoadPeriod.MONTH: 900.0}
"""Seconds for which the wait times of a period are reused for all requests: a longer one has more jobs to read,
and changes more slowly.
"""


class WaitCount(Frozen):
    """Number of jobs whose wait time is below ``below_s`` and not below the bound before it."""

    below_s: int | None = Field(description="Bound in seconds; null: all longer wait times.")
    jobs: int = Field(description="Number of jobs.")


class PartitionQueue(Frozen):
    """Pending and running jobs of a partition, and the wait times of the jobs that started in the
    period. Each task of an array is a job. A pending job that may run in several partitions is
    counted in each of them.
    """

    partition: str | None = Field(
        description="Partition; null: jobs to which the scheduler has not assigned one.",
        examples=["gpu"],
    )
    waiting_jobs: int = Field(description="Number of jobs without an allocation.")
    running_jobs: int = Field(description="Number of jobs with an allocation.")
    oldest_wait_s: int | None = Field(
        description="Time in seconds since the earliest pending job was submitted; null if no job is "
        "pending."
    )
    started_jobs: int = Field(description="Number of jobs that started in the period.")
    mean_wait_s: float | None = Field(
        description="Mean time in seconds from submission to start; null if no job started."
    )
    longest_wait_s: float | None = Field(
        description="Longest time in seconds from submission to start; null if no job started."
    )
    waits: tuple[WaitCount, ...] = Field(
        description="Numbers of started jobs by wait time, the shortest first."
    )


class QueueReport(Frozen):
    """Queues of all partitions."""

    since: UtcTime = Field(description="Start of the period of the wait times.")
    as_of: UtcTime = Field(description="Time at which they were counted.")
    items: tuple[PartitionQueue, ...] = Field(
        description="Partitions that have pending, running or started jobs, by name."
    )


def queue_report(
    queued: Sequence[QueuedJobs], waits: Sequence[WaitSums], since: datetime, now: datetime
) -> QueueReport:
    """Return the queues of all partitions that occur in ``queued`` or ``waits``."""
    by_partition: dict[str | None, list[QueuedJobs]] = defaultdict(list)
    for jobs in queued:
        for name in (None,) if jobs.partition is None else jobs.partition.split(","):
            by_partition[name].append(jobs)
    sums = {one.partition: one for one in waits}
    names = sorted(by_partition.keys() | sums.keys(), key=lambda name: (name is None, name or ""))
    return QueueReport(
        since=since,
        as_of=now,
        items=tuple(
            _make_partition_queue(name, by_partition[name], sums.get(name), now) for name in names
        ),
    )


def _make_partition_queue(
    name: str | None, queued: Sequence[QueuedJobs], waits: WaitSums | None, now: datetime
) -> PartitionQueue:
    oldest = min((jobs.oldest_at for jobs in queued if jobs.oldest_at is not None), default=None)
    started = 0 if waits is None else waits.jobs
    counts = (0,) * (len(WAIT_BOUNDS_S) + 1) if waits is None else waits.counts
    return PartitionQueue(
        partition=name,
        waiting_jobs=sum(jobs.waiting for jobs in queued),
        running_jobs=sum(jobs.running for jobs in queued),
        oldest_wait_s=None if oldest is None else max(0, int((now - oldest).total_seconds())),
        started_jobs=started,
        mean_wait_s=None if waits is None else round(waits.total_s / waits.jobs, 1),
        longest_wait_s=None if waits is None else waits.longest_s,
        waits=tuple(
            WaitCount(below_s=bound, jobs=jobs)
            for bound, jobs in zip((*WAIT_BOUNDS_S, None), counts, strict=True)
        ),
    )
