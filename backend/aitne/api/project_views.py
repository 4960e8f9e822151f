"""What the API is told about projects, and its lists of them."""

from __future__ import annotations

from pydantic import Field

from aitne.core.models.base import Frozen, ProjectName, Strict
from aitne.core.models.limits import Limits, Membership

_TITLE_LENGTH = 200


class NewProject(Strict):
    """A project, without members yet."""

    name: ProjectName
    title: str = Field("", max_length=_TITLE_LENGTH)
    limits: Limits = Limits()


class ProjectChanges(Strict):
    """What can be changed of a project itself."""

    title: str = Field(max_length=_TITLE_LENGTH)


class MemberChanges(Strict):
    """A membership. What is not given stays as it is."""

    limits: Limits | None = Field(None, description="The member's own; replaces all of them.")
    default: bool = Field(False, description="Make it the user's default project.")


class MembershipList(Frozen):
    """Members with their own limits."""

    items: list[Membership]


class SyncRequest(Strict):
    """``digest`` of the differences that were shown, so that no others are brought in line."""

    digest: str = Field(max_length=64)
