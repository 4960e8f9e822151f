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
    """Page of a list."""

    items: tuple[T, ...]
    next_cursor: str | None = None
    """Opaque text with which the next page is requested; None: this is the last page."""
    total: int
    """Number of matching items on all pages."""


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
    """Whether an earlier request with the same idempotency key created the job."""


@dataclass(frozen=True, slots=True)
class NewJob:
    """Job that is to be stored."""

    job: Job
    tasks: Sequence[Job] = ()
    """Database rows of an array job's tasks; empty for other jobs."""
    idempotency: Idempotency | None = None
    """Idempotency key of the request; None: it had no key."""


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
    """Change of the state or of fields of one job. ``JobStore.apply`` makes many of them in one
    transaction.
    """

    job_id: UUID
    to: JobState | None
    """New state; None: the state is not changed."""
    changes: JobChanges | None = None
    """Fields to change; None: none."""
    attempt: int | None = None
    """Attempt that the job must be in; None: any."""
    version: int | None = None
    """Version that the row must have; None: any."""
    since: frozenset[JobState] | None = None
    """States in which the new state is applied; in other states it is ignored. None: all states."""
    anyway: bool = False
    """Whether ``changes`` are written even if ``since`` prevents the new state."""
    with_tasks: bool = False
    """Whether the tasks of an array job that are in this attempt get the same change. Their
    scheduler IDs are derived from the array's.
    """


class OutboxItem(Frozen):
    """Entry of the outbox: an action that the controller must carry out in the scheduler at least
    once.
    """

    id: int
    kind: OutboxKind
    job_id: UUID
    attempt: int
    data: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the action, such as ``time_limit_s``."""
    tries: int = 0
    """Number of times that the item was reserved."""
    created_at: datetime


class Lease(Frozen):
    """Lease that makes one controller the leader."""

    holder: str
    """Name of the controller that holds the lease."""
    epoch: int
    """Number of the leadership; each new holder gets a higher one."""
    expires_at: datetime
    expired: bool = False
    """Whether the lease has expired, by the clock of the database if it has one."""
    counters: dict[str, dict[str, float]] = Field(default_factory=dict)
    """Counters of the holder since its start, by metric and label. They are published through the
    lease because the controller listens on no port.
    """
