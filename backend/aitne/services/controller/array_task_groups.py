"""Task groups in the scheduler's answers: processed together while their tasks are equal, and split
when they differ.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from aitne.core.jobs.states import JobState
from aitne.core.ports.scheduler import SchedulerJob
from aitne.core.units import ArrayRange
from aitne.services.controller.live_jobs import LiveJob, LiveJobs
from aitne.services.controller.run_identification import indices_of, task_record
from aitne.store import Store

News = list[tuple[LiveJob, list[SchedulerJob]]]

MOST_SPLIT = 1_000
"""Maximum number of tasks for which rows are created in one transaction; further ones are split off
after the next answer.
"""
ABSENCES = 3
"""Number of consecutive answers without a task after which the task is searched for."""
CANCELLING = timedelta(seconds=30)
"""Time after the request to cancel an array during which the answers may show only some of its
tasks as cancelled.
"""


class TaskGroups:
    """Component that splits task groups: tasks for which the scheduler has different records get
    database rows of their own.
    """

    def __init__(self, store: Store, live: LiveJobs, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._live = live
        self._clock = clock
        self._absent: dict[UUID, tuple[int, frozenset[int]]] = {}
        """Missing tasks by ID of the task group: the number of consecutive answers without them,
        and their indices.
        """

    async def split_groups(self, news: News, tick: int) -> News:
        """Split task groups whose tasks have different records in the scheduler's latest answer,
        and return the jobs to update.

        In the result, a split group is replaced by an entry for each task that was split off; the
        group itself remains for the tasks that still share one record. Jobs that are not task
        groups are returned unchanged.

        Args:
            news: pairs of a live job and its records in this answer.
            tick: value of the change counter ``LiveJobs.tick`` before the scheduler was queried.
                Groups that were changed later are returned without records, because the answer may
                be older than the change.
        """
        result: News = []
        for entry, records in news:
            if not entry.job.is_task_group:
                result.append((entry, records))
            elif entry.submitted and entry.changed_at <= tick:
                result += await self._split_by_records(entry, records, tick)
            else:
                result.append((entry, []))
        return result

    async def split_missing_group(self, entry: LiveJob, tick: int) -> None:
        """Create a separate database row for every task of a group that is missing from the
        scheduler's answers.

        ``tick`` is the value of the change counter ``LiveJobs.tick`` before the scheduler was
        queried.
        """
        await self._split_tasks(entry, entry.tasks, tick)

    async def _split_by_records(
        self, entry: LiveJob, records: Sequence[SchedulerJob], tick: int
    ) -> News:
        waiting, cancelled, others = _by_state(entry, records)
        if cancelled and entry.job.cancel_requested_at is None:
            # The copy may lack a cancel request of the platform.
            self._live.update(await self._store.find_jobs([entry.job.id]))
            if entry.changed_at > tick:
                return [(entry, [])]
        requested_at = entry.job.cancel_requested_at
        partly = bool(waiting and cancelled)
        if requested_at is None or (partly and self._clock() >= requested_at + CANCELLING):
            others = {**others, **_to_task_records(cancelled)}
            cancelled = {}
        result: News = []
        absent = self._find_absent_tasks(entry, {*waiting, *cancelled, *others})
        if others or absent:
            for task in await self._split_tasks(entry, [*others, *absent], tick):
                index = task.job.array_task_id
                if index in others:
                    task.poll = entry.poll
                    result.append((task, [others[index]]))
        # If all remaining tasks have ended, the group has; if some, the others may have started.
        if waiting and not cancelled:
            result.append((entry, [_to_group_record(next(iter(waiting.values())))]))
        elif entry.tasks and entry.tasks <= cancelled.keys():
            result.append((entry, [_to_group_record(next(iter(cancelled.values())))]))
        elif entry.tasks:
            result.append((entry, []))
        return result

    def _find_absent_tasks(self, entry: LiveJob, present: Collection[int]) -> frozenset[int]:
        """Return the indices of the group's tasks that were missing from the last ``ABSENCES``
        answers; ``present`` are the indices in this answer.
        """
        times, before = self._absent.pop(entry.job.id, (0, entry.tasks))
        absent = entry.tasks.intersection(before).difference(present)
        if not absent:
            return frozenset()
        if times + 1 >= ABSENCES:
            return absent
        self._absent[entry.job.id] = (times + 1, absent)
        return frozenset()

    async def _split_tasks(
        self, entry: LiveJob, indices: Collection[int], tick: int
    ) -> list[LiveJob]:
        """Create separate database rows for the group's tasks with these array indices (at most
        ``MOST_SPLIT``), and return their entries in ``LiveJobs``.

        ``tick`` is the value of the change counter ``LiveJobs.tick`` before the scheduler was
        queried.
        """
        group = entry.job
        if group.array_job_id is None:
            raise ValueError(f"job {group.id} is not a task group")
        some = sorted(indices)[:MOST_SPLIT]
        rows = await self._store.split_tasks(group.array_job_id, some)
        self._live.update(rows)
        if all(row.id != group.id for row in rows):
            self._live.forget(group.id)
            self._absent.pop(group.id, None)
            entry.tasks = frozenset()
        entries: list[LiveJob] = []
        for row in rows:
            task_entry = self._live.get(row.id)
            if task_entry is None or row.version > group.version + row.is_task_group:
                continue  # it was changed concurrently: the next answer is judged
            # The row was split off unchanged, so it is as current as the group's.
            task_entry.changed_at = tick
            if not row.is_task_group:
                entries.append(task_entry)
        return entries


def without_tasks(record: SchedulerJob, entries: Sequence[LiveJob]) -> SchedulerJob | None:
    """Return a copy of the scheduler's record without the array tasks that have an entry in
    ``entries``; None if no task remains.
    """
    if record.array_task_ids is None:
        return None if entries else record
    rest = indices_of(record).difference(*(_own_indices(entry) for entry in entries))
    if not rest:
        return None
    return record.model_copy(update={"array_task_ids": str(ArrayRange.from_indices(rest))})


def _own_indices(entry: LiveJob) -> Collection[int]:
    index = entry.job.array_task_id
    return entry.tasks if index is None else (index,)


def _by_state(
    entry: LiveJob, records: Sequence[SchedulerJob]
) -> tuple[dict[int, SchedulerJob], dict[int, SchedulerJob], dict[int, SchedulerJob]]:
    """Sort the records of the group's tasks by index into pending, cancelled before they began, and
    others.

    In the first two, a record may cover several tasks; in the last, each record is reduced to its
    task. If some records cover several tasks, a pending task with a record of its own is in the
    last one: it is held, or was requeued.
    """
    shared = any(record.array_task_ids is not None for record in records)
    waiting: dict[int, SchedulerJob] = {}
    cancelled: dict[int, SchedulerJob] = {}
    others: dict[int, SchedulerJob] = {}
    for record in records:
        indices = sorted(indices_of(record).intersection(entry.tasks))
        separate = shared and record.array_task_ids is None
        restarted = (record.restart_count or 0) != entry.job.restart_count
        if record.state is JobState.QUEUED and not separate and not restarted:
            waiting.update(dict.fromkeys(indices, record))
        elif record.state is JobState.CANCELLED and not record.nodes:
            cancelled.update(dict.fromkeys(indices, record))
        else:
            others.update((index, task_record(record, index)) for index in indices)
    for index in others:
        # Of several runs of one attempt the one that has begun counts.
        waiting.pop(index, None)
        cancelled.pop(index, None)
    for index in waiting:
        cancelled.pop(index, None)
    return waiting, cancelled, others


def _to_task_records(records: dict[int, SchedulerJob]) -> dict[int, SchedulerJob]:
    return {index: task_record(record, index) for index, record in records.items()}


def _to_group_record(record: SchedulerJob) -> SchedulerJob:
    """Return a copy of a task's scheduler record without the fields that identify the task, so that
    it can be used as the record of its task group.
    """
    if record.array_task_ids is not None:
        return record
    fields = {"scheduler_id": record.scheduler_id.partition("_")[0], "array_task_id": None}
    return record.model_copy(update=fields)
