"""Answers of the platform as objects, typed, and lenient about unknown fields.

A field that this version does not know stays in ``raw``; one that an older platform does not send
is None. These are plain classes, not pydantic models: building the schemas of those takes longer
than everything else a short command does.
"""

from __future__ import annotations

from datetime import datetime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, ClassVar

TERMINAL = frozenset(
    {
        "COMPLETED",
        "FAILED",
        "CANCELLED",
        "TIMED_OUT",
        "OUT_OF_MEMORY",
        "NODE_FAILED",
        "PREEMPTED",
        "LOST",
    }
)
"""The names of ``core.states.TERMINAL`` (a test compares them), without importing it."""

LIVE = (
    *("PENDING_SUBMIT", "SUBMITTING", "UNCERTAIN", "QUEUED", "STARTING", "RUNNING"),
    *("READY", "SUSPENDED", "COMPLETING", "UNKNOWN"),
)
"""Names of all other states, in which a job has not ended."""


class Record:
    """Base class of one JSON object. Annotated fields are filled from it; times become aware
    datetimes, and a list that is missing is empty.

    The class's keywords name the fields that are records themselves.
    """

    _nested: ClassVar[Mapping[str, type[Record]]] = {}
    _fields: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **nested: type[Record]) -> None:
        cls._nested = nested
        class_fields = {n: str(kind) for n, kind in cls.__annotations__.items() if n[0] != "_"}
        cls._fields = {**cls._fields, **class_fields}

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = dict(raw)
        for name, kind in self._fields.items():
            setattr(self, name, self._read(name, kind, raw.get(name)))

    def _read(self, name: str, kind: str, value: Any) -> Any:
        if value is None:
            return [] if kind.startswith("list[") else {} if kind.startswith("dict[") else None
        if name in self._nested:
            made = self._nested[name]
            return [made(item) for item in value] if isinstance(value, list) else made(value)
        return datetime.fromisoformat(value) if kind.startswith("datetime") else value

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={getattr(self, name)!r}"
            for name in ("id", "name", "state")
            if name in self._fields
        )
        return f"{type(self).__name__}({shown})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.raw == other.raw

    __hash__ = None  # type: ignore[assignment]


class GpuRecord(Record):
    """GPUs on each node: their number, and their type if one is required."""

    count: int
    type: str | None

    def __str__(self) -> str:
        return f"{self.type}:{self.count}" if self.type else str(self.count)


class ResourcesRecord(Record, gpu=GpuRecord):
    """Resources of a job, allocated or requested, per node."""

    nodes: int
    cpu: int
    memory_bytes: int
    gpu: GpuRecord
    gres: dict[str, int]


class StageRecord(Record):
    """One stage of a job for display: title, status, and times."""

    key: str
    title: str
    status: str
    started_at: datetime | None
    ended_at: datetime | None
    detail: str | None


class Job(Record, resources=ResourcesRecord, stages=StageRecord):
    """A job, a session, an array job or one task of it."""

    id: str
    type: str
    name: str
    owner: str
    project: str
    cluster: str
    template: str | None
    parameters: dict[str, Any]
    image: str
    runtime: str
    image_digest: str | None
    container: dict[str, Any]
    environment: dict[str, Any]
    datasets: list[dict[str, Any]]
    commands: list[str]
    env: dict[str, str]
    secrets: list[str]
    workdir: str | None
    resources: ResourcesRecord
    max_duration_s: int
    array: str | None
    sweep: dict[str, Any] | None
    continues: str | None
    after: list[str]
    state: str
    reason: str | None
    message: str | None
    attempt: int
    restart_count: int
    exit_code: int | None
    signal: int | None
    nodes: list[str]
    account: str | None
    partition: str | None
    priority: int | None
    array_job_id: str | None
    array_task_id: int | None
    scheduler_id: str | None
    created_at: datetime
    submitted_at: datetime | None
    allocated_at: datetime | None
    started_at: datetime | None
    ready_at: datetime | None
    ended_at: datetime | None
    expires_at: datetime | None
    expected_start_at: datetime | None
    idle_ends_at: datetime | None
    gpu_idle_since: datetime | None
    inactivity_duration_s: int | None
    url: str | None
    entry_points: list[dict[str, Any]]
    cancel_requested: bool
    version: int
    stages: list[StageRecord]
    actions: list[str]

    @property
    def ended(self) -> bool:
        """Return whether the job is in a terminal state."""
        return self.state in TERMINAL

    @property
    def ok(self) -> bool:
        """Return whether the job has completed successfully."""
        return self.state == "COMPLETED"

    @property
    def is_session(self) -> bool:
        """Return whether the job is an interactive session."""
        return self.type == "session"

    @property
    def is_array(self) -> bool:
        """Return whether it is an array job, which does not run itself: its tasks do."""
        return self.array is not None and self.array_task_id is None

    @property
    def short_id(self) -> str:
        """Return the beginning of the id; for an array task, the array job's with the index, such
        as ``0008e66b_4``."""
        if self.array_job_id is None:
            return self.id[:8]
        return f"{self.array_job_id[:8]}_{self.array_task_id}"


class JobSpecRecord(Record, resources=ResourcesRecord):
    """Complete description of a job, with all defaults and templates resolved."""

    type: str
    name: str
    project: str
    template: str | None
    template_version: str | None
    parameters: dict[str, Any]
    image: str
    runtime: str
    container: dict[str, Any]
    environment: dict[str, Any]
    datasets: list[dict[str, Any]]
    commands: list[str]
    distributed: dict[str, Any] | None
    env: dict[str, str]
    secrets: list[str]
    workdir: str | None
    resources: ResourcesRecord
    max_duration_s: int
    array: str | None
    slurm: dict[str, Any]


class Plan(Record, spec=JobSpecRecord):
    """Result of a plan: the job that a job file would create, before anything is stored."""

    spec: JobSpecRecord
    fits: bool
    starts_now: bool
    waits_for: str | None
    warnings: list[str]
    settings: list[dict[str, Any]]
    limits: list[str]
    expected_start_at: datetime | None
    script: str


class Event(Record):
    """One event, as ``Client.events`` yields it."""

    id: int
    time: datetime
    kind: str
    job_id: str | None
    owner: str | None
    project: str | None
    data: dict[str, Any]


class ParameterRecord(Record):
    """One typed field of a template."""

    name: str
    type: str
    title: str
    description: str
    default: Any
    minimum: float | None
    maximum: float | None
    choices: list[str]


class Template(Record, parameters=ParameterRecord):
    """One entry of the launch form."""

    name: str
    version: str
    title: str
    description: str
    type: str
    image: str
    parameters: list[ParameterRecord]
    resources: dict[str, Any]
    commands: list[str]


class TemplateProblemRecord(Record):
    """Template file that was rejected: line and reason."""

    path: str
    line: int | None
    reason: str


class GpuCountRecord(Record):
    """GPUs of one type on one node."""

    type: str | None
    total: int
    used: int


class Node(Record, gpus=GpuCountRecord):
    """A node with its state and resources, as reported by the scheduler."""

    name: str
    cluster: str
    state: str
    reason: str | None
    cpu_total: int
    cpu_used: int
    memory_total_bytes: int
    memory_used_bytes: int
    gpus: list[GpuCountRecord]
    features: list[str]
    partitions: list[str]
    scheduler_state: str | None
    seen_at: datetime


class QueuePlaceRecord(Record):
    """Position in the queue, counted from 1, among the platform's jobs that wait for the
    partition."""

    place: int
    waiting: int
    partition: str


class AdviceRecord(Record):
    """Advice on a waiting job; ``at`` and ``jobs`` complete the sentence where they are given."""

    text: str
    at: datetime | None
    jobs: list[dict[str, Any]]


class GpuSumRecord(Record):
    """GPUs of one type on the nodes of a partition."""

    type: str | None
    total: int
    used: int
    free: int


class PartitionRecord(Record, gpus=GpuSumRecord):
    """A queue with its own limits, and the resources of its nodes."""

    name: str
    up: bool
    default: bool
    nodes: str
    node_count: int
    states: dict[str, int]
    cpu_total: int
    cpu_used: int
    gpus: list[GpuSumRecord]
    features: list[str]
    max_time_s: int | None
    default_time_s: int | None
    max_nodes: int | None


class Token(Record):
    """A personal access token. ``token``, its secret, is set only after creation."""

    id: str
    owner: str
    name: str
    scopes: list[str]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    created_by: str | None
    token: str | None


class User(Record):
    """Account of a user on the platform."""

    name: str
    display_name: str
    role: str
    default_project: str
    disabled: bool
    created_at: datetime


class PlatformInfoRecord(Record):
    """Title, version, cluster and scheduler of the platform."""

    title: str
    version: str
    cluster: str
    scheduler: str
    can_drain: bool
    sessions_origin: str
    user_domains: bool
    sessions_address: str | None


class CurrentUserRecord(Record, user=User, platform=PlatformInfoRecord):
    """The user that the client acts as, with projects and platform."""

    user: User
    projects: list[str]
    csrf_token: str | None
    platform: PlatformInfoRecord


class LoginLinkRecord(Record):
    """Link that logs a browser in, once."""

    url: str
    expires_at: datetime
