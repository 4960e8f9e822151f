"""Store of the numbers of GPUs that the platform's jobs are allocated or are pending for."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select

from aitne.core.cluster.gpu_forecast import GpuUse
from aitne.core.jobs.states import ACTIVE, LIVE, JobState
from aitne.store import tables
from aitne.store.store_part import StorePart

_jobs = tables.jobs
_HELD = sorted(ACTIVE)
_AWAITED = sorted(LIVE - ACTIVE - {JobState.UNKNOWN})


class GpuStore(StorePart):
    """Query of the GPUs that running jobs use and pending jobs request; used to predict when GPUs
    become free.
    """

    async def list_allocated_gpus(self) -> Sequence[GpuUse]:
        """Return the GPUs of each job that has an allocation with GPUs, without its owner."""
        return await self._list_gpu_uses(_HELD)

    async def list_pending_gpus(self) -> Sequence[GpuUse]:
        """Return the GPUs of each pending job that requests GPUs, oldest first; for an array job
        one entry for each pending task.
        """
        return await self._list_gpu_uses(_AWAITED)

    async def _list_gpu_uses(self, states: Sequence[JobState]) -> Sequence[GpuUse]:
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
