"""Announcements of administrators to users, and periods of maintenance."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from aitne.core.models.base import Frozen, ProjectName, UtcTime, deprecated_copy

AnnouncementText = Annotated[str, Field(min_length=1, max_length=2_000)]


class Severity(StrEnum):
    """Severity of an announcement."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"
    """Severity of an announcement that users cannot dismiss."""


class Announcement(Frozen):
    """Message of an administrator to users, shown during a period."""

    id: str = Field(examples=["5f2d1c0b9a8e7d6c"])
    severity: Severity = Field(description="Severity; users cannot dismiss critical announcements.")
    text: AnnouncementText = Field(
        description="Plain text.", examples=["The file system is slow until noon."]
    )
    projects: tuple[ProjectName, ...] = Field(
        (), description="Projects whose members see it; empty: all users."
    )
    starts_at: UtcTime = Field(description="Time from which it is shown.")
    ends_at: UtcTime | None = Field(
        None, description="Time until which it is shown; null: until it is deleted."
    )
    created_at: UtcTime = Field(description="Time of its creation.")
    created_by: str = Field(description="The administrator who created it.")
    updated_at: UtcTime = Field(description="Time of its last change.")

    def is_current(self, now: datetime) -> bool:
        """Return whether the announcement is shown at the time ``now``."""
        return self.starts_at <= now and (self.ends_at is None or now < self.ends_at)

    def is_addressed_to(self, projects: frozenset[str]) -> bool:
        """Return whether the announcement is addressed to a member of these projects."""
        return not self.projects or bool(projects.intersection(self.projects))


class Maintenance(Frozen):
    """Period in which no new job starts; running jobs continue."""

    starts_at: UtcTime = Field(description="Time from which new jobs are held.")
    ends_at: UtcTime | None = Field(
        None,
        description="Time from which new jobs start again; null: when maintenance is turned off.",
    )
    message: str = Field("", max_length=500, description="Reason, shown to all users.")
    created_at: UtcTime
    created_by: str = Field(description="The administrator who set it.")

    def is_over(self, now: datetime) -> bool:
        """Return whether the end of the maintenance has passed at ``now``."""
        return self.ends_at is not None and self.ends_at <= now

    def is_in_progress(self, now: datetime) -> bool:
        """Return whether the maintenance is in progress at ``now``, so that new jobs are held."""
        return self.starts_at <= now and not self.is_over(now)


class NodeEvent(Frozen):
    """Entry in the history of a node: a change of its state, or an administrator's action."""

    id: int
    time: UtcTime = Field(description="Time at which it was observed or done.")
    event: str = Field(
        description="`up`, or a state in which it accepts no jobs; `drain` and `resume` are "
        "actions of administrators; `gone`: the scheduler no longer reports the node.",
        examples=["drained"],
    )
    reason: str | None = Field(
        None, description="Reason given by the scheduler or the administrator."
    )
    actor: str | None = Field(
        None, description="The administrator who did it; null: reported by the scheduler."
    )
    what: ClassVar = deprecated_copy("event", str)
