"""Part of the store for projects, their members, and the limits of each.

Every change adds an event ``project.changed`` that the project's members may see. Its data contains
the user who made the change (``actor``), its kind (``what``), and the ``user`` it affects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from aitne.core.models.limits import Limits, LimitUsage, Membership, ProjectLayers
from aitne.core.models.user import Project
from aitne.core.ports.store.records import Check


class ProjectStore(Protocol):
    """Storage of projects, their members and limits, and the last known use of the limits."""

    async def create_project(
        self, project: Project, limits: Limits, *, actor: str, manager: str | None = None
    ) -> None:
        """Create the project, with ``manager`` as its only member or without members.

        Raises ``Conflict`` if the name is taken."""
        ...

    async def get_project(self, name: str) -> Project:
        """Return the project with its members. Raises ``NotFound``."""
        ...

    async def put_member(
        self,
        project: str,
        user: str,
        *,
        limits: Limits | None = None,
        default: bool = False,
        actor: str,
    ) -> Membership:
        """Make the user a member of the project if that is not the case; set the user's limits in
        it unless ``limits`` is None; with ``default``, make it the user's default project.

        A call that changes nothing adds no event.

        Raises:
            NotFound: there is no such project or user.
        """
        ...

    async def remove_member(self, project: str, user: str, *, actor: str) -> None:
        """Remove the member and the limits that were set for this member.

        Raises:
            NotFound: there is no such member.
            Conflict: the project is the user's default project.
        """
        ...

    async def set_limits(
        self, project: str, limits: Limits, *, actor: str, check: Check[Limits] = None
    ) -> None:
        """Set the limits of the project as a whole. Raises ``NotFound``."""
        ...

    async def limits_of(self, project: str) -> Limits:
        """Return the limits of the project as a whole; no limits if none were set."""
        ...

    async def limit_layers(self) -> Mapping[str, ProjectLayers]:
        """Return all limits that are set, by project; projects without limits are omitted."""
        ...

    async def memberships(self, project: str | None = None) -> Sequence[Membership]:
        """List the memberships of one project, or of all, by project and user."""
        ...

    async def note_synced(self, changes: Sequence[Mapping[str, Any]], *, actor: str) -> None:
        """Add the event ``accounting.synced`` for administrators, with the changes that were made
        in Slurm.
        """
        ...

    async def save_in_use(self, in_use: LimitUsage, taken_at: datetime, *, epoch: int) -> None:
        """Replace the stored use of all limits by ``in_use``, which accounting reported at
        ``taken_at``.

        Raises ``StaleEpoch`` if another controller is the leader.
        """
        ...

    async def in_use(self) -> tuple[LimitUsage, datetime] | None:
        """Return the stored use of all limits and the time at which accounting reported it; None if
        none was stored yet.
        """
        ...
