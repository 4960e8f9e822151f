"""The event log: every change that a browser or a script may follow, in commit order."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pydantic import Field

from aitne.core.models.base import Frozen, UtcTime


class Event(Frozen):
    """One event row. ``id`` grows in commit order, so a reader that has seen N has seen all before.

    ``kind`` is ``job.state``, ``job.changed``, ``job.created``, ``nodes.changed`` …; ``owner`` and
    ``project`` determine who may see it (None: every user who is logged in).
    """

    id: int
    time: UtcTime
    """Time of the change."""
    kind: str
    """Kind of the change: ``job.state``, ``nodes.changed``, …"""
    job_id: UUID | None = None
    """The job it is about; None: no job."""
    owner: str | None = None
    """The user whom it concerns; None: every user, or a project."""
    project: str | None = None
    """Project whose members it concerns."""
    data: dict[str, Any] = Field(default_factory=dict)
    """Details of the change, by kind."""
