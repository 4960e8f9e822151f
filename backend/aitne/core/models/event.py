"""The event log: every change a browser or a script may want to hear of, in commit order."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pydantic import Field

from aitne.core.models.base import Frozen, UtcTime


class Event(Frozen):
    """One event row. ``id`` grows in commit order, so a reader that has seen N has seen all before.

    ``kind`` is ``job.state``, ``job.changed``, ``job.created``, ``nodes.changed`` …; ``owner`` and ``project`` say
    who may see it (None: everyone who is logged in).
    """

    id: int
    time: UtcTime
    """When it changed."""
    kind: str
    """What changed: ``job.state``, ``nodes.changed``, …"""
    job_id: UUID | None = None
    """The job it is about; None: it is about none."""
    owner: str | None = None
    """Whom it concerns; None: everybody, or a project."""
    project: str | None = None
    """Whose members it concerns."""
    data: dict[str, Any] = Field(default_factory=dict)
    """What changed, by kind."""
