"""The run that a job's row stands for, as the scheduler is asked about it."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from aitne.core.agent_protocol import EXIT_DUPLICATE
from aitne.core.models.job import Job
from aitne.core.ports.scheduler import Run, SchedulerJob

Key = tuple[UUID, int, int | None]
"""Job (of an array: the array's), attempt, array task."""


def key_of(job: Job) -> Key:
    """Under which key the records of the job's present run are found."""
    return (job.array_job_id or job.id, job.attempt, job.array_task_id)


def run_of(job: Job) -> Run:
    """The job's present attempt. For an array's task its id names that task alone."""
    return Run(
        job_id=job.array_job_id or job.id,
        attempt=job.attempt,
        account=job.account,
        scheduler_id=job.scheduler_id,
    )


def is_of(record: SchedulerJob, job: Job) -> bool:
    """Whether the record can be the job's: anybody may write any comment, nobody another's account."""
    return None in (record.account, job.account) or record.account == job.account


class Records:
    """An answer of the scheduler, by job."""

    def __init__(self, records: Iterable[SchedulerJob]) -> None:
        self._by_key: dict[Key, SchedulerJob | list[SchedulerJob]] = {}
        for record in records:
            key = (record.job_id, record.attempt, record.array_task_id)
            known = self._by_key.setdefault(key, record)
            if isinstance(known, list):
                known.append(record)
            elif known is not record:
                self._by_key[key] = [known, record]

    def of(self, job: Job) -> SchedulerJob | None:
        """The job's record; of several, one that is not a run that the fence turned away."""
        found = self._by_key.get(key_of(job))
        if found is None:
            return None
        if not isinstance(found, list):
            return found if is_of(found, job) else None
        own = [record for record in found if is_of(record, job)]
        own.sort(key=lambda record: record.exit_code == EXIT_DUPLICATE)
        return own[0] if own else None
