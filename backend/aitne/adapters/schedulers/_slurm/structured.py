"""What the records of slurmrestd and of libslurm have in common: typed fields, and arrays in one piece."""

from __future__ import annotations

from datetime import UTC, datetime

from aitne.core.errors import SchedulerUnavailable
from aitne.core.ports.scheduler import SchedulerJob
from aitne.core.units import ArrayRange, parse_array

_FAR = 253_402_300_799  # the last second of the year 9999


def text(value: object) -> str:
    """The text; anything else is none."""
    return value if isinstance(value, str) else ""


def moment(seconds: int | None) -> datetime | None:
    """A time in seconds since 1970; 0 and what no calendar has are none."""
    return datetime.fromtimestamp(seconds, UTC) if seconds and 0 < seconds <= _FAR else None


def task_of(job: SchedulerJob, array: int | str, task: int) -> SchedulerJob:
    """The record as that of one task."""
    return job.model_copy(update={"scheduler_id": f"{array}_{task}", "array_task_id": task})


def array_record(job: SchedulerJob, array: int, tasks: str, *, said_by: str) -> SchedulerJob:
    """The record of an array that waits as a whole, as that of its ``tasks`` (``1-3,7%2``).

    Raises:
        SchedulerUnavailable: some were left out (libslurm cuts a long list: ``1,3,5,...``), and what
            was cut off must not look like absent.
    """
    if "..." in tasks:
        raise SchedulerUnavailable(
            f"{said_by} names only some of the tasks of array {array}: {tasks}"
        )
    try:
        return of_tasks(job, str(array), tasks)
    except ValueError as error:
        raise SchedulerUnavailable(f"{said_by} says of array {array}: {error}") from error


def of_tasks(job: SchedulerJob, array: str, tasks: str) -> SchedulerJob:
    """The record as that of the ``tasks`` of an array, one or several. Raises ``ValueError``."""
    indices = parse_array(tasks).indices
    if len(indices) == 1:
        return task_of(job, array, indices[0])
    ranges = str(ArrayRange(indices))
    return job.model_copy(update={"scheduler_id": array, "array_task_ids": ranges})
