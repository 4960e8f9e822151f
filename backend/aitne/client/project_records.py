"""Records of projects, their usage, and the comparison with Slurm's accounts. Made by ``make gen``; do not edit."""

from __future__ import annotations

from datetime import datetime

from aitne.client.record_base import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class BudgetRecord(Record):
    """Hours that a project may use, monthly or in total. An omitted value is not limited."""

    gpu_hours: int | None
    cpu_hours: int | None
    period: str
    since: str | None


class ExtensionRequestRecord(Record):
    """Request of a project's manager to extend the project until a later end."""

    until: datetime
    reason: str
    by: str
    at: datetime


class ProjectRecord(Record, budget=BudgetRecord, extension=ExtensionRequestRecord):
    """Group of users whose jobs are accounted together; its members see each other's jobs."""

    name: str
    title: str
    members: list[str]
    created_at: datetime
    managers: list[str]
    description: str
    state: str
    note: str | None
    requested_by: str | None
    closed_by: str | None
    expires_at: datetime | None
    budget: BudgetRecord | None
    extension: ExtensionRequestRecord | None
    retention: dict[str, Any] | None


class MembershipRecord(Record):
    """Member of a project with the limits that apply, and whether the membership exists in
    Slurm.
    """

    project: str
    user: str
    limits: dict[str, Any]
    role: str
    effective: dict[str, Any]
    in_slurm: bool | None


class InvitationRecord(Record):
    """Link that makes any user who opens it a member of a project. Its secret is shown once;
    only a hash is stored.
    """

    id: str
    project: str
    role: str
    created_by: str
    created_at: datetime
    expires_at: datetime
    uses: int
    max_uses: int
    revoked_at: datetime | None


class InvitationLinkRecord(Record, invitation=InvitationRecord):
    """An invitation with its link, which is shown only once: only a hash of it is stored."""

    invitation: InvitationRecord
    url: str


class InvitationPreviewRecord(Record):
    """Invitation as shown to a user who has opened its link but not joined: the project and the
    inviting user.
    """

    project: str
    title: str
    description: str
    role: str
    invited_by: str
    inviter_name: str
    expires_at: datetime
    open: bool
    closed_reason: str | None
    closed_because: str | None  # deprecated


class BudgetShareRecord(Record):
    """Budgeted, used and remaining hours of one kind: GPU-hours or CPU-hours."""

    budget: int | None
    used: float | None
    remaining: float | None
    left: float | None  # deprecated


class BalanceRecord(Record, gpu_hours=BudgetShareRecord, cpu_hours=BudgetShareRecord):
    """Budget of a project, and how much of it is used in the present period."""

    project: str
    period: str
    since: datetime
    until: datetime | None
    as_of: datetime | None
    gpu_hours: BudgetShareRecord
    cpu_hours: BudgetShareRecord
    exhausted: bool
    spent: bool  # deprecated


class WaitingJobRecord(Record):
    """Queued job of the project, with its pending reason."""

    id: str
    name: str
    array_task_id: int | None
    owner: str
    resources: str
    pending_since: datetime
    reason: str | None
    expected_start_at: datetime | None
    asks_for: str  # deprecated
    waits_since: datetime  # deprecated


class LimitUseRecord(Record):
    """Current use of one limit, in total and by user, as the scheduler counts it."""

    limit: str
    used: int
    maximum: int | None
    by_user: dict[str, int]
    summary: str | None
    by: dict[str, int]  # deprecated
    most: int | None  # deprecated


class ProjectLimitsRecord(Record, members=MembershipRecord, use=LimitUseRecord):
    """Limits of a project and its members, and how much of each limit is in use."""

    project: str
    limits: dict[str, Any]
    granted: dict[str, Any]
    own: dict[str, Any]
    members: list[MembershipRecord]
    use: list[LimitUseRecord]
    as_of: datetime | None


class UsageRowRecord(Record):
    """Usage in one month by one user's jobs in one project."""

    project: str
    user: str
    jobs: int
    cpu_hours: float
    gpu_hours: float
    gpu_hours_by_type: dict[str, float]
    energy_j: int | None


class UsageReportRecord(Record, rows=UsageRowRecord):
    """Usage of one month, which begins and ends at midnight UTC, by project and user.

    The current month is counted until ``as_of``.
    """

    month: str
    starts_at: datetime
    ends_at: datetime
    as_of: datetime
    rows: list[UsageRowRecord]


class UserWaitRecord(Record):
    """Statistics of the time in the queue of one user's jobs that started in the month."""

    user: str
    jobs: int
    median_s: float
    p90_s: float
    max_s: float
    slow_s: float  # deprecated
    longest_s: float  # deprecated


class MonthSumRecord(Record):
    """Usage of a project in one month, summed over all its members."""

    month: str
    jobs: int
    cpu_hours: float
    gpu_hours: float


class ProjectReportRecord(
    Record,
    rows=UsageRowRecord,
    total=UsageRowRecord,
    waits=UserWaitRecord,
    months=MonthSumRecord,
    balance=BalanceRecord,
):
    """Usage report of one project for a month: usage by user, waiting times, and how jobs ended."""

    month: str
    starts_at: datetime
    ends_at: datetime
    as_of: datetime
    rows: list[UsageRowRecord]
    project: str
    title: str
    source: str
    total: UsageRowRecord
    waits: list[UserWaitRecord]
    outcomes: dict[str, int]
    months: list[MonthSumRecord]
    balance: BalanceRecord


class SyncDifferenceRecord(Record):
    """One difference between Slurm's accounting and the platform, described in words."""

    project: str
    user: str | None
    field: str
    slurm: str
    platform: str
    portal: str  # deprecated
    what: str  # deprecated


class SyncReportRecord(Record, differences=SyncDifferenceRecord):
    """All differences between Slurm's accounting and the platform. ``digest`` identifies them,
    so that an administrator applies only those that were shown.
    """

    cluster: str
    differences: list[SyncDifferenceRecord]
    unmanaged: list[str]
    digest: str
    applied: bool
    left_alone: list[str]  # deprecated
