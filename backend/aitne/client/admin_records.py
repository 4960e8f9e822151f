"""Records for administrators (audit log, health, settings, nodes), announcements, maintenance. Made by ``make gen``; do not edit."""

from __future__ import annotations

from datetime import datetime

from aitne.client.record_base import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class AuditEntryRecord(Record):
    """Stored entry of the audit log, with its number and hashes."""

    time: datetime
    actor: str
    impersonator: str | None
    action: str
    object: str | None
    outcome: str
    address: str | None
    details: dict[str, Any]
    id: int
    previous: str
    hash: str


class AuditCheckRecord(Record):
    """Result of checking the chain of hashes over the whole audit log."""

    intact: bool
    entries: int
    last_hash: str | None
    broken_entry: int | None
    problem: str | None
    whole: bool  # deprecated


class AnnouncementRecord(Record):
    """Announcement, with whether the requesting user has dismissed it or may do so."""

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
    """The present or next maintenance as users see it: its phase, its period and its message."""

    phase: str
    starts_at: datetime | None
    ends_at: datetime | None
    message: str
    created_by: str | None
    created_at: datetime | None


class NodeEventRecord(Record):
    """Entry in the history of a node: a change of its state, or an administrator's action."""

    id: int
    time: datetime
    event: str
    reason: str | None
    actor: str | None
    what: str  # deprecated


class PartHealthRecord(Record):
    """Health of one part of the platform, such as the database."""

    name: str
    state: str
    message: str
    advice: str | None
    since: datetime
    last_problem: str | None
    last_problem_at: datetime | None
    facts: dict[str, Any]
    says: str  # deprecated


class HealthRecord(Record, parts=PartHealthRecord):
    """Health of the platform: the state of every part, the worst first."""

    state: str
    version: str
    as_of: datetime
    parts: list[PartHealthRecord]


class SettingRecord(Record):
    """One setting with its value and source."""

    name: str
    value: str | None
    default: str | None
    unit: str | None
    source: str
    location: str | None
    description: str
    where: str | None  # deprecated
