"""Load of the cluster or a partition, averaged over the intervals of a day, a week or a month."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pydantic import Field

from aitne.core.models.base import Frozen
from aitne.core.models.cluster_load_history import LOAD_VALUES, ClusterLoad, LoadPeriod
from aitne.store.cluster_load import LoadSums

INTERVALS = {
    LoadPeriod.DAY: (timedelta(days=1), timedelta(minutes=10)),
    LoadPeriod.WEEK: (timedelta(days=7), timedelta(hours=1)),
    LoadPeriod.MONTH: (timedelta(days=30), timedelta(hours=4)),
}
"""Length of each period, and the length of the intervals over which its means are computed."""
LOAD_FRESH_S = 30.0
"""Seconds for which one computed result is reused for all requests; a new sample arrives once a
minute.
"""


class LoadHistory(Frozen):
    """Means of the load over intervals of ``interval_s`` seconds, oldest first."""

    interval_s: int = Field(description="Length of an interval in seconds.")
    items: tuple[ClusterLoad, ...] = Field(
        description="Intervals, oldest first; without a sample an interval is absent."
    )


def make_load_history(sums: Sequence[LoadSums], interval: timedelta) -> LoadHistory:
    """Return the means over intervals, each weighted by the number of its samples."""
    interval_s = int(interval.total_seconds())
    grouped: dict[int, list[LoadSums]] = defaultdict(list)
    for one in sums:
        grouped[int(one.time.timestamp()) // interval_s * interval_s].append(one)
    return LoadHistory(
        interval_s=interval_s,
        items=tuple(_compute_mean_load(start, group) for start, group in sorted(grouped.items())),
    )


def _compute_mean_load(start_s: int, group: Sequence[LoadSums]) -> ClusterLoad:
    samples = sum(one.samples for one in group)
    means = {name: round(sum(one.sums[name] for one in group) / samples, 2) for name in LOAD_VALUES}
    return ClusterLoad(time=datetime.fromtimestamp(start_s, UTC), **means)
