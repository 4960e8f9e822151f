"""Functions for converting the records of both slurmrestd and libslurm: typed fields, and arrays in
one record.
"""

from __future__ import annotations

from datetime import UTC, datetime

from aitne.core.errors import SchedulerUnavailable
from aitne.core.ports.scheduler import SchedulerJob
from aitne.core.units import ArrayRange, parse_array

_FAR = 253_402_300_799  # the last second of the year 9999


def to_text(value: object) -> str:
    """Return the value if it is a ``str``, otherwise an empty text."""
    return value if isinstance(value, str) else ""


def to_time(seconds: int | None) -> datetime | None:
    """Convert seconds since 1970 to a ``datetime``; None for None, 0 and values that it cannot
    represent.
    """
    return datetime.fromtimestamp(seconds, UTC) if seconds and 0 < seconds <= _FAR else None


def make_task_record(job: SchedulerJob, array: int | str, task: int) -> SchedulerJob:
    """Return a copy of an array's record as the record of its task with the index ``task``."""
    return job.model_copy(update={"scheduler_id": f"{array}_{task}", "array_task_id": task})


def make_array_record(job: SchedulerJob, array: int, tasks: str, *, source: str) -> SchedulerJob:
    """Return a copy of an array's record for the pending tasks with the indices ``tasks`` (such as
    ``1-3,7%2``). ``source`` is the source of the record, named in the error.

    Raises:
        SchedulerUnavailable: the list of tasks is incomplete (libslurm truncates a long one:
            ``1,3,5,...``). Without the error, the omitted tasks would seem to be missing in Slurm.
    """
    if "..." in tasks:
        raise SchedulerUnavailable(
            f"{source} reports only some of the tasks of array {array}: {tasks}"
        )
    try:
        return make_tasks_record(job, str(array), tasks)
    except ValueError as error:
        raise SchedulerUnavailable(f"{source} reports for array {array}: {error}") from error


def make_tasks_record(job: SchedulerJob, array: str, tasks: str) -> SchedulerJob:
    """Return the record of some tasks of an array job, copied from ``job``, the record that Slurm
    has for all of them.

    Args:
        array: Slurm's job ID of the array.
        tasks: indices of the tasks, such as ``1-3,7``.

    Raises:
        ValueError: ``tasks`` is not a list of indices.
    """
    indices = parse_array(tasks).indices
    if len(indices) == 1:
        return make_task_record(job, array, indices[0])
    ranges = str(ArrayRange(indices))
    return job.model_copy(update={"scheduler_id": array, "array_task_ids": ranges})
