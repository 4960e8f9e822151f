"""The store's part about the load of the cluster over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from aitne.core.models.cluster_load import ClusterLoad


@dataclass(frozen=True, slots=True)
class LoadSums:
    """Sums of the samples of an interval that begins at ``time``."""

    time: datetime
    samples: int
    """Number of samples; at least 1."""
    sums: Mapping[str, float]
    """Sum of each of ``LOAD_VALUES``."""


class LoadStore(Protocol):
    """Storage of samples of the cluster's load, summed over intervals of ``LOAD_STEP``."""

    async def add_load(self, sample: ClusterLoad, *, epoch: int) -> None:
        """Add a sample to the sums of its interval. Raises ``StaleEpoch``."""
        ...

    async def load_since(self, time: datetime) -> Sequence[LoadSums]:
        """Return the sums of the intervals that begin at ``time`` or later, oldest first."""
        ...

    async def count_waiting(self) -> int:
        """Count the jobs that wait for resources, tasks of arrays and jobs from outside
        included.
        """
        ...
