"""Invitations to projects."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from aitne.api.deps import Limited, PlatformDep, Writer
from aitne.api.project_views import (
    InvitationLink,
    InvitationList,
    InvitationToken,
    NewInvitationBody,
)
from aitne.api.routers import V1
from aitne.api.routers.projects import Name
from aitne.core.models.limits import Membership
from aitne.services.invitations import InvitationPreview

router = APIRouter(prefix=V1, tags=["projects"])
InvitationId = Annotated[
    str, Path(pattern=r"^[0-9a-f]{16}$", description="The invitation's id, from the list.")
]


@router.get("/projects/{name}/invitations")
async def list_invitations(name: Name, actor: Writer, platform: PlatformDep) -> InvitationList:
    """The project's invitations, for its managers; without their links."""
    return InvitationList(items=list(await platform.invitations.list(actor, name)))


@router.post("/projects/{name}/invitations", status_code=201)
async def create_invitation(
    name: Name, body: NewInvitationBody, actor: Writer, platform: PlatformDep
) -> InvitationLink:
    """Make a link that lets people join, for the project's managers. It is shown this once."""
    made = await platform.invitations.create(
        actor, name, role=body.role, max_uses=body.max_uses, lifetime_s=body.lifetime
    )
    return InvitationLink(invitation=made.invitation, url=made.url)


@router.delete("/projects/{name}/invitations/{invitation_id}", status_code=204)
async def revoke_invitation(
    name: Name, invitation_id: InvitationId, actor: Writer, platform: PlatformDep
) -> None:
    """Take an invitation back, for the project's managers. Who has joined stays."""
    await platform.invitations.revoke(actor, name, invitation_id)


@router.post("/invitations/look")
async def look_at_invitation(
    body: InvitationToken, platform: PlatformDep, _: Limited
) -> InvitationPreview:
    """Who invites to what, for everybody who has the link: it is seen before one logs in."""
    return await platform.invitations.look(body.token)


@router.post("/invitations/accept")
async def accept_invitation(
    body: InvitationToken, actor: Writer, platform: PlatformDep
) -> Membership:
    """Join the project that a link leads to. Who is a member stays one, and uses nothing up."""
    return await platform.invitations.accept(actor, body.token)
