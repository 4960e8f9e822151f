"""What the API says and is told, where that differs from the core models."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import ConfigDict, Field

from aitne.core.models.base import Frozen, ProjectName, Seconds, Strict, UserName, UtcTime
from aitne.core.models.event import Event
from aitne.core.models.job import (
    Job,
    JobFile,
    JobType,
    RetryPolicy,
    Sample,
    Scalar,
    SlurmSpec,
)
from aitne.core.models.node import Node, Reservation, SchedulerStatus
from aitne.core.models.resources import Resources
from aitne.core.models.template import Template
from aitne.core.models.user import Project, Role, Scope, Token, User
from aitne.core.ports.store import QueuePlace
from aitne.core.stages import Stage, stages_of
from aitne.core.states import JobState, TerminationReason
from aitne.services.cluster import PartitionSummary

Password = Annotated[str, Field(min_length=8, max_length=1_024)]


class Action(StrEnum):
    """What the one who asks may do with the job now."""

    OPEN = "open"
    EXTEND = "extend"
    STOP = "stop"
    CANCEL = "cancel"
    RESUBMIT = "resubmit"


class JobView(Frozen):
    """A job, session or array task, flat, with its stages and what may be done with it."""

    id: UUID
    type: JobType
    name: str
    owner: str
    project: str
    cluster: str
    template: str | None
    template_version: str | None
    parameters: dict[str, Scalar]
    image: str
    commands: tuple[str, ...]
    env: dict[str, str]
    workdir: str | None
    resources: Resources
    max_duration_s: int
    array: str | None
    after: tuple[UUID, ...]
    retry: RetryPolicy
    slurm: SlurmSpec
    state: JobState
    reason: Annotated[TerminationReason | None, Field(description="Why it ended.")]
    message: Annotated[str | None, Field(description="Why it waits or why it ended, in words.")]
    attempt: int
    restart_count: int
    exit_code: int | None
    signal: int | None
    nodes: tuple[str, ...]
    account: Annotated[str | None, Field(description="The Unix account it runs as.")]
    partition: Annotated[str | None, Field(description="Where the scheduler put it.")]
    priority: Annotated[
        int | None, Field(description="The scheduler's number while it waits: higher is sooner.")
    ]
    array_job_id: UUID | None
    array_task_id: int | None
    scheduler_id: str | None
    created_at: UtcTime
    submitted_at: UtcTime | None
    allocated_at: UtcTime | None
    started_at: UtcTime | None
    ready_at: UtcTime | None
    ended_at: UtcTime | None
    expires_at: UtcTime | None
    expected_start_at: UtcTime | None
    url: Annotated[str | None, Field(description="Sessions: where Open leads, once READY.")]
    cancel_requested: bool
    version: Annotated[int, Field(description="Grows with every change.")]
    stages: list[Stage]
    actions: list[Action]

    @classmethod
    def of(cls, job: Job, actions: Sequence[str]) -> JobView:
        """Draw the view. Everything in it was validated when it was stored, so no second time."""
        return cls.model_construct(**drawn(job, actions))


def drawn(job: Job, actions: Sequence[str]) -> dict[str, Any]:
    """The fields of a view. A list is written out from these: it has no use for the models."""
    spec = job.spec
    return {
        **{name: getattr(job, name) for name in _FROM_JOB},
        **{name: getattr(spec, name) for name in _FROM_SPEC},
        "cancel_requested": job.cancel_requested_at is not None,
        "stages": stages_of(job),
        "actions": [Action(action) for action in actions],
    }


_FROM_SPEC = (
    *("template", "template_version", "parameters", "image", "commands", "env", "workdir"),
    *("resources", "max_duration_s", "array", "after", "retry", "slurm"),
)
_FROM_JOB = tuple(
    name
    for name in JobView.model_fields
    if name not in {*_FROM_SPEC, "cancel_requested", "stages", "actions"}
)


class JobPage(Frozen):
    """One page of jobs, newest first; ``total`` counts all that match."""

    items: list[JobView]
    next_cursor: str | None
    total: int


class SessionFile(JobFile):
    """A job file whose type is session, as it must be here."""

    type: Literal[JobType.SESSION] = JobType.SESSION


class JobQuery(Strict):
    """Which jobs to list, and how many at a time."""

    state: list[JobState] = Field([], description="Only these states; may be given many times.")
    owner: UserName | None = Field(None, description="Only this user's.")
    project: ProjectName | None = Field(None, description="Only this project's.")
    q: str | None = Field(None, max_length=200, description="Part of the name.")
    array_job_id: UUID | None = Field(None, description="Only the tasks of this array job.")
    top_level: bool = Field(False, description="Leave array tasks out.")
    cursor: str | None = Field(None, max_length=500, description="next_cursor of the page before.")
    limit: int = Field(100, ge=1, le=500, description="How many on a page.")


class AnyJobQuery(JobQuery):
    """As for sessions, and which type."""

    type: JobType | None = Field(None, description="Only jobs, or only sessions.")


class LogQuery(Strict):
    """Which part of a log. Offsets and lengths are bytes."""

    offset: int = Field(0, ge=0, description="The first byte.")
    limit: int = Field(1 << 20, ge=1, le=8 << 20, description="At most so many bytes.")
    tail: int | None = Field(
        None, ge=0, description="Start so many bytes before the end; offset is then ignored."
    )
    task: int | None = Field(None, ge=0, description="The index of a task of an array job.")
    follow: bool = Field(
        False, description="Go on until the job has ended and all is sent; limit is then ignored."
    )


class SampleSummary(Frozen):
    """The whole run in three numbers; None while nothing was measured."""

    cpu_mean: float | None
    cpu_max: float | None
    memory_max_bytes: int | None

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Self:
        """Sum up samples of one node each."""
        if not samples:
            return cls(cpu_mean=None, cpu_max=None, memory_max_bytes=None)
        cpu = [sample.cpu for sample in samples]
        return cls(
            cpu_mean=sum(cpu) / len(cpu),
            cpu_max=max(cpu),
            memory_max_bytes=max(sample.memory_bytes for sample in samples),
        )


class JobMetrics(Frozen):
    """What a job used, measurement by measurement and in sum."""

    samples: list[Sample]
    summary: SampleSummary


class EventList(Frozen):
    """A job's history."""

    items: list[Event]


class JobQueue(Frozen):
    """A job's place in line, by the scheduler's priority, among the jobs of this platform."""

    place: Annotated[
        QueuePlace | None,
        Field(description="null: it does not wait, or the scheduler gives no priorities."),
    ]


class JobRecord(Frozen):
    """The scheduler's raw record; null: it has none, or has said nothing yet."""

    record: dict[str, Any] | None


class SessionUrl(Frozen):
    """Where the session answers, on the sessions' own origin."""

    url: str


class Extension(Strict):
    """How much longer a session may run."""

    duration: Seconds = Field(description="Such as 1h; it is added to the time that is left.")


class TemplateProblem(Frozen):
    """A template file that was refused; the others serve."""

    path: str
    line: int | None
    reason: str


class TemplateList(Frozen):
    """``problems`` is filled for administrators only."""

    items: list[Template]
    problems: list[TemplateProblem]


class NodeList(Frozen):
    """The nodes as last seen; ``stale`` when that was too long ago to rely on."""

    items: list[Node]
    as_of: UtcTime | None
    stale: bool
    scheduler: Annotated[
        SchedulerStatus | None, Field(description="Whether it answers; null: nobody has asked yet.")
    ]


class PartitionList(Frozen):
    """The partitions, the default one first; the names that a job may use beside them."""

    items: list[PartitionSummary]
    qos: list[str]
    reservations: list[Reservation]
    as_of: UtcTime | None
    stale: bool


class Drain(Strict):
    """Why a node gets no new work."""

    reason: str = Field(min_length=1, max_length=200, description="For those who wonder.")


class Login(Strict):
    """A name and its password."""

    username: str = Field(max_length=200)
    password: str = Field(max_length=1_024)


class LoginLinkUse(Strict):
    """What follows `#link=` in a login link."""

    token: str = Field(min_length=1, max_length=200)


class LoginLink(Frozen):
    """Works once, until ``expires_at``. Whoever opens it is logged in: do not share it."""

    url: str
    expires_at: UtcTime


class MeUser(Frozen):
    """The user who is logged in."""

    name: str
    display_name: str
    role: Role
    default_project: str


class PlatformInfo(Frozen):
    """What platform this is."""

    title: str
    version: str
    cluster: str
    scheduler: str
    sessions_origin: str


class Me(Frozen):
    """Who is logged in. ``csrf_token`` goes into ``X-CSRF-Token``; null for a token's bearer."""

    user: MeUser
    projects: list[str]
    csrf_token: str | None
    platform: PlatformInfo


class NewToken(Strict):
    """What a personal access token is to be."""

    name: str = Field(min_length=1, max_length=100, description="What it is for.")
    scopes: list[Scope] = Field(
        [Scope.READ, Scope.WRITE], min_length=1, description="What it may be used for."
    )
    expires_in: Annotated[Seconds | None, Field(description="Such as 30d; null: never.")] = (
        30 * 86_400
    )
    user: Annotated[
        UserName | None, Field(description="Whose it is; administrators only. Omitted: yours.")
    ] = None


class TokenSecret(Token):
    """A new token with its secret, which is shown this once."""

    model_config = ConfigDict(json_schema_extra={"description": "Shown once: it is not stored."})

    token: str


class TokenList(Frozen):
    """Tokens, without their secrets."""

    items: list[Token]


class NewUser(Strict):
    """An account. Without a password the user can log in by a link or a token only."""

    name: UserName
    password: Password | None = None
    display_name: str = Field("", max_length=200)
    role: Role = Role.USER
    default_project: ProjectName | None = Field(
        None, description="Made if it is missing; omitted: a project of the user's own name."
    )


class UserChanges(Strict):
    """What is not given stays. ``role`` and ``disabled`` are for administrators."""

    display_name: str | None = Field(None, max_length=200)
    role: Role | None = None
    disabled: bool | None = None
    password: Password | None = None
    current_password: str | None = Field(
        None, max_length=1_024, description="Needed to set your own password."
    )


class UserPage(Frozen):
    """One page of accounts."""

    items: list[User]
    next_cursor: str | None
    total: int


class ProjectList(Frozen):
    """Projects with their members."""

    items: list[Project]


class PageQuery(Strict):
    """Which page, and how long."""

    cursor: str | None = Field(None, max_length=500, description="next_cursor of the page before.")
    limit: int = Field(100, ge=1, le=500, description="How many on a page.")
