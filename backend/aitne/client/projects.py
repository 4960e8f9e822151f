"""Projects: members, limits, usage, and Slurm's accounts."""

from __future__ import annotations

from aitne.client.records import Record
from aitne.client.session import segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any

    from aitne.client.session import Session


class Project(Record):
    """What jobs are accounted to."""

    name: str
    title: str
    members: list[str]
    created_at: datetime


class Membership(Record):
    """One user in one project, with the user's own limits."""

    project: str
    user: str
    limits: dict[str, Any]


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


class Projects:
    """``client.projects``."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list(self) -> list[Project]:
        """One's own; for administrators all."""
        return [Project(item) for item in self._session.json("GET", "/projects")["items"]]

    def get(self, name: str) -> Project:
        """Raises ``NotFound``."""
        return Project(self._session.json("GET", f"/projects/{segment(name)}"))

    def create(self, name: str, *, title: str = "") -> Project:
        """Make one, without members; administrators only."""
        return Project(self._session.json("POST", "/projects", body={"name": name, "title": title}))

    def members(self, name: str) -> builtins.list[Membership]:
        """Who works in it. Raises ``NotFound``."""
        found = self._session.json("GET", f"/projects/{segment(name)}/members")["items"]
        return [Membership(item) for item in found]

    def put_member(
        self,
        name: str,
        user: str,
        *,
        limits: Mapping[str, Any] | None = None,
        default: bool = False,
    ) -> Membership:
        """Make somebody a member, or change a member's own limits; administrators only."""
        path = f"/projects/{segment(name)}/members/{segment(user)}"
        body = {"limits": limits, "default": default}
        return Membership(self._session.json("PUT", path, body=body, repeatable=True))

    def remove_member(self, name: str, user: str) -> None:
        """End a membership; administrators only."""
        self._session.json("DELETE", f"/projects/{segment(name)}/members/{segment(user)}")

    def limits(self, name: str) -> ProjectLimits:
        """Limits and what is in use of them. Raises ``NotFound``."""
        return ProjectLimits(self._session.json("GET", f"/projects/{segment(name)}/limits"))

    def set_limits(self, name: str, limits: Mapping[str, Any]) -> ProjectLimits:
        """Replace the project's limits; administrators only."""
        path = f"/projects/{segment(name)}/limits"
        return ProjectLimits(self._session.json("PUT", path, body=limits, repeatable=True))

    def usage(self, name: str | None = None, *, month: str | None = None) -> UsageReport:
        """A month of one project, or of all that one may see; without ``month`` this one so far."""
        path = "/usage" if name is None else f"/projects/{segment(name)}/usage"
        return UsageReport(self._session.json("GET", path, query={"month": month}))

    def compare(self) -> SyncReport:
        """What differs from Slurm's accounts; administrators only."""
        return SyncReport(self._session.json("GET", "/admin/sync"))

    def sync(self, digest: str) -> SyncReport:
        """Bring Slurm's accounts in line, exactly as ``compare`` showed; administrators only."""
        return SyncReport(self._session.json("POST", "/admin/sync", body={"digest": digest}))
