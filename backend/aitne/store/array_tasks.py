"""Store of the tasks of array jobs. A task has a row of its own, or shares one with other tasks
(the task group).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from sqlalchemy import and_, or_, select

from aitne.core.jobs.array_job_state import make_pending_tasks_id, task_id
from aitne.core.models.job import Job
from aitne.store import tables
from aitne.store.array_task_groups import expand_rows, indices_of, lock_jobs
from aitne.store.rows import JOB_COLUMNS, job_of
from aitne.store.store_part import StorePart

_jobs = tables.jobs
_LARGEST_INDEX = (1 << 31) - 1


class ArrayTaskStore(StorePart):
    """Storage of the tasks of arrays."""

    async def list_array_tasks(self, array_job_id: UUID) -> Sequence[Job]:
        """Return the tasks of an array job, by index, including those that share a row."""
        return expand_rows(await self.list_array_rows(array_job_id))

    async def list_array_rows(self, array_job_id: UUID) -> Sequence[Job]:
        """Return the database rows of an array job's tasks: the rows of single tasks, ordered by
        index, and the task group's row if there is one.
        """
        query = select(*JOB_COLUMNS).where(_jobs.c.array_job_id == array_job_id)
        async with self._db.read() as connection:
            rows = await connection.execute(query.order_by(_jobs.c.array_task_id))
            return [job_of(row) for row in rows.mappings()]

    async def find_array_task(
        self, array_job_id: UUID, index: int, *, own_row: bool = False
    ) -> Job | None:
        """Return one task of an array job; None if the array has no such task.

        With ``own_row``, a row of its own is created for the task before, so that more can be
        stored about it.
        """
        if not 0 <= index <= _LARGEST_INDEX:
            return None  # out of range for the column: the databases would raise an error
        task_row = and_(_jobs.c.array_job_id == array_job_id, _jobs.c.array_task_id == index)
        shared = _jobs.c.id == make_pending_tasks_id(array_job_id)
        query = select(*JOB_COLUMNS).where(or_(task_row, shared))
        async with self._db.read() as connection:
            rows = [job_of(row) for row in (await connection.execute(query)).mappings()]
        for row in rows:
            if row.array_task_id == index:
                return row
        group = next((row for row in rows if index in indices_of(row)), None)
        if group is None:
            return None
        return (
            (await self.split_tasks(array_job_id, [index]))[0]
            if own_row
            else group.make_task(index)
        )

    async def split_tasks(self, array_job_id: UUID, indices: Collection[int]) -> Sequence[Job]:
        """Create separate database rows for the tasks with these indices, which are stored in the
        row of the array's task group until now.

        Returns the rows of all tasks in ``indices`` that the array has, and the task group if it
        still contains tasks.
        """
        group_id = make_pending_tasks_id(array_job_id)
        ids = [task_id(array_job_id, index) for index in indices]
        async with self._db.write() as tx:
            jobs = await lock_jobs(tx, [array_job_id, *ids])
            rest = await lock_jobs(tx, [group_id])
        return [jobs[job_id] for job_id in ids if job_id in jobs] + [
            job for job in rest.values() if job.id == group_id
        ]
