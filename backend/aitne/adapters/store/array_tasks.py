"""Store of the tasks of array jobs. A task has a row of its own, or shares one with other tasks
(the task group).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from sqlalchemy import and_, or_, select

from aitne.adapters.store import tables
from aitne.adapters.store.base import StorePart
from aitne.adapters.store.rows import JOB_COLUMNS, job_of
from aitne.adapters.store.task_groups import expanded, indices_of, lock_all
from aitne.core.jobs.arrays import task_group_id, task_id
from aitne.core.models.job import Job

_jobs = tables.jobs
_LARGEST_INDEX = (1 << 31) - 1


class ArrayTasks(StorePart):
    """Part of ``JobStore`` about tasks of arrays."""

    async def array_tasks(self, array_job_id: UUID) -> Sequence[Job]:
        """Return all tasks of the array, by index, including those that share a row."""
        return expanded(await self.array_rows(array_job_id))

    async def array_rows(self, array_job_id: UUID) -> Sequence[Job]:
        """Return the stored rows of the array's tasks: single tasks by index, and the task group,
        the row that tasks share.
        """
        query = select(*JOB_COLUMNS).where(_jobs.c.array_job_id == array_job_id)
        async with self._db.read() as connection:
            rows = await connection.execute(query.order_by(_jobs.c.array_task_id))
            return [job_of(row) for row in rows.mappings()]

    async def array_task(
        self, array_job_id: UUID, index: int, *, own_row: bool = False
    ) -> Job | None:
        """Return the array's task with this index; None if there is none. With ``own_row``, a task
        that shares a row with others is first given a row of its own. The query's duration does not
        depend on the array's size.
        """
        if not 0 <= index <= _LARGEST_INDEX:
            return None  # out of range for the column: the databases would raise an error
        task_row = and_(_jobs.c.array_job_id == array_job_id, _jobs.c.array_task_id == index)
        shared = _jobs.c.id == task_group_id(array_job_id)
        query = select(*JOB_COLUMNS).where(or_(task_row, shared))
        async with self._db.read() as connection:
            rows = [job_of(row) for row in (await connection.execute(query)).mappings()]
        for row in rows:
            if row.array_task_id == index:
                return row
        group = next((row for row in rows if index in indices_of(row)), None)
        if group is None:
            return None
        return (await self.split_tasks(array_job_id, [index]))[0] if own_row else group.task(index)

    async def split_tasks(self, array_job_id: UUID, indices: Collection[int]) -> Sequence[Job]:
        """Give these tasks rows of their own and remove their indices from the task group. Return
        the changed rows.
        """
        group_id = task_group_id(array_job_id)
        ids = [task_id(array_job_id, index) for index in indices]
        async with self._db.write() as tx:
            jobs = await lock_all(tx, [array_job_id, *ids])
            rest = await lock_all(tx, [group_id])
        return [jobs[job_id] for job_id in ids if job_id in jobs] + [
            job for job in rest.values() if job.id == group_id
        ]
