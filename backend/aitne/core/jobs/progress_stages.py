"""Stages of a job as shown to users: the current stage, how long each took, and the one in which
the job ended.

Pure: computed from the job's own row, so that no further query is needed for a list of jobs.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from aitne.core.jobs.states import JobState
from aitne.core.models.base import Frozen, UtcTime
from aitne.core.models.job import Job, JobType


class StageKey(StrEnum):
    """Stages in their order; ``running`` and ``done`` occur only for batch jobs, the last two only
    for sessions.
    """

    SUBMITTED = "submitted"
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    DONE = "done"
    CONNECTING = "connecting"
    """JupyterHub connects to the session, and its server starts."""
    READY = "ready"


class StageStatus(StrEnum):
    """Status of a stage: what has happened in it so far."""

    DONE = "done"
    CURRENT = "current"
    WAITING = "waiting"
    FAILED = "failed"
    SKIPPED = "skipped"
    """The stage was never reached, or the job was cancelled in it."""


class Stage(Frozen):
    """Stage of a job as shown in the portal; ``detail`` says why the current stage lasts or how it
    ended.
    """

    key: StageKey
    """Key that identifies the stage."""
    title: str
    status: StageStatus
    """Progress of the stage."""
    started_at: UtcTime | None = None
    ended_at: UtcTime | None = None
    detail: str | None = None
    """Reason why the stage lasts or how it ended; None if there is none."""


_COMMON = (
    (StageKey.SUBMITTED, "Submitted"),
    (StageKey.QUEUED, "Queued"),
    (StageKey.STARTING, "Starting"),
)
_TITLES = {
    JobType.JOB: (*_COMMON, (StageKey.RUNNING, "Running"), (StageKey.DONE, "Done")),
    JobType.SESSION: (*_COMMON, (StageKey.CONNECTING, "Connecting"), (StageKey.READY, "Ready")),
}
_BY_STATE = {
    JobState.PENDING_SUBMIT: 0,
    JobState.SUBMITTING: 0,
    JobState.UNCERTAIN: 0,
    JobState.QUEUED: 1,
    JobState.STARTING: 2,
    JobState.RUNNING: 3,
    JobState.READY: 4,
}
# A session that was ready and is then stopped or reaches its time limit was successful.
_GOOD_ENDS = frozenset({JobState.COMPLETED, JobState.CANCELLED, JobState.TIMED_OUT})


def list_stages(job: Job) -> list[Stage]:
    """Return the five stages of the job's current attempt."""
    reached = _find_reached_index(job)
    starts = _find_start_times(job, reached)
    return [
        Stage(
            key=key,
            title=title,
            status=_get_stage_status(job, index, reached),
            started_at=starts[index] if index <= reached else None,
            ended_at=_find_end_time(job, starts, index, reached),
            detail=job.message if index == reached else None,
        )
        for index, (key, title) in enumerate(_TITLES[job.type])
    ]


def _find_reached_index(job: Job) -> int:
    """Return the index of the stage that the job is in or has ended in."""
    if job.state is JobState.COMPLETED:
        return 4
    if job.state in _BY_STATE:
        return _BY_STATE[job.state]
    # Suspended, completing, unknown and the terminal states: determined by its times.
    times = (job.submitted_at, job.allocated_at, job.started_at, job.ready_at)
    return max((index for index, time in enumerate(times, 1) if time is not None), default=0)


def _find_start_times(job: Job, reached: int) -> list[datetime | None]:
    """Return the start time of each stage. A stage that was passed between two polls gets the start
    time of the next one.
    """
    last = job.ended_at if job.type is JobType.JOB else job.ready_at
    starts = [job.created_at, job.submitted_at, job.allocated_at, job.started_at, last]
    for index in range(min(reached, 4) - 1, 0, -1):
        starts[index] = starts[index] or starts[index + 1]
    return starts


def _find_end_time(
    job: Job, starts: list[datetime | None], index: int, reached: int
) -> datetime | None:
    if index < reached:
        return starts[index + 1]
    return job.ended_at if index == reached and job.state.is_terminal else None


def _get_stage_status(job: Job, index: int, reached: int) -> StageStatus:
    if index < reached:
        return StageStatus.DONE
    if index > reached:
        return StageStatus.SKIPPED if job.state.is_terminal else StageStatus.WAITING
    if not job.state.is_terminal:
        return StageStatus.CURRENT
    if job.state is JobState.COMPLETED or (
        job.type is JobType.SESSION and reached == 4 and job.state in _GOOD_ENDS
    ):
        return StageStatus.DONE
    return StageStatus.SKIPPED if job.state is JobState.CANCELLED else StageStatus.FAILED
