"""Models of the API's requests and responses, as far as they differ from the core models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field

from aitne.core.jobs.failure_explanation import Failure
from aitne.core.jobs.pending_job_advice import Advice
from aitne.core.jobs.usage_sample_values import SampleValue
from aitne.core.models.access_token import Scope, Token
from aitne.core.models.base import (
    AskedFlag,
    Flag,
    Frozen,
    ProjectName,
    Seconds,
    Strict,
    UserName,
    UtcTime,
    Written,
    deprecated_copy,
)
from aitne.core.models.cluster import Node, Reservation, SchedulerStatus
from aitne.core.models.event import Event
from aitne.core.models.job import JobType
from aitne.core.models.job_file import JobFile
from aitne.core.models.job_search import JobSearch, JobSort, SessionSearch
from aitne.core.models.limits import LimitsApplied
from aitne.core.models.project import Project
from aitne.core.models.template import Template
from aitne.core.models.usage_sample import Sample
from aitne.core.models.user import Role
from aitne.core.models.user_project_search import ProjectSearch, UserListItem
from aitne.core.notifications.settings import check_mail_address
from aitne.core.retention import RetentionSettings
from aitne.core.units import MAX_ARRAY_TASKS
from aitne.core.users.auth_settings import SourceName
from aitne.services.cluster.cluster import PartitionSummary
from aitne.services.users.password_rules import MIN_CHARACTERS
from aitne.store.job_tokens_and_samples import QueuePosition

Password = Annotated[str, Field(min_length=MIN_CHARACTERS, max_length=1_024)]


class SessionFile(JobFile):
    """Job file of a session: its type is always ``session``."""

    type: Literal[JobType.SESSION] = JobType.SESSION


class JobPageQuery(Strict):
    """Page of a list of jobs: position, length and order."""

    sort: JobSort = Field(JobSort.CREATED, description="Sort key.")
    order: Literal["asc", "desc"] = Field("desc", description="Sort direction.")
    cursor: str | None = Field(
        None, max_length=4_000, description="next_cursor of the previous page, with the same sort."
    )
    limit: int = Field(100, ge=1, le=500, description="Maximum number on a page.")


class JobQuery(JobPageQuery, SessionSearch):
    """Filter on sessions, with the page to return."""


class AnyJobQuery(JobPageQuery, JobSearch):
    """Filter on jobs, with the page to return."""


class LogQuery(Strict):
    """Part of a log to return. Offsets and lengths are bytes."""

    offset: int = Field(0, ge=0, description="Offset of the first byte.")
    limit: int = Field(1 << 20, ge=1, le=8 << 20, description="Maximum number of bytes.")
    tail: int | None = Field(
        None, ge=0, description="Start this number of bytes before the end; offset is ignored."
    )
    task: int | None = Field(None, ge=0, description="The index of a task of an array job.")
    follow: AskedFlag = Field(
        False, description="Continue until the job has ended and all is sent; limit is ignored."
    )


class SampleSummary(Frozen):
    """Summary of the resources that a job used; null for values that were not measured."""

    cpu_mean: float | None
    """CPUs in use, on average: 1.0 is one busy core."""
    cpu_max: float | None
    """Maximum of CPUs in use."""
    memory_max_bytes: int | None
    """Maximum of memory in use, in bytes."""

    @classmethod
    def from_samples(cls, samples: Sequence[Sample]) -> Self:
        """Create the summary from measurements, each of which concerns one node."""
        if not samples:
            return cls(cpu_mean=None, cpu_max=None, memory_max_bytes=None)
        cpu = [sample.cpu for sample in samples]
        return cls(
            cpu_mean=sum(cpu) / len(cpu),
            cpu_max=max(cpu),
            memory_max_bytes=max(sample.memory_bytes for sample in samples),
        )


class JobMetrics(Frozen):
    """Resources that a job used: each measurement, and a summary."""

    samples: list[Sample]
    """The measurements, oldest first."""
    summary: SampleSummary
    """Summary of the whole run."""
    values: list[SampleValue]
    """Values of the samples that the job's page draws beside CPUs and memory."""


class EventList(Frozen):
    """History of a job."""

    items: list[Event]
    """Events, oldest first."""


class JobQueue(Frozen):
    """Position of a job in the queue of this platform's jobs, ordered by the scheduler's
    priority."""

    position: Annotated[
        QueuePosition | None,
        Field(description="Position; null: it does not wait, or there are no priorities."),
    ]
    advice: Annotated[
        tuple[Advice, ...],
        Field(description="Advice on how to start earlier; often empty."),
    ]
    place: ClassVar = deprecated_copy("position", QueuePosition | None)


class JobFailure(Frozen):
    """Explanation of a job's failure; null if it has not failed."""

    failure: Failure | None
    """What happened, and what can be done."""


class JobRecord(Frozen):
    """Raw record of the job as the scheduler reports it; null if there is none, or none yet."""

    record: dict[str, Any] | None
    """Fields as the scheduler names them."""


class SessionUrl(Frozen):
    """URL of a session. Sessions have another origin than the portal."""

    url: str


class Extension(Written):
    """Time by which to extend a job or session."""

    duration: Seconds = Field(description="Time to add to the remaining time, such as 1h.")


class JobChange(Strict):
    """Change of an array job: how many of its tasks may run at once."""

    max_parallel: int | None = Field(
        strict=True,
        ge=1,
        le=MAX_ARRAY_TASKS,
        description="Maximum number of tasks of the array that run at once; null: no limit.",
    )


class TemplateProblem(Frozen):
    """A template file that was rejected; other templates are not affected."""

    path: str
    """Path of the file."""
    line: int | None
    """Line in the file; null: the whole file."""
    reason: str
    """Error in the file."""


class TemplateList(Frozen):
    """Job templates. ``problems`` lists rejected template files, for administrators only."""

    items: list[Template]
    problems: list[TemplateProblem]
    """Files that were rejected."""


class NodeList(Frozen):
    """Nodes in their last known state; ``stale`` if that is too old to rely on."""

    items: list[Node]
    as_of: UtcTime | None
    stale: bool
    scheduler: Annotated[
        SchedulerStatus | None, Field(description="Whether it answers; null: not polled yet.")
    ]


class PartitionList(Frozen):
    """Partitions, the default one first, and the QOS and reservations that jobs may name."""

    items: list[PartitionSummary]
    qos: list[str]
    """Names of qualities of service."""
    reservations: list[Reservation]
    """Reservations that are known now."""
    as_of: UtcTime | None
    stale: bool


class Drain(Strict):
    """Reason for draining a node."""

    reason: str = Field(min_length=1, max_length=200, description="Reason, shown with the node.")


class Login(Strict):
    """A user name and its password."""

    username: str = Field(max_length=200)
    """The login name."""
    password: str = Field(max_length=1_024)


class LoginLinkUse(Strict):
    """Secret of a login link: the part after `#link=`."""

    token: str = Field(min_length=1, max_length=200)
    """Secret of the link: the part after ``#link=``."""


class LoginLink(Frozen):
    """Link that works once, until ``expires_at``. It logs in any browser that opens it: do not
    share it."""

    url: str
    """URL to open once in a browser."""
    expires_at: UtcTime


class MeUser(Frozen):
    """The user who is logged in."""

    name: str
    display_name: str
    role: Role
    default_project: str
    """Project of jobs that do not specify a project."""


class PlatformInfo(Frozen):
    """Description of the platform: title, version, cluster, scheduler."""

    title: str
    version: str
    cluster: str
    scheduler: str
    """Adapter through which jobs reach the scheduler: ``local``, ``slurm_cli``, …"""
    can_drain: bool
    """Whether administrators can drain nodes of this cluster."""
    limits_applied: LimitsApplied
    """When changed limits of projects and members apply: ``at_once``; ``after_sync``, once an
    administrator has synchronized Slurm's accounts; ``never``, the scheduler holds none."""
    retention: Annotated[
        RetentionSettings, Field(description="How long the site keeps ended jobs, in seconds.")
    ]
    sessions_origin: str
    """Origin of session URLs; JupyterHub's own if each user's sessions have a separate host."""
    shared_account: str | None
    """Unix account under which the jobs of all users run; null if each user has an account."""
    unix_accounts: bool
    """Whether each user's jobs run as a Unix account of the user, which must exist."""
    user_domains: bool
    """Whether each user's sessions have an origin of their own."""
    documentation_url: str | None
    """The site's documentation for users; null: none is set."""
    sessions_address: str | None
    """Address ``host:port`` to connect to if a program cannot resolve ``*.localhost``; null if a
    session's URL can be used directly."""
    limits: ClassVar = deprecated_copy("limits_applied", LimitsApplied)


class Impersonation(Frozen):
    """Administrator who acts as the current user, and until when."""

    impersonator: str = Field(description="The administrator.", examples=["root"])
    until: UtcTime = Field(description="Time at which it ends.")
    by: ClassVar = deprecated_copy("impersonator", str)


class Me(Frozen):
    """The current user. ``csrf_token`` must be sent as ``X-CSRF-Token``; null if the request has an
    access token."""

    user: MeUser
    """The user who is logged in."""
    projects: list[str]
    """Names of the user's projects."""
    csrf_token: str | None
    """Value to send as ``X-CSRF-Token`` with changing requests; null if the request has an access
    token."""
    platform: PlatformInfo
    impersonation: Impersonation | None = Field(
        None, description="Set while an administrator acts as this user."
    )


class NewToken(Written):
    """Personal access token to create."""

    name: str = Field(min_length=1, max_length=100, description="Name of the token.")
    scopes: list[Scope] = Field(
        [Scope.READ, Scope.WRITE], min_length=1, description="Scopes of the token."
    )
    expires_in: Annotated[
        Seconds | None,
        Field(
            description="Validity, such as 30d; null: unlimited.",
            json_schema_extra={"default": "30d"},
        ),
    ] = 30 * 86_400
    user: Annotated[
        UserName | None, Field(description="Owner, for administrators; omitted: you.")
    ] = None


class TokenSecret(Token):
    """A new token with its secret, which is shown only once."""

    model_config = ConfigDict(
        json_schema_extra={
            "description": "Personal access token. `token`, the secret, is returned only when the token is created."
        }
    )

    token: str


class TokenList(Frozen):
    """Tokens, without their secrets."""

    items: list[Token]


def _check_mail(value: str | None) -> str | None:
    return None if value is None else check_mail_address(value)


class NewUser(Strict):
    """Account to create. Without a password the user can log in only by a link or a token."""

    name: UserName
    password: Password | None = None
    display_name: str = Field("", max_length=200)
    mail: Annotated[str | None, AfterValidator(_check_mail)] = Field(
        None,
        max_length=320,
        description="Mail address for notifications; the user can change it.",
        examples=["ada@example.org"],
    )
    role: Role = Role.USER
    """Role of the account."""
    default_project: ProjectName | None = Field(
        None, description="Created if missing; omitted: a project with the user's name."
    )


class UserChanges(Strict):
    """Changes of an account; omitted fields keep their values. Only administrators may set
    ``role``, ``disabled`` and ``source``."""

    display_name: str | None = Field(None, max_length=200)
    role: Role | None = None
    disabled: Flag | None = None
    password: Password | None = None
    current_password: str | None = Field(
        None, max_length=1_024, description="Required to set your own password."
    )
    source: SourceName | None = Field(
        None,
        description="New identity source, for administrators; `password` is the platform itself. "
        "Any other source deletes the account's password.",
        examples=["ldap"],
    )


class UserPage(Frozen):
    """One page of accounts."""

    items: list[UserListItem]
    next_cursor: str | None
    total: int


class ProjectList(Frozen):
    """Projects with their members, by name."""

    items: list[Project]
    next_cursor: str | None = Field(
        description="Cursor of the next page; null on the last page, and without `limit`."
    )
    total: int = Field(description="Number of projects that match.")


class ProjectQuery(ProjectSearch):
    """Filter on projects, with the page to return."""

    cursor: str | None = Field(
        None, max_length=500, description="next_cursor of the previous page."
    )
    limit: int | None = Field(
        None, ge=1, le=500, description="Maximum number on a page; omitted: all projects."
    )

    def to_search(self) -> ProjectSearch:
        """Return the filter on projects without the position and length of the page."""
        return ProjectSearch(**{name: getattr(self, name) for name in ProjectSearch.model_fields})


class PageQuery(Strict):
    """Page of a list: position and length."""

    cursor: str | None = Field(
        None, max_length=500, description="next_cursor of the previous page."
    )
    limit: int = Field(100, ge=1, le=500, description="Maximum number on a page.")
