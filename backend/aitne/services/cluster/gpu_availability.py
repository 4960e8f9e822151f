"""Free GPUs, and the times at which more become free."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from aitne.core.cluster.gpu_forecast import GpuCapacity, forecast_gpus
from aitne.core.models.base import Frozen, UtcTime
from aitne.services.cluster.cluster import ClusterService
from aitne.services.platform.ttl_cache import TtlCache
from aitne.store.gpu_counts import GpuStore

FRESH_S = 5.0
"""Seconds for which one computed result is reused for all requests, such as those of open
dashboards.
"""


class Capacity(Frozen):
    """Free and used GPUs of the cluster by type; ``stale`` is True if the scheduler's last answer
    is too old to rely on.
    """

    gpus: tuple[GpuCapacity, ...]
    as_of: UtcTime | None
    stale: bool


class CapacityService:
    """Service that reports how many GPUs of each type are free, and when more become free.

    The figures cover the jobs of all users; they do not reveal who owns a job.
    """

    def __init__(
        self,
        store: GpuStore,
        cluster: ClusterService,
        clock: Callable[[], datetime],
        *,
        fresh_s: float = FRESH_S,
    ) -> None:
        self._store = store
        self._cluster = cluster
        self._clock = clock
        self._seen = TtlCache(self._read_capacity, fresh_s)

    async def get_capacity(self) -> Capacity:
        """Return the number of free GPUs, and the times at which more become free."""
        return await self._seen.get()

    async def _read_capacity(self) -> Capacity:
        look = await self._cluster.get_snapshot()
        held_gpus, awaited = (
            await self._store.list_allocated_gpus(),
            await self._store.list_pending_gpus(),
        )
        return Capacity(
            gpus=forecast_gpus(look.cluster.nodes, held_gpus, awaited, self._clock()),
            as_of=look.as_of,
            stale=look.stale,
        )
