"""Changes of a pending job's stored specification: its hold, and the maximum number of concurrent
tasks of an array.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from typing_extensions import override

from aitne.adapters.store.base import StorePart, require_epoch
from aitne.adapters.store.outbox import queue
from aitne.adapters.store.transitions import change_all, live_tasks, lock_job
from aitne.core.errors import Conflict, InvalidInput
from aitne.core.jobs.states import WAITING
from aitne.core.models.job import Job
from aitne.core.ports.store import JobStore, OutboxKind
from aitne.core.units import parse_array


class JobChangeRequests(StorePart, JobStore):
    """Part of ``JobStore`` that changes the specification of pending jobs."""

    @override
    async def request_hold(self, job_id: UUID, hold: bool) -> Job:
        async with self._db.write() as tx:
            job, _ = await lock_job(tx, job_id)
            rows = [job, *(await live_tasks(tx, job_id) if job.is_array else ())]
            if job.cancel_requested_at or not any(
                row.state in WAITING and (not row.is_array or row.is_outside) for row in rows
            ):
                raise Conflict(
                    f"Job {job_id} is {job.state}: only a job that waits can be held or released."
                )
            values = [
                (row, {"spec": row.spec.model_copy(update={"hold": hold})})
                for row in rows
                if row.is_array or row.state in WAITING
            ]
            changed = await change_all(tx, values)
            if any(row is not before for row, (before, _) in zip(changed, values, strict=True)):
                await queue(tx, OutboxKind.HOLD, [job], self._clock())
        return changed[0]

    @override
    async def withdraw_hold(self, job_id: UUID, hold: bool, *, epoch: int) -> None:
        async with self._db.write() as tx:
            await require_epoch(tx, epoch)
            job, _ = await lock_job(tx, job_id)
            rows = [job, *(await live_tasks(tx, job_id) if job.is_array else ())]
            await change_all(
                tx, [(row, {"spec": row.spec.model_copy(update={"hold": hold})}) for row in rows]
            )

    @override
    async def request_throttle(self, job_id: UUID, max_parallel: int | None) -> Job:
        async with self._db.write() as tx:
            job, _ = await lock_job(tx, job_id)
            if job.spec.array is None or not job.is_array:
                raise InvalidInput.field(
                    "max_parallel", "the job is no array", value=max_parallel, allowed="array jobs"
                )
            if job.state.terminal:
                raise Conflict(f"Job {job_id} has ended ({job.state}); none of its tasks wait.")
            array = str(replace(parse_array(job.spec.array), throttle=max_parallel))
            sweep = job.spec.sweep and job.spec.sweep.model_copy(
                update={"max_parallel": max_parallel}
            )
            update = {"array": array, "sweep": sweep}
            rows = [job, *await live_tasks(tx, job_id)]
            changed = await change_all(
                tx, [(row, {"spec": row.spec.model_copy(update=update)}) for row in rows]
            )
            if changed[0] is not job:
                await queue(tx, OutboxKind.THROTTLE, [job], self._clock())
        return changed[0]
