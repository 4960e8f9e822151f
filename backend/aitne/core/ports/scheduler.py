"""The scheduler: who decides where and when a job runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import UUID

from pydantic import Field

from aitne.core.models.base import Frozen, UtcTime
from aitne.core.models.node import Node
from aitne.core.models.resources import Resources
from aitne.core.states import JobState, TerminationReason


class SubmitRequest(Frozen):
    """Everything a scheduler needs to run one attempt of one job (or of all tasks of an array).

    ``files`` are written with mode 0600 into ``job_dir`` before the script can start: the agent's
    specification and the job's token. They are never put into the script or an argument.
    """

    job_id: UUID
    attempt: int
    owner: str
    project: str
    name: str
    script: str
    files: Mapping[str, bytes] = Field(default_factory=dict)
    job_dir: str
    """Absolute; the scheduler creates it with mode 0700. Script, log, fence and spool lie in it."""
    resources: Resources
    time_limit_s: int
    array: str | None = None
    after: tuple[str, ...] = ()
    """Scheduler ids that must complete with exit code 0 first (afterok)."""
    max_requeues: int = 0
    """How often the scheduler may itself start the job again after its node failed."""


class SchedulerJob(Frozen):
    """What a scheduler says of one job, or of one task of an array, in the platform's terms."""

    scheduler_id: str
    """For an array task ``<array id>_<index>``, as Slurm writes it."""
    job_id: UUID
    """Ours, as submitted: the identity. The scheduler's own ids may be reused."""
    attempt: int
    array_task_id: int | None = None
    state: JobState
    reason: TerminationReason | None = None
    pending_reason: str | None = None
    """Why it waits, in plain words."""
    restart_count: int = 0
    exit_code: int | None = None
    signal: int | None = None
    nodes: tuple[str, ...] = ()
    submitted_at: UtcTime | None = None
    started_at: UtcTime | None = None
    ended_at: UtcTime | None = None
    expected_start_at: UtcTime | None = None
    time_limit_s: int | None = None


class Scheduler(Protocol):
    """One file in ``adapters/schedulers`` fulfils this.

    Every method but ``start`` and ``close`` may raise ``SchedulerUnavailable``: nothing is then
    known about any job. Methods are safe to call concurrently.
    """

    name: str
    settle_s: float
    """How long after a submission without an answer the job may still turn up."""

    async def start(self) -> None:
        """Connect, re-attach to what already runs. Raises ``SetupError`` with what to do."""
        ...

    async def close(self) -> None:
        """Let go; running jobs go on."""
        ...

    async def submit(self, request: SubmitRequest) -> str:
        """Queue the job; its id in the scheduler (of the array as a whole for an array).

        Raises:
            SchedulerRejected: it will never be accepted in this form.
            SubmitUncertain: it may or may not have been queued; ``find`` tells.
        """
        ...

    async def find(self, job_id: UUID, attempt: int) -> Sequence[SchedulerJob]:
        """All that the scheduler holds, live or recently ended, for this UUID and attempt.

        An empty answer means the scheduler answered and has none. One row per array task.
        """
        ...

    async def poll(self) -> Sequence[SchedulerJob]:
        """ONE query for all jobs of the platform: live ones, and those that ended recently.

        Absence of a job proves nothing. One row per array task.
        """
        ...

    async def cancel(self, scheduler_id: str) -> None:
        """Ask it to end the job (or whole array, or task). Unknown or ended jobs are no error."""
        ...

    async def extend(self, scheduler_id: str, time_limit_s: int) -> None:
        """Set a new time limit, counted from the job's start.

        Raises:
            SchedulerRejected: the job does not run, or the limit is not allowed.
        """
        ...

    async def nodes(self) -> Sequence[Node]:
        """The nodes with what is in use on each. ONE query."""
        ...

    async def changed(self) -> None:
        """Return when something may have changed; a scheduler that cannot tell never returns."""
        ...
