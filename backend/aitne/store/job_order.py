"""Sort orders of lists of jobs, with cursors that contain the sort key of the last row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, RowMapping, Select, and_, case, func, literal, or_, tuple_

from aitne.core.jobs.array_job_state import task_index
from aitne.core.models.job import Job
from aitne.core.models.job_search import JobSort
from aitne.store import paging, tables
from aitne.store.array_task_groups import indices_of
from aitne.store.column_types import UtcDateTime
from aitne.store.portable_sql import make_unix_seconds
from aitne.store.rows import fold_case, job_of

_jobs = tables.jobs
_NEVER = datetime(9999, 12, 31, tzinfo=UTC)
_UNBEGUN_S = -1


@dataclass(frozen=True, slots=True)
class Order:
    """Sort order of a list of jobs, with the cursors of its pages."""

    sort: JobSort
    """Value by which jobs are sorted."""
    descending: bool
    """Whether the order is descending."""
    as_of: datetime
    """Time of the request for the first page. Durations of running jobs are computed for this time
    on every page, so that the order does not change between pages.
    """
    dialect: str
    """SQL dialect: ``sqlite`` or ``postgresql``."""

    def apply(
        self, ids: Select[Any], cursor: str | None, *, task_groups: bool = False
    ) -> Select[Any]:
        """Return the query ``ids`` sorted in this order, starting after the cursor; None: from the
        beginning. With ``task_groups``, a task group (tasks that share a row) is included while any
        of its tasks comes after the cursor. Raises ``InvalidInput`` for an invalid cursor.
        """
        ordered = ids.order_by(*self.list_sort_columns(task_groups=task_groups))
        if cursor is None:
            return ordered
        order, value, job_id = self._decode_cursor(cursor)
        key = order.sort_key()
        row = tuple_(key, _jobs.c.id)
        after = tuple_(value, job_id, types=[key.type, _jobs.c.id.type])
        ordered = ids.order_by(*order.list_sort_columns(task_groups=task_groups))
        if not self.descending:
            return ordered.where(row > after)  # a group's ID is above those of its tasks
        if not task_groups:
            return ordered.where(row < after)
        group = and_(_jobs.c.task_count.is_not(None), tuple_(key, _jobs.c.array_job_id) < after)
        return ordered.where(or_(row < after, group))

    def expand_rows(self, rows: Iterable[RowMapping], cursor: str | None) -> Iterator[Job]:
        """Yield the jobs of ``rows`` after the cursor, sorted in this order; a task group yields
        each of its tasks. The rows have their sort key in the column ``sort_key``.
        """
        group: Job | None = None
        group_key: Any = None
        indices: list[int] = []  # of the group, the next one last
        for row in rows:
            job = job_of(row)
            same = group is not None and (job.array_job_id, row["sort_key"]) == group_key
            while (
                group is not None and indices and not (same and self._is_before(job, indices[-1]))
            ):
                yield group.make_task(indices.pop())
            if not job.is_task_group:
                yield job
                continue
            group, group_key = job, (job.array_job_id, row["sort_key"])
            indices = [*indices_of(job)] if self.descending else [*reversed(indices_of(job))]
            last = None if cursor is None else task_index(self._decode_cursor(cursor)[2])
            if last is not None and self.encode_cursor(job.make_task(last)) == cursor:
                indices = [i for i in indices if (i < last if self.descending else i > last)]
        while group is not None and indices:
            yield group.make_task(indices.pop())

    def _is_before(self, job: Job, index: int) -> bool:
        job_index = job.array_task_id or 0
        return job_index > index if self.descending else job_index < index

    def with_time_of_cursor(self, cursor: str | None) -> Order:
        """Return this order with the ``as_of`` of the first page, which the cursor contains. Raises
        ``InvalidInput`` for an invalid cursor.
        """
        return self if cursor is None else self._decode_cursor(cursor)[0]

    def list_sort_columns(self, *, task_groups: bool = False) -> tuple[ColumnElement[Any], ...]:
        """Return the columns to sort by. With ``task_groups``, a task group (tasks that share a
        row) comes before the other tasks of its array.
        """
        if self.descending:
            return self.sort_key().desc(), _jobs.c.id.desc()
        if not task_groups:
            return self.sort_key().asc(), _jobs.c.id.asc()
        first = case((_jobs.c.task_count.is_not(None), _jobs.c.array_job_id), else_=_jobs.c.id)
        return self.sort_key().asc(), first.asc(), _jobs.c.id.asc()

    def encode_cursor(self, job: Job) -> str:
        """Return the cursor of the page whose last job is ``job``."""
        way = "desc" if self.descending else "asc"
        value = _WRITE[self.sort](job, self.as_of)
        return paging.encode_cursor(
            "jobs", self.sort, way, value, job.id.hex, self.as_of.isoformat()
        )

    def _decode_cursor(self, cursor: str) -> tuple[Order, Any, UUID]:
        sort, way, value, job_id, as_of = paging.decode_cursor("jobs", cursor, 5)
        if (sort, way) != (self.sort, "desc" if self.descending else "asc"):
            raise paging.make_foreign_cursor_error(cursor)
        try:
            moment = paging.parse_time(as_of)
            order = Order(self.sort, self.descending, moment, self.dialect)
            return order, _READ.get(self.sort, str)(value), UUID(job_id)
        except ValueError as error:
            raise paging.make_foreign_cursor_error(cursor) from error

    def sort_key(self) -> ColumnElement[Any]:
        """Return the SQL expression of a row's sort key."""
        match self.sort:
            case JobSort.CREATED:
                return _jobs.c.created_at
            case JobSort.STARTED:
                return func.coalesce(_jobs.c.started_at, literal(_NEVER, UtcDateTime))
            case JobSort.ENDED:
                return func.coalesce(_jobs.c.ended_at, literal(_NEVER, UtcDateTime))
            case JobSort.DURATION:
                return self._duration_expression()
            case JobSort.NAME:
                return _jobs.c.name_folded
            case JobSort.OWNER:
                return _jobs.c.owner
            case JobSort.PROJECT:
                return _jobs.c.project
            case JobSort.STATE:
                return _jobs.c.state
            case JobSort.GPUS:
                return _jobs.c.gpus

    def _duration_expression(self) -> ColumnElement[Any]:
        """Return the SQL expression of a job's duration in whole seconds, for which both databases
        and Python give the same value.
        """
        until = func.coalesce(_jobs.c.ended_at, literal(self.as_of, UtcDateTime))
        seconds = make_unix_seconds(self.dialect, until) - make_unix_seconds(
            self.dialect, _jobs.c.started_at
        )
        return case((_jobs.c.started_at.is_(None), _UNBEGUN_S), else_=seconds)


def _make_time_formatter(name: str) -> Callable[[Job, datetime], str]:
    return lambda job, _: (getattr(job, name) or _NEVER).isoformat()


def _format_duration(job: Job, as_of: datetime) -> str:
    if job.started_at is None:
        return str(_UNBEGUN_S)
    until = job.ended_at or as_of
    return str(_to_whole_seconds(until) - _to_whole_seconds(job.started_at))


def _to_whole_seconds(moment: datetime) -> int:
    return int(moment.replace(microsecond=0).timestamp())


_WRITE: dict[JobSort, Callable[[Job, datetime], str]] = {
    JobSort.CREATED: _make_time_formatter("created_at"),
    JobSort.STARTED: _make_time_formatter("started_at"),
    JobSort.ENDED: _make_time_formatter("ended_at"),
    JobSort.DURATION: _format_duration,
    JobSort.NAME: lambda job, _: fold_case(job.name),
    JobSort.OWNER: lambda job, _: job.owner,
    JobSort.PROJECT: lambda job, _: job.project,
    JobSort.STATE: lambda job, _: job.state,
    JobSort.GPUS: lambda job, _: str(job.spec.resources.nodes * job.spec.resources.gpu.count),
}
_READ: dict[JobSort, Callable[[str], Any]] = {
    JobSort.CREATED: paging.parse_time,
    JobSort.STARTED: paging.parse_time,
    JobSort.ENDED: paging.parse_time,
    JobSort.DURATION: paging.parse_integer,
    JobSort.GPUS: paging.parse_integer,
}
