"""Filters and sort keys for lists of users and projects."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from aitne.core.models.base import AskedFlag, Strict, UtcTime
from aitne.core.models.project import ProjectState
from aitne.core.models.user import Role, User

# Databases cannot compare text that contains NUL.
_Text = Annotated[str | None, Field(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]


class UserSort(StrEnum):
    """Sort key of the list of users."""

    NAME = "name"
    CREATED = "created"
    LAST_LOGIN = "last_login"
    """Sort by last login; users who have never logged in count as earliest."""


class UserSearch(Strict):
    """Filter for users; all given conditions must be met."""

    q: _Text = Field(
        None,
        description="Part of the login name, the full name or the mail address.",
        examples=["ada"],
    )
    role: Role | None = Field(None, description="Only users with this role.")
    disabled: AskedFlag | None = Field(
        None, description="true: only disabled accounts; false: only enabled ones."
    )


class UserListItem(User):
    """User in a list, with the time of the last login."""

    last_login_at: UtcTime | None = Field(
        None, description="Time of the last login in a browser; null: never, or not recorded."
    )


class ProjectSearch(Strict):
    """Filter for projects; all given conditions must be met."""

    q: _Text = Field(None, description="Part of the name or the title.", examples=["vision"])
    state: ProjectState | None = Field(
        None, description="Only projects in this state, such as requested."
    )
    personal: AskedFlag | None = Field(
        None,
        description="false: without personal projects, whose only member has the project as "
        "default project; true: only those.",
    )
    pending: AskedFlag = Field(
        False, description="Only projects with a request that waits for an administrator."
    )
