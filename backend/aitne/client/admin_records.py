"""What the platform answers to administrators, and what it tells everybody."""

from __future__ import annotations

from datetime import datetime

from aitne.client.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class AuditEntry(Record):
    """Who did what to what, from where, and how it ended."""

    id: int
    time: datetime
    actor: str
    impersonator: str | None
    action: str
    object: str | None
    outcome: str
    address: str | None
    details: dict[str, Any]
    previous: str
    hash: str


class AuditCheck(Record):
    """What a walk along the chain of hashes found."""

    whole: bool
    entries: int
    last_hash: str | None
    broken_entry: int | None
    problem: str | None


class Announcement(Record):
    """Something that people should know."""

    id: str
    severity: str
    text: str
    projects: list[str]
    starts_at: datetime
    ends_at: datetime | None
    created_at: datetime
    created_by: str
    updated_at: datetime
    dismissed: bool
    dismissible: bool


class Maintenance(Record):
    """Whether new work begins, and when that changes. ``phase``: off, scheduled or on."""

    phase: str
    starts_at: datetime | None
    ends_at: datetime | None
    message: str
    created_by: str | None
    created_at: datetime | None


class NodeEvent(Record):
    """One thing that happened to a node."""

    id: int
    time: datetime
    what: str
    reason: str | None
    actor: str | None


class PartHealth(Record):
    """One part of the platform. ``state``: ok, unknown, degraded or down."""

    name: str
    state: str
    says: str
    advice: str | None
    since: datetime
    last_problem: str | None
    last_problem_at: datetime | None
    facts: dict[str, Any]


class Health(Record, parts=PartHealth):
    """Every part, the worst first."""

    state: str
    version: str
    as_of: datetime
    parts: list[PartHealth]


class Setting(Record):
    """One setting, and where it is from."""

    name: str
    value: str | None
    default: str | None
    source: str
    where: str | None
    description: str
