"""The orders of a list of jobs, each with its cursor: the sort key of the last row that was shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    Text,
    case,
    cast,
    func,
    literal,
    tuple_,
)

from aitne.adapters.store import paging, tables
from aitne.adapters.store.column_types import UtcDateTime
from aitne.adapters.store.rows import fold
from aitne.core.models.job import Job
from aitne.core.models.job_search import JobSort

_jobs = tables.jobs
_NEVER = datetime(9999, 12, 31, tzinfo=UTC)
_UNBEGUN_S = -1


@dataclass(frozen=True, slots=True)
class Order:
    """An order of jobs. ``as_of`` is when its first page was asked for: what runs has lasted until
    then, on every page."""

    sort: JobSort
    descending: bool
    as_of: datetime
    dialect: str

    def apply(self, ids: Select[Any], cursor: str | None) -> Select[Any]:
        """The statement in this order, from behind the cursor on. Raises ``InvalidInput``."""
        ordered = ids.order_by(*self.columns())
        if cursor is None:
            return ordered
        order, value, job_id = self._read(cursor)
        key = order.key()
        row = tuple_(key, _jobs.c.id)
        after = tuple_(value, job_id, types=[key.type, _jobs.c.id.type])
        ordered = ids.order_by(*order.columns())
        return ordered.where(row < after if self.descending else row > after)

    def at(self, cursor: str | None) -> Order:
        """This order as it was on the first page. Raises ``InvalidInput``."""
        return self if cursor is None else self._read(cursor)[0]

    def columns(self) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
        """What to sort by."""
        if self.descending:
            return self.key().desc(), _jobs.c.id.desc()
        return self.key().asc(), _jobs.c.id.asc()

    def cursor(self, job: Job) -> str:
        """The cursor of the page that ended with this job."""
        way = "desc" if self.descending else "asc"
        value = _WRITE[self.sort](job, self.as_of)
        return paging.encode("jobs", self.sort, way, value, job.id.hex, self.as_of.isoformat())

    def _read(self, cursor: str) -> tuple[Order, Any, UUID]:
        sort, way, value, job_id, as_of = paging.decode("jobs", cursor, 5)
        if (sort, way) != (self.sort, "desc" if self.descending else "asc"):
            raise paging.not_ours(cursor)
        try:
            moment = paging.moment(as_of)
            order = Order(self.sort, self.descending, moment, self.dialect)
            return order, _READ.get(self.sort, str)(value), UUID(job_id)
        except ValueError as error:
            raise paging.not_ours(cursor) from error

    def key(self) -> ColumnElement[Any]:
        """The sort key of a row."""
        match self.sort:
            case JobSort.CREATED:
                return _jobs.c.created_at
            case JobSort.STARTED:
                return func.coalesce(_jobs.c.started_at, literal(_NEVER, UtcDateTime))
            case JobSort.ENDED:
                return func.coalesce(_jobs.c.ended_at, literal(_NEVER, UtcDateTime))
            case JobSort.DURATION:
                return self._duration()
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

    def _duration(self) -> ColumnElement[Any]:
        """In whole seconds: both databases and Python count the same."""
        until = func.coalesce(_jobs.c.ended_at, literal(self.as_of, UtcDateTime))
        seconds = _epoch(self.dialect, until) - _epoch(self.dialect, _jobs.c.started_at)
        return case((_jobs.c.started_at.is_(None), _UNBEGUN_S), else_=seconds)


def _epoch(dialect: str, column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Whole seconds since 1970."""
    if dialect == "sqlite":
        return cast(func.strftime("%s", cast(column, Text)), BigInteger)
    return cast(func.floor(func.extract("epoch", column)), BigInteger)


def _time(name: str) -> Callable[[Job, datetime], str]:
    return lambda job, _: (getattr(job, name) or _NEVER).isoformat()


def _lasted(job: Job, as_of: datetime) -> str:
    if job.started_at is None:
        return str(_UNBEGUN_S)
    until = job.ended_at or as_of
    return str(_whole(until) - _whole(job.started_at))


def _whole(moment: datetime) -> int:
    return int(moment.replace(microsecond=0).timestamp())


_WRITE: dict[JobSort, Callable[[Job, datetime], str]] = {
    JobSort.CREATED: _time("created_at"),
    JobSort.STARTED: _time("started_at"),
    JobSort.ENDED: _time("ended_at"),
    JobSort.DURATION: _lasted,
    JobSort.NAME: lambda job, _: fold(job.name),
    JobSort.OWNER: lambda job, _: job.owner,
    JobSort.PROJECT: lambda job, _: job.project,
    JobSort.STATE: lambda job, _: job.state,
    JobSort.GPUS: lambda job, _: str(job.spec.resources.nodes * job.spec.resources.gpu.count),
}
_READ: dict[JobSort, Callable[[str], Any]] = {
    JobSort.CREATED: paging.moment,
    JobSort.STARTED: paging.moment,
    JobSort.ENDED: paging.moment,
    JobSort.DURATION: paging.number,
    JobSort.GPUS: paging.number,
}
