"""What the API says and is told, where that differs from the core models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field

from aitne.core.advice import Advice
from aitne.core.identity_settings import SourceName
from aitne.core.models.base import (
    AskedFlag,
    Flag,
    Frozen,
    ProjectName,
    Seconds,
    Strict,
    UserName,
    UtcTime,
)
from aitne.core.models.event import Event
from aitne.core.models.job import JobType, Sample
from aitne.core.models.job_file import JobFile
from aitne.core.models.job_search import JobSearch, JobSort, SessionSearch
from aitne.core.models.node import Node, Reservation, SchedulerStatus
from aitne.core.models.template import Template
from aitne.core.models.user import Project, Role, Scope, Token, User
from aitne.core.ports.store import QueuePlace
from aitne.services.cluster import PartitionSummary
from aitne.services.passwords import MIN_CHARACTERS

Password = Annotated[str, Field(min_length=MIN_CHARACTERS, max_length=1_024)]


class SessionFile(JobFile):
    """A job file whose type is session, as it must be here."""

    type: Literal[JobType.SESSION] = JobType.SESSION


class JobPageQuery(Strict):
    """Which page of a list of jobs, how long, and in which order."""

    sort: JobSort = Field(JobSort.CREATED, description="What the list is sorted by.")
    order: Literal["asc", "desc"] = Field("desc", description="Which way.")
    cursor: str | None = Field(
        None, max_length=4_000, description="next_cursor of the page before, with the same sort."
    )
    limit: int = Field(100, ge=1, le=500, description="How many on a page.")


class JobQuery(JobPageQuery, SessionSearch):
    """Which sessions to list, and how many at a time."""


class AnyJobQuery(JobPageQuery, JobSearch):
    """Which jobs to list, and how many at a time."""


class LogQuery(Strict):
    """Which part of a log. Offsets and lengths are bytes."""

    offset: int = Field(0, ge=0, description="The first byte.")
    limit: int = Field(1 << 20, ge=1, le=8 << 20, description="At most so many bytes.")
    tail: int | None = Field(
        None, ge=0, description="Start so many bytes before the end; offset is then ignored."
    )
    task: int | None = Field(None, ge=0, description="The index of a task of an array job.")
    follow: AskedFlag = Field(
        False, description="Go on until the job has ended and all is sent; limit is then ignored."
    )


class SampleSummary(Frozen):
    """The whole run in three numbers; None while nothing was measured."""

    cpu_mean: float | None
    """CPUs in use, on average: 1.0 is one core busy."""
    cpu_max: float | None
    """The most CPUs in use."""
    memory_max_bytes: int | None
    """The most memory in use, in bytes."""

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
    """The measurements, oldest first."""
    summary: SampleSummary
    """The whole run."""


class EventList(Frozen):
    """A job's history."""

    items: list[Event]
    """Oldest first."""


class JobQueue(Frozen):
    """A job's place in line, by the scheduler's priority, among the jobs of this platform."""

    place: Annotated[
        QueuePlace | None,
        Field(description="null: it does not wait, or the scheduler gives no priorities."),
    ]
    advice: Annotated[
        tuple[Advice, ...],
        Field(description="What would help, as far as the platform can tell; often nothing."),
    ]


class JobRecord(Frozen):
    """The scheduler's raw record; null: it has none, or has said nothing yet."""

    record: dict[str, Any] | None
    """Its fields as the scheduler names them."""


class SessionUrl(Frozen):
    """Where the session answers, on the sessions' own origin."""

    url: str


class Extension(Strict):
    """How much longer a session may run."""

    duration: Seconds = Field(description="Such as 1h; it is added to the time that is left.")


class TemplateProblem(Frozen):
    """A template file that was refused; the others serve."""

    path: str
    """The file."""
    line: int | None
    """The line in the file; null: the whole file."""
    reason: str
    """What is wrong with it."""


class TemplateList(Frozen):
    """``problems`` is filled for administrators only."""

    items: list[Template]
    problems: list[TemplateProblem]
    """The files that were refused."""


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
    """Names of qualities of service."""
    reservations: list[Reservation]
    """Those that are known now."""
    as_of: UtcTime | None
    stale: bool


class Drain(Strict):
    """Why a node gets no new work."""

    reason: str = Field(min_length=1, max_length=200, description="For those who wonder.")


class Login(Strict):
    """A name and its password."""

    username: str = Field(max_length=200)
    """The login name."""
    password: str = Field(max_length=1_024)


class LoginLinkUse(Strict):
    """What follows `#link=` in a login link."""

    token: str = Field(min_length=1, max_length=200)
    """What follows ``#token=`` in the link."""


class LoginLink(Frozen):
    """Works once, until ``expires_at``. Whoever opens it is logged in: do not share it."""

    url: str
    """To be opened once in a browser."""
    expires_at: UtcTime


class MeUser(Frozen):
    """The user who is logged in."""

    name: str
    display_name: str
    role: Role
    default_project: str
    """The project of a job that names none."""


class PlatformInfo(Frozen):
    """What platform this is."""

    title: str
    version: str
    cluster: str
    scheduler: str
    """What runs its jobs: ``local``, ``slurm_cli``, …"""
    sessions_origin: str
    """The origin that sessions answer at; JupyterHub's where each user has a host of its own."""
    shared_account: str | None
    """The account of the machine that all users' jobs run as, where users trust each other; else null."""
    user_domains: bool
    """Whether each user's sessions have an origin of their own."""
    sessions_address: str | None
    """The ``host:port`` to connect to where a program does not find ``*.localhost``; null: a session's
    URL is enough."""


class Impersonation(Frozen):
    """An administrator looks at the platform as the user."""

    by: str = Field(description="The administrator.", examples=["root"])
    until: UtcTime = Field(description="When it ends by itself.")


class Me(Frozen):
    """Who is logged in. ``csrf_token`` goes into ``X-CSRF-Token``; null for a token's bearer."""

    user: MeUser
    """Who is logged in."""
    projects: list[str]
    """The names of those that one belongs to."""
    csrf_token: str | None
    """To be sent as ``X-CSRF-Token``; null for a token's bearer."""
    platform: PlatformInfo
    impersonation: Impersonation | None = Field(
        None, description="Set while an administrator looks at the platform as this user."
    )


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
    """What the account may do."""
    default_project: ProjectName | None = Field(
        None, description="Made if it is missing; omitted: a project of the user's own name."
    )


class UserChanges(Strict):
    """What is not given stays. ``role``, ``disabled`` and ``source`` are for administrators."""

    display_name: str | None = Field(None, max_length=200)
    role: Role | None = None
    disabled: Flag | None = None
    password: Password | None = None
    current_password: str | None = Field(
        None, max_length=1_024, description="Needed to set your own password."
    )
    source: SourceName | None = Field(
        None,
        description="Who vouches for the account from now on, for administrators: `password` is the "
        "platform itself. Another one than that makes it forget the password.",
        examples=["ldap"],
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
