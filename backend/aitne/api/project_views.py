"""Models of the API's requests and responses for projects."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, Field

from aitne.core.models.base import Flag, Frozen, ProjectName, Seconds, Strict, UserName, Written
from aitne.core.models.limits import Limits
from aitne.core.models.project import Budget, Invitation, ProjectRole
from aitne.services.projects.projects import Member

_TITLE_LENGTH = 200
_WORDS_LENGTH = 2_000
_Words = Annotated[str, Field(max_length=_WORDS_LENGTH)]
End = Annotated[AwareDatetime, Field(examples=["2027-01-01T00:00:00Z"])]


class NewProject(Strict):
    """Project to create. If an administrator creates it, it has the named manager or no members;
    otherwise its creator becomes its manager."""

    name: ProjectName = Field(description="Its name, which cannot be changed.", examples=["vision"])
    title: str = Field(
        "", max_length=_TITLE_LENGTH, description="Its title.", examples=["Computer vision"]
    )
    description: _Words = Field("", description="Description of the project.")
    reason: _Words | None = Field(
        None,
        description="Reason, for the administrator who approves it.",
        examples=["A new grant."],
    )
    expires_at: End | None = Field(None, description="Its end, from which it accepts no new jobs.")
    limits: Limits = Field(Limits(), description="Granted limits; administrators only.")
    budget: Budget | None = Field(None, description="Hours that it may use; administrators only.")
    manager: UserName | None = Field(
        None, description="Its first member and manager; administrators only.", examples=["ada"]
    )


class ProjectChanges(Strict):
    """Changes of a project's title and description; omitted fields keep their values."""

    title: str | None = Field(None, max_length=_TITLE_LENGTH, description="Its title.")
    description: _Words | None = Field(None, description="Description of the project.")


class Approval(Strict):
    """Decision on a requested project: its end, budget and limits. An omitted end is as requested;
    an omitted budget or limit means none."""

    expires_at: End | None = Field(None, description="Its end; null: the requested one.")
    budget: Budget | None = Field(None, description="Hours that it may use.")
    limits: Limits | None = Field(None, description="Limits of its resources.")


class Refusal(Strict):
    """Reason for declining a requested project or a requested later end."""

    reason: str = Field(min_length=1, max_length=_WORDS_LENGTH, description="The reason.")


class Closing(Strict):
    """Reason for closing a project, which its members can read."""

    reason: _Words = Field("", description="The reason.", examples=["The grant is over."])


class NewEnd(Strict):
    """New end of a project."""

    expires_at: End | None = Field(description="Its end; null: it has no end.")


class NewExtensionRequest(Strict):
    """Request for a later end, with a reason."""

    until: End = Field(description="The requested end.")
    reason: _Words = Field("", description="Reason, for the administrator.")


class NewInvitationBody(Written):
    """Invitation link to create for a project."""

    role: ProjectRole = Field(ProjectRole.MEMBER, description="Role of users who join.")
    max_uses: int = Field(
        1, ge=1, le=1_000, description="Number of users who can join.", examples=[1]
    )
    lifetime: Seconds = Field(
        7 * 86_400,
        le=90 * 86_400,
        description="Validity; at most 90 days.",
        json_schema_extra={"default": "7d"},
    )


class InvitationLink(Frozen):
    """An invitation with its link, which is shown only once: only a hash of it is stored."""

    invitation: Invitation = Field(description="The invitation.")
    url: str = Field(description="Any user who opens the link can join.")


class InvitationList(Frozen):
    """Invitations to a project, newest first, including expired ones."""

    items: list[Invitation] = Field(description="The invitations.")


class InvitationToken(Strict):
    """Secret of an invitation: the part of its link after `/invite#`."""

    token: str = Field(min_length=1, max_length=200, description="The secret part of the link.")


class MemberChanges(Strict):
    """Role, limits and default project of a member; omitted fields keep their values."""

    limits: Limits | None = Field(
        None, description="The member's own limits; they replace all earlier ones."
    )
    role: ProjectRole | None = Field(None, description="Role in the project.")
    default: Flag = Field(
        False, description="Make it the user's default project; administrators only."
    )


class MembershipList(Frozen):
    """Members of a project with their own limits."""

    items: list[Member] = Field(description="The members, by name.")


class SyncRequest(Strict):
    """Request to apply differences between the projects and Slurm's accounts. ``digest`` identifies
    the differences that were shown, so that no others are applied."""

    digest: str = Field(max_length=64)
    """Digest of the differences that were shown."""
