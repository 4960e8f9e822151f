"""What the records of slurmrestd and of libslurm have in common: typed fields, and arrays in one piece."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from aitne.core.errors import SchedulerUnavailable
from aitne.core.ports.scheduler import SchedulerJob
from aitne.core.units import parse_array

_FAR = 253_402_300_799  # the last second of the year 9999


def text(value: object) -> str:
    """The text; anything else is none."""
    return value if isinstance(value, str) else ""


def moment(seconds: int | None) -> datetime | None:
    """A time in seconds since 1970; 0 and what no calendar has are none."""
    return datetime.fromtimestamp(seconds, UTC) if seconds and 0 < seconds <= _FAR else None


def task_of(job: SchedulerJob, array: int, task: int) -> SchedulerJob:
    """The record as that of one task."""
    return job.model_copy(update={"scheduler_id": f"{array}_{task}", "array_task_id": task})


def waiting_tasks(
    job: SchedulerJob, array: int, tasks: str, *, said_by: str
) -> Sequence[SchedulerJob]:
    """The record of an array that waits as a whole, once for each of its ``tasks`` (``1-3,7``).

    Raises:
        SchedulerUnavailable: some were left out (libslurm cuts a long list: ``1,3,5,...``), and what
            was cut off must not look like absent.
    """
    if "..." in tasks:
        raise SchedulerUnavailable(
            f"{said_by} names only some of the tasks of array {array}: {tasks}"
        )
    try:
        indices = parse_array(tasks).indices
    except ValueError as error:
        raise SchedulerUnavailable(f"{said_by} says of array {array}: {error}") from error
    return tuple(task_of(job, array, index) for index in indices)
