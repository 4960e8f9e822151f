"""The store: everything that must survive. One implementation (SQLAlchemy) for SQLite and PostgreSQL.

Each method is one transaction. No method waits for anything but the database. Every change of a job
appends an event row in the same transaction, and event ids are readable in commit order.
All methods may raise ``StoreUnavailable``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from pydantic import Field

from aitne.core.models.base import Frozen
from aitne.core.models.event import Event
from aitne.core.models.job import Job, JobChanges, JobFilter, Sample
from aitne.core.models.node import Node
from aitne.core.models.user import Project, Role, Token, User
from aitne.core.states import JobState

T = TypeVar("T")


class Page(Frozen, Generic[T]):
    """``next_cursor`` is opaque; None on the last page. ``total`` counts all that match."""

    items: tuple[T, ...]
    next_cursor: str | None = None
    total: int


class Idempotency(Frozen):
    """``key`` as the client sent it, and a hash of the request it came with."""

    owner: str
    key: str
    request_hash: str


class Created(Frozen):
    """``replayed``: the idempotency key was known, and this is the job it made."""

    job: Job
    replayed: bool


class OutboxKind(StrEnum):
    """What is to be done."""

    SUBMIT = "submit"
    CANCEL = "cancel"
    EXTEND = "extend"


class OutboxItem(Frozen):
    """Something the controller must do in the outside world, at least once."""

    id: int
    kind: OutboxKind
    job_id: UUID
    attempt: int
    data: dict[str, Any] = Field(default_factory=dict)
    tries: int = 0
    created_at: datetime


class Lease(Frozen):
    """The lead among controllers. Each new holder gets a higher ``epoch``."""

    holder: str
    epoch: int
    expires_at: datetime
    counters: dict[str, dict[str, float]] = Field(default_factory=dict)
    """What the holder has counted since it began, by metric and label: it has no port of its own."""


class JobStore(Protocol):
    """Jobs, their events and samples, and what is to be done about them."""

    async def create_job(
        self, job: Job, tasks: Sequence[Job] = (), *, idempotency: Idempotency | None = None
    ) -> Created:
        """Store the job (an array with its task rows), its outbox row and event in one transaction.

        Raises:
            IdempotencyConflict: the key was used with another request. While the first request is
                still in flight the second waits for it, then gets the same job.
        """
        ...

    async def find_replay(self, idempotency: Idempotency) -> Job | None:
        """The job that this key made before, so that a repeated request is not judged anew.

        Raises ``IdempotencyConflict`` as ``create_job`` does."""
        ...

    async def get_job(self, job_id: UUID) -> Job:
        """Raises ``NotFound``."""
        ...

    async def list_jobs(
        self,
        where: JobFilter,
        *,
        visible_to: str | None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[Job]:
        """Newest first. ``visible_to`` None: all; a user's name: that user's jobs and those of the
        user's projects. Raises ``InvalidInput`` for a cursor that is not one of ours."""
        ...

    async def array_tasks(self, array_job_id: UUID) -> Sequence[Job]:
        """The task rows of an array job, by index."""
        ...

    async def live_jobs(self) -> Sequence[Job]:
        """Every job that is not in a terminal state, oldest first."""
        ...

    async def count_by_state(self) -> dict[JobState, int]:
        """How many jobs are in each state; states without any may be missing."""
        ...

    async def transition(
        self,
        job_id: UUID,
        to: JobState,
        changes: JobChanges | None = None,
        *,
        attempt: int | None = None,
        version: int | None = None,
        epoch: int | None = None,
        message: str | None = None,
    ) -> Job:
        """Move one job and write the event ``job.state`` (or ``job.changed`` if the state stays).

        Only fields that were set on ``changes`` are written (``model_fields_set``). Entering a
        terminal state also removes the job's token and its hand-over. A transition that
        changes nothing writes nothing. If the job is an array task, its array job's row is
        brought up to date in the same transaction (see ``core.arrays``).

        Raises:
            NotFound: no such job.
            IllegalTransition: no such edge.
            Conflict: ``attempt`` or ``version`` was given and is not the row's.
            StaleEpoch: ``epoch`` was given and another controller leads.
        """
        ...

    async def retry(
        self,
        job_id: UUID,
        to: JobState | None = None,
        changes: JobChanges | None = None,
        *,
        attempt: int | None = None,
        epoch: int,
    ) -> Job:
        """End this attempt in the terminal state ``to`` (None: it has ended) and begin the next.

        One transaction, so that no crash comes between the end and the promised attempt: the job
        becomes PENDING_SUBMIT with attempt + 1 and a new outbox row, and the fields of the old attempt
        are cleared. A job that somebody asked to cancel meanwhile ends and is not begun again.
        Raises as ``transition``.
        """
        ...

    async def request_cancel(self, job_id: UUID, now: datetime, message: str | None = None) -> Job:
        """Note the wish and queue a CANCEL in the outbox; of an array, for every live task.

        ``message`` says who ended it; it becomes the message of each job that is concerned, unless
        its end was wished before.

        A job still PENDING_SUBMIT becomes CANCELLED at once and its SUBMIT is dropped. A terminal
        job is returned as it is.
        """
        ...

    async def request_extend(self, job_id: UUID, time_limit_s: int) -> Job:
        """Queue an EXTEND in the outbox with ``data = {"time_limit_s": …}``."""
        ...

    async def lease_outbox(self, *, epoch: int, limit: int, lease_s: float) -> Sequence[OutboxItem]:
        """Take up to ``limit`` items that nobody works on, oldest first.

        A lease holds for ``lease_s`` and only under the lead that took it: the next leader need not
        wait for the leases of one that died. Raises ``StaleEpoch``.
        """
        ...

    async def finish_outbox(self, item_id: int, *, epoch: int) -> None:
        """It is done. Raises ``StaleEpoch``."""
        ...

    async def return_outbox(self, item_id: int, *, epoch: int, delay_s: float) -> None:
        """Try again after ``delay_s``. Raises ``StaleEpoch``."""
        ...

    async def outbox_depth(self) -> tuple[int, float]:
        """How many items wait, and the age of the oldest in seconds (0.0 if none)."""
        ...

    async def set_job_token(self, job_id: UUID, token_hash: str, *, epoch: int) -> None:
        """The hash of the job's own token, with which its agent reports. Array tasks share it."""
        ...

    async def job_of_token(self, token_hash: str) -> Job | None:
        """The (array) job that the token belongs to, if it lives."""
        ...

    async def put_handover(self, job_id: UUID, payload: dict[str, Any]) -> None:
        """What the Hub leaves for the waiting agent (environment and arguments)."""
        ...

    async def get_handover(self, job_id: UUID) -> dict[str, Any] | None:
        """What ``put_handover`` left; None while there is nothing."""
        ...

    async def add_samples(self, job_id: UUID, samples: Sequence[Sample]) -> None:
        """Append measurements; one that is there already is dropped."""
        ...

    async def samples(
        self, job_id: UUID, *, since: datetime | None = None, limit: int = 2_000
    ) -> Sequence[Sample]:
        """Oldest first; thinned evenly to ``limit``."""
        ...

    async def job_events(self, job_id: UUID) -> Sequence[Event]:
        """The job's own history, oldest first: what the stages are drawn from."""
        ...


class ClusterStore(Protocol):
    """The nodes, the lead among controllers, and the event log."""

    async def save_nodes(self, nodes: Sequence[Node], *, epoch: int) -> None:
        """Replace the snapshot; writes ``nodes.changed`` only if something other than
        ``seen_at`` differs. Raises ``StaleEpoch``."""
        ...

    async def nodes(self) -> Sequence[Node]:
        """The latest snapshot; empty before the first."""
        ...

    async def take_lease(
        self,
        name: str,
        holder: str,
        *,
        duration_s: float,
        counters: Mapping[str, dict[str, float]] | None = None,
    ) -> Lease | None:
        """Take or renew the named lease; None while another holder's has not expired."""
        ...

    async def current_lease(self, name: str) -> Lease | None:
        """Who holds the lease, expired or not; None if it was given up or nobody ever took it."""
        ...

    async def drop_lease(self, name: str, holder: str) -> None:
        """Give the lease back, if ``holder`` still has it."""
        ...

    async def events_after(self, event_id: int, *, limit: int = 1_000) -> Sequence[Event]:
        """The events that were committed after ``event_id``, oldest first."""
        ...

    async def last_event_id(self) -> int:
        """The newest event's id; 0 if there is none."""
        ...

    async def add_event(self, kind: str, data: dict[str, Any]) -> None:
        """Append an event that belongs to no job and that everyone may see."""
        ...

    async def wait_for_change(self, timeout_s: float) -> bool:
        """Return True soon (aim 50 ms) after any process committed a change, False after the timeout.

        Cheap when nothing happens: SQLite looks at ``PRAGMA data_version``, PostgreSQL LISTENs.
        Spurious True is allowed; a change is never missed (each waiter compares with the state at
        the end of its previous call).
        """
        ...

    async def prune(self, *, events_before: datetime, idempotency_before: datetime) -> None:
        """Delete older events, measurements and keys, and every secret and web session that has expired."""
        ...


class UserStore(Protocol):
    """People, projects, credentials."""

    async def create_user(self, user: User, password_hash: str | None, project: Project) -> User:
        """Also creates the project if it is missing and makes the user its member.

        Raises ``Conflict`` if the name is taken."""
        ...

    async def get_user(self, name: str) -> User:
        """Raises ``NotFound``."""
        ...

    async def list_users(self, *, cursor: str | None = None, limit: int = 100) -> Page[User]:
        """All users by name."""
        ...

    async def update_user(
        self,
        name: str,
        *,
        display_name: str | None = None,
        role: Role | None = None,
        disabled: bool | None = None,
        password_hash: str | None = None,
    ) -> User:
        """Disabling or a new password ends the user's web sessions. Raises ``NotFound``."""
        ...

    async def password_hash(self, name: str) -> str | None:
        """None: no such user, or one without a password."""
        ...

    async def projects_of(self, name: str) -> frozenset[str]:
        """The names of the projects that the user is a member of."""
        ...

    async def list_projects(self, *, visible_to: str | None) -> Sequence[Project]:
        """By name. ``visible_to`` None: all; else those the user is a member of."""
        ...

    async def create_web_session(
        self, token_hash: str, owner: str, csrf: str, expires_at: datetime
    ) -> None:
        """A login in a browser: the cookie's hash and the CSRF token that goes with it."""
        ...

    async def web_session(self, token_hash: str, now: datetime) -> tuple[User, str] | None:
        """The user and the CSRF token, unless expired or the user is disabled."""
        ...

    async def end_web_session(self, token_hash: str) -> None:
        """Log out. An unknown session is no error."""
        ...

    async def create_token(self, token: Token, token_hash: str) -> None:
        """Store a personal access token with its secret's hash."""
        ...

    async def token_user(self, token_hash: str, now: datetime) -> tuple[User, Token] | None:
        """Also notes the use (at most once a minute). None: unknown, expired, user disabled."""
        ...

    async def list_tokens(self, owner: str) -> Sequence[Token]:
        """The owner's tokens, newest first."""
        ...

    async def delete_token(self, owner: str, token_id: str) -> None:
        """Raises ``NotFound``."""
        ...

    async def put_secret(
        self, purpose: str, secret_hash: str, owner: str, expires_at: datetime, data: dict[str, Any]
    ) -> None:
        """A short-lived single-use secret: a login link, an OAuth code, an OAuth access token."""
        ...

    async def take_secret(
        self, purpose: str, secret_hash: str, now: datetime
    ) -> tuple[str, dict[str, Any]] | None:
        """Owner and data, once: the second taker and anyone after the expiry get None."""
        ...

    async def note_attempt(self, key: str, now: datetime, *, window_s: float) -> int:
        """Count one attempt under ``key`` (a name, an address) and return how many fall into the window."""
        ...

    async def clear_attempts(self, key: str) -> None:
        """Forget what was counted under ``key``."""
        ...


class Store(JobStore, ClusterStore, UserStore, Protocol):
    """The whole store."""

    async def start(self) -> None:
        """Open the database and migrate it. Raises ``SetupError`` (damaged, read-only, full,
        newer than this release, SQLite on a network file system) with what to do."""
        ...

    async def close(self) -> None:
        """Let go of every connection."""
        ...

    async def ping(self) -> None:
        """Raises ``StoreUnavailable``."""
        ...
