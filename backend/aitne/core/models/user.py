"""Users, and the actor that a request is made by."""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID

from aitne.core.models.access_token import Scope
from aitne.core.models.base import Frozen, ProjectName, UserName, UtcTime
from aitne.core.users.ended_credentials import impersonation_id


class Role(StrEnum):
    """Role of a user on the whole platform."""

    USER = "user"
    ADMIN = "admin"


class User(Frozen):
    """User with an account; the hash of the password is not included."""

    name: UserName
    display_name: str = ""
    role: Role = Role.USER
    default_project: ProjectName
    """Project of the user's jobs that name no project."""
    disabled: bool = False
    mail: str | None = None
    """Mail address for notifications; None: unknown."""
    source: str | None = None
    """Identity source of the account, such as ``ldap``; None: the platform itself, by password or
    one-time link.
    """
    created_at: UtcTime


class Actor(Frozen):
    """User who makes a request, with the permissions of the credential in use."""

    user: User
    scopes: frozenset[Scope] = frozenset(Scope)
    projects: frozenset[str] = frozenset()
    impersonator: str | None = None
    """Name of the administrator who impersonates this user; None if there is no impersonation."""
    manages: frozenset[str] = frozenset()
    """Names of the projects of which the user is a manager."""
    until: UtcTime | None = None
    """Expiry of the access token of the request, or of the one with which the sign-in was created;
    None: it does not expire, or there is none.
    """
    token_id: str | None = None
    """ID of the access token of the request, or of the one with which the sign-in was created; None
    if there is none.
    """
    token_created_by: str | None = None
    """Name of the administrator who created that access token for the user; None otherwise."""
    authenticated_at: UtcTime | None = None
    """Time of the last authentication in the browser; None: the request was authenticated by an
    access token, or the browser was logged in by a link that a token has made.
    """
    session: UUID | None = None
    """ID of the session (job) whose session token authenticated the request; None: another
    credential did. The token permits only what concerns the jobs of its owner.
    """

    sign_in_id: str | None = None
    """ID of the sign-in that authenticated the request; None: another credential did."""

    @property
    def name(self) -> str:
        """Login name of the user."""
        return self.user.name

    @property
    def credential(self) -> str:
        """ID of the credential that authenticated the request: of a sign-in, of an impersonation in
        a sign-in, of an access token, or of the session whose token it is. It is not a secret; empty
        if the platform itself acts.
        """
        if self.sign_in_id is not None and self.impersonator is not None:
            return impersonation_id(self.sign_in_id, self.name)
        if self.sign_in_id is not None:
            return self.sign_in_id
        return str(self.session) if self.session is not None else self.token_id or ""

    @property
    def is_admin(self) -> bool:
        """Return whether the user is an administrator and the credential permits administration."""
        return self.user.role is Role.ADMIN and Scope.ADMIN in self.scopes
