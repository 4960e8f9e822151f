"""Task groups: one row for the tasks of an array that differ only in their index.

Slurm stores the pending tasks of an array in the same way. A task gets a row of its own with the
first change that applies to it alone; until then its record is derived from that of the group
(``Job.make_task``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import BindParameter, bindparam, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from aitne.core.jobs.array_job_state import array_id, make_pending_tasks_id, task_index
from aitne.core.models.job import Job
from aitne.core.units import ArrayRange, parse_array
from aitne.store import tables
from aitne.store.database import Transaction
from aitne.store.rows import JOB_COLUMNS, event_data, job_of, row_of
from aitne.store.store_part import MOST_IDS, split_into_batches

_jobs = tables.jobs
_IDS: BindParameter[Any] = bindparam("ids", expanding=True)
_ARRAYS = select(_jobs.c.id, _jobs.c.array_job_id).where(_jobs.c.id.in_(_IDS))
_LOCK = (
    select(*JOB_COLUMNS)
    .where(_jobs.c.id.in_(_IDS))
    .order_by(_jobs.c.is_array.desc(), _jobs.c.id)
    .with_for_update(key_share=True)
)
SPLIT = "job.tasks"
"""Kind of the event that lists the tasks that were given rows of their own; it is not shown in a
task's history.
"""


def indices_of(group: Job) -> tuple[int, ...]:
    """Return the indices of a task group's tasks, in ascending order."""
    return () if group.array_task_ids is None else parse_array(group.array_task_ids).indices


def tasks_of(group: Job) -> Iterator[Job]:
    """Yield the tasks of a task group in the order of their indices."""
    return map(group.make_task, indices_of(group))


def expand_rows(rows: Iterable[Job]) -> list[Job]:
    """Return all array tasks that these database rows of an array represent, in the order of their
    indices. A row stands for one task or for a task group.
    """
    tasks: list[Job] = []
    for row in rows:
        if row.is_task_group:
            tasks += tasks_of(row)
        else:
            tasks.append(row)
    return sorted(tasks, key=lambda task: task.array_task_id or 0)


async def find_grouped_tasks(
    connection: AsyncConnection | Transaction, job_ids: Collection[UUID]
) -> list[Job]:
    """Return those of the jobs with these IDs that are array tasks stored in the row of a task
    group, instead of in rows of their own.
    """
    indices = _index_by_group(job_ids)
    tasks: list[Job] = []
    for some in split_into_batches(sorted(indices), MOST_IDS):
        query = select(*JOB_COLUMNS).where(_jobs.c.id.in_(some))
        for group in map(job_of, (await connection.execute(query)).mappings()):
            there = set(indices_of(group))
            tasks += (group.make_task(index) for index in indices[group.id] if index in there)
    return tasks


async def lock_jobs(tx: Transaction, job_ids: Sequence[UUID]) -> dict[UUID, Job]:
    """Lock and return these jobs, together with the array jobs of those that are tasks. Tasks of a
    task group are first given rows of their own.

    The arrays' rows are always locked first, so that two transactions that need the same rows
    cannot deadlock.
    """
    arrays: set[UUID] = set()
    absent = {*job_ids}
    for some in split_into_batches(job_ids, MOST_IDS):
        for row in await tx.execute(_ARRAYS, {"ids": some}):
            absent.discard(row.id)
            if row.array_job_id is not None:
                arrays.add(row.array_job_id)
    arrays |= {array_id(job_id) for job_id in absent if task_index(job_id) is not None}
    jobs: dict[UUID, Job] = {}
    for ids in (sorted(arrays), sorted({*job_ids} - arrays)):
        for some in split_into_batches(ids, MOST_IDS):
            for job in map(job_of, (await tx.execute(_LOCK, {"ids": some})).mappings()):
                jobs[job.id] = job
    for task in await split_tasks(tx, absent.difference(jobs)):
        jobs[task.id] = task
    return jobs


async def split_tasks(tx: Transaction, job_ids: Collection[UUID]) -> list[Job]:
    """Give database rows of their own to those of the jobs that are stored in the row of a task
    group, and return the new rows.

    The array jobs' rows must be locked already.
    """
    tasks: list[Job] = []
    for group_id, group_indices in sorted(_index_by_group(job_ids).items()):
        query = select(*JOB_COLUMNS).where(_jobs.c.id == group_id)
        row = (await tx.execute(query.with_for_update(key_share=True))).mappings().first()
        if row is not None:
            tasks += await _split_group(tx, job_of(row), group_indices)
    return tasks


async def _split_group(
    tx: Transaction, group: Job, requested_indices: Collection[int]
) -> list[Job]:
    indices = indices_of(group)
    split_indices = sorted(set(requested_indices).intersection(indices))
    if not split_indices:
        return []
    tasks = [group.make_task(index) for index in split_indices]
    rest = ArrayRange.from_indices(set(indices).difference(split_indices))
    # The event tells readers of the group that it has changed or was deleted.
    version = group.version + 1
    if rest.indices:
        values = {"array_task_ids": str(rest), "task_count": len(rest.indices), "version": version}
        await tx.execute(update(_jobs).where(_jobs.c.id == group.id).values(values))
    else:
        await tx.execute(delete(_jobs).where(_jobs.c.id == group.id))
    await tx.execute(insert(_jobs), [row_of(task) for task in tasks])
    changed = group.model_copy(update={"array_task_ids": str(rest), "version": version})
    tx.append_event(
        SPLIT,
        {
            **event_data(changed, group),
            "split_task_ids": str(ArrayRange.from_indices(split_indices)),
        },
        job_id=group.id,
        owner=group.owner,
        project=group.project,
    )
    return tasks


def _index_by_group(job_ids: Iterable[UUID]) -> Mapping[UUID, list[int]]:
    indices: dict[UUID, list[int]] = defaultdict(list)
    for job_id in job_ids:
        index = task_index(job_id)
        if index is not None:
            indices[make_pending_tasks_id(job_id)].append(index)
    return indices
