"""Part of the store for the load of the cluster over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from aitne.core.models.cluster_load import ClusterLoad


@dataclass(frozen=True, slots=True)
class LoadSums:
    """Sums over the samples in the interval that begins at ``time``."""

    time: datetime
    samples: int
    """Number of samples; at least 1."""
    sums: Mapping[str, float]
    """Sum of each value whose name is in ``LOAD_VALUES``."""


class LoadStore(Protocol):
    """Storage of samples of the cluster's load, summed over intervals of ``LOAD_STEP``."""

    async def add_load(self, sample: ClusterLoad, *, epoch: int) -> None:
        """Add a sample to the sums of its interval. Raises ``StaleEpoch`` if another controller is
        the leader.
        """
        ...

    async def load_since(self, time: datetime) -> Sequence[LoadSums]:
        """Return the sums of the intervals that begin at ``time`` or later, oldest first."""
        ...

    async def count_waiting(self) -> int:
        """Return the number of jobs that are pending for lack of resources, including array tasks
        and jobs that were not submitted through the platform.
        """
        ...
