"""Checks that refuse requests for jobs that were submitted past the platform."""

from __future__ import annotations

from aitne.core.errors import Conflict, NotAllowed, NotFound
from aitne.core.models.job import Job
from aitne.core.models.user import Actor


def check_not_outside(job: Job, verb: str) -> None:
    """Raise ``Conflict`` for a job from outside. ``verb`` is what cannot be done with it, such as
    ``resubmitted``.
    """
    if job.is_outside:
        raise Conflict(
            f"Job {job.scheduler_id} was submitted outside the platform, which did not start it and "
            f"keeps no job file of it, so it cannot be {verb}. Use the "
            "scheduler's commands, or import its batch script as a job file."
        )


def check_log(job: Job, actor: Actor) -> None:
    """Check that the actor may read the log of a job from outside, and that it has one.

    Raises:
        NotAllowed: the job is another user's. Its owner chose where the log lies and who may read
            it, without a thought of the project's members.
        NotFound: it has no log of its own.
    """
    if actor.name != job.owner:
        raise NotAllowed(
            f"Job {job.scheduler_id} was submitted outside the platform: only {job.owner} can read "
            "its log here."
        )
    if job.log_path is not None:
        return
    which = (
        "each task of an array that was submitted outside the platform writes a log of its own; "
        "look in its working directory"
        if job.is_array
        else "the scheduler names no file for its output"
    )
    raise NotFound("log of job", job.id, f"Job {job.scheduler_id} has no log here: {which}.")
