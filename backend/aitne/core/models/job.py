"""Jobs and sessions: the file a user writes, the resolved specification, the record, the plan."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from pydantic import AfterValidator, Field, field_validator

from aitne.core import units
from aitne.core.models.base import (
    Frozen,
    JobName,
    ProjectName,
    Seconds,
    Strict,
    UserName,
    UtcTime,
    passable,
)
from aitne.core.models.resources import Resources, ResourcesFile
from aitne.core.states import RETRYABLE, JobState, TerminationReason

Scalar = str | int | float | bool
"""A template parameter's value."""

ENV_NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"
RESERVED_ENV = ("AITNE_", "SLURM_", "JUPYTERHUB_")
"""Prefixes that a job file's ``env`` may not set: the platform and the scheduler own them."""

EnvName = Annotated[str, Field(pattern=ENV_NAME)]
EnvValue = Annotated[str, Field(max_length=32_768), AfterValidator(passable)]
Command = Annotated[str, Field(min_length=1, max_length=65_536), AfterValidator(passable)]
MAX_ENV_BYTES = 512 << 10
"""Names and values of ``env`` together: a program's arguments and environment share 2 MiB."""


class JobType(StrEnum):
    """A batch job ends by itself; a session is a job whose app somebody works in."""

    JOB = "job"
    SESSION = "session"


class RetryFile(Strict):
    """When and how often a job that ended badly is started again."""

    max: int = Field(1, strict=True, ge=0, le=100, description="How many further attempts.")
    on: list[TerminationReason] = Field(
        default_factory=lambda: [
            TerminationReason.NODE_FAILED,
            TerminationReason.PREEMPTED,
            TerminationReason.LOST,
        ],
        description="The reasons that start another attempt.",
    )

    @field_validator("on")
    @classmethod
    def _retryable(cls, value: list[TerminationReason]) -> list[TerminationReason]:
        for reason in value:
            if reason not in RETRYABLE:
                raise ValueError(
                    f"{reason} is never retried; allowed: {', '.join(sorted(RETRYABLE))}"
                )
        return value


_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
SlurmName = Annotated[str, Field(pattern=_NAME)]
"""A partition, QOS, account or reservation, as Slurm lets it be named."""
SIGNAL = r"^(?:(?:SIG)?[A-Z][A-Z0-9]{1,9}|[1-9][0-9]?)@[1-9][0-9]{0,4}$"


class SlurmFile(Strict):
    """The ``slurm`` part of a job file: what only Slurm knows (sbatch's options of these names)."""

    partition: Annotated[
        str | None,
        Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}(,[A-Za-z0-9][A-Za-z0-9_.-]{0,63}){0,19}$"),
    ] = Field(None, description="One, or several with commas: the first to start it wins.")
    qos: SlurmName | None = None
    account: SlurmName | None = Field(None, description="Omitted: the project's own.")
    constraint: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9_.\-&|*()\[\],]{1,200}$")] = Field(
        None, description="Features that the nodes must have, such as nvlink&ib."
    )
    reservation: SlurmName | None = None
    exclusive: bool = Field(False, description="No other job on its nodes.")
    requeue: bool | None = Field(
        None, description="Whether Slurm may start it again; omitted: as the job's retry says."
    )
    signal: Annotated[str | None, Field(pattern=SIGNAL, examples=["USR1@120"])] = Field(
        None, description="A signal so many seconds before the end of its time."
    )
    extra: list[
        Annotated[str, Field(pattern=r"^--[a-z][a-z-]{0,39}(=[ -~]{0,400})?$", max_length=450)]
    ] = Field(
        default_factory=list,
        max_length=20,
        description="Further options of sbatch, of those that the site allows.",
    )


class SlurmSpec(Frozen):
    """``SlurmFile``, resolved."""

    partition: str | None = None
    qos: str | None = None
    account: str | None = None
    constraint: str | None = None
    reservation: str | None = None
    exclusive: bool = False
    requeue: bool | None = None
    signal: str | None = None
    extra: tuple[str, ...] = ()


class JobFile(Strict):
    """A ``*.aitne.yml`` file, and the body of ``POST /api/v1/jobs`` and ``/sessions``: one schema."""

    type: JobType = Field(JobType.JOB, description="job or session.")
    name: JobName | None = Field(None, description="Any text; shown, never run.")
    project: ProjectName | None = Field(None, description="Omitted: your default project.")
    template: str | None = Field(None, max_length=100, description="A template's name.")
    parameters: dict[str, Scalar] = Field(
        default_factory=dict, max_length=200, description="Values of the template's parameters."
    )
    image: str | None = Field(None, max_length=200, description="Omitted: bare, no container.")
    commands: list[Command] = Field(
        default_factory=list,
        max_length=1_000,
        description="Each runs under bash -c; the first that fails ends the job.",
    )
    env: dict[EnvName, EnvValue] = Field(default_factory=dict, max_length=500)
    workdir: str | None = Field(
        None, max_length=4_096, description="An absolute path or one below home (~/...)."
    )
    resources: ResourcesFile = Field(default_factory=ResourcesFile)
    max_duration: Annotated[
        Seconds | None, Field(description="The time after which it is ended, such as 4h.")
    ] = None
    retry: RetryFile | None = None
    array: Annotated[str | None, Field(max_length=2_000, examples=["0-9%2"])] = None
    after: list[UUID] = Field(
        default_factory=list, max_length=100, description="Jobs that must have completed first."
    )
    slurm: SlurmFile | None = Field(None, description="Only where Slurm schedules.")

    @field_validator("array")
    @classmethod
    def _array(cls, value: str | None) -> str | None:
        return None if value is None else str(units.parse_array(value))

    @field_validator("env")
    @classmethod
    def _env(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if name.startswith(RESERVED_ENV):
                raise ValueError(
                    f"{name} belongs to the platform; choose a name without its prefix"
                )
        size = sum(len(f"{name}={text}".encode()) + 1 for name, text in value.items())
        if size > MAX_ENV_BYTES:
            raise ValueError(
                f"all variables together have {size} bytes; allowed: {MAX_ENV_BYTES}; "
                "put large values into files"
            )
        return value

    @field_validator("workdir")
    @classmethod
    def _workdir(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("/", "~/")) and value != "~":
            raise ValueError("write an absolute path, or one below home such as ~/project")
        return None if value is None else passable(value)


class Readiness(Frozen):
    """How the agent tells that an app answers: any HTTP response below 500 on ``path``."""

    path: str = "/"
    timeout_s: int = Field(120, ge=1, le=3_600)


class AppSpec(Frozen):
    """A program of a session that listens on a port.

    ``kind`` names who starts it: ``jupyterhub`` is the single-user server that the Hub hands its
    environment to.
    """

    name: str
    title: str
    kind: str = "jupyterhub"
    path: str = "/lab"
    """Where Open leads, below the app's base URL."""
    readiness: Readiness = Readiness()


class RetryPolicy(Frozen):
    """``RetryFile``, resolved. The default never retries."""

    max: int = 0
    on: frozenset[TerminationReason] = frozenset()


class JobSpec(Frozen):
    """What will be run, resolved: template expanded, defaults filled in, limits checked."""

    type: JobType
    name: str
    project: str
    template: str | None = None
    template_version: str | None = None
    parameters: dict[str, Scalar] = Field(default_factory=dict)
    image: str = "bare"
    runtime: str = "bare"
    commands: tuple[str, ...] = ()
    apps: tuple[AppSpec, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    """The user's variables and the template's ``AITNE_PARAM_*``; never a secret."""
    workdir: str | None = None
    resources: Resources = Resources()
    max_duration_s: int = 3_600
    retry: RetryPolicy = RetryPolicy()
    array: str | None = None
    after: tuple[UUID, ...] = ()
    slurm: SlurmSpec = SlurmSpec()


class Job(Frozen):
    """One job, session or array task as the store holds it.

    An array job is a row of its own (``spec.array`` set, ``array_task_id`` None) above one row per
    task (``array_job_id`` set); only the tasks run.
    """

    id: UUID
    cluster: str = "local"
    owner: UserName
    account: str | None = None
    """The Unix account it runs as; None: the platform's own."""
    project: str
    type: JobType
    name: str
    spec: JobSpec
    folder: str | None = None
    """Where script, log, fence and outcome lie, one folder per attempt below it; of an array's task,
    the array job's. None: below the platform's own jobs directory."""
    state: JobState
    attempt: int = 1
    """Counted from 1; a retry by the platform is the next one."""
    restart_count: int = 0
    """How often the scheduler itself started this attempt again (Slurm's SLURM_RESTART_COUNT)."""
    scheduler_id: str | None = None
    reason: TerminationReason | None = None
    """Why it ended; None while it has not."""
    message: str | None = None
    """A sentence for the user: why it waits, or why it ended."""
    exit_code: int | None = None
    signal: int | None = None
    nodes: tuple[str, ...] = ()
    partition: str | None = None
    """Where the scheduler put it."""
    priority: int | None = None
    """The scheduler's own number while it waits: higher starts first."""
    scheduler_record: dict[str, Any] | None = None
    """What the scheduler said of it at its last change, in its own words."""
    address: str | None = None
    """Where the session's app listens: ``host:port``, reported by the agent."""
    url: str | None = None
    """Sessions: what Open leads to, once READY."""
    cancel_requested_at: UtcTime | None = None
    array_job_id: UUID | None = None
    array_task_id: int | None = None
    created_at: UtcTime
    submitted_at: UtcTime | None = None
    allocated_at: UtcTime | None = None
    """When the scheduler gave it nodes."""
    started_at: UtcTime | None = None
    """When the agent began with the user's program."""
    ready_at: UtcTime | None = None
    ended_at: UtcTime | None = None
    expires_at: UtcTime | None = None
    """When its time is up; known once it runs."""
    expected_start_at: UtcTime | None = None
    version: int = 1
    """Grows by one with every change of the row: the ETag, and the optimistic lock."""

    @property
    def is_array(self) -> bool:
        """Whether this row is an array job, which does not run itself."""
        return self.spec.array is not None and self.array_task_id is None


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


class JobFilter(Frozen):
    """Which jobs a list shows. Empty means all that the actor may see."""

    owner: str | None = None
    project: str | None = None
    type: JobType | None = None
    states: frozenset[JobState] = frozenset()
    name_contains: str | None = None
    array_job_id: UUID | None = None
    top_level_only: bool = False
    """Leave array tasks out (their array job stands for them)."""


class Plan(Frozen):
    """What would be submitted, shown before anything is: nothing is stored."""

    spec: JobSpec
    fits: bool
    """Whether the cluster, empty, could ever run it."""
    starts_now: bool
    """Whether the resources are free at this moment."""
    waits_for: str | None = None
    """If it does not start now: why, in plain words."""
    warnings: tuple[str, ...] = ()
    expected_start_at: UtcTime | None = None
    """When the scheduler would begin it, by its own plan; None: it gives none."""
    script: str
    """The exact batch script."""


class Sample(Frozen):
    """One measurement of a job's own processes on one node."""

    time: UtcTime
    node: str
    cpu: float = Field(ge=0)
    """CPUs in use since the sample before: 1.0 is one core busy."""
    memory_bytes: int = Field(ge=0)
    processes: int = Field(0, ge=0)
    gpu: tuple[dict[str, Any], ...] = ()
    """Per GPU: ``index``, ``utilization`` (0..1), ``memory_bytes``."""
