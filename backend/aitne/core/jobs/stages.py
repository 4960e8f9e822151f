"""The stages of a job as users see them: where it is, how long each took, where it ended.

Pure: drawn from the job's own row, so a list of a thousand jobs costs no further query.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from aitne.core.jobs.states import JobState
from aitne.core.models.base import Frozen, UtcTime
from aitne.core.models.job import Job, JobType


class StageKey(StrEnum):
    """The stages in their order; ``running`` and ``done`` are a job's, the last two a session's."""

    SUBMITTED = "submitted"
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    DONE = "done"
    CONNECTING = "connecting"
    """JupyterHub hands over and the server comes up."""
    READY = "ready"


class StageStatus(StrEnum):
    """Progress of a stage."""

    DONE = "done"
    CURRENT = "current"
    WAITING = "waiting"
    FAILED = "failed"
    SKIPPED = "skipped"
    """The stage was never reached, or it was left because the job was cancelled."""


class Stage(Frozen):
    """A stage in the life of a job, as the portal draws it; ``detail`` says why the present stage
    lasts or how it ended.
    """

    key: StageKey
    """Key of the step."""
    title: str
    status: StageStatus
    """Progress of the stage."""
    started_at: UtcTime | None = None
    ended_at: UtcTime | None = None
    detail: str | None = None
    """Reason why it lasts or why it ended."""


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


def stages_of(job: Job) -> list[Stage]:
    """Return the five stages of the job's present attempt."""
    reached = _reached(job)
    starts = _starts(job, reached)
    return [
        Stage(
            key=key,
            title=title,
            status=_status(job, index, reached),
            started_at=starts[index] if index <= reached else None,
            ended_at=_end(job, starts, index, reached),
            detail=job.message if index == reached else None,
        )
        for index, (key, title) in enumerate(_TITLES[job.type])
    ]


def _reached(job: Job) -> int:
    """Return the index of the stage the job is in, or was in when it ended."""
    if job.state is JobState.COMPLETED:
        return 4
    if job.state in _BY_STATE:
        return _BY_STATE[job.state]
    # Suspended, completing, unknown and the terminal states: determined by its times.
    times = (job.submitted_at, job.allocated_at, job.started_at, job.ready_at)
    return max((index for index, time in enumerate(times, 1) if time is not None), default=0)


def _starts(job: Job, reached: int) -> list[datetime | None]:
    """Return when each stage started. One that passed unobserved started when the next one did."""
    last = job.ended_at if job.type is JobType.JOB else job.ready_at
    starts = [job.created_at, job.submitted_at, job.allocated_at, job.started_at, last]
    for index in range(min(reached, 4) - 1, 0, -1):
        starts[index] = starts[index] or starts[index + 1]
    return starts


def _end(job: Job, starts: list[datetime | None], index: int, reached: int) -> datetime | None:
    if index < reached:
        return starts[index + 1]
    return job.ended_at if index == reached and job.state.terminal else None


def _status(job: Job, index: int, reached: int) -> StageStatus:
    if index < reached:
        return StageStatus.DONE
    if index > reached:
        return StageStatus.SKIPPED if job.state.terminal else StageStatus.WAITING
    if not job.state.terminal:
        return StageStatus.CURRENT
    if job.state is JobState.COMPLETED or (
        job.type is JobType.SESSION and reached == 4 and job.state in _GOOD_ENDS
    ):
        return StageStatus.DONE
    return StageStatus.SKIPPED if job.state is JobState.CANCELLED else StageStatus.FAILED
