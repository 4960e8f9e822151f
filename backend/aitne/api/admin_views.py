"""Models of the API's requests and responses for administrators, as far as they differ from the
core models."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from aitne.api.job_query_views import PageQuery
from aitne.core.models.announcement import (
    Announcement,
    AnnouncementText,
    NodeEvent,
    Severity,
)
from aitne.core.models.audit import AuditEntry, AuditFilter, Outcome
from aitne.core.models.base import AskedFlag, Frozen, ProjectName, Strict, UtcTime
from aitne.core.models.user_project_search import UserSearch, UserSort
from aitne.local_system.settings_report import SettingView

# Databases cannot compare text that contains NUL.
_Text = Annotated[str | None, Field(min_length=1, max_length=500, pattern=r"^[^\x00]*$")]


class AuditConditions(Strict):
    """Filter on entries of the audit log."""

    actor: _Text = Field(
        None,
        description="Only actions of this user, or of this administrator as another user.",
        examples=["ada"],
    )
    action: _Text = Field(
        None, description="Only this operation of the API.", examples=["drain_node"]
    )
    object: _Text = Field(
        None,
        description="Only actions on this object, or on objects below it.",
        examples=["gpu03", "vision"],
    )
    outcome: Outcome | None = Field(None, description="Only actions with this outcome.")
    since: UtcTime | None = Field(
        None, description="Only entries from this time on.", examples=["2026-03-01T00:00:00Z"]
    )
    until: UtcTime | None = Field(
        None, description="Only entries before this time.", examples=["2026-04-01T00:00:00Z"]
    )
    preferences: AskedFlag = Field(
        True, description="false: without changes of users' own preferences in the portal."
    )

    def to_filter(self) -> AuditFilter:
        """Return these conditions as the filter that the database query takes."""
        return AuditFilter(**{name: getattr(self, name) for name in AuditFilter.model_fields})


class AuditQuery(AuditConditions, PageQuery):
    """Filter on entries of the audit log, with the page to return."""


class AuditExportQuery(AuditConditions):
    """Filter on entries of the audit log, with the format of the export."""

    format: Literal["jsonl", "csv"] = Field(
        "jsonl",
        description="jsonl: one JSON object per line, with hashes that can be verified offline; "
        "csv: for spreadsheets.",
    )


class AuditPage(Frozen):
    """One page of the audit log, newest first."""

    items: list[AuditEntry] = Field(description="The entries.")
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page.")
    total: int = Field(description="Number of entries that match.")
    job_names: dict[str, str] = Field(
        description="Names of the jobs that are objects of these entries, by ID."
    )


class AnnouncementQuery(PageQuery):
    """Selection of announcements: the user's current ones, or all."""

    all: AskedFlag = Field(
        False, description="Also past and future ones, of all users; administrators only."
    )


class AnnouncementView(Announcement):
    """Announcement, with whether the requesting user has dismissed it or may do so."""

    dismissed: bool = Field(description="Whether you have dismissed it.")
    dismissible: bool = Field(description="Whether you may dismiss it; false for critical ones.")


class AnnouncementPage(Frozen):
    """One page of announcements."""

    items: list[AnnouncementView] = Field(
        description="Your own: the most important first; all: the latest start first."
    )
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page.")
    total: int = Field(description="Number of announcements on all pages.")


class NewAnnouncement(Strict):
    """Announcement to all users, or to the members of some projects."""

    text: AnnouncementText = Field(
        description="Plain text.", examples=["The file system is slow until noon."]
    )
    severity: Severity = Field(Severity.INFO, description="Severity of the announcement.")
    projects: list[ProjectName] = Field(
        [],
        max_length=100,
        description="Only for members of these projects; empty: for all users.",
        examples=[["vision"]],
    )
    starts_at: UtcTime | None = Field(
        None, description="Time from which it is shown; omitted: now."
    )
    ends_at: UtcTime | None = Field(
        None,
        description="Time until which it is shown; omitted: until it is deleted.",
        examples=[None],
    )


class AnnouncementChanges(Strict):
    """Changes of an announcement; omitted fields keep their values. With ``ends_at`` null the
    announcement is shown until it is deleted."""

    text: AnnouncementText | None = Field(None, description="Plain text.")
    severity: Severity | None = Field(None, description="Severity of the announcement.")
    projects: list[ProjectName] | None = Field(
        None,
        max_length=100,
        description="Only for members of these projects; empty: for all users.",
    )
    starts_at: UtcTime | None = Field(None, description="Time from which it is shown.")
    ends_at: UtcTime | None = Field(
        None, description="Time until which it is shown; null: until it is deleted."
    )

    def to_changes(self) -> dict[str, object]:
        """Return the fields to change with their new values. A null is ignored, except for
        ``ends_at``."""
        return {
            name: value
            for name, value in self.model_dump(exclude_unset=True).items()
            if value is not None or name == "ends_at"
        }


class NewMaintenance(Strict):
    """Period of maintenance, in which no new jobs start."""

    starts_at: UtcTime | None = Field(None, description="Time at which it starts; omitted: now.")
    ends_at: UtcTime | None = Field(
        None, description="Time at which it ends; omitted: when an administrator ends it."
    )
    message: str = Field(
        "",
        max_length=500,
        description="Reason, shown to all users.",
        examples=["New network switches"],
    )


class NodeEventPage(Frozen):
    """One page of a node's history, newest first."""

    items: list[NodeEvent] = Field(description="Events of the node.")
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page.")
    total: int = Field(description="Number of stored events.")


class NodeDrain(NodeEvent):
    """Last drain of a node that an administrator requested through the platform."""

    node: str = Field(description="The node.", examples=["gpu03"])


class NodeDrainList(Frozen):
    """The last drain of each node."""

    items: list[NodeDrain] = Field(description="Drains, by the node's name.")


class SettingList(Frozen):
    """The settings of this platform."""

    items: list[SettingView] = Field(
        description="Settings; those without a section first, then by name."
    )


class UserQuery(PageQuery, UserSearch):
    """Filter on accounts, with the page to return."""

    sort: UserSort = Field(UserSort.NAME, description="Sort key.")
    order: Literal["asc", "desc"] = Field("asc", description="Sort direction.")

    def to_search(self) -> UserSearch:
        """Return the filter on accounts without the position and length of the page."""
        return UserSearch(**{name: getattr(self, name) for name in UserSearch.model_fields})


class TopologyImport(Strict):
    """A file with a topology."""

    content: str = Field(
        min_length=1,
        max_length=1 << 20,
        description="Text of a topology.conf, topology.yaml, the output of `scontrol show "
        "topology` or `nvidia-smi topo -m`, a gres.conf, or an XML file of hwloc.",
    )
    node: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$",
        description="Node that the file describes, if the file does not name it.",
    )
