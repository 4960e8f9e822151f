"""Event log: all changes that a browser or a script can follow, in commit order."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pydantic import Field

from aitne.core.jobs.states import JobState
from aitne.core.models.base import Frozen, UtcTime


class Event(Frozen):
    """One entry of the event log. ``id`` grows in commit order, so a reader that has seen an ID has
    seen all earlier events.

    ``kind`` is ``job.state``, ``job.changed``, ``job.created``, ``nodes.changed`` …; ``owner`` and
    ``project`` determine which users may see it (both None: every user who is logged in).
    """

    id: int
    time: UtcTime
    """Time of the change."""
    kind: str
    """Kind of the change: ``job.state``, ``nodes.changed``, …"""
    job_id: UUID | None = None
    """ID of the job that changed; None if the event is not about a job."""
    owner: str | None = None
    """User who may see the event; None: the members of ``project``, or all users."""
    project: str | None = None
    """Project whose members may see the event; None: none."""
    data: dict[str, Any] = Field(default_factory=dict)
    """Details of the change, by kind."""

    @property
    def ends_job(self) -> bool:
        """Return whether the event reports that a job, ``job_id``, has ended."""
        return (
            self.kind == "job.state"
            and self.job_id is not None
            and JobState(self.data["state"]).is_terminal
        )
