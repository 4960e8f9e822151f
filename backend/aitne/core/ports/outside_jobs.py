"""Jobs that users submitted with the scheduler's own commands, such as sbatch. The platform
observes and never submits them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

from pydantic import Field

from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.base import Frozen, UtcTime
from aitne.core.models.resources import Resources
from aitne.core.ports.job_files import LogChunk

MOST_OF_ACCOUNT = 200
"""Maximum number of live jobs of one account in an answer, and also of ended ones."""


class OutsideRun(Frozen):
    """Identification of a job that was not submitted through the platform. The scheduler may reuse
    its ID, but not with the same account and submission time.
    """

    scheduler_id: str
    account: str
    """Name of the Unix account that submitted the job."""
    submitted_at: UtcTime


class OutsideLog(OutsideRun):
    """Log of a job that was not submitted through the platform; only the scheduler knows its
    path.
    """

    path: str
    """Path of the log; for an array, the pattern of its tasks' paths
    (``core.jobs.log_path_pattern``).
    """
    task: int | None = None
    """Index of the array's task whose log it is; None if the job is not an array."""
    seal: str | None = None
    """Signature of the broker which proves that the scheduler reported the path; None without a
    broker.
    """


class OutsideJob(OutsideRun):
    """Scheduler's record of a job that was not submitted through the platform, or of all tasks of
    such an array job together.
    """

    name: str
    state: JobState
    reason: TerminationReason | None = None
    pending_reason: str | None = None
    """Reason why the job is pending, as a text for users; None if there is none."""
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
    """Time limit in seconds; None: the job has no limit, or the scheduler does not report it."""
    charged_account: str | None = None
    """Account in the scheduler's accounting that is charged, which may be a project; None:
    unknown.
    """
    resources: Resources = Resources()
    array: str | None = None
    """Indices of those tasks of the array that the scheduler still has; None if the job is no
    array.
    """
    tasks: Mapping[JobState, int] = Field(default_factory=dict)
    """Number of those tasks of the array that the scheduler still has, in each state."""
    command: str | None = None
    """Path of the batch script, or the command; None if the scheduler does not report it."""
    workdir: str | None = None
    log: OutsideLog | None = None
    """Log of the job; None: it writes none, or its path is not known yet."""
    raw: Mapping[str, Any] = Field(default_factory=dict)
    """Values of the scheduler's record in its own terms, by field."""


class OutsideAction(StrEnum):
    """Action that the owner requests on a job that was not submitted through the platform; it is
    carried out under the job's account.
    """

    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"


class OutsideJobs(Protocol):
    """Port to the jobs that users submitted with the scheduler's own commands.

    A scheduler that supports this has a class attribute ``outside``, which creates the object from
    the settings and ``Tools``. Every method may raise ``SchedulerUnavailable``: the state of all
    jobs is then unknown.
    """

    async def list_jobs(self, accounts: Collection[str]) -> Sequence[OutsideJob]:
        """Return the jobs of these Unix accounts that the scheduler has and that were not submitted
        through the platform, with one query for all accounts.

        For each account, the answer contains at most ``MOST_OF_ACCOUNT`` live jobs, the oldest
        ones, so that a job stays in it until it ends; and at most as many ended jobs, the newest
        ones. All tasks of an array have one common record.
        """
        ...

    async def find_ended_jobs(self, runs: Sequence[OutsideRun]) -> Sequence[OutsideJob]:
        """Return the records of those jobs among ``runs`` that have ended according to accounting.

        Raises:
            NotSupported: the scheduler has no accounting.
        """
        ...

    async def perform_action(self, run: OutsideRun, action: OutsideAction) -> None:
        """Carry out the action under the job's account. Does nothing if the job is unknown, has
        ended or belongs to another account.

        Raises:
            SchedulerRejected: the scheduler does not permit the action to the account.
        """
        ...

    async def read_log(self, log: OutsideLog, *, offset: int, limit: int) -> LogChunk:
        """Return up to ``limit`` bytes of the log from byte ``offset`` on, read under the job's
        account.

        A negative ``offset`` counts from the end. A log that does not exist counts as empty.

        Raises:
            NotAllowed: the path is not one that the scheduler reported for this job.
            NotFound: the scheduler no longer knows the path of the task's log.
            Unavailable: the log exists and cannot be read.
        """
        ...

    async def close(self) -> None:
        """Release all resources; jobs are not affected."""
        ...


class OutsideScheduler(OutsideJobs, Protocol):
    """Port to the jobs of a scheduler that were not submitted through the platform, as the broker
    uses it.
    """

    async def find_log_path(self, log: OutsideLog) -> str | None:
        """Return the path of the log; None if the task has not started.

        Raises:
            NotFound: the scheduler no longer knows the path of the task's log.
        """
        ...
