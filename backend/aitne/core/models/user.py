"""People, their projects, and how they prove who they are."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from aitne.core.models.base import Frozen, ProjectName, UserName, UtcTime


class Role(StrEnum):
    """What a person may do on the whole platform."""

    USER = "user"
    ADMIN = "admin"


class Scope(StrEnum):
    """What a personal access token may be used for. Never more than its owner may do."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


class User(Frozen):
    """A person with an account. The password's hash is not part of it."""

    name: UserName
    display_name: str = ""
    role: Role = Role.USER
    default_project: ProjectName
    disabled: bool = False
    created_at: UtcTime


class Project(Frozen):
    """What jobs are accounted to; its members see each other's jobs."""

    name: ProjectName
    title: str = ""
    members: tuple[str, ...] = ()
    created_at: UtcTime


class Token(Frozen):
    """A personal access token, without its secret: only a hash of that is stored."""

    id: str
    owner: UserName
    name: str = Field(min_length=1, max_length=100)
    scopes: frozenset[Scope]
    created_at: UtcTime
    expires_at: UtcTime | None
    last_used_at: UtcTime | None = None


class Actor(Frozen):
    """Who asks: the user and what the credential in use permits."""

    user: User
    scopes: frozenset[Scope] = frozenset(Scope)
    projects: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The user's login name."""
        return self.user.name

    @property
    def is_admin(self) -> bool:
        """Whether the user is an administrator and the credential lets that through."""
        return self.user.role is Role.ADMIN and Scope.ADMIN in self.scopes
