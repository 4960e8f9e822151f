"""Store of the numbers of GPUs that the platform's jobs are allocated or are pending for."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select
from typing_extensions import override

from aitne.adapters.store import tables
from aitne.adapters.store.base import StorePart
from aitne.core.jobs.states import ACTIVE, LIVE, JobState
from aitne.core.ports.store import GpuStore
from aitne.core.ports.store.gpus import GpuUse

_jobs = tables.jobs
_HELD = sorted(ACTIVE)
_AWAITED = sorted(LIVE - ACTIVE - {JobState.UNKNOWN})


class GpuSums(StorePart, GpuStore):
    """Implementation of ``core.ports.store.GpuStore`` in SQL."""

    @override
    async def gpus_held(self) -> Sequence[GpuUse]:
        return await self._gpus(_HELD)

    @override
    async def gpus_awaited(self) -> Sequence[GpuUse]:
        return await self._gpus(_AWAITED)

    async def _gpus(self, states: Sequence[JobState]) -> Sequence[GpuUse]:
        query = (
            select(
                _jobs.c.nodes,
                _jobs.c.gpu_type,
                _jobs.c.gpus,
                _jobs.c.expires_at,
                func.coalesce(_jobs.c.task_count, 1).label("tasks"),
            )
            .where(_jobs.c.state.in_(states), _jobs.c.gpus > 0, _jobs.c.is_array.is_(False))
            .order_by(_jobs.c.created_at, _jobs.c.id)
        )
        async with self._db.read() as connection:
            rows = await connection.execute(query)
            return [
                GpuUse(tuple(row.nodes), row.gpu_type, row.gpus, row.expires_at)
                for row in rows
                for _ in range(row.tasks)
            ]
