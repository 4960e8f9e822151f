"""Part of the store for the load of the cluster over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from aitne.core.models.cluster_load import ClusterLoad


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


class LoadStore(Protocol):
    """Storage of samples of the load of the cluster and its partitions, summed over intervals of ``LOAD_STEP``,
    and counts of the jobs in the queue.
    """

    async def add_load(
        self, sample: ClusterLoad, partitions: Mapping[str, ClusterLoad], *, epoch: int
    ) -> None:
        """Add a sample of the cluster, and samples of its partitions by name, to the sums of their
        interval. Raises ``StaleEpoch`` if another controller is the leader.
        """
        ...

    async def load_since(self, time: datetime, partition: str | None = None) -> Sequence[LoadSums]:
        """Return the sums of the intervals that begin at ``time`` or later, oldest first: of the
        partition, or of the cluster if it is None.
        """
        ...

    async def queues(self) -> Sequence[QueuedJobs]:
        """Return the numbers of pending and running jobs by partition, including array tasks and
        jobs that were not submitted through the platform.
        """
        ...

    async def waits_since(self, time: datetime, bounds_s: Sequence[int]) -> Sequence[WaitSums]:
        """Return the wait times of the jobs that started at ``time`` or later, by partition. Of
        ended jobs, only the last ``MOST_ENDED`` are read. ``bounds_s`` are ascending.
        """
        ...
