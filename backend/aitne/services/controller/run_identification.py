"""Identification of jobs in queries of the scheduler and in its answers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from uuid import UUID

from aitne.core.jobs.agent_protocol import EXIT_DUPLICATE
from aitne.core.models.job import Job
from aitne.core.ports.scheduler import Run, SchedulerJob
from aitne.core.units import parse_array

Key = tuple[UUID, int, int | None]
"""Job ID (for an array task, the ID of its array job), attempt, and array index."""


def make_record_key(job: Job) -> Key:
    """Return the key under which the scheduler's records of the job's current attempt are found."""
    return (job.array_job_id or job.id, job.attempt, job.array_task_id)


def make_run(job: Job) -> Run:
    """Return the ``Run`` that identifies the job's current attempt in queries of the scheduler; for
    a task of an array, only this task.
    """
    return Run(
        job_id=job.array_job_id or job.id,
        attempt=job.attempt,
        account=job.account,
        scheduler_id=job.scheduler_id,
    )


def indices_of(record: SchedulerJob) -> frozenset[int]:
    """Return the array indices of the tasks that a scheduler's record covers; empty if the job is
    not an array.
    """
    if record.array_task_ids is not None:
        return _parse_indices(record.array_task_ids)
    return frozenset() if record.array_task_id is None else frozenset({record.array_task_id})


@lru_cache(maxsize=64)
def _parse_indices(ranges: str) -> frozenset[int]:
    return frozenset(parse_array(ranges).indices)


def task_record(record: SchedulerJob, index: int) -> SchedulerJob:
    """Return the scheduler's record of one task, made from a record that covers several tasks of an
    array.

    ``index`` is the array index of the task. A record that is already about a single job or task is
    returned unchanged.
    """
    if record.array_task_ids is None:
        return record
    fields = {
        "scheduler_id": f"{record.scheduler_id}_{index}",
        "array_task_id": index,
        "array_task_ids": None,
    }
    return record.model_copy(update=fields)


def may_belong_to(record: SchedulerJob, job: Job) -> bool:
    """Return whether the scheduler's record may belong to the job: it must have the job's Unix
    account.

    A record is matched by the job's comment, which any user may set, whereas the account cannot be
    forged.
    """
    return None in (record.account, job.account) or record.account == job.account


def choose_record(records: Iterable[SchedulerJob]) -> SchedulerJob | None:
    """Return the record that determines the job's state among several records of one attempt; None
    if there is none.

    There are two records if a submission that seemed lost was repeated and then appeared. The fence
    lets only one of the two runs start the program. A run that has begun takes precedence over a
    pending one, and a pending one over a run that ended without beginning.
    """
    return min(records, key=_rank_record, default=None)


def _rank_record(record: SchedulerJob) -> int:
    if record.exit_code == EXIT_DUPLICATE:
        return 4
    if record.state.is_active:
        return 0
    if record.state.is_terminal:
        return 1 if record.nodes else 3
    return 2


def records_by_job(
    jobs: Iterable[Job], records: Iterable[SchedulerJob]
) -> dict[UUID, list[SchedulerJob]]:
    """Return the records of each job, by job ID, from the scheduler's answer about many jobs."""
    by_run: dict[tuple[UUID, int], list[SchedulerJob]] = {}
    by_key: dict[Key, list[SchedulerJob]] = {}
    for record in records:
        by_run.setdefault((record.job_id, record.attempt), []).append(record)
        key = (record.job_id, record.attempt, record.array_task_id)
        by_key.setdefault(key, []).append(record)
    return {
        job.id: select_records(
            job,
            by_run.get(make_record_key(job)[:2], ())
            if job.is_array
            else by_key.get(make_record_key(job), ()),
        )
        for job in jobs
    }


def select_records(job: Job, records: Iterable[SchedulerJob]) -> list[SchedulerJob]:
    """Return the scheduler's records that belong to the job's current attempt; for an array job,
    also the records of its tasks.
    """
    job_id, attempt, task = make_record_key(job)
    return [
        record
        for record in records
        if (record.job_id, record.attempt) == (job_id, attempt)
        and (job.is_array or record.array_task_id == task)
        and may_belong_to(record, job)
    ]
