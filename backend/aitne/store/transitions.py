"""Changes of jobs. Each is one transaction that also stores an event and increases the job's
version.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from uuid import UUID

from sqlalchemy import Insert, select

from aitne.core.errors import Conflict, IllegalTransition
from aitne.core.jobs.states import JobState, check_transition
from aitne.core.models.job import Job, JobChanges
from aitne.store import tables
from aitne.store.action_outbox import OutboxKind, add_outbox_items, delete_outbox_items
from aitne.store.array_task_groups import lock_jobs
from aitne.store.database import Transaction
from aitne.store.job_writes import (
    check_attempt_and_version,
    lock_job,
    update_array_job,
    update_job,
    update_jobs,
)
from aitne.store.portable_sql import upsert_many
from aitne.store.rows import JOB_COLUMNS, job_of
from aitne.store.store_part import MOST_IDS, StorePart, require_epoch, split_into_batches

_jobs = tables.jobs
_secrets = tables.job_secrets

_KEPT = {"attempt", "excluded_nodes", "folder"}
_MEASURED = ("energy_j", "folder_bytes", "folder_files")
_FRESH: dict[str, Any] = {
    name: field.default for name, field in JobChanges.model_fields.items() if name not in _KEPT
} | dict.fromkeys(_MEASURED)
"""Fields of a job, with their initial values, that a new attempt resets."""


@dataclass(frozen=True, slots=True)
class TransitionRequest:
    """Change of the state or of fields of one job. ``TransitionStore.apply_transitions`` makes many of them in one
    transaction.
    """

    job_id: UUID
    to: JobState | None
    """New state; None: the state is not changed."""
    changes: JobChanges | None = None
    """Fields to change; None: none."""
    attempt: int | None = None
    """Attempt that the job must be in; None: any."""
    version: int | None = None
    """Version that the row must have; None: any."""
    since: frozenset[JobState] | None = None
    """States in which the new state is applied; in other states it is ignored. None: all states."""
    anyway: bool = False
    """Whether ``changes`` are written even if ``since`` prevents the new state."""
    with_tasks: bool = False
    """Whether the tasks of an array job that are in this attempt get the same change. Their
    scheduler IDs are derived from the array's.
    """


class TransitionStore(StorePart):
    """Storage of changes of the state and of other fields of jobs."""

    async def transition_job(
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
        """Change the state or fields of one job and add the event ``job.state`` (or ``job.changed``
        if the state stays). A call that changes nothing writes nothing.

        Only fields that were set on ``changes`` are written (``model_fields_set``). A terminal
        state also deletes the job token and the hand-over. For a task of an array, the array job's
        row is updated in the same transaction (see ``core.jobs.array_tasks``).

        Raises:
            NotFound: there is no such job.
            IllegalTransition: the current state does not permit the transition to ``to``.
            Conflict: ``attempt`` or ``version`` was given and differs from that of the row.
            StaleEpoch: ``epoch`` was given and another controller is the leader.
        """
        values = _make_column_values(to, changes, message)
        async with self._db.write() as tx:
            await require_epoch(tx, epoch)
            job, array = await lock_job(tx, job_id)
            check_attempt_and_version(job, attempt, version)
            changed, _ = await _write_transition(tx, job, array, values)
        return changed

    async def apply_transitions(
        self,
        requests: Sequence[TransitionRequest],
        *,
        epoch: int,
        tokens: Mapping[UUID, str] | None = None,
        done: Collection[int] = (),
    ) -> Sequence[Job | None]:
        """Make many transitions of different jobs in one transaction.

        ``tokens`` are the hashes of new job tokens, by ID of jobs in ``requests``; the tasks of an
        array share one. No token is stored for a job that has ended. ``done`` are the IDs of outbox
        items that these transitions complete.

        Returns for each transition the job afterwards; None where ``transition_job`` would have raised
        ``NotFound`` or ``Conflict``. Raises ``StaleEpoch``; then nothing was changed.
        """
        async with self._db.write(brief=True) as tx:
            await require_epoch(tx, epoch)
            if done:
                await delete_outbox_items(tx, done)
            jobs = await lock_jobs(tx, [move.job_id for move in requests])
            of_tasks = await _make_task_transitions(tx, requests, jobs)
            wishes = [
                _resolve_transition(move, jobs.get(move.job_id)) for move in [*requests, *of_tasks]
            ]
            results = iter(await update_jobs(tx, [wish for wish in wishes if wish is not None]))
            after = [None if wish is None else next(results) for wish in wishes]
            await _update_array_jobs(tx, jobs, [job for job in after if job is not None])
            live = {job.id for job in after if job is not None and not job.state.is_terminal}
            rows = [
                {"job_id": job_id, "token_hash": token}
                for job_id, token in (tokens or {}).items()
                if job_id in live
            ]
            if rows:
                await tx.execute_without_result(_make_token_upsert(tx.dialect), rows)
        return after

    async def retry_job(
        self,
        job_id: UUID,
        to: JobState | None = None,
        changes: JobChanges | None = None,
        *,
        attempt: int | None = None,
        epoch: int,
    ) -> Job:
        """End the current attempt in the terminal state ``to`` (None: the attempt has ended
        already) and start the next one, in one transaction.

        The job becomes PENDING_SUBMIT with attempt + 1 and a new outbox item; the fields of the old
        attempt are cleared. If a user has requested the cancellation of the job, it ends and is not
        retried. Raises the same errors as ``transition_job``.
        """
        # For an array, the tasks are retried individually.
        async with self._db.write() as tx:
            await require_epoch(tx, epoch)
            job, array = await lock_job(tx, job_id)
            check_attempt_and_version(job, attempt, None)
            if job.is_array:
                raise IllegalTransition(f"Job {job_id} is an array: retry its tasks one by one.")
            if to is not None:
                job, array = await _write_transition(
                    tx, job, array, _make_column_values(to, changes, None)
                )
            if not job.state.is_terminal:
                raise IllegalTransition(
                    f"Job {job_id} has not ended (it is {job.state}), so it cannot be retried."
                )
            if to is not None and job.cancel_requested_at is not None:
                return job
            if job.delete_requested_at is not None:
                raise IllegalTransition(f"Job {job_id} is being deleted, so it is not retried.")
            values = {"state": JobState.PENDING_SUBMIT, "attempt": job.attempt + 1, **_FRESH}
            changed = await update_job(tx, job, values)
            await add_outbox_items(tx, OutboxKind.SUBMIT, [changed], self._clock())
            if array is not None:
                await update_array_job(tx, array, [changed])
        return changed


def _make_column_values(
    to: JobState, changes: JobChanges | None, message: str | None
) -> dict[str, Any]:
    """Return the column values of a transition to ``to`` with ``changes`` (None: no others)."""
    values: dict[str, Any] = {"state": to}
    if changes is not None:
        values |= {name: getattr(changes, name) for name in changes.model_fields_set}
    if message is not None:
        values["message"] = message
    return values


def _check_transition(job: Job, to: JobState) -> None:
    """Check that the job may change to the state ``to``. Raises ``IllegalTransition``."""
    check_transition(job.state, to)
    if job.state.is_terminal and to is not job.state:
        raise IllegalTransition(
            f"Job {job.id} has ended ({job.state}); only a retry, which is a new attempt, "
            "leaves that state."
        )


async def _write_transition(
    tx: Transaction, job: Job, array: Job | None, values: Mapping[str, Any]
) -> tuple[Job, Job | None]:
    """Execute a transition; return the job and its array job (None: none) after the change."""
    _check_transition(job, values["state"])
    changed = await update_job(tx, job, values)
    if array is not None and changed is not job:
        array = await update_array_job(tx, array, [changed])
    return changed, array


def _resolve_transition(
    request: TransitionRequest, job: Job | None
) -> tuple[Job, dict[str, Any]] | None:
    """Return the job and the new column values of a transition; None if the job does not exist, has
    another attempt or version, or its state does not permit the transition.
    """
    if job is None or (
        request.since is not None and not request.anyway and job.state not in request.since
    ):
        return None
    stays = request.to is None or (request.since is not None and job.state not in request.since)
    values = _make_column_values(
        job.state if stays or request.to is None else request.to, request.changes, None
    )
    try:
        check_attempt_and_version(job, request.attempt, request.version)
        _check_transition(job, values["state"])
    except Conflict:
        return None
    return job, values


async def _make_task_transitions(
    tx: Transaction, requests: Sequence[TransitionRequest], jobs: dict[UUID, Job]
) -> list[TransitionRequest]:
    """Return the transitions of tasks that follow from transitions of their arrays, whose rows are
    locked.

    The tasks' rows are locked and added to ``jobs``.
    """
    arrays = {move.job_id: move for move in requests if move.with_tasks and move.job_id in jobs}
    result: list[TransitionRequest] = []
    for some in split_into_batches(sorted(arrays), MOST_IDS):
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


async def _update_array_jobs(
    tx: Transaction, jobs: Mapping[UUID, Job], after: Sequence[Job]
) -> None:
    """Update the database rows of all array jobs whose tasks have changed."""
    changed = {job.id: job for job in after}
    of: dict[UUID, list[Job]] = defaultdict(list)
    for job in after:
        if job.array_job_id is not None and job is not jobs[job.id]:
            of[job.array_job_id].append(job)
    for array_id, tasks in of.items():
        await update_array_job(tx, changed.get(array_id, jobs[array_id]), tasks)


@cache
def _make_token_upsert(dialect: str) -> Insert:
    columns = ("job_id", "token_hash")
    return upsert_many(dialect, _secrets, columns, columns[:1])
