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
from aitne.core.models.node import Cluster
from aitne.core.models.resources import Resources
from aitne.core.platform.registry import Registry


class SubmitRequest(Frozen):
    """Everything a scheduler needs to run one attempt of one job (or of all tasks of an array).

    ``files`` are written with mode 0600 into ``job_dir`` before the script can start: the agent's
    specification and the job's token. They are never put into the script or an argument.
    """

    job_id: UUID
    attempt: int
    owner: str
    """The portal user."""
    account: str | None = None
    """The Unix account to submit as; None: the platform's own."""
    project: str
    """Also the scheduler's account, unless ``slurm.account`` names another."""
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
    max_requeues: int = 0
    """Number of times that the scheduler may itself requeue the job after its node failed."""
    slurm: SlurmOptions = SlurmOptions()


class Run(Frozen):
    """One attempt of one job, for queries and actions."""

    job_id: UUID
    """Id of the job; of the array job for an array's task."""
    attempt: int
    account: str | None = None
    """The Unix account that it runs as."""
    scheduler_id: str | None = None
    """None while it is not known. Never enough by itself: the scheduler may reuse ids."""


class SchedulerJob(Frozen):
    """Record of a scheduler about one job, or about tasks of an array, in the platform's terms."""

    scheduler_id: str
    """For an array task ``<array id>_<index>``, as Slurm writes it; for several tasks the
    array's."""
    job_id: UUID
    """The platform's id, as submitted, which identifies it. The scheduler may reuse its own ids."""
    attempt: int
    array_task_id: int | None = None
    array_task_ids: str | None = None
    """Indices of a record that stands for several tasks of an array, such as ``2-9,17``."""
    account: str | None = None
    """The Unix account that it runs as: a record of another account than the job's is not the
    job's. None: the scheduler runs everything as the platform's own."""
    state: JobState
    reason: TerminationReason | None = None
    pending_reason: str | None = None
    """Reason why it waits, in plain words; for an ended one, the scheduler's details beside the
    reason."""
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
    """Prediction of the scheduler for a job that is not submitted."""

    starts_at: UtcTime | None = None
    nodes: tuple[str, ...] = ()
    partition: str | None = None


class SchedulerCapabilities(Frozen):
    """Properties of a scheduler that are the same at every site, read before it is created."""

    title: str
    """Name of the scheduler inside a sentence, such as ``Slurm``."""
    remote: bool
    """Jobs run on other machines. Sessions then listen on addresses of their nodes, agents reach the
    portal over the network and are not trusted, nodes need the platform's software in a shared
    folder, and jobs continue while the platform's machine is down."""
    runs_as_users: bool
    """A job can run as the Unix account of its user. False: all jobs share the platform's account."""
    shared: bool
    """Several processes may hold one at once; the API then queries it for forecasts."""
    drains: bool
    """``drain`` and ``resume`` are supported."""
    partitions: bool
    """Jobs run in partitions, whose limits are checked before a submission."""
    slurm_options: bool
    """``SubmitRequest.slurm``, which is the job file's ``slurm`` section, is applied."""


class Scheduler(Protocol):
    """Scheduler of jobs. Each file in ``adapters/schedulers`` has one, made with the settings and
    ``Tools``.

    Every method but ``start`` and ``close`` may raise ``SchedulerUnavailable``: nothing is then
    known about any job. Methods are safe to call concurrently.

    A class may have two more attributes: ``attacher``, a callable that takes the settings and
    ``Tools`` and returns an ``Attacher``, and ``accounting``, one that takes the settings and a
    ``Command`` and returns an ``Accounting``.
    """

    name: str
    settle_s: float
    """Seconds after a submission without an answer in which the job may still turn up."""

    @property
    def capabilities(self) -> SchedulerCapabilities:
        """Properties that are the same at every site; an attribute of the class."""
        ...

    async def start(self) -> Sequence[str]:
        """Connect, and attach again to running jobs.

        Returns sentences for the administrator who starts the platform (what is missing or
        unusual). Raises ``SetupError`` with what to do.
        """
        ...

    async def close(self) -> None:
        """Release all resources; running jobs continue."""
        ...

    async def submit(self, request: SubmitRequest) -> str:
        """Queue the job; return its id in the scheduler (of the array as a whole for an array).

        Raises:
            SchedulerRejected: the scheduler will never accept the job in this form.
            SubmitUncertain: the job may or may not have been queued; ``find`` determines which.
            Unavailable: the job's own files cannot be written; other jobs need not wait for that.
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
        """Return all that the scheduler holds, live or ended (accounting included), for these
        attempts.

        An empty answer means the scheduler answered and has none. One row per array task. Of a
        cancelled one ``pending_reason`` names the account that cancelled it, where the scheduler
        knows.
        """
        ...

    async def poll(self) -> Sequence[SchedulerJob]:
        """Return all jobs of the platform by ONE query: live ones, and those that ended recently.

        Absence of a job proves nothing. One record per array task, or one for several tasks of an
        array that have nothing of their own. A record that has not changed since the poll before is
        the very same object.
        """
        ...

    async def cancel(self, run: Run) -> None:
        """Request the end of the job (or whole array, or task). Unknown or ended jobs are no error,
        and a job of another name that now has the id is left alone."""
        ...

    async def extend(self, run: Run, time_limit_s: int) -> None:
        """Set a new time limit, counted from the job's start.

        Raises:
            SchedulerRejected: the job does not run, or the limit is not allowed.
        """
        ...

    async def cluster(self) -> Cluster:
        """Return the nodes with what is in use on each, partitions, and the names that a job may
        use."""
        ...

    async def drain(self, node: str, reason: str) -> None:
        """Drain the node, so that it starts no new jobs. Raises ``NotSupported``,
        ``SchedulerRejected``."""
        ...

    async def resume(self, node: str) -> None:
        """Return a drained node to service. Raises ``NotSupported``, ``SchedulerRejected``."""
        ...

    async def changed(self) -> None:
        """Return when something may have changed; a scheduler that cannot tell never returns."""
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
