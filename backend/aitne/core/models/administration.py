"""Messages of administrators for all users: announcements, and periods of maintenance."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from aitne.core.models.base import Frozen, ProjectName, UtcTime

AnnouncementText = Annotated[str, Field(min_length=1, max_length=2_000)]


class Severity(StrEnum):
    """Severity of an announcement."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"
    """Users cannot dismiss it."""


class Announcement(Frozen):
    """Message of an administrator to users, for a time."""

    id: str = Field(examples=["5f2d1c0b9a8e7d6c"])
    severity: Severity = Field(description="How much it matters; critical ones stay in sight.")
    text: AnnouncementText = Field(
        description="Plain text.", examples=["The file system is slow until noon."]
    )
    projects: tuple[ProjectName, ...] = Field(
        (), description="Whom it concerns: members of these projects; empty: everybody."
    )
    starts_at: UtcTime = Field(description="From when it is shown.")
    ends_at: UtcTime | None = Field(None, description="Until when; null: until it is deleted.")
    created_at: UtcTime = Field(description="When it was made.")
    created_by: str = Field(description="Who made it.")
    updated_at: UtcTime = Field(description="When it was changed last.")

    def current(self, now: datetime) -> bool:
        """Return whether it is shown at ``now``."""
        return self.starts_at <= now and (self.ends_at is None or now < self.ends_at)

    def concerns(self, projects: frozenset[str]) -> bool:
        """Return whether it is meant for a member of these projects."""
        return not self.projects or bool(projects.intersection(self.projects))


class Maintenance(Frozen):
    """Period in which no new job starts; running jobs continue."""

    starts_at: UtcTime = Field(description="When new work stops to begin.")
    ends_at: UtcTime | None = Field(
        None, description="When it may begin again; null: when maintenance is turned off."
    )
    message: str = Field("", max_length=500, description="Why, for everybody to read.")
    created_at: UtcTime
    created_by: str = Field(description="The administrator who said so.")

    def over(self, now: datetime) -> bool:
        """Return whether it has ended by itself at ``now``."""
        return self.ends_at is not None and self.ends_at <= now

    def on(self, now: datetime) -> bool:
        """Return whether new jobs are held at ``now``."""
        return self.starts_at <= now and not self.over(now)


class NodeEvent(Frozen):
    """One event in a node's history."""

    id: int
    time: UtcTime = Field(description="When it was seen, or done.")
    what: str = Field(
        description="`up`, or a state in which it takes no work; `drain` and `resume` are what "
        "somebody did; `gone`: the scheduler knows it no more.",
        examples=["drained"],
    )
    reason: str | None = Field(None, description="Why, as the scheduler or the person said.")
    actor: str | None = Field(None, description="Who did it; null: the scheduler says so.")
