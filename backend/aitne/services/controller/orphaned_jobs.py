"""Orphaned jobs: runs in the scheduler whose job has ended, or is at a later attempt.

If slurmctld crashes and loses its last changes, it counts ended jobs as running until it has
queried their nodes, so that other jobs wait for their CPUs. It also starts jobs that were cancelled
while pending. A run that the platform considered lost may appear later, too. All these runs are
cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from itertools import islice
from uuid import UUID

from aitne.core.concurrent_coroutines import run_concurrently
from aitne.core.errors import AitneError, StaleEpoch, StoreUnavailable, Unavailable
from aitne.core.models.job import Job
from aitne.core.platform.metric_names import RECONCILE
from aitne.core.ports.scheduler import Run, Scheduler, SchedulerJob
from aitne.services.controller.controller_counters import ControllerCounters
from aitne.services.controller.run_identification import indices_of, may_belong_to, task_record
from aitne.services.controller.stale_state_check import StaleStateCheck
from aitne.store import Store

log = logging.getLogger(__name__)

AT_ONCE = 4
MOST_PER_POLL = 100
"""Maximum number of cancellations after one poll, because the next poll waits for them."""

Key = tuple[str, UUID, int, str | None]
"""Scheduler ID, job ID, attempt and tasks. The scheduler ID alone is not sufficient because
schedulers reuse IDs.
"""


class OrphanedJobs:
    """Component that cancels each orphaned job once. A record counts as orphaned if two consecutive
    answers of the scheduler contain it.
    """

    def __init__(
        self, store: Store, scheduler: Scheduler, counts: ControllerCounters, doubt: StaleStateCheck
    ) -> None:
        self._store = store
        self._scheduler = scheduler
        self._counts = counts
        self._doubt = doubt
        self._handled: dict[Key, bool] = {}
        """Orphaned jobs in the last answer; the value is True if no further action is needed."""

    async def cancel_orphans(self, strangers: Sequence[SchedulerJob]) -> None:
        """Examine the live records of one answer that belong to no current attempt of a live job
        (``strangers``), and cancel those that are orphaned.
        """
        before, self._handled = self._handled, {}
        due: list[SchedulerJob] = []
        for record in strangers:
            handled = before.get(_make_key(record))
            self._handled[_make_key(record)] = bool(handled)
            # In the first answer it may only be slightly older or newer than the rows.
            if handled is False and len(due) < MOST_PER_POLL:
                due.append(record)
        if not due:
            return
        rows = await self._read_rows(due)
        slots = asyncio.Semaphore(AT_ONCE)

        async def judge(record: SchedulerJob) -> None:
            async with slots:
                parts = _list_orphaned_parts(record, rows)
                for part in parts:
                    await self._cancel_if_orphaned(
                        part, rows.get((part.job_id, part.array_task_id))
                    )
                if parts and all(self._handled.get(_make_key(part)) for part in parts):
                    self._handled[_make_key(record)] = True

        await run_concurrently(map(judge, due))

    async def _read_rows(
        self, records: Sequence[SchedulerJob]
    ) -> Mapping[tuple[UUID, int | None], Job]:
        jobs = await self._store.find_jobs({record.job_id for record in records})
        rows: dict[tuple[UUID, int | None], Job] = {}
        for job in jobs:
            rows[job.id, None] = job
            for task in await self._store.list_array_tasks(job.id) if job.is_array else ():
                rows[job.id, task.array_task_id] = task
        return rows

    async def _cancel_if_orphaned(self, record: SchedulerJob, job: Job | None) -> None:
        # Without a row it belongs to another platform; with another account it is forged.
        if job is None or not may_belong_to(record, job):
            self._handled[_make_key(record)] = True
            return
        if not _is_over(record, job):
            return
        run = Run(
            job_id=record.job_id,
            attempt=record.attempt,
            account=job.account,
            scheduler_id=record.scheduler_id,
        )
        try:
            await self._scheduler.cancel(run)
        except (StoreUnavailable, StaleEpoch):
            raise
        except Unavailable as error:
            log.warning(
                "An orphaned run of job %s cannot be cancelled yet: %s", job.id, error.message
            )
            return
        except AitneError as error:
            log.warning("An orphaned run of job %s cannot be cancelled: %s", job.id, error.message)
        else:
            self._doubt.schedule_search()
            self._counts.add(RECONCILE, "phantom")
            log.info("An orphaned run of job %s was cancelled in the scheduler.", job.id)
        self._handled[_make_key(record)] = True


def _list_orphaned_parts(
    record: SchedulerJob, rows: Mapping[tuple[UUID, int | None], Job]
) -> Sequence[SchedulerJob]:
    """Return the parts of a scheduler's record to cancel: the whole record or, if other tasks of
    its array are live, one record for each task that has ended.
    """
    array = rows.get((record.job_id, None))
    if record.array_task_ids is None or array is None or not may_belong_to(record, array):
        return (record,)
    if array.state.is_terminal:
        return (record,)
    tasks = (task_record(record, index) for index in sorted(indices_of(record)))
    over = (
        task
        for task in tasks
        if (job := rows.get((task.job_id, task.array_task_id))) and _is_over(task, job)
    )
    return [*islice(over, MOST_PER_POLL)]


def _is_over(record: SchedulerJob, job: Job) -> bool:
    # A later attempt than the row's began after the backup from which the database was restored.
    return job.attempt > record.attempt or (job.state.is_terminal and job.attempt == record.attempt)


def _make_key(record: SchedulerJob) -> Key:
    return (record.scheduler_id, record.job_id, record.attempt, record.array_task_ids)
