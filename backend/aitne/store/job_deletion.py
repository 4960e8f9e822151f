"""Store of the deletion of ended jobs.

A deletion is requested first: the job stays visible until the controller has removed its folder.
Then all data about the job is deleted in one transaction, which adds the event ``job.deleted``.
Data from which usage is computed is kept.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Text,
    and_,
    cast,
    delete,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)

from aitne.core.jobs.array_job_state import array_id, make_pending_tasks_id, task_index
from aitne.core.jobs.states import TERMINAL
from aitne.core.models.common_job_fields import DEPENDENCIES
from aitne.core.models.job import Job, JobOrigin
from aitne.core.models.project import Retention
from aitne.core.retention import FAILURES, KeepTimes
from aitne.local_system.state_file_reader import parse_state_document
from aitne.store import tables
from aitne.store.array_task_groups import find_grouped_tasks
from aitne.store.database import Transaction
from aitne.store.invitation_usage_tables import deleted_runs
from aitne.store.job_writes import append_job_event, lock_job_rows, update_jobs
from aitne.store.jobs import LIVE_STATES
from aitne.store.store_part import MOST_IDS, StorePart, require_epoch, split_into_batches

DELETED = "job.deleted"
ROWS_AT_ONCE = 5_000
"""Maximum number of events, and of measurements, that one transaction deletes."""

_jobs = tables.jobs
_events = tables.events
_samples = tables.samples
_TERMINAL_STATES = sorted(TERMINAL)
_FAILED_STATES = sorted(FAILURES)


class DeleteRefusal(StrEnum):
    """Reason why a job cannot be deleted now."""

    NOT_ENDED = "not_ended"
    ARRAY_TASK = "array_task"
    """The job is an array task: only whole array jobs can be deleted."""
    NEEDED = "needed"
    """Another job that has not ended depends on the job."""


class DeleteRequest(NamedTuple):
    """Outcome of the request to delete one job."""

    job: Job
    refusal: DeleteRefusal | None
    """Reason why the job cannot be deleted; None: the deletion was requested."""


class DeletionStore(StorePart):
    """Storage of requests to delete jobs, and of how long ended jobs are kept."""

    async def request_delete(
        self, job_ids: Sequence[UUID], now: datetime
    ) -> Mapping[UUID, DeleteRequest]:
        """Request the deletion of these jobs. Each is decided separately; a repeated request has no
        further effect.

        Jobs that do not exist are missing in the result.
        """
        result: dict[UUID, DeleteRequest] = {}
        async with self._db.write() as tx:
            rows = await lock_job_rows(tx, job_ids)
            # A task without a row of its own is a task all the same.
            tasks = await find_grouped_tasks(tx, {*job_ids}.difference(job.id for job in rows))
            needed = await _list_needed_jobs(tx)
            accepted: list[Job] = []
            for job in [*rows, *tasks]:
                refusal = _find_delete_refusal(job, needed)
                result[job.id] = DeleteRequest(job, refusal)
                if refusal is None:
                    accepted.append(job)
            for changed in await _record_delete_requests(tx, accepted, now):
                result[changed.id] = DeleteRequest(changed, None)
        return result

    async def expire_jobs(
        self,
        keep: KeepTimes,
        by_project: Mapping[str, KeepTimes],
        now: datetime,
        *,
        limit: int,
        epoch: int,
    ) -> int:
        """Request the deletion of up to ``limit`` jobs whose retention period is over, the oldest
        first; return their number. Jobs that others depend on are skipped.

        ``keep`` is the retention period of all projects except those in ``by_project``, which have
        their own. Raises ``StaleEpoch`` if another controller is the leader.
        """
        expired = _make_expired_condition(keep, by_project, now)
        order = (_jobs.c.ended_at, _jobs.c.id)
        async with self._db.write() as tx:
            await require_epoch(tx, epoch)
            needed = await _list_needed_jobs(tx)
            chosen: list[UUID] = []
            last: tuple[datetime, UUID] | None = None
            while len(chosen) < limit:
                query = select(*reversed(order)).where(expired).order_by(*order).limit(MOST_IDS)
                if last is not None:
                    ended_at, job_id = last
                    later = and_(_jobs.c.ended_at == ended_at, _jobs.c.id > job_id)
                    query = query.where(or_(_jobs.c.ended_at > ended_at, later))
                page = (await tx.execute(query)).all()
                chosen += [row.id for row in page if row.id not in needed][: limit - len(chosen)]
                if len(page) < MOST_IDS:
                    break
                last = (page[-1].ended_at, page[-1].id)
            rows = await lock_job_rows(tx, chosen)
            await _record_delete_requests(
                tx, [job for job in rows if _find_delete_refusal(job, needed) is None], now
            )
        return len(chosen)

    async def delete_job(self, job_id: UUID, *, epoch: int) -> bool:
        """Delete all data about a job whose deletion was requested, with its tasks; keep the data
        from which usage is computed.

        Returns False, and deletes nothing, if another job depends on it now. Raises ``StaleEpoch``
        if another controller is the leader.
        """
        family = select(_jobs.c.id).where(or_(_jobs.c.id == job_id, _jobs.c.array_job_id == job_id))
        newest = select(func.max(_events.c.id)).scalar_subquery()
        of_job = or_(
            _events.c.job_id.in_(family), _events.c.job_id == make_pending_tasks_id(job_id)
        )
        old_events = select(_events.c.id).where(of_job, _events.c.id < newest).limit(ROWS_AT_ONCE)
        keys = [_samples.c.job_id, _samples.c.time, _samples.c.node]
        measured = select(*keys).where(_samples.c.job_id.in_(family)).limit(ROWS_AT_ONCE)
        # Years of measurements would block other writers: the bulk goes in small transactions.
        for statement in (
            delete(_events).where(_events.c.id.in_(old_events)),
            delete(_samples).where(tuple_(*keys).in_(measured)),
        ):
            more = True
            while more:
                async with self._db.write() as tx:
                    if not await _may_delete(tx, job_id, epoch):
                        return not await self._has_job(tx, job_id)
                    more = (await tx.execute(statement)).rowcount >= ROWS_AT_ONCE
        async with self._db.write() as tx:
            if not await _may_delete(tx, job_id, epoch):
                return not await self._has_job(tx, job_id)
            (job,) = await lock_job_rows(tx, [job_id])
            await tx.execute(delete(_events).where(_events.c.id.in_(old_events)))
            await _save_job_times(tx, job_id)
            await tx.execute(delete(_jobs).where(_jobs.c.id == job_id))
            append_job_event(tx, DELETED, job.model_copy(update={"version": job.version + 1}))
        return True

    async def _has_job(self, tx: Transaction, job_id: UUID) -> bool:
        return (
            await tx.execute(select(_jobs.c.id).where(_jobs.c.id == job_id))
        ).first() is not None

    async def list_project_retentions(self) -> Mapping[str, Retention]:
        """Return how long ended jobs are kept, by the name of each project that has set it."""
        projects = tables.projects.c
        query = select(projects.name, projects.retention).where(projects.retention.is_not(None))
        async with self._db.read() as connection:
            return {
                row.name: parse_state_document(Retention, row.retention)
                for row in await connection.execute(query)
            }


def _find_delete_refusal(job: Job, needed: Collection[UUID]) -> DeleteRefusal | None:
    if job.array_job_id is not None:
        return DeleteRefusal.ARRAY_TASK
    if not job.state.is_terminal:
        return DeleteRefusal.NOT_ENDED
    return DeleteRefusal.NEEDED if job.id in needed else None


def _make_expired_condition(
    keep: KeepTimes, by_project: Mapping[str, KeepTimes], now: datetime
) -> ColumnElement[bool]:
    """Return the SQL condition for ended jobs whose retention time is over: ``by_project`` for the
    named projects, ``keep`` for all others.
    """
    groups: dict[KeepTimes, list[str]] = {}
    for project, times in sorted(by_project.items()):
        groups.setdefault(times, []).append(project)
    other = and_(_jobs.c.project.not_in(sorted(by_project)), _make_too_old_condition(keep, now))
    own = [
        and_(_jobs.c.project.in_(names), _make_too_old_condition(times, now))
        for times, names in groups.items()
    ]
    return and_(
        _jobs.c.array_job_id.is_(None),
        _jobs.c.state.in_(_TERMINAL_STATES),
        _jobs.c.delete_requested_at.is_(None),
        or_(other, *own),
    )


def _make_too_old_condition(keep: KeepTimes, now: datetime) -> ColumnElement[bool]:
    failed = _jobs.c.state.in_(_FAILED_STATES)
    conditions = [
        and_(is_kind, _jobs.c.ended_at <= now - timedelta(seconds=keep_s))
        for is_kind, keep_s in ((failed, keep.failed_s), (~failed, keep.ended_s))
        if keep_s is not None
    ]
    return or_(False, *conditions)


async def _record_delete_requests(
    tx: Transaction, jobs: Sequence[Job], now: datetime
) -> Sequence[Job]:
    """Record that the deletion of these jobs was requested, so that the controller deletes them.
    Return the changed jobs.
    """
    fresh = [job for job in jobs if job.delete_requested_at is None]
    changed = await update_jobs(tx, [(job, {"delete_requested_at": now}) for job in fresh])
    for some in split_into_batches([job.id for job in fresh], MOST_IDS):
        await tx.execute(update(_jobs).where(_jobs.c.id.in_(some)).values(folder_due_at=now))
    return changed


async def _list_needed_jobs(tx: Transaction) -> set[UUID]:
    """Return the IDs of the jobs on which live jobs depend."""
    lists = [cast(_jobs.c.spec[kind], Text) for kind in DEPENDENCIES]
    named = or_(*(text.contains("-") for text in lists))
    query = select(*lists).where(
        _jobs.c.state.in_(LIVE_STATES), _jobs.c.origin == JobOrigin.PLATFORM, named
    )
    return {job_id for row in await tx.execute(query) for job_id in _parse_job_ids(row)}


def _parse_job_ids(row: Sequence[str | None]) -> Iterator[UUID]:
    for text in filter(None, row):
        for name in json.loads(text) or ():
            job_id = UUID(name)
            yield job_id
            if task_index(job_id) is not None:
                yield array_id(job_id)


async def _may_delete(tx: Transaction, job_id: UUID, epoch: int) -> bool:
    """Return True if the job's deletion is requested and still permitted; the job's row is locked
    until the commit.
    """
    await require_epoch(tx, epoch)
    rows = await lock_job_rows(tx, [job_id])
    if not rows or rows[0].delete_requested_at is None:
        return False
    return _find_delete_refusal(rows[0], await _list_needed_jobs(tx)) is None


async def _save_job_times(tx: Transaction, job_id: UUID) -> None:
    """Store the times and resources of the job, or of the tasks of an array job, from which usage
    is computed after the deletion.
    """
    wish = _jobs.c.spec["resources"]
    values = {
        "project": _jobs.c.project,
        "owner": _jobs.c.owner,
        "state": _jobs.c.state,
        "task_count": _jobs.c.task_count,
        "nodes": wish["nodes"].as_integer(),
        "cpus": wish["cpu"].as_integer(),
        "gpus": wish["gpu"]["count"].as_integer(),
        "gpu_type": wish["gpu"]["type"].as_string(),
        "requested_at": func.coalesce(_jobs.c.submitted_at, _jobs.c.created_at),
        "began": func.coalesce(_jobs.c.allocated_at, _jobs.c.started_at),
        "ended_at": _jobs.c.ended_at,
    }
    runs = select(*values.values()).where(
        or_(_jobs.c.id == job_id, _jobs.c.array_job_id == job_id), _jobs.c.is_array.is_(False)
    )
    await tx.execute(insert(deleted_runs).from_select(list(values), runs))
