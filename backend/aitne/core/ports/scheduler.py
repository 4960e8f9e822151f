"""Scheduler, which decides where and when a job runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Protocol
from uuid import UUID

from pydantic import Field

from aitne.core.errors import SetupError
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.base import Frozen, UtcTime
from aitne.core.models.cluster import Cluster
from aitne.core.models.common_job_fields import SlurmOptions
from aitne.core.models.limits import HeldLimits, LimitUsage
from aitne.core.models.placement import NodeName
from aitne.core.models.resources import Resources
from aitne.core.platform.plugin_registry import Registry


class SubmitRequest(Frozen):
    """Submission of one attempt of a job (of an array job: of all its tasks) to a scheduler.

    ``files`` are written into ``job_dir`` with the modes of ``layout.get_file_mode`` before the
    script can start: the agent's specification and the job token. They never appear in the script or
    in an argument.
    """

    job_id: UUID
    attempt: int
    owner: str
    """Name of the job's user on the platform."""
    account: str | None = None
    """Unix account under which the job is submitted; None: the platform's own."""
    project: str
    """Project of the job. It is also the scheduler's account, unless ``slurm.account`` contains
    another one.
    """
    name: str
    session: bool = False
    script: str
    files: Mapping[str, bytes] = Field(default_factory=dict)
    job_dir: str
    """Absolute path of the job folder, which the scheduler creates with mode 0700. It contains
    script, log, fence and spool.
    """
    resources: Resources
    time_limit_s: int
    """Time limit in seconds: what is requested, or what the scheduler is expected to apply."""
    default_time_limit: bool = False
    """Whether no time limit is requested, so that the scheduler decides."""
    array: str | None = None
    after: tuple[str, ...] = ()
    """Scheduler IDs of jobs that must complete with exit code 0 before this one starts
    (afterok).
    """
    afterany: tuple[str, ...] = ()
    """Scheduler IDs of jobs that must end before this one starts, in any state."""
    afternotok: tuple[str, ...] = ()
    """Scheduler IDs of jobs that must end without completing before this one starts."""
    aftercorr: tuple[str, ...] = ()
    """Scheduler IDs of arrays: each task of this array starts after the task with the same index
    there has completed.
    """
    begin_at: UtcTime | None = None
    """Earliest time at which the job may start; None: at once."""
    hold: bool = False
    """Whether the job is held until it is released."""
    max_requeues: int | None = 0
    """Number of times that the scheduler may itself requeue the job after its node failed; None: it
    decides (Slurm's JobRequeue).
    """
    nodes: tuple[NodeName, ...] = ()
    """Names of nodes that the job must run on."""
    exclude: tuple[NodeName, ...] = ()
    """Names of nodes that the job must not run on."""
    max_leaves: int | None = Field(None, ge=1)
    """Maximum number of leaves of the network that the nodes are to be on; None: any."""
    max_leaves_wait_s: int | None = Field(None, ge=0)
    """Time in seconds for which the job waits for ``max_leaves``, and then starts on more leaves; None:
    as long as the scheduler permits.
    """
    node_paths: Mapping[str, tuple[str, ...]] | None = None
    """Switches above each node, from the root to the leaf, for a scheduler that does not know them;
    None: they are not known, or not needed.
    """
    slurm: SlurmOptions = SlurmOptions()
    command: tuple[str, ...] = ()
    """Path of the batch script that the job runs a copy of, and its arguments, which the scheduler
    shows with the job where it can; empty: there is none.
    """


class Run(Frozen):
    """Identification of one attempt of a job, in queries and requests to the scheduler."""

    job_id: UUID
    """ID of the job; for an array task, the ID of its array job."""
    attempt: int
    account: str | None = None
    """Unix account under which the job runs; None: the platform's own."""
    scheduler_id: str | None = None
    """ID that the scheduler assigned; None if it is not known yet. It is not sufficient to identify
    the attempt, because the scheduler may reuse IDs.
    """


class SchedulerJob(Frozen):
    """The scheduler's record of one job or of several tasks of an array job, converted to the
    platform's terms.
    """

    scheduler_id: str
    """ID in the scheduler. For an array task it is ``<array id>_<index>``, as in Slurm; for several
    tasks, the ID of the array.
    """
    job_id: UUID
    """ID of the job on the platform, which was submitted with the job. It identifies the job,
    because the scheduler may reuse its own IDs.
    """
    attempt: int
    array_task_id: int | None = None
    array_task_ids: str | None = None
    """Indices of a record that covers several tasks of an array, such as ``2-9,17``; None for all
    other records.
    """
    is_last_task: bool = False
    """Whether no other task of its array is pending: a task without a record has then ended."""
    account: str | None = None
    """Unix account under which the job runs. If it is not the account of the job, the record does
    not belong to the job. None: the scheduler runs all jobs under the platform's own account.
    """
    state: JobState
    reason: TerminationReason | None = None
    pending_reason: str | None = None
    """Reason why the job is pending, as a text for users; for an ended job, details of the
    scheduler about ``reason``.
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
    """Values of the scheduler's record in its own terms, by field."""


class Forecast(Frozen):
    """Prediction of the scheduler for a job that would be submitted now."""

    starts_at: UtcTime | None = None
    """Expected start time; None: unknown."""
    nodes: tuple[str, ...] = ()
    """Nodes on which the job would start; empty: unknown."""
    partition: str | None = None
    """Partition in which the job would start; None: unknown."""


class SchedulerCapabilities(Frozen):
    """Features of a scheduler adapter that do not depend on the site, known before the adapter is
    created.
    """

    title: str
    """Name of the scheduler for use in a sentence, such as ``Slurm``."""
    remote: bool
    """Whether jobs run on other machines.

    Sessions then listen on addresses of their nodes, agents reach the API over the network and are
    not trusted, nodes need the platform's software in a shared folder, and jobs continue while the
    platform's machine is down.
    """
    runs_as_users: bool
    """Whether a job can run under the Unix account of its user. False: all jobs run under the
    platform's account, unless the broker runs the scheduler.
    """
    shared: bool
    """Whether several processes may use the scheduler at the same time; the API then queries it for
    forecasts.
    """
    drains: bool
    """Whether ``drain`` and ``resume`` are supported."""
    partitions: bool
    """Whether jobs run in partitions, whose limits are checked before a submission."""
    slurm_options: bool
    """Whether ``SubmitRequest.slurm``, the ``slurm`` section of the job file, has an effect."""
    limits: bool
    """Whether the scheduler itself enforces the limits of projects and members, and so is a
    ``LimitHolder``. False: it takes them from its accounting, if it has one.
    """
    decides_amounts: bool = False
    """Whether the scheduler has defaults of its own for the memory, time limit and requeues of jobs
    that request none; see ``QueueDefaults``.
    """
    topology: bool = False
    """Whether the scheduler knows the switches between its nodes, and so is a
    ``TopologyReporter``.
    """

    @property
    def trusts_agents(self) -> bool:
        """True if jobs are processes of the platform's own account on its own machine: their agents
        are then trusted and use the platform's own installation.
        """
        return not (self.remote or self.runs_as_users)


class Scheduler(Protocol):
    """Port to the scheduler. Each module in ``adapters/schedulers`` has one implementation, which
    is created with the settings and ``Tools``.

    Every method except ``start`` and ``close`` may raise ``SchedulerUnavailable``: the state of all
    jobs is then unknown. Methods may be called concurrently.

    An implementation may have three further class attributes: ``attacher`` and ``outside``,
    functions of the settings and ``Tools`` that return an ``Attacher`` and ``OutsideJobs``, and
    ``accounting``, a function of the settings and a ``Command`` that returns an ``Accounting``.
    """

    name: str
    settle_s: float
    """Seconds after a submission without an answer in which the job may still appear in the
    scheduler.
    """

    @property
    def capabilities(self) -> SchedulerCapabilities:
        """Features that this adapter supports, whatever the configuration of the site. An adapter
        may define them as a class attribute instead of a property.
        """
        ...

    async def start(self) -> Sequence[str]:
        """Connect to the scheduler; the ``local`` scheduler also resumes control of running jobs.

        Returns sentences for the administrator about missing or unusual settings. Raises
        ``SetupError``, whose message says what to do.
        """
        ...

    async def close(self) -> None:
        """Release all resources; running jobs continue."""
        ...

    async def submit(self, request: SubmitRequest) -> str:
        """Submit the job; return the ID that the scheduler has assigned to it or, for an array, to
        the array as a whole.

        Raises:
            SchedulerRejected: the scheduler will never accept the job in this form.
            SubmitUncertain: the job may or may not have been queued; ``find_records`` determines which.
            Unavailable: this job's files cannot be written; other jobs can be submitted meanwhile.
        """
        ...

    async def forecast(self, request: SubmitRequest) -> Forecast | None:
        """Return the prediction for ``request`` without submitting it; None if the scheduler cannot
        predict it.

        Raises:
            SchedulerRejected: ``submit`` would raise it too; ``field`` names the part of the job
                file.
        """
        ...

    async def find_records(self, runs: Sequence[Run]) -> Sequence[SchedulerJob]:
        """Return all records of these attempts, including those of ended attempts in accounting.

        The scheduler has no record of an attempt that is missing in the answer. Each task of an
        array has its own record. For a cancelled job, ``pending_reason`` names the account that
        cancelled it, if known.
        """
        ...

    async def poll(self) -> Sequence[SchedulerJob]:
        """Return the records of all jobs of the platform that are live or ended recently, with one
        query.

        A missing record does not prove that the job has ended. An array has one record for each
        task, or one common record for several tasks that do not differ. If a record has not changed
        since the previous poll, the same Python object is returned.
        """
        ...

    async def cancel(self, run: Run) -> None:
        """Request the cancellation of a job, a whole array or one task.

        Does nothing if the job is unknown, has ended, or has another name than the platform gave it
        (the ID was reused).
        """
        ...

    async def hold(self, run: Run) -> None:
        """Hold a pending job, the pending tasks of an array, or one task, until it is released.

        Raises:
            SchedulerRejected: neither the job nor a task of it is pending, or the scheduler does
                not permit it.
        """
        ...

    async def release(self, run: Run) -> None:
        """Release a held job, the held tasks of an array, or one task; others are not changed.

        Raises:
            SchedulerRejected: neither the job nor a task of it is pending, or the scheduler does
                not permit it.
        """
        ...

    async def throttle(self, run: Run, max_parallel: int | None) -> None:
        """Set the maximum number of tasks of the array that run at once; None: no limit. Running
        tasks continue.

        Raises:
            SchedulerRejected: no task of the array is pending, or the scheduler does not permit it.
        """
        ...

    async def extend(self, run: Run, time_limit_s: int) -> None:
        """Set a new time limit in seconds, counted from the job's start.

        Raises:
            SchedulerRejected: the job does not run, or the limit is not permitted.
        """
        ...

    async def read_cluster(self) -> Cluster:
        """Return the nodes with the resources in use on each, the partitions, and the other names
        that a job may specify, such as constraints.
        """
        ...

    async def drain(self, node: str, reason: str) -> None:
        """Drain the node, so that it starts no new jobs.

        Raises ``NotSupported``, or ``SchedulerRejected`` if the scheduler refuses.
        """
        ...

    async def resume(self, node: str) -> None:
        """Return a drained node to service.

        Raises ``NotSupported``, or ``SchedulerRejected`` if the scheduler refuses.
        """
        ...

    async def wait_for_change(self) -> None:
        """Wait until jobs or nodes may have changed, so that the caller can poll at once.

        A scheduler that cannot detect changes never returns.
        """
        ...


class LimitHolder(Protocol):
    """Additional interface of a scheduler with the capability ``limits``."""

    async def set_limits(self, limits: HeldLimits) -> LimitUsage:
        """Replace the limits that the scheduler enforces, also after a restart; return them with
        their current use.

        Running jobs continue; a job that exceeds a limit stays pending, with the limit in its
        ``pending_reason``. ``submit`` rejects a job that could never run within the limits.

        Raises:
            SchedulerUnavailable: the limits could not be stored.
        """
        ...


class TopologyReporter(Protocol):
    """Additional interface of a scheduler with the capability ``topology``."""

    async def read_topology(self) -> str:
        """Return the switches or blocks that the scheduler uses, as ``scontrol show topology`` of
        Slurm prints them; a text without switches if it uses none.

        Raises:
            SchedulerUnavailable: the scheduler does not answer.
        """
        ...


SCHEDULERS: Registry[Scheduler] = Registry(
    "scheduler", "aitne.adapters.schedulers", "aitne.schedulers"
)


@cache
def get_scheduler_capabilities(name: str) -> SchedulerCapabilities:
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
