"""Jobs that users submitted to the scheduler themselves, past the platform: they are observed,
never submitted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

from pydantic import Field

from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.base import Frozen, UtcTime
from aitne.core.models.resources import Resources
from aitne.core.ports.files import LogChunk

MOST_OF_ACCOUNT = 200
"""Maximum number of live jobs of one account, and of ended ones, in an answer."""


class OutsideRun(Frozen):
    """Identification of one job from outside. The scheduler may reuse its ID, but not together with
    the account and the time of the submission.
    """

    scheduler_id: str
    account: str
    """Unix account that submitted it."""
    submitted_at: UtcTime


class OutsideLog(OutsideRun):
    """Log of a job from outside, whose path only the scheduler can name."""

    path: str
    """Path, or, of an array, the pattern of its tasks' paths (``core.jobs.log_pattern``)."""
    task: int | None = None
    """Index of the array's task whose log it is; None: no array."""
    seal: str | None = None
    """Proof of the broker that the scheduler named the path; None without a broker."""


class OutsideJob(OutsideRun):
    """The scheduler's record of one job from outside, or of all tasks of an array job together."""

    name: str
    state: JobState
    reason: TerminationReason | None = None
    pending_reason: str | None = None
    """Reason why the job waits, in plain words."""
    restart_count: int = 0
    exit_code: int | None = None
    signal: int | None = None
    nodes: tuple[str, ...] = ()
    partition: str | None = None
    priority: int | None = None
    started_at: UtcTime | None = None
    ended_at: UtcTime | None = None
    expected_start_at: UtcTime | None = None
    time_limit_s: int | None = None
    """None: the job has no limit, or the scheduler does not report it."""
    charged_account: str | None = None
    """Account of the scheduler's accounting, which may be a project."""
    resources: Resources = Resources()
    array: str | None = None
    """Indices of the array's tasks that the scheduler holds; None: no array."""
    tasks: Mapping[JobState, int] = Field(default_factory=dict)
    """Number of the array's tasks that the scheduler holds in each state."""
    command: str | None = None
    """Path of the batch script, or the command, as far as the scheduler keeps it."""
    workdir: str | None = None
    log: OutsideLog | None = None
    """None: it writes no log, or its name is not known yet."""
    raw: Mapping[str, Any] = Field(default_factory=dict)
    """The scheduler's own words, field by field."""


class OutsideAction(StrEnum):
    """Action on a job from outside, as its account."""

    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"


class OutsideJobs(Protocol):
    """Port to the jobs that users submitted past the platform. A scheduler that supports this has a
    class attribute ``outside``, which creates it from the settings and ``Tools``.

    Every method may raise ``SchedulerUnavailable``: the state of all jobs is then unknown.
    """

    async def list(self, accounts: Collection[str]) -> Sequence[OutsideJob]:
        """Return the jobs of these Unix accounts that the scheduler holds and that the platform did
        not submit, by one query for all accounts.

        Of each account ``MOST_OF_ACCOUNT`` live jobs at most, the oldest first, so that a job stays
        among them until it ends; and as many ended ones, the newest. All tasks of an array are one
        record.
        """
        ...

    async def ended(self, runs: Sequence[OutsideRun]) -> Sequence[OutsideJob]:
        """Return the records of those jobs among ``runs`` that have ended according to accounting.

        Raises:
            NotSupported: the scheduler has no accounting.
        """
        ...

    async def act(self, run: OutsideRun, action: OutsideAction) -> None:
        """Carry out the action as the job's account. A job that is unknown, has ended or belongs to
        another account is left alone without an error.

        Raises:
            SchedulerRejected: the scheduler does not permit it to the account.
        """
        ...

    async def read_log(self, log: OutsideLog, *, offset: int, limit: int) -> LogChunk:
        """Return up to ``limit`` bytes of the log from byte ``offset`` on, read as the job's
        account; a negative ``offset`` counts from the end. A log that does not exist is empty.

        Raises:
            NotAllowed: the path is not one that the scheduler named for this job.
            NotFound: the scheduler no longer knows how the task's log is named.
            Unavailable: the log exists and cannot be read.
        """
        ...

    async def close(self) -> None:
        """Release all resources; jobs are not affected."""
        ...


class OutsideScheduler(OutsideJobs, Protocol):
    """Port to the jobs of a scheduler, which the broker serves."""

    async def log_path(self, log: OutsideLog) -> str | None:
        """Return the path of the log; None if the task has not started.

        Raises:
            NotFound: the scheduler no longer knows how the task's log is named.
        """
        ...
