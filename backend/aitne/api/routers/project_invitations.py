"""Routes of invitations to projects."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from aitne.api.dependencies import Limited, PlatformDep, Writer
from aitne.api.project_views import (
    InvitationLink,
    InvitationList,
    InvitationToken,
    NewInvitationBody,
)
from aitne.api.routers import V1
from aitne.api.routers.projects import Name
from aitne.core.models.limits import Membership
from aitne.services.projects.invitations import InvitationPreview

router = APIRouter(prefix=V1, tags=["projects"])
InvitationId = Annotated[
    str, Path(pattern=r"^[0-9a-f]{16}$", description="The invitation's id, from the list.")
]


@router.get("/projects/{name}/invitations")
async def list_invitations(name: Name, actor: Writer, platform: PlatformDep) -> InvitationList:
    """List the project's invitations, without their links; managers only."""
    return InvitationList(items=list(await platform.invitations.list(actor, name)))


@router.post("/projects/{name}/invitations", status_code=201)
async def create_invitation(
    name: Name, body: NewInvitationBody, actor: Writer, platform: PlatformDep
) -> InvitationLink:
    """Create an invitation link; managers only. It is shown only once."""
    made = await platform.invitations.create(
        actor, name, role=body.role, max_uses=body.max_uses, lifetime_s=body.lifetime
    )
    return InvitationLink(invitation=made.invitation, url=made.url)


@router.delete("/projects/{name}/invitations/{invitation_id}", status_code=204)
async def revoke_invitation(
    name: Name, invitation_id: InvitationId, actor: Writer, platform: PlatformDep
) -> None:
    """Revoke an invitation; managers only. Users who have joined remain members."""
    await platform.invitations.revoke(actor, name, invitation_id)


@router.post("/invitations/preview")
async def preview_invitation(
    body: InvitationToken, platform: PlatformDep, _: Limited
) -> InvitationPreview:
    """Return the project and the inviter of an invitation. This needs the secret of the link, but
    no login."""
    return await platform.invitations.get_preview(body.token)


@router.post("/invitations/look", deprecated=True)
async def look_at_invitation(
    body: InvitationToken, platform: PlatformDep, limited: Limited
) -> InvitationPreview:
    """Preview an invitation. Deprecated alias of `/invitations/preview`."""
    return await preview_invitation(body, platform, limited)


@router.post("/invitations/accept")
async def accept_invitation(
    body: InvitationToken, actor: Writer, platform: PlatformDep
) -> Membership:
    """Join the project of an invitation. If you are already a member, nothing changes and the
    invitation is not used up."""
    return await platform.invitations.accept(actor, body.token)
