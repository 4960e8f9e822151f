"""What the platform answers about projects, their usage and Slurm's accounts."""

from __future__ import annotations

from aitne.client.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any


class Budget(Record):
    """Hours that a project may use, each ``month`` or in ``total``."""

    gpu_hours: int | None
    cpu_hours: int | None
    period: str
    since: str | None


class ExtensionRequest(Record):
    """A later end that was asked for."""

    until: datetime
    reason: str
    by: str
    at: datetime


class Project(Record, budget=Budget, extension=ExtensionRequest):
    """What jobs are accounted to. ``state`` is requested, active, expired or closed."""

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
    budget: Budget | None
    extension: ExtensionRequest | None
    created_at: datetime


class Membership(Record):
    """One user in one project, with the user's role and own limits.

    ``effective`` is what holds: the least of its own limits and the project's. ``in_slurm`` is False
    until an administrator brings Slurm in line; None where nobody keeps accounts.
    """

    project: str
    user: str
    role: str
    limits: dict[str, Any]
    effective: dict[str, Any] | None
    in_slurm: bool | None


class Invitation(Record):
    """A link that lets people join, without its secret."""

    id: str
    project: str
    role: str
    created_by: str
    created_at: datetime
    expires_at: datetime
    uses: int
    max_uses: int
    revoked_at: datetime | None


class InvitationLink(Record, invitation=Invitation):
    """An invitation and its link, which is told this once."""

    invitation: Invitation
    url: str


class InvitationPreview(Record):
    """Who invites to what."""

    project: str
    title: str
    description: str
    role: str
    invited_by: str
    inviter_name: str
    expires_at: datetime
    open: bool
    closed_because: str | None


class Share(Record):
    """Hours of one kind: what may be used, was used and is left."""

    budget: int | None
    used: float | None
    left: float | None


class Balance(Record, gpu_hours=Share, cpu_hours=Share):
    """What a project has left of its budget."""

    project: str
    period: str
    since: datetime
    until: datetime | None
    as_of: datetime | None
    gpu_hours: Share
    cpu_hours: Share
    spent: bool


class WaitingJob(Record):
    """A job that waits, whose it is and why."""

    id: str
    name: str
    owner: str
    asks_for: str
    waits_since: datetime
    reason: str | None
    expected_start_at: datetime | None


class Use(Record):
    """How much of one limit is in use, and by whom."""

    limit: str
    used: int
    most: int | None
    by: dict[str, int]
    summary: str | None


class ProjectLimits(Record, members=Membership, use=Use):
    """A project's limits, its members', and what is in use."""

    project: str
    limits: dict[str, Any]
    granted: dict[str, Any]
    own: dict[str, Any]
    members: list[Membership]
    use: list[Use]
    as_of: datetime | None


class UsageRow(Record):
    """What one user's jobs of one project have used."""

    project: str
    user: str
    jobs: int
    cpu_hours: float
    gpu_hours: float
    gpu_hours_by_type: dict[str, float]


class UsageReport(Record, rows=UsageRow):
    """One month."""

    month: str
    starts_at: datetime
    ends_at: datetime
    as_of: datetime
    rows: list[UsageRow]


class UserWait(Record):
    """How long one user's jobs waited before they began."""

    user: str
    jobs: int
    median_s: float
    slow_s: float
    longest_s: float


class MonthSum(Record):
    """What all members together used in one month."""

    month: str
    jobs: int
    cpu_hours: float
    gpu_hours: float


class ProjectReport(
    UsageReport, total=UsageRow, rows=UsageRow, waits=UserWait, months=MonthSum, balance=Balance
):
    """A month of one project."""

    project: str
    title: str
    source: str
    total: UsageRow
    waits: list[UserWait]
    outcomes: dict[str, int]
    months: list[MonthSum]
    balance: Balance


class Difference(Record):
    """One thing that Slurm's accounts and the projects do not agree on."""

    project: str
    user: str | None
    what: str
    slurm: str
    portal: str


class SyncReport(Record, differences=Difference):
    """What differs; ``digest`` names exactly that."""

    cluster: str
    differences: list[Difference]
    left_alone: list[str]
    digest: str
    applied: bool
