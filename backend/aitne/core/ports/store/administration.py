"""Part of the store for announcements, maintenance and the history of nodes."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from aitne.core.models.administration import Announcement, Maintenance, NodeEvent
from aitne.core.ports.store.records import Check, Page


class AdministrationStore(Protocol):
    """Storage of announcements, the maintenance window and the history of nodes."""

    async def save_announcement(
        self, announcement: Announcement, *, check: Check[Announcement] = None
    ) -> None:
        """Replace the announcement with this ID. If there is none, add it; with a ``check``, raise
        ``NotFound`` instead.

        Users who dismissed it see it again if its text or severity changed. Adds the event
        ``announcement.changed``.
        """
        ...

    async def delete_announcement(
        self, announcement_id: str, *, check: Check[Announcement] = None
    ) -> None:
        """Delete the announcement and add the event ``announcement.changed``.

        Raises ``NotFound`` if there is no such announcement.
        """
        ...

    async def get_announcement(self, announcement_id: str) -> Announcement:
        """Return the announcement with this ID. Raises ``NotFound``."""
        ...

    async def list_announcements(
        self, *, current_at: datetime | None, cursor: str | None = None, limit: int = 100
    ) -> Page[Announcement]:
        """List the announcements that are shown at ``current_at``, or all if it is None, sorted by
        start time, latest first.
        """
        ...

    async def dismiss(self, announcement_id: str, user: str) -> None:
        """Store that the user has dismissed the announcement. Raises ``NotFound``."""
        ...

    async def dismissed(self, user: str) -> frozenset[str]:
        """Return the ids of the announcements that this user has dismissed."""
        ...

    async def set_maintenance(
        self, window: Maintenance | None, *, check: Check[Maintenance | None] = None
    ) -> None:
        """Replace the maintenance window; None deletes it.

        Adds the event ``maintenance.changed`` if there was or is one.
        """
        ...

    async def maintenance(self) -> Maintenance | None:
        """Return the present, next or last maintenance window, in this order; None if there was
        none.
        """
        ...

    async def tell_turns(self, after: datetime, until: datetime) -> None:
        """Add the events ``announcement.changed`` and ``maintenance.changed`` for those that began
        or ended after ``after`` and not later than ``until``.

        No request causes these events, because they depend only on the time.
        """
        ...

    async def note_node(self, node: str, what: str, *, actor: str, reason: str | None) -> None:
        """Add an administrator's action (``what``, such as ``drain``) to the history of
        the node.
        """
        ...

    async def node_history(
        self, node: str, *, cursor: str | None = None, limit: int = 100
    ) -> Page[NodeEvent]:
        """List the events of the node, newest first."""
        ...

    async def last_drains(self) -> dict[str, NodeEvent]:
        """Return the newest ``drain`` of each node that was drained through the platform."""
        ...
