"""Records of projects, their usage, and the comparison with Slurm's accounts."""

from __future__ import annotations

from aitne.client.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any


class BudgetRecord(Record):
    """Hours that a project may use, each ``month`` or in ``total``."""

    gpu_hours: int | None
    cpu_hours: int | None
    period: str
    since: str | None


class ExtensionRequestRecord(Record):
    """Request of a manager for a later end of the project."""

    until: datetime
    reason: str
    by: str
    at: datetime


class ProjectRecord(Record, budget=BudgetRecord, extension=ExtensionRequestRecord):
    """Group of users whose jobs are accounted together. ``state``: requested, active, expired or
    closed."""

    name: str
    title: str
    description: str
    members: list[str]
    managers: list[str]
    state: str
    note: str | None
    requested_by: str | None
    closed_by: str | None
    expires_at: datetime | None
    budget: BudgetRecord | None
    extension: ExtensionRequestRecord | None
    created_at: datetime


class MembershipRecord(Record):
    """One user in one project, with the user's role and own limits.

    ``effective`` has the limits that apply: the lower of the member's and the project's.
    ``in_slurm`` is False until an administrator synchronizes Slurm; None without Slurm's
    accounting.
    """

    project: str
    user: str
    role: str
    limits: dict[str, Any]
    effective: dict[str, Any] | None
    in_slurm: bool | None


class InvitationRecord(Record):
    """Invitation to join a project, without the secret of its link."""

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
    """Invitation with its link, which is returned only once."""

    invitation: InvitationRecord
    url: str


class InvitationPreviewRecord(Record):
    """Project, role and inviter of an invitation, visible before joining."""

    project: str
    title: str
    description: str
    role: str
    invited_by: str
    inviter_name: str
    expires_at: datetime
    open: bool
    closed_because: str | None


class BudgetShareRecord(Record):
    """Hours of one kind: the budget, those used, and those left."""

    budget: int | None
    used: float | None
    left: float | None


class BalanceRecord(Record, gpu_hours=BudgetShareRecord, cpu_hours=BudgetShareRecord):
    """Budget of a project, with the hours used and left."""

    project: str
    period: str
    since: datetime
    until: datetime | None
    as_of: datetime | None
    gpu_hours: BudgetShareRecord
    cpu_hours: BudgetShareRecord
    spent: bool


class WaitingJobRecord(Record):
    """Job that waits, with its owner and the reason."""

    id: str
    name: str
    owner: str
    asks_for: str
    waits_since: datetime
    reason: str | None
    expected_start_at: datetime | None


class LimitUseRecord(Record):
    """Use of one limit, in total and by user."""

    limit: str
    used: int
    most: int | None
    by: dict[str, int]
    summary: str | None


class ProjectLimitsRecord(Record, members=MembershipRecord, use=LimitUseRecord):
    """Limits of a project and of its members, and their use."""

    project: str
    limits: dict[str, Any]
    granted: dict[str, Any]
    own: dict[str, Any]
    members: list[MembershipRecord]
    use: list[LimitUseRecord]
    as_of: datetime | None


class UsageRowRecord(Record):
    """Usage of one user's jobs in one project."""

    project: str
    user: str
    jobs: int
    cpu_hours: float
    gpu_hours: float
    gpu_hours_by_type: dict[str, float]


class UsageReportRecord(Record, rows=UsageRowRecord):
    """Usage of one month, by project and user."""

    month: str
    starts_at: datetime
    ends_at: datetime
    as_of: datetime
    rows: list[UsageRowRecord]


class UserWaitRecord(Record):
    """Waiting times of one user's jobs before they started, in seconds."""

    user: str
    jobs: int
    median_s: float
    slow_s: float
    longest_s: float


class MonthSumRecord(Record):
    """Usage of all members together in one month."""

    month: str
    jobs: int
    cpu_hours: float
    gpu_hours: float


class ProjectReportRecord(
    UsageReportRecord,
    total=UsageRowRecord,
    rows=UsageRowRecord,
    waits=UserWaitRecord,
    months=MonthSumRecord,
    balance=BalanceRecord,
):
    """Usage report of one project for one month."""

    project: str
    title: str
    source: str
    total: UsageRowRecord
    waits: list[UserWaitRecord]
    outcomes: dict[str, int]
    months: list[MonthSumRecord]
    balance: BalanceRecord


class SyncDifferenceRecord(Record):
    """One difference between Slurm's accounts and the projects."""

    project: str
    user: str | None
    what: str
    slurm: str
    portal: str


class SyncReportRecord(Record, differences=SyncDifferenceRecord):
    """Differences between the projects and Slurm's accounts; ``digest`` identifies them."""

    cluster: str
    differences: list[SyncDifferenceRecord]
    left_alone: list[str]
    digest: str
    applied: bool
