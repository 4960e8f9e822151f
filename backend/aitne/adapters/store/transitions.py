"""Changes of jobs. Each is one transaction that also stores an event and increases the job's
version.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache, lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import Insert, Update, bindparam, delete, func, or_, select, update
from typing_extensions import override

from aitne.adapters.store import tables
from aitne.adapters.store.base import MOST_IDS, StorePart, batched, require_epoch
from aitne.adapters.store.engine import Transaction
from aitne.adapters.store.jobs import LIVE_STATES
from aitne.adapters.store.outbox import (
    drop,
    drop_submits,
    longest_asked,
    queue,
    queued,
    release,
)
from aitne.adapters.store.portable import upsert_many
from aitne.adapters.store.rows import JOB_COLUMNS, columns_of, event_data, job_of
from aitne.adapters.store.task_groups import indices_of, lock_all, split
from aitne.core.errors import Conflict, IllegalTransition, NotFound
from aitne.core.jobs.arrays import array_state, task_group_id, task_id
from aitne.core.jobs.states import JobState, TerminationReason, check_transition
from aitne.core.models.job import Job, JobChanges
from aitne.core.ports.store import JobStore, OutboxKind, TransitionRequest

_jobs = tables.jobs
_secrets = tables.job_secrets

_FRESH: dict[str, Any] = dict.fromkeys(
    JobChanges.model_fields.keys() - {"attempt", "excluded_nodes", "folder"}
) | {"nodes": (), "restart_count": 0, "energy_j": None, "folder_bytes": None, "folder_files": None}
"""Fields of a job, with their initial values, that a new attempt resets."""

_BEGINNINGS = ("submitted_at", "allocated_at", "started_at")
"""Times of an array job that are equal to the earliest of its tasks."""


class Transitions(StorePart, JobStore):
    """Part of ``JobStore`` that changes jobs."""

    @override
    async def transition(
        self,
        job_id: UUID,
        to: JobState,
        changes: JobChanges | None = None,
        *,
        attempt: int | None = None,
        version: int | None = None,
        epoch: int | None = None,
        message: str | None = None,
    ) -> Job:
        values = _values(to, changes, message)
        async with self._db.write() as tx:
            await require_epoch(tx, epoch)
            job, array = await lock_job(tx, job_id)
            _check_is(job, attempt, version)
            changed, _ = await _move(tx, job, array, values)
        return changed

    @override
    async def apply(
        self,
        moves: Sequence[TransitionRequest],
        *,
        epoch: int,
        tokens: Mapping[UUID, str] | None = None,
        done: Collection[int] = (),
    ) -> Sequence[Job | None]:
        async with self._db.write(brief=True) as tx:
            await require_epoch(tx, epoch)
            if done:
                await drop(tx, done)
            jobs = await lock_all(tx, [move.job_id for move in moves])
            of_tasks = await _moves_of_tasks(tx, moves, jobs)
            wishes = [_wished(move, jobs.get(move.job_id)) for move in [*moves, *of_tasks]]
            results = iter(await change_all(tx, [wish for wish in wishes if wish is not None]))
            after = [None if wish is None else next(results) for wish in wishes]
            await _roll_up_all(tx, jobs, [job for job in after if job is not None])
            live = {job.id for job in after if job is not None and not job.state.terminal}
            rows = [
                {"job_id": job_id, "token_hash": token}
                for job_id, token in (tokens or {}).items()
                if job_id in live
            ]
            if rows:
                await tx.send(_put_tokens(tx.dialect), rows)
        return after

    @override
    async def retry(
        self,
        job_id: UUID,
        to: JobState | None = None,
        changes: JobChanges | None = None,
        *,
        attempt: int | None = None,
        epoch: int,
    ) -> Job:
        # For an array, the tasks are retried individually.
        async with self._db.write() as tx:
            await require_epoch(tx, epoch)
            job, array = await lock_job(tx, job_id)
            _check_is(job, attempt, None)
            if job.is_array:
                raise IllegalTransition(f"Job {job_id} is an array: retry its tasks one by one.")
            if to is not None:
                job, array = await _move(tx, job, array, _values(to, changes, None))
            if not job.state.terminal:
                raise IllegalTransition(
                    f"Job {job_id} has not ended (it is {job.state}), so it cannot be retried."
                )
            if to is not None and job.cancel_requested_at is not None:
                return job
            if job.delete_requested_at is not None:
                raise IllegalTransition(f"Job {job_id} is being deleted, so it is not retried.")
            values = {"state": JobState.PENDING_SUBMIT, "attempt": job.attempt + 1, **_FRESH}
            changed = await _change(tx, job, values)
            await queue(tx, OutboxKind.SUBMIT, [changed], self._clock())
            if array is not None:
                await _roll_up(tx, array, [changed])
        return changed

    @override
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
        async with self._db.write(brief=True) as tx:
            job, array = await lock_job(tx, job_id)
            if job.state.terminal or await _is_cancelled(tx, unless_cancelled):
                return job
            _check_is(job, None, version)
            if not job.is_array or job.is_outside:
                # A started submission is completed first: only then the job to cancel is known.
                pending = job.state is JobState.PENDING_SUBMIT
                submits = await drop_submits(tx, [job_id] if pending else [])
                # The SUBMIT of tasks is that of their array: it may be in progress for all of them.
                at_once = pending and (array is None or bool(submits))
                (changed,) = await self._cancel(tx, [(job, at_once)], now, message, reason)
                if array is not None and changed is not job:
                    await _roll_up(tx, array, [changed])
                return changed
            if keep:
                # Single tasks are cancelled in the scheduler.
                for row in await live_tasks(tx, job_id):
                    await split(tx, [task_id(job_id, index) for index in indices_of(row)])
            live = await live_tasks(tx, job_id)
            tasks = [task for task in live if task.id not in keep]
            pending_ids = {task.id for task in tasks if task.state is JobState.PENDING_SUBMIT}
            whole = [job_id] if len(pending_ids) == len(live) else []
            submits = await drop_submits(tx, [*whole, *pending_ids])
            wishes = [
                (task, task.id in pending_ids and not submits.isdisjoint((task.id, job_id)))
                for task in tasks
            ]
            some = len(tasks) < len(live)
            changes = await self._cancel(tx, wishes, now, message, reason, None if some else job)
            wish = {} if some else _wish(job, now, message)
            changed = await _change(tx, job, wish)
            return await _roll_up(tx, changed, changes)

    async def _cancel(
        self,
        tx: Transaction,
        wishes: Sequence[tuple[Job, bool]],
        now: datetime,
        message: str | None,
        reason: TerminationReason | None = None,
        array: Job | None = None,
    ) -> Sequence[Job]:
        """Cancel each job in ``wishes``, and return the changed jobs. If the flag beside a job is
        True, the job ends at once; otherwise an outbox item is added, which cancels it in the
        scheduler.

        If the jobs are all live tasks of one array, pass it as ``array``. A single outbox item then
        cancels all tasks that were submitted together.
        """
        later = [job for job, at_once in wishes if not at_once]
        if array is not None:
            retried = [task for task in later if task.attempt != array.attempt]
            later = [*retried, array] if len(retried) < len(later) else retried
        waiting = await queued(tx, OutboxKind.CANCEL, [job.id for job in later])
        await queue(tx, OutboxKind.CANCEL, [job for job in later if job.id not in waiting], now)
        end_values = {
            "state": JobState.CANCELLED,
            "reason": reason or TerminationReason.CANCELLED,
            "message": message or "Cancelled before it was submitted.",
            "ended_at": now,
        }
        return await change_all(
            tx,
            [
                (job, _wish(job, now, message, reason) | (end_values if at_once else {}))
                for job, at_once in wishes
            ],
        )

    @override
    async def request_extend(self, job_id: UUID, time_limit_s: int, *, asked: int | None) -> Job:
        async with self._db.write() as tx:
            job, _ = await lock_job(tx, job_id)
            if job.state.terminal:
                raise Conflict(f"Job {job_id} has ended ({job.state}); it cannot be extended.")
            if (await longest_asked(tx, job_id) or 0) > (asked or 0):
                raise Conflict(
                    "The job was extended at the same moment. Check its end, and try again."
                )
            data = {"time_limit_s": time_limit_s}
            await queue(tx, OutboxKind.EXTEND, [job], self._clock(), data)
        return job


def _wish(
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


def _values(to: JobState, changes: JobChanges | None, message: str | None) -> dict[str, Any]:
    """Return the column values of a transition to ``to`` with ``changes`` (None: no others)."""
    values: dict[str, Any] = {"state": to}
    if changes is not None:
        values |= {name: getattr(changes, name) for name in changes.model_fields_set}
    if values.get("nodes", ()) is None:
        values["nodes"] = ()
    for counter in ("attempt", "restart_count"):
        if values.get(counter, 0) is None:
            del values[counter]
    if message is not None:
        values["message"] = message
    return values


def _check_is(job: Job, attempt: int | None, version: int | None) -> None:
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


def _check_move(job: Job, to: JobState) -> None:
    """Check that the job may change to the state ``to``. Raises ``IllegalTransition``."""
    check_transition(job.state, to)
    if job.state.terminal and to is not job.state:
        raise IllegalTransition(
            f"Job {job.id} has ended ({job.state}); only a retry, which is a new attempt, "
            "leaves that state."
        )


async def _move(
    tx: Transaction, job: Job, array: Job | None, values: Mapping[str, Any]
) -> tuple[Job, Job | None]:
    """Execute a transition; return the job and its array job (None: none) after the change."""
    _check_move(job, values["state"])
    changed = await _change(tx, job, values)
    if array is not None and changed is not job:
        array = await _roll_up(tx, array, [changed])
    return changed, array


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
        jobs = await lock_all(tx, [job_id])
    job = jobs.pop(job_id, None)
    if job is None:
        raise NotFound("job", job_id)
    return job, next(iter(jobs.values()), None)


def _wished(move: TransitionRequest, job: Job | None) -> tuple[Job, dict[str, Any]] | None:
    """Return the job and the new column values of a transition; None if the job does not exist, has
    another attempt or version, or its state does not permit the transition.
    """
    if job is None or (move.since is not None and not move.anyway and job.state not in move.since):
        return None
    stays = move.to is None or (move.since is not None and job.state not in move.since)
    values = _values(job.state if stays or move.to is None else move.to, move.changes, None)
    try:
        _check_is(job, move.attempt, move.version)
        _check_move(job, values["state"])
    except Conflict:
        return None
    return job, values


async def _moves_of_tasks(
    tx: Transaction, moves: Sequence[TransitionRequest], jobs: dict[UUID, Job]
) -> list[TransitionRequest]:
    """Return the transitions of tasks that follow from transitions of their arrays, whose rows are
    locked.

    The tasks' rows are locked and added to ``jobs``.
    """
    arrays = {move.job_id: move for move in moves if move.with_tasks and move.job_id in jobs}
    result: list[TransitionRequest] = []
    for some in batched(sorted(arrays), MOST_IDS):
        query = (
            select(*JOB_COLUMNS)
            .where(_jobs.c.array_job_id.in_(some))
            .order_by(_jobs.c.id)
            .with_for_update(key_share=True)
        )
        for task in map(job_of, (await tx.execute(query)).mappings()):
            move = arrays[task.array_job_id or task.id]
            if task.attempt != (move.attempt or task.attempt):
                continue
            jobs.setdefault(task.id, task)
            changes = move.changes
            if changes and changes.scheduler_id is not None and task.array_task_id is not None:
                name = f"{changes.scheduler_id}_{task.array_task_id}"
                changes = changes.model_copy(update={"scheduler_id": name})
            result.append(replace(move, job_id=task.id, changes=changes, with_tasks=False))
    return result


async def _roll_up_all(tx: Transaction, jobs: Mapping[UUID, Job], after: Sequence[Job]) -> None:
    """Update the database rows of all array jobs whose tasks have changed."""
    changed = {job.id: job for job in after}
    of: dict[UUID, list[Job]] = defaultdict(list)
    for job in after:
        if job.array_job_id is not None and job is not jobs[job.id]:
            of[job.array_job_id].append(job)
    for array_id, tasks in of.items():
        await _roll_up(tx, changed.get(array_id, jobs[array_id]), tasks)


async def _is_cancelled(tx: Transaction, task_id: UUID | None) -> bool:
    if task_id is None:
        return False
    query = select(_jobs.c.cancel_requested_at).where(_jobs.c.id == task_id)
    return (await tx.execute(query)).scalar() is not None


async def live_tasks(tx: Transaction, array_id: UUID) -> Sequence[Job]:
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


async def _change(tx: Transaction, job: Job, values: Mapping[str, Any]) -> Job:
    (changed,) = await change_all(tx, [(job, values)])
    return changed


async def change_all(
    tx: Transaction, wishes: Sequence[tuple[Job, Mapping[str, Any]]]
) -> Sequence[Job]:
    """Write changed values of jobs, with one event for each changed job; return all jobs."""
    result: list[Job] = []
    updates: dict[frozenset[str], list[dict[str, Any]]] = defaultdict(list)
    ended_ids: list[UUID] = []
    requeued: list[UUID] = []
    decided: list[UUID] = []
    for job, values in wishes:
        different = {name: value for name, value in values.items() if value != getattr(job, name)}
        if not different:
            result.append(job)
            continue
        different["version"] = job.version + 1
        changed = job.model_copy(update=different)
        result.append(changed)
        columns = columns_of(different)
        moved = changed.state is not job.state
        if moved and (changed.state.terminal or job.state.terminal) and _has_folder(job):
            columns["folder_due_at"] = changed.ended_at if changed.state.terminal else None
        updates[frozenset(columns)].append({**columns, "row_id": job.id})
        has_id = changed.scheduler_id not in (None, job.scheduler_id)
        if has_id or (moved and changed.state.terminal):
            decided.append(job.id)
        if moved and changed.state.terminal:
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
        await tx.send(_update(names), rows)
    if ended_ids:
        await tx.send(delete(_secrets).where(_secrets.c.job_id.in_(ended_ids)))
    if decided:
        await release(tx, decided)
    if requeued:
        # The hub's handover, with its session token, was for the previous run.
        dropped = update(_secrets).where(_secrets.c.job_id.in_(requeued))
        await tx.send(dropped.values(handover=None, session_token_hash=None))
    return result


@cache
def _put_tokens(dialect: str) -> Insert:
    columns = ("job_id", "token_hash")
    return upsert_many(dialect, _secrets, columns, columns[:1])


@lru_cache(maxsize=256)
def _update(names: frozenset[str]) -> Update:
    """Return the statement that updates these columns of one job."""
    statement = update(_jobs).where(_jobs.c.id == bindparam("row_id"))
    return statement.values({name: bindparam(name) for name in sorted(names)})


def _has_folder(job: Job) -> bool:
    """Return True if the job has a job folder of its own. Array tasks use the folder of their array
    job; jobs that were not submitted through the platform have none.
    """
    return job.array_job_id is None and not job.is_outside


async def _roll_up(tx: Transaction, array: Job, tasks: Sequence[Job]) -> Job:
    """Update an array job's row after changes of its ``tasks``; return the changed array job."""
    condition = _jobs.c.array_job_id == array.id
    rows = select(_jobs.c.state, _jobs.c.reason, func.count().label("tasks")).where(condition)
    # The rows are counted by an index alone; the row that several tasks share is added separately.
    more = select(_jobs.c.state, _jobs.c.reason, (_jobs.c.task_count - 1).label("tasks")).where(
        _jobs.c.id == task_group_id(array.id), _jobs.c.task_count.is_not(None)
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
        or (summary.state.active and array.cancel_requested_at is None)
    ):
        values["message"] = summary.message
    if summary.state.terminal:
        last = select(func.max(_jobs.c.ended_at)).where(condition)
        values["ended_at"] = (await tx.execute(last)).scalar()
    for name in _BEGINNINGS:
        times = (getattr(job, name) for job in (array, *tasks))
        values[name] = min(filter(None, times), default=None)
    return await _change(tx, array, values)
