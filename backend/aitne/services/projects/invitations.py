"""Invitations: a link makes the user who opens it a member of a project."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from pydantic import Field

from aitne.core.errors import Conflict, NotFound
from aitne.core.models.base import Frozen, UtcTime, deprecated_copy
from aitne.core.models.limits import Membership
from aitne.core.models.project import Invitation, ProjectRole, ProjectState
from aitne.core.models.user import Actor
from aitne.core.users.permissions import PolicyAction, require_permission
from aitne.services.platform.shared_secrets import hash_secret, new_secret
from aitne.store import Store

_UNKNOWN = "No invitation has this link. Check that it was copied completely, or ask for a new one."


@dataclass(frozen=True, slots=True)
class NewInvitation:
    """A new invitation with its link, which is shown only once."""

    invitation: Invitation
    url: str


class InvitationPreview(Frozen):
    """Invitation as shown to a user who has opened its link but not joined: the project and the
    inviting user.
    """

    project: str = Field(description="Name of the project.")
    title: str = Field(description="Title of the project.")
    description: str = Field(description="Description of the project.")
    role: ProjectRole = Field(description="Role of the new member.")
    invited_by: str = Field(description="User who created the invitation.")
    inviter_name: str = Field(description="Display name of that user.")
    expires_at: UtcTime = Field(description="Time until which the link is valid.")
    open: bool = Field(description="Whether the invitation can still be accepted.")
    closed_reason: str | None = Field(description="Why it cannot be accepted; null: it can.")
    closed_because: ClassVar = deprecated_copy("closed_reason", str | None)


class InvitationService:
    """Service for invitations to projects: managers create them, and users accept them by
    the link.
    """

    def __init__(self, store: Store, portal_url: str, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._portal_url = portal_url
        self._clock = clock

    async def create(
        self, actor: Actor, project: str, *, role: ProjectRole, max_uses: int, lifetime_s: int
    ) -> NewInvitation:
        """Create an invitation to the project, for at most ``max_uses`` users and ``lifetime_s``
        seconds.

        Raises:
            NotFound: there is no such project that the actor may see.
            NotAllowed: the actor is neither a manager of the project nor an administrator.
            Conflict: the project is not active.
        """
        require_permission(PolicyAction.PROJECT_MANAGE, actor, "project", project, project=project)
        project_row = await self._store.get_project(project)
        if project_row.state is not ProjectState.ACTIVE:
            raise Conflict(f"{project} is {project_row.state}: it accepts no new members.")
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
        await self._store.create_invitation(invitation, hash_secret(secret))
        # In the fragment (#), which browsers do not send, so that no server and no log sees it.
        return NewInvitation(invitation, f"{self._portal_url}/invite#{secret}")

    async def list(self, actor: Actor, project: str) -> Sequence[Invitation]:
        """List all invitations of the project, newest first.

        Raises ``NotFound`` if there is no such project that the actor may see, and ``NotAllowed``
        if the actor is neither its manager nor an administrator.
        """
        require_permission(PolicyAction.PROJECT_MANAGE, actor, "project", project, project=project)
        await self._store.get_project(project)
        return await self._store.list_invitations(project)

    async def revoke(self, actor: Actor, project: str, id_: str) -> None:
        """Revoke an invitation to the project.

        Raises ``NotFound`` if there is no such invitation or project, and ``NotAllowed`` if the
        actor is neither a manager nor an administrator.
        """
        require_permission(PolicyAction.PROJECT_MANAGE, actor, "project", project, project=project)
        await self._store.revoke_invitation(project, id_, self._clock(), actor=actor.name)

    async def get_preview(self, token: str) -> InvitationPreview:
        """Return the invitation whose link contains ``token``, to any user.

        Raises ``NotFound`` if there is no such invitation.
        """
        invitation = await self._store.find_invitation(hash_secret(token))
        if invitation is None:
            raise NotFound("invitation", "of this link", _UNKNOWN)
        project = await self._store.get_project(invitation.project)
        inviter = await self._store.get_user(invitation.created_by)
        because = self._find_closure_reason(invitation)
        if because is None and project.state is not ProjectState.ACTIVE:
            because = f"The project is {project.state}."
        return InvitationPreview(
            project=project.name,
            title=project.title,
            description=project.description,
            role=invitation.role,
            invited_by=inviter.name,
            inviter_name=inviter.display_name or inviter.name,
            expires_at=invitation.expires_at,
            open=because is None,
            closed_reason=because,
        )

    async def accept(self, actor: Actor, token: str) -> Membership:
        """Make the actor a member of the invitation's project.

        If the actor is a member already, the use is not counted.

        Raises:
            NotFound: there is no such invitation.
            NotAllowed: the credential may not change anything.
            Conflict: the invitation is no longer valid.
        """
        require_permission(PolicyAction.PROJECT_JOIN, actor, "invitation", "of this link")
        return await self._store.accept_invitation(hash_secret(token), actor.name, self._clock())

    def _find_closure_reason(self, invitation: Invitation) -> str | None:
        if invitation.revoked_at is not None:
            return "It was revoked."
        if invitation.expires_at <= self._clock():
            return "It has expired."
        return "It was used up." if invitation.uses >= invitation.max_uses else None
