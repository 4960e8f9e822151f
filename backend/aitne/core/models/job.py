"""Jobs and sessions: the resolved specification, the record, the plan."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar
from uuid import UUID

from pydantic import Field

from aitne.core.jobs.arrays import task_id
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.base import (
    Frozen,
    MemoryBytes,
    Seconds,
    Strict,
    UserName,
    UtcTime,
    deprecated_copy,
)
from aitne.core.models.dataset import DatasetUse
from aitne.core.models.image import ImageUse
from aitne.core.models.job_options import DistributedOptions, JobOptions
from aitne.core.models.resources import Resources
from aitne.core.models.storage import Area
from aitne.core.models.sweep import SweepSpec
from aitne.core.models.tree import TreeUse

Scalar = str | int | float | bool
"""A template parameter's value."""


class JobType(StrEnum):
    """Type of a job: a batch job ends by itself; a session has apps in which its owner works."""

    JOB = "job"
    SESSION = "session"


class JobOrigin(StrEnum):
    """Way by which a job was submitted: through the platform, or past it with the scheduler's own
    commands.
    """

    PLATFORM = "platform"
    OUTSIDE = "outside"


class DistributedSpec(DistributedOptions, Frozen):
    """Distribution of a job's program over ranks: ``DistributedFile`` with all defaults
    filled in.
    """

    ranks_per_node: int = Field(1, ge=1)
    """Programs on each node."""


class Readiness(Frozen):
    """Check by which the agent detects that an app answers: any HTTP response below 500 on
    ``path``."""

    path: str = "/"
    """Path of the request, below the app's base URL."""
    timeout_s: int = Field(120, ge=1, le=3_600)
    """Seconds until an app that does not answer counts as failed."""


class AppSpec(Frozen):
    """An app of a session. The first one is the program that listens on a port; the others are
    further pages of that program.

    ``kind`` names what starts the app: ``jupyterhub`` is the single-user server, which gets its
    environment from JupyterHub.
    """

    name: str
    title: str
    icon: str = "notebook"
    """A name from the portal's icon set."""
    optional: bool = False
    """An image need not have it; the session is then without."""
    kind: str = "jupyterhub"
    """Starter of the app, such as ``jupyterhub``."""
    path: str = "/lab"
    """Path to which Open leads, below the app's base URL."""
    readiness: Readiness = Readiness()
    """Check that decides whether it answers."""


class RetryPolicy(Frozen):
    """Conditions and number of retries of a job: ``RetryFile`` with all defaults filled in. The
    default permits no retry.
    """

    max: int = 0
    """Maximum number of retries."""
    on: frozenset[TerminationReason] = frozenset()
    """Termination reasons after which it runs again."""


class HeldBy(Frozen):
    """Components that enforce the job's limits of memory and CPUs beside the scheduler: the runtime
    or the agent.
    """

    runtime: bool = False
    """The container runtime holds it."""
    agent_memory: bool = False
    """The agent ends it when it takes more memory."""
    agent_cpus: bool = False
    """The agent binds it to its CPUs."""


class JobDescription(JobOptions, Frozen):
    """Resolved fields of a job that the API shows; ``JobSpec`` and ``JobView`` inherit them."""

    template: str | None = None
    template_version: str | None = None
    parameters: dict[str, Scalar] = Field(default_factory=dict)
    image: str = "bare"
    """``bare``, ``name:version``, or the path of an image of the owner's own."""
    runtime: str = Field("bare", description="Runtime that starts the image; bare without one.")
    datasets: tuple[DatasetUse, ...] = Field((), description="Dataset versions that it reads.")
    commands: tuple[str, ...] = ()
    distributed: DistributedSpec | None = Field(
        None, description="How its ranks are started; null: it has no ranks."
    )
    env: dict[str, str] = Field(default_factory=dict)
    """The user's variables and the template's ``AITNE_PARAM_*``; never a secret."""
    workdir: str | None = None
    tree: TreeUse | None = Field(
        None, description="Uploaded tree in which it runs; null: it has none."
    )
    resources: Resources = Resources()
    max_duration_s: int = 3_600
    """Time limit in seconds, after which the job is ended."""
    inactivity_duration_s: int | None = Field(
        None, description="Sessions: time without activity after which it ends; null: none."
    )
    retry: RetryPolicy = RetryPolicy()
    """Conditions under which a new attempt starts by itself."""
    array: str | None = None
    """Indices of an array job's tasks, such as ``0-9%2``; None: not an array job."""
    sweep: SweepSpec | None = Field(
        None, description="Parameter settings of its tasks; null: no sweep."
    )
    continues: UUID | None = Field(
        None, description="Sessions: the ended session that it continues."
    )


class JobSpec(JobDescription):
    """Resolved job: template expanded, defaults filled in, limits checked."""

    type: JobType
    name: str
    project: str
    image_use: ImageUse | None = None
    """None: the node as it is."""
    home: str | None = None
    """The home folder of the account that it runs as; None in records from before there were
    images."""
    areas: tuple[Area, ...] = ()
    """The owner's other folders, and the project's."""
    caches: str | None = None
    """Folder for caches instead of home."""
    apps: tuple[AppSpec, ...] = ()
    """The programs that a session serves."""
    held_by: HeldBy = HeldBy()
    """Components that enforce its memory and CPUs beside the scheduler."""
    lineage: UUID | None = None
    """First session of a chain of sessions that continue one another, which all share its
    workspace."""


class JobStatus(Frozen):
    """Fields of a job's record that the API shows; ``Job`` and ``JobView`` inherit them."""

    id: UUID
    type: JobType
    """Batch job or session."""
    name: str
    owner: UserName
    project: str
    cluster: str = "local"
    origin: JobOrigin = Field(
        JobOrigin.PLATFORM,
        description="outside: submitted with the scheduler's own commands, such as sbatch, past "
        "the platform.",
    )
    state: JobState
    reason: TerminationReason | None = Field(
        None, description="Why it ended, or why the platform is ending it."
    )
    message: str | None = Field(None, description="Why it waits or why it ended, as a sentence.")
    attempt: int = 1
    """Counted from 1; a retry by the platform is the next one."""
    restart_count: int = 0
    """Number of restarts of this attempt by the scheduler itself (Slurm's SLURM_RESTART_COUNT)."""
    exit_code: int | None = None
    """Exit code of the program; None: none yet, or a signal ended it."""
    signal: int | None = None
    """Number of the signal that ended the program; None: none did."""
    nodes: tuple[str, ...] = ()
    """Names of the nodes on which the job runs or ran."""
    account: str | None = Field(
        None, description="Unix account under which it runs; null: the platform's own."
    )
    partition: str | None = Field(None, description="Partition that the scheduler chose.")
    priority: int | None = Field(
        None, description="Priority in the queue while it waits; higher is sooner."
    )
    array_job_id: UUID | None = None
    """For an array task: its array job."""
    array_task_id: int | None = None
    """For an array task: its index."""
    scheduler_id: str | None = None
    """Id of the job in the scheduler."""
    log_path: str | None = Field(
        None,
        description="Path of the log of a job from outside, of an array with wildcards such as %a "
        "(the task's index); null: it has none, or the platform keeps the log.",
    )
    created_at: UtcTime
    submitted_at: UtcTime | None = None
    """Time at which the scheduler accepted the job."""
    allocated_at: UtcTime | None = None
    """Time at which the scheduler gave it nodes."""
    started_at: UtcTime | None = None
    """Time at which the agent started the user's program."""
    ready_at: UtcTime | None = None
    """For sessions: time at which the app answered."""
    ended_at: UtcTime | None = None
    expires_at: UtcTime | None = None
    """Time at which its time limit ends; None: not yet known."""
    expected_start_at: UtcTime | None = None
    """Start time that the scheduler expects; None: unknown."""
    idle_ends_at: UtcTime | None = Field(
        None, description="Time at which it ends unless it is used again; null: not soon."
    )
    gpu_idle_since: UtcTime | None = Field(
        None,
        description="Time since which its GPUs have been almost idle; null: they are not.",
    )
    url: str | None = Field(None, description="Sessions: URL of the default app, once READY.")
    folder_bytes: int | None = Field(
        None,
        description="Disk space of the job folder, measured when the job ended; null: not measured.",
    )
    folder_files: int | None = Field(
        None,
        description="Files and folders in the job folder, itself included, measured when the job "
        "ended; null: not measured.",
    )
    delete_requested_at: UtcTime | None = Field(
        None, description="Time from which the job is being deleted; null: it is not."
    )
    delete_problem: str | None = Field(
        None, description="Why the job folder could not be removed yet, as a sentence."
    )
    version: int = Field(
        1, description="Number that grows with every change: the ETag, and the optimistic lock."
    )


class Job(JobStatus):
    """One job, session or array task as the store holds it.

    An array job is a row of its own (``spec.array`` set, ``array_task_id`` None) above the rows of
    its tasks (``array_job_id`` set); only the tasks run. Tasks of which nothing differs but the
    index share one row, a task group (``array_task_ids`` set), until something happens to one of
    them.
    """

    spec: JobSpec
    folder: str | None = None
    """Folder of script, log, fence and outcome, one folder per attempt below it; of an array's
    task, the array job's. None: below the platform's own jobs directory."""
    scheduler_record: dict[str, Any] | None = None
    """The scheduler's own record of it at its last change."""
    address: str | None = None
    """Listening address of the session's app: ``host:port``, reported by the agent."""
    cancel_requested_at: UtcTime | None = None
    array_task_ids: str | None = None
    """Indices of a task group's tasks, such as ``2-9,17``."""
    log_seal: str | None = None
    """Proof of the broker that the scheduler named ``log_path``."""

    @property
    def is_outside(self) -> bool:
        """Return whether it was submitted past the platform, which only observes it."""
        return self.origin is JobOrigin.OUTSIDE

    @property
    def begins_at(self) -> datetime | None:
        """Return the earliest time at which the job may start; None if it sets none."""
        begin = self.spec.begin
        return self.created_at + timedelta(seconds=begin) if isinstance(begin, int) else begin

    @property
    def is_array(self) -> bool:
        """Return whether this row is an array job, which does not run itself."""
        top_level = self.array_task_id is None and self.array_task_ids is None
        return self.spec.array is not None and top_level

    @property
    def is_task_group(self) -> bool:
        """Return whether this row stands for several tasks of an array."""
        return self.array_task_ids is not None

    def task(self, index: int) -> Job:
        """Return one task of this task group as it would be in a row of its own."""
        if self.array_job_id is None:
            raise ValueError(f"job {self.id} is no task group")
        fields = {
            "id": task_id(self.array_job_id, index),
            "array_task_id": index,
            "array_task_ids": None,
            "scheduler_id": self.scheduler_id and f"{self.scheduler_id}_{index}",
        }
        return self.model_copy(update=fields)

    @property
    def attachable(self) -> bool:
        """Return whether its owner can attach a terminal beside its program now."""
        open_ = self.state in (JobState.STARTING, JobState.RUNNING, JobState.READY)
        return open_ and bool(self.nodes) and not self.is_array and not self.is_outside


class JobChanges(Strict):
    """The fields a transition may set beside the state; what is not set stays as it is."""

    scheduler_id: str | None = None
    attempt: int | None = None
    restart_count: int | None = None
    reason: TerminationReason | None = None
    message: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    nodes: tuple[str, ...] | None = None
    partition: str | None = None
    priority: int | None = None
    scheduler_record: dict[str, Any] | None = None
    address: str | None = None
    url: str | None = None
    cancel_requested_at: UtcTime | None = None
    submitted_at: UtcTime | None = None
    allocated_at: UtcTime | None = None
    started_at: UtcTime | None = None
    ready_at: UtcTime | None = None
    ended_at: UtcTime | None = None
    expires_at: UtcTime | None = None
    expected_start_at: UtcTime | None = None
    idle_ends_at: UtcTime | None = None
    gpu_idle_since: UtcTime | None = None
    log_path: str | None = None
    log_seal: str | None = None


class ResubmitOptions(Strict):
    """Changes to a job that is submitted again; what is not set stays as it was."""

    memory: MemoryBytes | None = Field(None, description="Memory on each node, such as 16G.")
    max_duration: Seconds | None = Field(None, description="Time limit, such as 4h.")

    def applied(self, spec: JobSpec) -> JobSpec:
        """Return the specification with these changes."""
        changes: dict[str, Any] = {}
        if self.memory is not None:
            memory = {"memory_bytes": self.memory}
            changes["resources"] = spec.resources.model_copy(update=memory)
        if self.max_duration is not None:
            changes["max_duration_s"] = self.max_duration
        return spec.model_copy(update=changes)


class JobFilter(Frozen):
    """Filter for lists of jobs; without any field set, it matches all jobs that the actor
    may see.
    """

    owner: str | None = None
    project: str | None = None
    type: JobType | None = None
    origin: JobOrigin | None = None
    states: frozenset[JobState] = frozenset()
    name_contains: str | None = None
    array_job_id: UUID | None = None
    top_level_only: bool = False
    """Leave array tasks out (their array job stands for them)."""
    template: str | None = None
    image: str | None = None
    """``name``, of any version, or ``name:version``."""
    node: str | None = None
    created_from: UtcTime | None = None
    created_before: UtcTime | None = None
    min_gpus: int | None = None
    """On all its nodes together."""
    gpu_type: str | None = None
    array: bool | None = None
    """True: only array jobs; False: none of them."""


class Plan(Frozen):
    """Job as it would be submitted, shown before the submission: nothing is stored."""

    spec: JobSpec
    """The job as it would be made."""
    fits: bool
    """Whether the cluster, empty, could ever run it."""
    starts_now: bool
    """Whether the resources are free at this moment."""
    pending_reason: str | None = None
    """Reason why it does not start now, in plain words."""
    warnings: tuple[str, ...] = ()
    """Warnings that deserve attention, as sentences."""
    expected_start_at: UtcTime | None = None
    """Time at which the scheduler plans to start it; None: it gives none."""
    enforcement: tuple[str, ...] = ()
    """Components that enforce its memory and its CPUs, a sentence each."""
    script: str
    """The exact batch script."""
    settings: tuple[dict[str, Scalar], ...] = ()
    """Settings of a sweep's tasks, by index."""
    limits: ClassVar = deprecated_copy("enforcement", tuple[str, ...])
    waits_for: ClassVar = deprecated_copy("pending_reason", str | None)


class Sample(Frozen):
    """Measurement of the resource use of a job's processes on one node, at one time."""

    time: UtcTime
    node: str
    cpu: float = Field(ge=0)
    """CPUs in use since the sample before: 1.0 is one core busy."""
    memory_bytes: int = Field(ge=0)
    processes: int = Field(0, ge=0)
    """Number of its processes."""
    gpu: tuple[dict[str, Any], ...] = ()
    """Per GPU: ``index``, ``utilization`` (0..1), ``memory_bytes``."""
