"""The scheduler, which decides where and when a job runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Protocol
from uuid import UUID

from pydantic import Field

from aitne.core.errors import SetupError
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.base import Frozen, UtcTime
from aitne.core.models.job_options import SlurmOptions
from aitne.core.models.limits import HeldLimits, LimitUsage
from aitne.core.models.node import Cluster
from aitne.core.models.resources import Resources
from aitne.core.platform.registry import Registry


class SubmitRequest(Frozen):
    """Submission of one attempt of a job (of an array job: of all its tasks) to a scheduler.

    ``files`` are written into ``job_dir`` with mode 0600 before the script can start: the agent's
    specification and the job token. They never appear in the script or in an argument.
    """

    job_id: UUID
    attempt: int
    owner: str
    """Name of the job's user on the platform."""
    account: str | None = None
    """The Unix account to submit as; None: the platform's own."""
    project: str
    """Project of the job, and the scheduler's account unless ``slurm.account`` names another."""
    name: str
    session: bool = False
    script: str
    files: Mapping[str, bytes] = Field(default_factory=dict)
    job_dir: str
    """Absolute; the scheduler creates it with mode 0700. Script, log, fence and spool lie in it."""
    resources: Resources
    time_limit_s: int
    array: str | None = None
    after: tuple[str, ...] = ()
    """Scheduler ids that must complete with exit code 0 first (afterok)."""
    afterany: tuple[str, ...] = ()
    """Scheduler ids that must have ended first, in whatever state."""
    afternotok: tuple[str, ...] = ()
    """Scheduler ids that must have ended first without completing."""
    aftercorr: tuple[str, ...] = ()
    """Scheduler ids of arrays of which the task with the same index must complete before each task
    of this array starts."""
    begin_at: UtcTime | None = None
    """Earliest start."""
    hold: bool = False
    """Whether it waits until it is released."""
    max_requeues: int = 0
    """Number of times that the scheduler may itself requeue the job after its node failed."""
    slurm: SlurmOptions = SlurmOptions()


class Run(Frozen):
    """Identification of one attempt of a job, in queries and requests to the scheduler."""

    job_id: UUID
    """Id of the job; of the array job for an array's task."""
    attempt: int
    account: str | None = None
    """The Unix account that it runs as."""
    scheduler_id: str | None = None
    """ID that the scheduler gave; None while unknown. It does not identify the attempt alone,
    because the scheduler may reuse IDs.
    """


class SchedulerJob(Frozen):
    """The scheduler's record of one job or of several tasks of an array job, converted to the
    platform's terms.
    """

    scheduler_id: str
    """For an array task ``<array id>_<index>``, as Slurm writes it; for several tasks the
    array's."""
    job_id: UUID
    """The platform's id, as submitted, which identifies it. The scheduler may reuse its own ids."""
    attempt: int
    array_task_id: int | None = None
    array_task_ids: str | None = None
    """Indices of a record that stands for several tasks of an array, such as ``2-9,17``."""
    is_last_task: bool = False
    """Whether no other task of its array waits: a task that has no record has ended."""
    account: str | None = None
    """The Unix account that it runs as: a record of another account than the job's is not the
    job's. None: the scheduler runs everything as the platform's own."""
    state: JobState
    reason: TerminationReason | None = None
    pending_reason: str | None = None
    """Reason why the job waits, in plain words; for an ended job, the scheduler's details on
    ``reason``.
    """
    restart_count: int = 0
    exit_code: int | None = None
    signal: int | None = None
    nodes: tuple[str, ...] = ()
    partition: str | None = None
    priority: int | None = None
    submitted_at: UtcTime | None = None
    started_at: UtcTime | None = None
    ended_at: UtcTime | None = None
    expected_start_at: UtcTime | None = None
    time_limit_s: int | None = None
    raw: Mapping[str, Any] = Field(default_factory=dict)
    """The scheduler's own words, field by field."""


class Forecast(Frozen):
    """The scheduler's prediction of when and where a job would start if it were submitted now."""

    starts_at: UtcTime | None = None
    nodes: tuple[str, ...] = ()
    partition: str | None = None


class SchedulerCapabilities(Frozen):
    """Features of a scheduler adapter that do not depend on the site, known before the adapter is
    created.
    """

    title: str
    """Name of the scheduler inside a sentence, such as ``Slurm``."""
    remote: bool
    """Jobs run on other machines. Sessions then listen on addresses of their nodes, agents reach the
    portal over the network and are not trusted, nodes need the platform's software in a shared
    folder, and jobs continue while the platform's machine is down."""
    runs_as_users: bool
    """A job can run as the Unix account of its user. False: all jobs share the platform's account, except
    where the broker holds the scheduler."""
    shared: bool
    """Several processes may hold one at once; the API then queries it for forecasts."""
    drains: bool
    """``drain`` and ``resume`` are supported."""
    partitions: bool
    """Jobs run in partitions, whose limits are checked before a submission."""
    slurm_options: bool
    """``SubmitRequest.slurm``, which is the job file's ``slurm`` section, is applied."""
    limits: bool
    """The scheduler itself holds the limits of projects and members: it is a ``LimitHolder``. False:
    its accounting holds them, if it has one."""

    @property
    def trusted(self) -> bool:
        """True if jobs are processes of the platform's own account on its own machine: their agents are
        trusted and use the platform's own installation.
        """
        return not (self.remote or self.runs_as_users)


class Scheduler(Protocol):
    """Port to the scheduler. Each module in ``adapters/schedulers`` has one implementation, which
    is created with the settings and ``Tools``.

    Every method but ``start`` and ``close`` may raise ``SchedulerUnavailable``: the state of all
    jobs is then unknown. Methods are safe to call concurrently.

    An implementation may have three more class attributes: ``attacher`` and ``outside``, callables
    that take the settings and ``Tools`` and return an ``Attacher`` and ``OutsideJobs``, and
    ``accounting``, one that takes the settings and a ``Command`` and returns an ``Accounting``.
    """

    name: str
    settle_s: float
    """Seconds after a submission without an answer in which the job may still turn up."""

    @property
    def capabilities(self) -> SchedulerCapabilities:
        """Features that do not depend on the site; implementations have a class attribute
        instead.
        """
        ...

    async def start(self) -> Sequence[str]:
        """Connect to the scheduler; the ``local`` scheduler also resumes control of jobs that still
        run.

        Returns sentences for the administrator about what is missing or unusual. Raises
        ``SetupError``, whose message says what to do.
        """
        ...

    async def close(self) -> None:
        """Release all resources; running jobs continue."""
        ...

    async def submit(self, request: SubmitRequest) -> str:
        """Put the job into the scheduler's queue; return the ID that the scheduler gave to it, or
        to the array as a whole.

        Raises:
            SchedulerRejected: the scheduler will never accept the job in this form.
            SubmitUncertain: the job may or may not have been queued; ``find`` determines which.
            Unavailable: this job's files cannot be written; other jobs can be submitted meanwhile.
        """
        ...

    async def forecast(self, request: SubmitRequest) -> Forecast | None:
        """Return the prediction for ``request``, without submitting it, or None if the scheduler
        cannot predict it.

        Raises:
            SchedulerRejected: as ``submit`` would; ``field`` names the part of the job file.
        """
        ...

    async def find(self, runs: Sequence[Run]) -> Sequence[SchedulerJob]:
        """Return all records of these attempts, also of ended ones in accounting.

        An attempt without a record in the answer is unknown to the scheduler. Each task of an array
        has a record of its own. For a cancelled job ``pending_reason`` names the account that
        cancelled it, if the scheduler knows.
        """
        ...

    async def poll(self) -> Sequence[SchedulerJob]:
        """Return the records of all jobs of the platform that are live or ended recently, by one
        query.

        A missing job proves nothing. An array has one record for each task, or a common record for
        tasks that do not differ. A record that has not changed since the previous poll is the same
        object.
        """
        ...

    async def cancel(self, run: Run) -> None:
        """Request the end of a job, a whole array or one task. A job that is unknown, has ended, or
        has another name than the platform gave (a reused ID) is left alone without an error.
        """
        ...

    async def hold(self, run: Run) -> None:
        """Hold a waiting job, the waiting tasks of an array, or one task until it is released.

        Raises:
            SchedulerRejected: nothing of it waits, or the scheduler does not permit it.
        """
        ...

    async def release(self, run: Run) -> None:
        """Let what was held start again. What is not held stays as it is.

        Raises:
            SchedulerRejected: nothing of it waits, or the scheduler does not permit it.
        """
        ...

    async def throttle(self, run: Run, max_parallel: int | None) -> None:
        """Set how many tasks of the array may run at once; None: no limit. Running tasks continue.

        Raises:
            SchedulerRejected: no task of it waits, or the scheduler does not permit it.
        """
        ...

    async def extend(self, run: Run, time_limit_s: int) -> None:
        """Set a new time limit, counted from the job's start.

        Raises:
            SchedulerRejected: the job does not run, or the limit is not allowed.
        """
        ...

    async def cluster(self) -> Cluster:
        """Return the nodes with the resources in use on each, the partitions, and the other names
        that a job may specify, such as constraints.
        """
        ...

    async def drain(self, node: str, reason: str) -> None:
        """Drain the node, so that it starts no new jobs. Raises ``NotSupported``,
        ``SchedulerRejected``."""
        ...

    async def resume(self, node: str) -> None:
        """Return a drained node to service. Raises ``NotSupported``, ``SchedulerRejected``."""
        ...

    async def changed(self) -> None:
        """Wait until jobs or nodes may have changed, so that the caller polls at once. A scheduler
        that cannot detect changes never returns.
        """
        ...


class LimitHolder(Protocol):
    """Part of the port that a scheduler with the capability ``limits`` has too."""

    async def hold_limits(self, limits: HeldLimits) -> LimitUsage:
        """Apply these limits instead of those before, also after a restart; return them with what is
        in use of them. Running jobs continue; a job above a limit waits and its ``pending_reason``
        names the limit. ``submit`` rejects a job that could never run within the limits.

        Raises:
            SchedulerUnavailable: the limits could not be stored.
        """
        ...


SCHEDULERS: Registry[Scheduler] = Registry(
    "scheduler", "aitne.adapters.schedulers", "aitne.schedulers"
)


@cache
def scheduler_capabilities(name: str) -> SchedulerCapabilities:
    """Return the capabilities of the scheduler of that name; import its module.

    Raises:
        SetupError: there is no such scheduler, or its class states no capabilities.
    """
    capabilities = getattr(SCHEDULERS.get(name), "capabilities", None)
    if not isinstance(capabilities, SchedulerCapabilities):
        raise SetupError(
            f"The scheduler {name!r} has no class attribute `capabilities` of the type "
            "aitne.core.ports.scheduler.SchedulerCapabilities. Update the package that it comes from."
        )
    return capabilities
