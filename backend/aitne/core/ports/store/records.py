"""Records that the store's methods take and return, beside the models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar
from uuid import UUID

from pydantic import Field

from aitne.core.jobs.states import JobState
from aitne.core.models.base import Frozen, deprecated_copy
from aitne.core.models.job import Job, JobChanges

T = TypeVar("T")

Check: TypeAlias = Callable[[T], None] | None
"""Check of the stored object within the transaction that changes it: an exception leaves it as it
is."""


class Page(Frozen, Generic[T]):
    """Page of a list. ``next_cursor`` is opaque; None on the last page. ``total`` counts all that
    match."""

    items: tuple[T, ...]
    next_cursor: str | None = None
    total: int


class Idempotency(Frozen):
    """Idempotency key of a client, with a hash of the request that it came with."""

    owner: str
    key: str
    request_hash: str


class CreatedJob(Frozen):
    """Stored job. ``replayed``: the idempotency key was known, and this is the job it created."""

    job: Job
    replayed: bool


class QueuePlace(Frozen):
    """Position in the queue, counted from 1, among ``waiting`` jobs of this platform in
    ``partition``."""

    position: int
    """Counted from 1."""
    waiting: int
    """Number of jobs that wait there."""
    partition: str
    """The partition it waits for."""
    place: ClassVar = deprecated_copy("position", int)


class OutboxKind(StrEnum):
    """Kind of action in the outbox."""

    SUBMIT = "submit"
    CANCEL = "cancel"
    EXTEND = "extend"


@dataclass(frozen=True, slots=True)
class TransitionRequest:
    """One of many transitions that are made in one transaction.

    ``to`` None: the state stays. ``since``: only from one of these states; from any other the state
    stays, and ``changes`` are written only if ``anyway``. ``with_tasks``: of an array job, the same
    for its tasks of this attempt, whose ids of the scheduler follow from the array's.
    """

    job_id: UUID
    to: JobState | None
    changes: JobChanges | None = None
    attempt: int | None = None
    version: int | None = None
    since: frozenset[JobState] | None = None
    anyway: bool = False
    with_tasks: bool = False


class OutboxItem(Frozen):
    """Action that the controller must carry out in an outside system, at least once."""

    id: int
    kind: OutboxKind
    job_id: UUID
    attempt: int
    data: dict[str, Any] = Field(default_factory=dict)
    tries: int = 0
    created_at: datetime


class Lease(Frozen):
    """Lease of the leading controller. Each new holder gets a higher ``epoch``."""

    holder: str
    epoch: int
    expires_at: datetime
    expired: bool = False
    """By the database's clock, where it has one of its own."""
    counters: dict[str, dict[str, float]] = Field(default_factory=dict)
    """Counters of the holder since its start, by metric and label: it has no port of its own."""
