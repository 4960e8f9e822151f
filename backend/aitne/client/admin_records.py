"""Records for administrators (audit log, health, settings, nodes), announcements and
maintenance."""

from __future__ import annotations

from datetime import datetime

from aitne.client.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class AuditEntryRecord(Record):
    """One entry of the audit log: time, actor, action, object, address and outcome."""

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


class AuditCheckRecord(Record):
    """Result of a check of the audit log's chain of hashes."""

    whole: bool
    entries: int
    last_hash: str | None
    broken_entry: int | None
    problem: str | None


class AnnouncementRecord(Record):
    """Message from an administrator to all users or to the members of some projects."""

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


class MaintenanceRecord(Record):
    """State of maintenance, in which no new work starts. ``phase``: off, scheduled or on."""

    phase: str
    starts_at: datetime | None
    ends_at: datetime | None
    message: str
    created_by: str | None
    created_at: datetime | None


class NodeEventRecord(Record):
    """One entry in the history of a node."""

    id: int
    time: datetime
    what: str
    reason: str | None
    actor: str | None


class PartHealthRecord(Record):
    """State of one part of the platform. ``state``: ok, unknown, degraded or down."""

    name: str
    state: str
    says: str
    advice: str | None
    since: datetime
    last_problem: str | None
    last_problem_at: datetime | None
    facts: dict[str, Any]


class HealthRecord(Record, parts=PartHealthRecord):
    """State of the platform with all of its parts, the worst first."""

    state: str
    version: str
    as_of: datetime
    parts: list[PartHealthRecord]


class SettingRecord(Record):
    """One setting with its value and the source of the value."""

    name: str
    value: str | None
    default: str | None
    source: str
    where: str | None
    description: str
