"""Invitations: a link makes the user who opens it a member of a project."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import Field

from aitne.core.errors import Conflict, NotFound
from aitne.core.models.base import Frozen, UtcTime
from aitne.core.models.limits import Membership
from aitne.core.models.project import Invitation, ProjectRole, ProjectState
from aitne.core.models.user import Actor
from aitne.core.policy import Action, require
from aitne.core.ports.store import Store
from aitne.services.secrets import hashed, new_secret

_UNKNOWN = "No invitation has this link. Look whether all of it was copied, or ask for a new one."


@dataclass(frozen=True, slots=True)
class NewInvitation:
    """Invitation and its link, which is shown only once."""

    invitation: Invitation
    url: str


class InvitationPreview(Frozen):
    """Invitation as it is shown before a user joins: who invites to which project."""

    project: str = Field(description="The project's name.")
    title: str = Field(description="Its title.")
    description: str = Field(description="What it is about.")
    role: ProjectRole = Field(description="What one will be in it.")
    invited_by: str = Field(description="Who made the invitation.")
    inviter_name: str = Field(description="The name of that person.")
    expires_at: UtcTime = Field(description="The link works until then.")
    open: bool = Field(description="Whether it still lets somebody in.")
    closed_because: str | None = Field(description="Why it does not; null: it does.")


class InvitationService:
    """Invitations, created by managers and accepted by users with the link."""

    def __init__(self, store: Store, portal_url: str, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._portal_url = portal_url
        self._clock = clock

    async def create(
        self, actor: Actor, project: str, *, role: ProjectRole, max_uses: int, lifetime_s: int
    ) -> NewInvitation:
        """Create an invitation.

        Raises ``NotFound``, ``NotAllowed``; ``Conflict``: the project is not active.
        """
        require(Action.PROJECT_MANAGE, actor, "project", project, project=project)
        found = await self._store.get_project(project)
        if found.state is not ProjectState.ACTIVE:
            raise Conflict(f"{project} is {found.state}: it takes nobody now.")
        now = self._clock()
        secret = new_secret()
        invitation = Invitation(
            id=secrets.token_hex(8),
            project=project,
            role=role,
            created_by=actor.name,
            created_at=now,
            expires_at=now + timedelta(seconds=lifetime_s),
            uses=0,
            max_uses=max_uses,
        )
        await self._store.create_invitation(invitation, hashed(secret))
        # After the sign #, so that no server and no log ever sees it.
        return NewInvitation(invitation, f"{self._portal_url}/invite#{secret}")

    async def list(self, actor: Actor, project: str) -> Sequence[Invitation]:
        """List all invitations of the project, newest first.

        Raises ``NotFound``, ``NotAllowed``.
        """
        require(Action.PROJECT_MANAGE, actor, "project", project, project=project)
        await self._store.get_project(project)
        return await self._store.invitations(project)

    async def revoke(self, actor: Actor, project: str, id_: str) -> None:
        """Revoke an invitation. Raises ``NotFound``, ``NotAllowed``."""
        require(Action.PROJECT_MANAGE, actor, "project", project, project=project)
        await self._store.revoke_invitation(project, id_, self._clock(), actor=actor.name)

    async def look(self, token: str) -> InvitationPreview:
        """Return the invitation that a link leads to.

        Any user may look at it. Raises ``NotFound``.
        """
        found = await self._store.invitation_of(hashed(token))
        if found is None:
            raise NotFound("invitation", "of this link", _UNKNOWN)
        project = await self._store.get_project(found.project)
        inviter = await self._store.get_user(found.created_by)
        because = self._closed(found)
        if because is None and project.state is not ProjectState.ACTIVE:
            because = f"The project is {project.state}."
        return InvitationPreview(
            project=project.name,
            title=project.title,
            description=project.description,
            role=found.role,
            invited_by=inviter.name,
            inviter_name=inviter.display_name or inviter.name,
            expires_at=found.expires_at,
            open=because is None,
            closed_because=because,
        )

    async def accept(self, actor: Actor, token: str) -> Membership:
        """Make the actor a member.

        A member stays one, and does not use up the invitation. Raises ``NotFound``, ``NotAllowed``;
        ``Conflict``: it is over.
        """
        require(Action.PROJECT_JOIN, actor, "invitation", "of this link")
        return await self._store.accept_invitation(hashed(token), actor.name, self._clock())

    def _closed(self, found: Invitation) -> str | None:
        if found.revoked_at is not None:
            return "It was taken back."
        if found.expires_at <= self._clock():
            return "It has expired."
        return "It was used up." if found.uses >= found.max_uses else None
