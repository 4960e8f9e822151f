"""Records that the store's methods take and return, in addition to the models."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
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
"""Function that is called with the stored object in the transaction that changes it; if it raises
an exception, nothing is changed.
"""


class Page(Frozen, Generic[T]):
    """Page of a list. ``next_cursor`` is an opaque text that requests the next page; None on the
    last page. ``total`` is the number of matching items on all pages.
    """

    items: tuple[T, ...]
    next_cursor: str | None = None
    total: int


class Idempotency(Frozen):
    """Idempotency key that a client sent with a request, and the hash of that request."""

    owner: str
    key: str
    request_hash: str

    @classmethod
    def of(cls, owner: str, key: str | None, verb: str, body: Any) -> Idempotency | None:
        """Return the key of a request of the user ``owner`` with its hash; None without a key.
        ``body`` is the request as JSON values.
        """
        if key is None:
            return None
        text = json.dumps([verb, body], sort_keys=True, separators=(",", ":"))
        request_hash = hashlib.sha256(text.encode()).hexdigest()
        return cls(owner=owner, key=key, request_hash=request_hash)


class CreatedJob(Frozen):
    """Result of creating a job. ``replayed`` is True if an earlier request with the same
    idempotency key created the job.
    """

    job: Job
    replayed: bool


@dataclass(frozen=True, slots=True)
class NewJob:
    """Job to store: its database row, for an array job the rows of its tasks, and the idempotency
    key of the request.
    """

    job: Job
    tasks: Sequence[Job] = ()
    idempotency: Idempotency | None = None


class QueuePosition(Frozen):
    """Position of a job among the pending jobs of this platform in one partition."""

    position: int
    """Position in the queue, counted from 1."""
    waiting: int
    """Number of pending jobs in the partition."""
    partition: str
    """Name of the partition."""
    place: ClassVar = deprecated_copy("position", int)


class OutboxKind(StrEnum):
    """Kind of action in the outbox: submit a job, cancel it, extend its time limit, hold or release
    it as its specification says, or set how many tasks of its array run at once.
    """

    SUBMIT = "submit"
    CANCEL = "cancel"
    EXTEND = "extend"
    HOLD = "hold"
    THROTTLE = "throttle"


@dataclass(frozen=True, slots=True)
class TransitionRequest:
    """Change of one job's state or fields; ``JobStore.apply`` makes many of them in one
    transaction.

    ``to`` None: the state stays. ``since``: the state changes only if it is one of these; otherwise
    it stays, and ``changes`` are written only with ``anyway``. ``with_tasks``: the same change is
    made to the tasks of an array job in this attempt, whose scheduler IDs are derived from the
    array's.
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
    """Action on a job that the controller must carry out in the scheduler at least once, an entry
    of the outbox.
    """

    id: int
    kind: OutboxKind
    job_id: UUID
    attempt: int
    data: dict[str, Any] = Field(default_factory=dict)
    tries: int = 0
    created_at: datetime


class Lease(Frozen):
    """The lease that makes one controller the leader. Each new holder gets a higher ``epoch``."""

    holder: str
    epoch: int
    expires_at: datetime
    expired: bool = False
    """Whether the lease has expired, by the clock of the database if it has one."""
    counters: dict[str, dict[str, float]] = Field(default_factory=dict)
    """Counters of the holder since its start, by metric and label. They are published through the
    lease because the controller listens on no port.
    """
