"""Checks for requests about jobs that were not submitted through the platform, for example with
sbatch.
"""

from __future__ import annotations

from aitne.core.errors import Conflict, InvalidInput, NotAllowed, NotFound
from aitne.core.models.job import Job
from aitne.core.models.user import Actor
from aitne.core.units import parse_array


def check_not_outside(job: Job, verb: str) -> None:
    """Raise ``Conflict`` for a job that was not submitted through the platform.

    ``verb`` is the participle of the refused operation, such as ``resubmitted``.
    """
    if job.is_outside:
        raise Conflict(
            f"Job {job.scheduler_id} was submitted outside the platform, which did not start it and "
            f"keeps no job file of it, so it cannot be {verb}. Use the "
            "scheduler's commands, or import its batch script as a job file."
        )


def check_log_access(job: Job, task: int | None, actor: Actor) -> None:
    """Check that the actor may read the log of a job that was not submitted through the platform,
    and that there is a log.

    ``task`` is the index of the array's task whose log is requested.

    Raises:
        InvalidInput: the job is an array and ``task`` is None, or the job does not have that task.
        NotAllowed: the job belongs to another user. Members of the project cannot read it, because
            its owner chose the path of the log without knowing of this access.
        NotFound: the job has no log.
    """
    if actor.name != job.owner:
        raise NotAllowed(
            f"Job {job.scheduler_id} was submitted outside the platform: only {job.owner} can read "
            "its log here."
        )
    if job.is_array == (task is None):
        problem = (
            "name the task whose log you want" if job.is_array else "this job has no such task"
        )
        raise InvalidInput.field("task", problem, value=task, allowed=job.spec.array)
    if task is not None and not _has_task(job, task):
        raise InvalidInput.field(
            "task", "this array has no such task", value=task, allowed=job.spec.array
        )
    if job.log_path is None:
        raise NotFound(
            "log of job",
            job.id,
            f"Job {job.scheduler_id} has no log here: the scheduler names no file for its output.",
        )


def _has_task(job: Job, task: int) -> bool:
    try:
        return task in parse_array(job.spec.array or "").indices
    except ValueError:  # more tasks than an array of the platform can have
        return True
