"""Writes of the rows of jobs: each increases the job's version and adds an event."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import Update, bindparam, delete, func, or_, select, update

from aitne.core.errors import Conflict, NotFound
from aitne.core.jobs.array_job_state import array_state, make_pending_tasks_id
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.job import Job
from aitne.store import tables
from aitne.store.action_outbox import release_outbox_items
from aitne.store.array_task_groups import lock_jobs
from aitne.store.database import Transaction
from aitne.store.jobs import LIVE_STATES
from aitne.store.rows import JOB_COLUMNS, columns_of, event_data, job_of
from aitne.store.store_part import MOST_IDS, split_into_batches

_jobs = tables.jobs
_secrets = tables.job_secrets
_BEGINNINGS = ("submitted_at", "allocated_at", "started_at")
"""Times of an array job that are equal to the earliest of its tasks."""


def check_attempt_and_version(job: Job, attempt: int | None, version: int | None) -> None:
    """Raise ``Conflict`` unless the job has the expected attempt and version (None: any)."""
    if attempt is not None and attempt != job.attempt:
        raise Conflict(
            f"Job {job.id} is at attempt {job.attempt}, and this is about attempt {attempt}. "
            "Read the job again."
        )
    if version is not None and version != job.version:
        raise Conflict(
            f"Job {job.id} was changed in the meantime (version {job.version}, not {version}). "
            "Read the job again."
        )


async def lock_job(tx: Transaction, job_id: UUID) -> tuple[Job, Job | None]:
    """Read a job and its array job (None if the job is not an array task), and lock their rows
    until the transaction ends. Raises ``NotFound`` if the job does not exist.
    """
    array_id = select(_jobs.c.array_job_id).where(_jobs.c.id == job_id).scalar_subquery()
    query = (
        select(*JOB_COLUMNS)
        .where(or_(_jobs.c.id == job_id, _jobs.c.id == array_id))
        .order_by(_jobs.c.is_array.desc(), _jobs.c.id)
        .with_for_update(key_share=True)
    )
    jobs = {job.id: job for job in map(job_of, (await tx.execute(query)).mappings())}
    if job_id not in jobs:
        jobs = await lock_jobs(tx, [job_id])
    job = jobs.pop(job_id, None)
    if job is None:
        raise NotFound("job", job_id)
    return job, next(iter(jobs.values()), None)


async def lock_live_tasks(tx: Transaction, array_id: UUID) -> Sequence[Job]:
    """Return those tasks of the array that have not ended, and the task group; all rows are locked
    until the commit.
    """
    query = (
        select(*JOB_COLUMNS)
        .where(_jobs.c.array_job_id == array_id, _jobs.c.state.in_(LIVE_STATES))
        .order_by(_jobs.c.array_task_id)
        .with_for_update(key_share=True)
    )
    return [job_of(row) for row in (await tx.execute(query)).mappings()]


async def update_job(tx: Transaction, job: Job, values: Mapping[str, Any]) -> Job:
    """Write changed values of one job, with an event; return the job."""
    (changed,) = await update_jobs(tx, [(job, values)])
    return changed


async def update_jobs(
    tx: Transaction, changes: Sequence[tuple[Job, Mapping[str, Any]]]
) -> Sequence[Job]:
    """Write changed values of jobs, with one event for each changed job; return all jobs."""
    result: list[Job] = []
    updates: dict[frozenset[str], list[dict[str, Any]]] = defaultdict(list)
    ended_ids: list[UUID] = []
    requeued: list[UUID] = []
    decided: list[UUID] = []
    for job, values in changes:
        different = {name: value for name, value in values.items() if value != getattr(job, name)}
        if not different:
            result.append(job)
            continue
        different["version"] = job.version + 1
        changed = job.model_copy(update=different)
        result.append(changed)
        columns = columns_of(different)
        moved = changed.state is not job.state
        if moved and (changed.state.is_terminal or job.state.is_terminal) and _has_folder(job):
            columns["folder_due_at"] = changed.ended_at if changed.state.is_terminal else None
        updates[frozenset(columns)].append({**columns, "row_id": job.id})
        has_id = changed.scheduler_id not in (None, job.scheduler_id)
        if has_id or (moved and changed.state.is_terminal):
            decided.append(job.id)
        if moved and changed.state.is_terminal:
            ended_ids.append(job.id)
        elif moved and changed.state is JobState.QUEUED:
            requeued.append(job.id)
        tx.append_event(
            "job.state" if moved else "job.changed",
            event_data(changed, job),
            job_id=job.id,
            owner=job.owner,
            project=job.project,
        )
    for names, rows in updates.items():
        await tx.execute_without_result(_make_update(names), rows)
    if ended_ids:
        await tx.execute_without_result(delete(_secrets).where(_secrets.c.job_id.in_(ended_ids)))
    if decided:
        await release_outbox_items(tx, decided)
    if requeued:
        # The hub's handover, with its session token, was for the previous run.
        dropped = update(_secrets).where(_secrets.c.job_id.in_(requeued))
        await tx.execute_without_result(dropped.values(handover=None, session_token_hash=None))
    return result


@lru_cache(maxsize=256)
def _make_update(names: frozenset[str]) -> Update:
    """Return the statement that updates these columns of one job."""
    statement = update(_jobs).where(_jobs.c.id == bindparam("row_id"))
    return statement.values({name: bindparam(name) for name in sorted(names)})


def _has_folder(job: Job) -> bool:
    """Return True if the job has a job folder of its own. Array tasks use the folder of their array
    job; jobs that were not submitted through the platform have none.
    """
    return job.array_job_id is None and not job.is_outside


async def update_array_job(tx: Transaction, array: Job, tasks: Sequence[Job]) -> Job:
    """Update an array job's row after changes of its ``tasks``; return the changed array job."""
    condition = _jobs.c.array_job_id == array.id
    rows = select(_jobs.c.state, _jobs.c.reason, func.count().label("tasks")).where(condition)
    # The rows are counted by an index alone; the row that several tasks share is added separately.
    more = select(_jobs.c.state, _jobs.c.reason, (_jobs.c.task_count - 1).label("tasks")).where(
        _jobs.c.id == make_pending_tasks_id(array.id), _jobs.c.task_count.is_not(None)
    )
    counts: Counter[tuple[JobState, TerminationReason | None]] = Counter()
    for query in (rows.group_by(_jobs.c.state, _jobs.c.reason), more):
        for row in (await tx.execute(query)).mappings():
            reason = row["reason"] and TerminationReason(row["reason"])
            counts[JobState(row["state"]), reason] += row["tasks"]
    summary = array_state(counts)
    values: dict[str, Any] = {"state": summary.state, "reason": summary.reason, "ended_at": None}
    if summary.reason is TerminationReason.GOAL_REACHED:
        reached = select(func.min(_jobs.c.message)).where(
            condition, _jobs.c.reason == summary.reason
        )
        values["message"] = (await tx.execute(reached)).scalar()
    elif (
        summary.message is not None
        or summary.state is not array.state
        or (summary.state.is_active and array.cancel_requested_at is None)
    ):
        values["message"] = summary.message
    if summary.state.is_terminal:
        last = select(func.max(_jobs.c.ended_at)).where(condition)
        values["ended_at"] = (await tx.execute(last)).scalar()
    for name in _BEGINNINGS:
        times = (getattr(job, name) for job in (array, *tasks))
        values[name] = min(filter(None, times), default=None)
    return await update_job(tx, array, values)


async def lock_job_rows(tx: Transaction, job_ids: Sequence[UUID]) -> list[Job]:
    """Read the database rows of the jobs with these IDs, and lock them until the transaction ends.
    Array tasks that are stored together in one row (a task group) are not found by their IDs.
    """
    jobs: list[Job] = []
    for some in split_into_batches(sorted({*job_ids}), MOST_IDS):
        query = (
            select(*JOB_COLUMNS)
            .where(_jobs.c.id.in_(some))
            .order_by(_jobs.c.id)
            .with_for_update(key_share=True)
        )
        jobs += map(job_of, (await tx.execute(query)).mappings())
    return jobs


def append_job_event(tx: Transaction, kind: str, job: Job) -> None:
    """Add an event of this kind about the job."""
    tx.append_event(
        kind, event_data(job, None), job_id=job.id, owner=job.owner, project=job.project
    )
