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
    kind: str
    job_id: UUID | None = None
    owner: str | None = None
    project: str | None = None
    data: dict[str, Any] = Field(default_factory=dict)
