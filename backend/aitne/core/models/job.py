"""Jobs and sessions: the resolved specification, the record, the plan."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar
from uuid import UUID

from pydantic import ConfigDict, Field

from aitne.core.jobs.array_job_state import task_id
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
from aitne.core.models.common_job_fields import DistributedOptions, JobOptions
from aitne.core.models.dataset import DatasetUse
from aitne.core.models.image import ImageUse
from aitne.core.models.job_filter_conditions import JobConditions
from aitne.core.models.job_source import TreeUse
from aitne.core.models.placement import LeafLimit, PlacementPlan
from aitne.core.models.resources import MemoryRequest, Resources
from aitne.core.models.storage_area import Area
from aitne.core.models.sweep import SweepSpec

Scalar = str | int | float | bool
"""Value of a template parameter or of a parameter in a sweep."""


class JobType(StrEnum):
    """Type of a job: a batch job ends by itself; a session runs apps, such as JupyterLab, that its
    owner uses in a browser.
    """

    JOB = "job"
    SESSION = "session"


class JobOrigin(StrEnum):
    """Origin of a job: submitted through the platform, or directly with the scheduler's own
    commands, such as sbatch.
    """

    PLATFORM = "platform"
    OUTSIDE = "outside"


class DistributedSpec(DistributedOptions, Frozen):
    """Distribution of a job's program over ranks: ``DistributedFile`` with all defaults
    filled in.
    """

    ranks_per_node: int = Field(1, ge=1)
    """Number of ranks that the agent starts on each node."""


class RankGroupSpec(Frozen):
    """Session to which the ranks of a rank group belong, and when they are released."""

    session: UUID = Field(description="Session whose notebook uses the ranks.")
    idle_s: int | None = Field(
        None, description="Time without work after which the ranks are released; null: never."
    )
    python: str | None = Field(
        None, description="Python interpreter of the ranks; null: that of the session's server."
    )


class Readiness(Frozen):
    """Check by which the agent determines that an app answers: an HTTP response on ``path`` with a
    status below 500.
    """

    path: str = "/"
    """Path of the request, below the app's base URL."""
    timeout_s: int = Field(120, ge=1, le=3_600)
    """Seconds until an app that does not answer counts as failed."""


class AppSpec(Frozen):
    """App of a session. The first one is a program that listens on a port; the others are further
    pages of that program.

    ``kind`` names what starts the app: ``jupyterhub`` is the single-user server, which gets its
    environment from JupyterHub.
    """

    name: str
    title: str
    icon: str = "notebook"
    """Name of an icon in the portal's icon set."""
    optional: bool = False
    """Whether the session can run without the app, if the image does not have it."""
    kind: str = "jupyterhub"
    """Name of what starts the app, such as ``jupyterhub``."""
    path: str = "/lab"
    """Path below the app's base URL that the portal opens."""
    readiness: Readiness = Readiness()
    """Check by which the agent determines that the app answers."""


class RetryPolicy(Frozen):
    """Conditions and number of retries of a job: ``RetryFile`` with all defaults filled in. The
    default permits no retry.
    """

    max: int = 0
    """Maximum number of retries."""
    on: frozenset[TerminationReason] = frozenset()
    """Termination reasons after which the job is retried."""


class HeldBy(Frozen):
    """Components besides the scheduler that enforce the job's limits of memory and CPUs: the
    runtime or the agent.
    """

    runtime: bool = False
    """Whether the container runtime enforces the limits."""
    agent_memory: bool = False
    """Whether the agent limits the job's memory with a cgroup."""
    agent_cpus: bool = False
    """Whether the agent limits the job's CPUs with a cgroup."""


class JobDescription(JobOptions, Frozen):
    """Resolved fields of a job that the API shows; ``JobSpec`` and ``JobView`` inherit them."""

    template: str | None = None
    template_version: str | None = None
    parameters: dict[str, Scalar] = Field(default_factory=dict)
    image: str = "bare"
    """Image of the job: ``bare`` (none), ``name:version``, or the path of the owner's own image."""
    runtime: str = Field("bare", description="Runtime that starts the image; bare without one.")
    datasets: tuple[DatasetUse, ...] = Field((), description="Dataset versions that it reads.")
    commands: tuple[str, ...] = ()
    distributed: DistributedSpec | None = Field(
        None, description="How its ranks are started; null: it has no ranks."
    )
    rank_group: RankGroupSpec | None = Field(
        None, description="Rank groups: how the ranks serve a session; null: an ordinary job."
    )
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables of the user, and the template's ``AITNE_PARAM_*``; never secrets."""
    workdir: str | None = None
    tree: TreeUse | None = Field(
        None, description="Uploaded tree in which it runs; null: it has none."
    )
    resources: Resources = Resources()
    max_duration_s: int = 3_600
    """Time limit in seconds, after which the job is ended."""
    max_duration_requested: bool = Field(
        True,
        description="False: the job requests no time limit, and max_duration_s is the default that "
        "the scheduler is expected to apply.",
    )
    inactivity_duration_s: int | None = Field(
        None, description="Sessions: time without activity after which it ends; null: none."
    )
    retry: RetryPolicy = RetryPolicy()
    """Conditions under which the platform starts a new attempt."""
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
    """Image with its digest; None if the job has no image."""
    home: str | None = None
    """Home folder of the Unix account of the job; None in records of releases without images."""
    areas: tuple[Area, ...] = ()
    """Storage areas of the owner and the project, except the home folder."""
    caches: str | None = None
    """Folder in which programs store caches; None: in the home folder."""
    apps: tuple[AppSpec, ...] = ()
    """Apps that a session starts; empty for a batch job."""
    leaves: LeafLimit | None = None
    """Leaves on which it is to run, resolved from ``placement.compact``; None: any."""
    node_paths: dict[str, tuple[str, ...]] | None = None
    """Switches above each node, the root first; None: the scheduler knows them itself, or they are
    not needed.
    """
    held_by: HeldBy = HeldBy()
    """Components besides the scheduler that enforce the job's memory and CPUs."""
    lineage: UUID | None = None
    """ID of the first session in a chain of sessions that continue one another and share its
    workspace; None: the session continues none.
    """


class JobIdentity(Frozen):
    """Fields of a job's record that tell which job it is, and its state."""

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
    account: str | None = Field(
        None, description="Unix account under which it runs; null: the platform's own."
    )
    array_job_id: UUID | None = None
    """ID of the array job, for an array task; None otherwise."""
    array_task_id: int | None = None
    """Index of the task, for an array task; None otherwise."""
    session_id: UUID | None = Field(
        None, description="Rank groups: the session whose notebook uses the ranks."
    )
    created_at: UtcTime


class JobProgress(Frozen):
    """Fields of a job's record that the API shows and transitions change: ``JobStatus`` and
    ``JobChanges`` inherit them.
    """

    reason: TerminationReason | None = Field(
        None, description="Why it ended, or why the platform is ending it."
    )
    message: str | None = Field(None, description="Why it waits or why it ended, as a sentence.")
    attempt: int = 1
    """Number of the attempt, counted from 1; each retry by the platform increases it."""
    restart_count: int = 0
    """Number of restarts of this attempt by the scheduler itself (Slurm's SLURM_RESTART_COUNT)."""
    exit_code: int | None = None
    """Exit code of the program; None: it has not ended, or a signal ended it."""
    signal: int | None = None
    """Number of the signal that ended the program; None if no signal did."""
    nodes: tuple[str, ...] = ()
    """Names of the nodes on which the job runs or ran."""
    excluded_nodes: tuple[str, ...] = Field(
        (),
        description="Nodes that failed during earlier attempts, on which no later one runs, the oldest "
        "first.",
    )
    partition: str | None = Field(None, description="Partition that the scheduler chose.")
    priority: int | None = Field(
        None, description="Priority in the queue while it waits; higher is sooner."
    )
    scheduler_id: str | None = None
    """ID of the job in the scheduler; None before the scheduler has accepted it."""
    log_path: str | None = Field(
        None,
        description="Path of the log of a job from outside, of an array with wildcards such as %a "
        "(the task's index); null: it has none, or the platform keeps the log.",
    )
    submitted_at: UtcTime | None = None
    """Time at which the scheduler accepted the job."""
    allocated_at: UtcTime | None = None
    """Time at which the scheduler allocated nodes to the job."""
    started_at: UtcTime | None = None
    """Time at which the agent started the user's program."""
    ready_at: UtcTime | None = None
    """Time at which the app of a session first answered; None for batch jobs."""
    ended_at: UtcTime | None = None
    expires_at: UtcTime | None = None
    """Time at which the job reaches its time limit; None: not yet known."""
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


class JobStatus(JobProgress, JobIdentity):
    """Fields of a job's record that the API shows; ``Job`` and ``JobView`` inherit them."""

    folder_bytes: int | None = Field(
        None,
        description="Disk space of the job folder, measured when the job ended; null: not measured.",
    )
    folder_files: int | None = Field(
        None,
        description="Files and folders in the job folder, itself included, measured when the job "
        "ended; null: not measured.",
    )
    energy_j: int | None = Field(
        None,
        description="Energy of its nodes while its last run was on them, as Slurm's energy plugin "
        "measured it, whichever jobs used it; null: not measured.",
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


class JobInternals(Frozen):
    """Fields of a job's record that the API does not show and transitions change."""

    folder: str | None = None
    """Folder that contains a folder for each attempt, with its script, log, fence and outcome.
    Array tasks use the folder of their array job. None: a folder below the platform's own jobs
    directory.
    """
    scheduler_record: dict[str, Any] | None = None
    """Record of the scheduler at the job's last change; None if there is none."""
    address: str | None = None
    """Listening address ``host:port`` of the session's app, as the agent reported it."""
    cancel_requested_at: UtcTime | None = None
    log_seal: str | None = None
    """Signature of the broker which proves that the scheduler reported ``log_path``; None if there
    is none.
    """


class Job(JobInternals, JobStatus):
    """Job, session or array task as the store contains it.

    An array job has a row of its own (``spec.array`` set, ``array_task_id`` None) in addition to
    the rows of its tasks (``array_job_id`` set); only the tasks run. Tasks that differ only in
    their index share one row, a task group (``array_task_ids`` set), until one of them changes.
    """

    spec: JobSpec
    array_task_ids: str | None = None
    """Indices of the tasks that a task group stands for, such as ``2-9,17``; None for all other
    rows.
    """

    @property
    def is_outside(self) -> bool:
        """Return whether the job was submitted directly to the scheduler, not through the platform,
        which only observes it.
        """
        return self.origin is JobOrigin.OUTSIDE

    @property
    def begins_at(self) -> datetime | None:
        """Return the earliest time at which the job may start, as its job file requests; None if it
        requests none.
        """
        begin = self.spec.begin
        return self.created_at + timedelta(seconds=begin) if isinstance(begin, int) else begin

    @property
    def is_array(self) -> bool:
        """Return whether this row is an array job, which does not run itself."""
        top_level = self.array_task_id is None and self.array_task_ids is None
        return self.spec.array is not None and top_level

    @property
    def is_task_group(self) -> bool:
        """Return whether this row stands for several tasks of an array, a task group."""
        return self.array_task_ids is not None

    def make_task(self, index: int) -> Job:
        """Return the task with this index, which belongs to the task group, as it would be in a row
        of its own.
        """
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
    def is_attachable(self) -> bool:
        """Return whether the job's owner can open a terminal in the job now."""
        open_ = self.state in (JobState.STARTING, JobState.RUNNING, JobState.READY)
        return open_ and bool(self.nodes) and not self.is_array and not self.is_outside


class JobChanges(JobInternals, JobProgress):
    """Fields that a transition may change in addition to the state; fields that are not set keep
    their values.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)


class ResubmitOptions(Strict):
    """Changes to a job that is resubmitted; fields that are not set keep their values."""

    memory: MemoryBytes | None = Field(None, description="Memory on each node, such as 16G.")
    max_duration: Seconds | None = Field(None, description="Time limit, such as 4h.")

    def apply_to(self, spec: JobSpec) -> JobSpec:
        """Return the specification with these changes."""
        changes: dict[str, Any] = {}
        if self.memory is not None:
            memory = {"memory_bytes": self.memory, "memory_request": MemoryRequest.AMOUNT}
            changes["resources"] = spec.resources.model_copy(update=memory)
        if self.max_duration is not None:
            changes |= {"max_duration_s": self.max_duration, "max_duration_requested": True}
        return spec.model_copy(update=changes)


class JobFilter(JobConditions):
    """Filter for lists of jobs in the store; without any field set, it matches all jobs that the
    actor may see.
    """

    type: JobType | None = None
    origin: JobOrigin | None = None
    states: frozenset[JobState] = frozenset()
    name_contains: str | None = None
    session_id: UUID | None = None
    """Session whose rank groups are listed."""
    top_level_only: bool = False
    """Whether array tasks are omitted; their array job is listed."""


class Plan(Frozen):
    """Job as it would be submitted, shown before the submission; nothing is stored."""

    spec: JobSpec
    """Specification of the job that would be created."""
    fits: bool
    """Whether the cluster could ever run the job, if no other job ran."""
    starts_now: bool
    """Whether the job would start at once, because its resources are free."""
    pending_reason: str | None = None
    """Reason why the job would not start at once; None if it would."""
    warnings: tuple[str, ...] = ()
    """Warnings about the job, one sentence each."""
    expected_start_at: UtcTime | None = None
    """Time at which the scheduler expects to start the job; None: it makes no forecast."""
    enforcement: tuple[str, ...] = ()
    """Sentences about which components enforce the job's limits of memory and CPUs."""
    script: str
    """Batch script that would be submitted."""
    placement: PlacementPlan | None = Field(
        None, description="Where it would run; null: on one node, or the topology is not known."
    )
    settings: tuple[dict[str, Scalar], ...] = ()
    """Parameter settings of a sweep, by array index; empty without a sweep."""
    limits: ClassVar = deprecated_copy("enforcement", tuple[str, ...])
    waits_for: ClassVar = deprecated_copy("pending_reason", str | None)
