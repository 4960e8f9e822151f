"""Operations on projects: members, limits, usage, and Slurm's accounts."""

from __future__ import annotations

from aitne.client.api_session import quote_segment
from aitne.client.deprecated_names import resolve_deprecated_limit, warn_renamed
from aitne.client.project_records import (
    BalanceRecord,
    InvitationLinkRecord,
    InvitationPreviewRecord,
    InvitationRecord,
    MembershipRecord,
    ProjectLimitsRecord,
    ProjectRecord,
    ProjectReportRecord,
    SyncReportRecord,
    UsageReportRecord,
    WaitingJobRecord,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterator, Mapping
    from datetime import datetime
    from typing import Any

    from aitne.client.api_session import ApiSession


class Projects:
    """Operations on projects, as ``client.projects``."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def list(self, *, state: str | None = None) -> list[ProjectRecord]:
        """Return the user's projects, or all for administrators. ``state`` restricts them to one
        state: requested, active, expired or closed."""
        projects = self._session.request_json("GET", "/projects", query={"state": state})["items"]
        return [ProjectRecord(item) for item in projects]

    def get(self, name: str) -> ProjectRecord:
        """Return one project. Raises ``NotFound``."""
        return ProjectRecord(self._session.request_json("GET", f"/projects/{quote_segment(name)}"))

    def create(
        self,
        name: str,
        *,
        title: str = "",
        description: str = "",
        reason: str | None = None,
        expires_at: datetime | None = None,
        manager: str | None = None,
    ) -> ProjectRecord:
        """Create a project, or request one if administrators must approve it. The ``state`` of the
        result shows which.

        If an administrator creates it, it has ``manager`` as its only member, or no members if that
        is None; otherwise its creator becomes its manager. ``reason`` is for the administrator who
        approves it.
        """
        body = {"name": name, "title": title, "description": description, "reason": reason}
        if manager is not None:
            body["manager"] = manager
        return ProjectRecord(
            self._session.request_json(
                "POST", "/projects", body={**body, "expires_at": _format_time(expires_at)}
            )
        )

    def update(
        self, name: str, *, title: str | None = None, description: str | None = None
    ) -> ProjectRecord:
        """Change the title or description of a project; managers only. None means unchanged."""
        body = {"title": title, "description": description}
        return ProjectRecord(
            self._session.request_json("PATCH", f"/projects/{quote_segment(name)}", body=body)
        )

    def describe(
        self, name: str, *, title: str | None = None, description: str | None = None
    ) -> ProjectRecord:
        """Change the title or description of a project. Deprecated alias of ``update``."""
        warn_renamed("projects.describe", "projects.update")
        return self.update(name, title=title, description=description)

    def approve(
        self,
        name: str,
        *,
        expires_at: datetime | None = None,
        budget: Mapping[str, Any] | None = None,
        limits: Mapping[str, Any] | None = None,
    ) -> ProjectRecord:
        """Approve a requested project; administrators only. Arguments that are None are as
        requested, or no budget and no limits."""
        body = {"expires_at": _format_time(expires_at), "budget": budget, "limits": limits}
        return self._post_verb(name, "approve", body)

    def decline(self, name: str, reason: str) -> ProjectRecord:
        """Decline a requested project, or a requested later end; administrators only."""
        return self._post_verb(name, "decline", {"reason": reason})

    def close(self, name: str, reason: str = "") -> ProjectRecord:
        """Close a project for new jobs; pending and running jobs continue. Managers only."""
        return self._post_verb(name, "close", {"reason": reason})

    def reopen(self, name: str) -> ProjectRecord:
        """Reopen a closed project; managers only, or administrators only if an administrator closed
        it."""
        return self._post_verb(name, "reopen", None)

    def request_extension(self, name: str, until: datetime, reason: str = "") -> ProjectRecord:
        """Request a later end of a project, which an administrator approves; managers only."""
        return self._post_verb(name, "extension", {"until": _format_time(until), "reason": reason})

    def ask_for_time(self, name: str, until: datetime, reason: str = "") -> ProjectRecord:
        """Request a later end of a project. Deprecated alias of ``request_extension``."""
        warn_renamed("projects.ask_for_time", "projects.request_extension")
        return self.request_extension(name, until, reason)

    def set_end(self, name: str, expires_at: datetime | None) -> ProjectRecord:
        """Set the end of a project; None removes it. Administrators only."""
        body = {"expires_at": _format_time(expires_at)}
        path = f"/projects/{quote_segment(name)}/end"
        return ProjectRecord(self._session.request_json("PUT", path, body=body, repeatable=True))

    def set_budget(self, name: str, budget: Mapping[str, Any]) -> ProjectRecord:
        """Set the hours that a project may use; administrators only.

        ``budget`` has ``gpu_hours``, ``cpu_hours`` and ``period``.
        """
        path = f"/projects/{quote_segment(name)}/budget"
        return ProjectRecord(self._session.request_json("PUT", path, body=budget, repeatable=True))

    def set_retention(
        self,
        name: str,
        *,
        keep_jobs: str | int | None = None,
        keep_failed_jobs: str | int | None = None,
    ) -> ProjectRecord:
        """Set how long ended jobs of the project are kept, such as ``"30d"`` or ``"forever"``;
        None: as long as the site's default says. Managers only."""
        path = f"/projects/{quote_segment(name)}/retention"
        body = {"keep_jobs": keep_jobs, "keep_failed_jobs": keep_failed_jobs}
        return ProjectRecord(self._session.request_json("PUT", path, body=body, repeatable=True))

    def balance(self, name: str) -> BalanceRecord:
        """Return the budget of a project with the hours used and left."""
        return BalanceRecord(
            self._session.request_json("GET", f"/projects/{quote_segment(name)}/balance")
        )

    def waiting(
        self, name: str, *, limit: int | None = None, most: int | None = None
    ) -> Iterator[WaitingJobRecord]:
        """Iterate over the project's pending jobs; pages are fetched as needed. ``limit`` is the
        maximum number of jobs; ``most`` is its deprecated alias."""
        path = f"/projects/{quote_segment(name)}/waiting"
        return map(
            WaitingJobRecord,
            self._session.list_pages(path, {}, limit=resolve_deprecated_limit(limit, most)),
        )

    def invitations(self, name: str) -> builtins.list[InvitationRecord]:
        """Return the project's invitations, newest first; managers only."""
        invitations = self._session.request_json(
            "GET", f"/projects/{quote_segment(name)}/invitations"
        )["items"]
        return [InvitationRecord(item) for item in invitations]

    def invite(
        self, name: str, *, role: str = "member", max_uses: int = 1, lifetime: int | str = "7d"
    ) -> InvitationLinkRecord:
        """Create an invitation link to the project; managers only.

        ``role`` is the role of the new members, ``max_uses`` the number of users who can join with
        it, and ``lifetime`` its validity, such as ``"7d"``.
        """
        body = {"role": role, "max_uses": max_uses, "lifetime": lifetime}
        path = f"/projects/{quote_segment(name)}/invitations"
        return InvitationLinkRecord(self._session.request_json("POST", path, body=body))

    def revoke_invitation(self, name: str, invitation: str) -> None:
        """Revoke an invitation; managers only."""
        path = f"/projects/{quote_segment(name)}/invitations/{quote_segment(invitation)}"
        self._session.request_json("DELETE", path)

    def preview_invitation(self, token: str) -> InvitationPreviewRecord:
        """Return the project and the inviter of an invitation. ``token`` is the whole link, or the
        part after its ``#``."""
        body = {"token": _extract_token(token)}
        return InvitationPreviewRecord(
            self._session.request_json("POST", "/invitations/preview", body=body)
        )

    def look_at_invitation(self, token: str) -> InvitationPreviewRecord:
        """Return the project and the inviter of an invitation. Deprecated alias of
        ``preview_invitation``."""
        warn_renamed("projects.look_at_invitation", "projects.preview_invitation")
        return self.preview_invitation(token)

    def join(self, token: str) -> MembershipRecord:
        """Join the project of an invitation. ``token`` is the whole link, or the part after its
        ``#``."""
        body = {"token": _extract_token(token)}
        return MembershipRecord(
            self._session.request_json("POST", "/invitations/accept", body=body, repeatable=True)
        )

    def _post_verb(self, name: str, verb: str, body: object) -> ProjectRecord:
        return ProjectRecord(
            self._session.request_json("POST", f"/projects/{quote_segment(name)}/{verb}", body=body)
        )

    def members(self, name: str) -> builtins.list[MembershipRecord]:
        """Return the members of a project. Raises ``NotFound``."""
        members = self._session.request_json("GET", f"/projects/{quote_segment(name)}/members")[
            "items"
        ]
        return [MembershipRecord(item) for item in members]

    def put_member(
        self,
        name: str,
        user: str,
        *,
        limits: Mapping[str, Any] | None = None,
        role: str | None = None,
        default: bool = False,
    ) -> MembershipRecord:
        """Add a user to the project, or change a member's role and own limits; managers only.

        ``default`` makes the project the user's default; administrators only.
        """
        path = f"/projects/{quote_segment(name)}/members/{quote_segment(user)}"
        body = {"limits": limits, "role": role, "default": default}
        return MembershipRecord(self._session.request_json("PUT", path, body=body, repeatable=True))

    def remove_member(self, name: str, user: str) -> None:
        """Remove a member from the project; managers only, but members may remove themselves."""
        self._session.request_json(
            "DELETE", f"/projects/{quote_segment(name)}/members/{quote_segment(user)}"
        )

    def limits(self, name: str) -> ProjectLimitsRecord:
        """Return the limits of a project and their use. Raises ``NotFound``."""
        return ProjectLimitsRecord(
            self._session.request_json("GET", f"/projects/{quote_segment(name)}/limits")
        )

    def set_limits(self, name: str, limits: Mapping[str, Any]) -> ProjectLimitsRecord:
        """Replace the limits that the project is granted; administrators only."""
        path = f"/projects/{quote_segment(name)}/limits"
        return ProjectLimitsRecord(
            self._session.request_json("PUT", path, body=limits, repeatable=True)
        )

    def set_own_limits(self, name: str, limits: Mapping[str, Any]) -> ProjectLimitsRecord:
        """Set limits of the project that are stricter than those it is granted; managers only."""
        path = f"/projects/{quote_segment(name)}/limits/own"
        return ProjectLimitsRecord(
            self._session.request_json("PUT", path, body=limits, repeatable=True)
        )

    def usage(self, name: str | None = None, *, month: str | None = None) -> UsageReportRecord:
        """Return the usage of one month (``YYYY-MM``, in UTC) for one project, or for all that the
        user may see. ``month`` None: the current month so far."""
        path = "/usage" if name is None else f"/projects/{quote_segment(name)}/usage"
        return UsageReportRecord(self._session.request_json("GET", path, query={"month": month}))

    def report(self, name: str, *, month: str | None = None) -> ProjectReportRecord:
        """Return the usage report of a project for one month (``YYYY-MM``, in UTC); None: the
        current month."""
        path = f"/projects/{quote_segment(name)}/report"
        return ProjectReportRecord(self._session.request_json("GET", path, query={"month": month}))

    def usage_csv(self, name: str, *, month: str | None = None, since: str | None = None) -> str:
        """Return usage of a project as CSV: of one ``month``, or of all months from ``since`` to
        ``month`` (``YYYY-MM``)."""
        path = f"/projects/{quote_segment(name)}/usage.csv"
        query = {"month": month, "since": since}
        return self._session.request_body("GET", path, query=query)[1].decode()

    def compare(self) -> SyncReportRecord:
        """Return the differences between the projects and Slurm's accounts; administrators only."""
        return SyncReportRecord(self._session.request_json("GET", "/admin/sync"))

    def sync(self, digest: str) -> SyncReportRecord:
        """Apply to Slurm's accounts exactly the differences that ``compare`` returned, identified
        by their ``digest``; administrators only."""
        return SyncReportRecord(
            self._session.request_json("POST", "/admin/sync", body={"digest": digest})
        )


def _format_time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _extract_token(text: str) -> str:
    """Return the secret of an invitation: the part after the ``#`` of a link, or the text
    itself."""
    return text.rpartition("#")[2]
