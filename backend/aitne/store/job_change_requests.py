"""Store of requests to change jobs: to cancel, extend, hold or release one, or to set how many tasks
of an array run at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import select

from aitne.core.errors import Conflict, InvalidInput
from aitne.core.jobs.array_job_state import task_id
from aitne.core.jobs.states import WAITING, JobState, TerminationReason
from aitne.core.models.job import Job
from aitne.core.units import parse_array
from aitne.store import tables
from aitne.store.action_outbox import (
    OutboxKind,
    add_outbox_items,
    delete_submit_items,
    find_longest_requested_limit,
    find_queued_jobs,
)
from aitne.store.array_task_groups import indices_of, split_tasks
from aitne.store.database import Transaction
from aitne.store.job_writes import (
    check_attempt_and_version,
    lock_job,
    lock_live_tasks,
    update_array_job,
    update_job,
    update_jobs,
)
from aitne.store.store_part import StorePart, require_epoch

_jobs = tables.jobs


class JobRequestStore(StorePart):
    """Storage of requests to change jobs, each with the outbox item that carries it out."""

    async def request_cancel(
        self,
        job_id: UUID,
        now: datetime,
        message: str | None = None,
        *,
        keep: Collection[UUID] = (),
        reason: TerminationReason | None = None,
        version: int | None = None,
        unless_cancelled: UUID | None = None,
    ) -> Job:
        """Record the request to cancel a job and add a CANCEL item to the outbox; for an array, one
        for every live task except those in ``keep``.

        If ``keep`` is empty, one item for the array's row cancels all tasks that were submitted
        with it; a task that was retried gets its own. ``message`` names the user who cancelled the
        job; it becomes the message of each affected job whose cancellation was not requested
        before. ``reason`` becomes the termination reason of the job or of each task.

        A job in the state PENDING_SUBMIT becomes CANCELLED at once and its SUBMIT item is deleted.
        A job that has ended is returned unchanged, and so is an array if its task
        ``unless_cancelled`` was cancelled. Raises ``Conflict`` if ``version`` is given and differs
        from that of the row.
        """
        async with self._db.write(brief=True) as tx:
            job, array = await lock_job(tx, job_id)
            if job.state.is_terminal or await _is_task_cancelled(tx, unless_cancelled):
                return job
            check_attempt_and_version(job, None, version)
            if not job.is_array or job.is_outside:
                # A started submission is completed first: only then the job to cancel is known.
                pending = job.state is JobState.PENDING_SUBMIT
                submits = await delete_submit_items(tx, [job_id] if pending else [])
                # The SUBMIT of tasks is that of their array: it may be in progress for all of them.
                at_once = pending and (array is None or bool(submits))
                (changed,) = await self._cancel_jobs(tx, [(job, at_once)], now, message, reason)
                if array is not None and changed is not job:
                    await update_array_job(tx, array, [changed])
                return changed
            if keep:
                # Single tasks are cancelled in the scheduler.
                for row in await lock_live_tasks(tx, job_id):
                    await split_tasks(tx, [task_id(job_id, index) for index in indices_of(row)])
            live = await lock_live_tasks(tx, job_id)
            tasks = [task for task in live if task.id not in keep]
            pending_ids = {task.id for task in tasks if task.state is JobState.PENDING_SUBMIT}
            whole = [job_id] if len(pending_ids) == len(live) else []
            submits = await delete_submit_items(tx, [*whole, *pending_ids])
            wishes = [
                (task, task.id in pending_ids and not submits.isdisjoint((task.id, job_id)))
                for task in tasks
            ]
            some = len(tasks) < len(live)
            changes = await self._cancel_jobs(
                tx, wishes, now, message, reason, None if some else job
            )
            wish = {} if some else _make_cancel_values(job, now, message)
            changed = await update_job(tx, job, wish)
            return await update_array_job(tx, changed, changes)

    async def _cancel_jobs(
        self,
        tx: Transaction,
        cancellations: Sequence[tuple[Job, bool]],
        now: datetime,
        message: str | None,
        reason: TerminationReason | None = None,
        array: Job | None = None,
    ) -> Sequence[Job]:
        """Cancel each job in ``cancellations``, and return the changed jobs. If the flag beside a job is
        True, the job ends at once; otherwise an outbox item is added, which cancels it in the
        scheduler.

        If the jobs are all live tasks of one array, pass it as ``array``. A single outbox item then
        cancels all tasks that were submitted together.
        """
        later = [job for job, at_once in cancellations if not at_once]
        if array is not None:
            retried = [task for task in later if task.attempt != array.attempt]
            later = [*retried, array] if len(retried) < len(later) else retried
        waiting = await find_queued_jobs(tx, OutboxKind.CANCEL, [job.id for job in later])
        await add_outbox_items(
            tx, OutboxKind.CANCEL, [job for job in later if job.id not in waiting], now
        )
        end_values = {
            "state": JobState.CANCELLED,
            "reason": reason or TerminationReason.CANCELLED,
            "message": message or "Cancelled before it was submitted.",
            "ended_at": now,
        }
        return await update_jobs(
            tx,
            [
                (
                    job,
                    _make_cancel_values(job, now, message, reason)
                    | (end_values if at_once else {}),
                )
                for job, at_once in cancellations
            ],
        )

    async def request_extend(
        self, job_id: UUID, time_limit_s: int, *, latest_requested_s: int | None
    ) -> Job:
        """Add an EXTEND item to the outbox, with ``data = {"time_limit_s": …}``.

        ``latest_requested_s`` is the result of ``find_requested_time_limit`` on which the caller
        based the request. Raises ``Conflict`` if the job has ended, or if a longer limit was
        requested meanwhile.
        """
        async with self._db.write() as tx:
            job, _ = await lock_job(tx, job_id)
            if job.state.is_terminal:
                raise Conflict(f"Job {job_id} has ended ({job.state}); it cannot be extended.")
            if (await find_longest_requested_limit(tx, job_id) or 0) > (latest_requested_s or 0):
                raise Conflict(
                    "The job was extended at the same moment. Check its end, and try again."
                )
            data = {"time_limit_s": time_limit_s}
            await add_outbox_items(tx, OutboxKind.EXTEND, [job], self._clock(), data)
        return job

    async def request_hold(self, job_id: UUID, hold: bool) -> Job:
        """Set ``hold`` in the specification of a pending job, or of an array and its pending tasks,
        and add a HOLD item to the outbox.

        Raises ``NotFound``, or ``Conflict`` if neither the job nor a task of it is pending.
        """
        async with self._db.write() as tx:
            job, _ = await lock_job(tx, job_id)
            rows = [job, *(await lock_live_tasks(tx, job_id) if job.is_array else ())]
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
            changed = await update_jobs(tx, values)
            if any(row is not before for row, (before, _) in zip(changed, values, strict=True)):
                await add_outbox_items(tx, OutboxKind.HOLD, [job], self._clock())
        return changed[0]

    async def withdraw_hold(self, job_id: UUID, hold: bool, *, epoch: int) -> None:
        """Set ``hold`` in the specification to the value in the scheduler, after the scheduler
        refused a change.
        """
        async with self._db.write() as tx:
            await require_epoch(tx, epoch)
            job, _ = await lock_job(tx, job_id)
            rows = [job, *(await lock_live_tasks(tx, job_id) if job.is_array else ())]
            await update_jobs(
                tx, [(row, {"spec": row.spec.model_copy(update={"hold": hold})}) for row in rows]
            )

    async def request_throttle(self, job_id: UUID, max_parallel: int | None) -> Job:
        """Set the maximum number of concurrent tasks in the specification of an array, and add a
        THROTTLE item to the outbox.

        Raises ``NotFound``; ``InvalidInput`` if the job is not an array; ``Conflict`` if it has ended.
        """
        async with self._db.write() as tx:
            job, _ = await lock_job(tx, job_id)
            if job.spec.array is None or not job.is_array:
                raise InvalidInput.field(
                    "max_parallel", "the job is no array", value=max_parallel, allowed="array jobs"
                )
            if job.state.is_terminal:
                raise Conflict(f"Job {job_id} has ended ({job.state}); none of its tasks wait.")
            array = str(replace(parse_array(job.spec.array), throttle=max_parallel))
            sweep = job.spec.sweep and job.spec.sweep.model_copy(
                update={"max_parallel": max_parallel}
            )
            update = {"array": array, "sweep": sweep}
            rows = [job, *await lock_live_tasks(tx, job_id)]
            changed = await update_jobs(
                tx, [(row, {"spec": row.spec.model_copy(update=update)}) for row in rows]
            )
            if changed[0] is not job:
                await add_outbox_items(tx, OutboxKind.THROTTLE, [job], self._clock())
        return changed[0]


def _make_cancel_values(
    job: Job, now: datetime, message: str | None, reason: TerminationReason | None = None
) -> dict[str, Any]:
    """Return the column values of a request to cancel the job. An earlier request keeps its time,
    message and reason.
    """
    if job.cancel_requested_at is not None:
        return {"cancel_requested_at": job.cancel_requested_at}
    details = {"message": message, "reason": reason}
    values = {name: value for name, value in details.items() if value is not None}
    return {"cancel_requested_at": now, **values}


async def _is_task_cancelled(tx: Transaction, task_id: UUID | None) -> bool:
    if task_id is None:
        return False
    query = select(_jobs.c.cancel_requested_at).where(_jobs.c.id == task_id)
    return (await tx.execute(query)).scalar() is not None
