"""Sign-ins (logins in browsers), failed logins and second factors."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from aitne.core.models.base import Frozen, UserName, UtcTime
from aitne.core.models.user import Role, User


class SignIn(Frozen):
    """Sign-in: the record of one logged-in browser."""

    id: str = Field(description="Identifier of the sign-in; it is not a secret.")
    owner: UserName = Field(description="The user who logged in.")
    source: str = Field(
        description="Kind of login: `password`, `ldap`, `oidc`, `pam`, or `link` for a one-time "
        "link.",
        examples=["password"],
    )
    device: str = Field(
        description="Browser and system, as the browser reports them.",
        examples=["Firefox on Linux"],
    )
    address: str | None = Field(description="Network address of its last use.")
    created_at: UtcTime = Field(description="Time of the login.")
    last_seen_at: UtcTime = Field(description="Time of its last use, to the minute.")
    expires_at: UtcTime = Field(description="Time of its expiry.")
    idle_ends_at: UtcTime | None = Field(
        None,
        description="Time at which it ends before its expiry if its user does nothing in the portal "
        "until then; null: it does not.",
    )
    acting_as: UserName | None = Field(
        None, description="The user whom an administrator impersonates."
    )
    acting_until: UtcTime | None = Field(
        None, description="Time at which the impersonation ends by itself."
    )
    token_id: str | None = Field(
        None,
        description="Token with which its login link was created; the sign-in ends with that "
        "token.",
    )
    authenticated_at: UtcTime | None = Field(
        None, description="Time of the last authentication after the login; null: none."
    )


class OpenSignIn(Frozen):
    """Valid login in a browser, and the user for whom its requests are made."""

    user: User
    """User for whom requests are made; during an impersonation, the impersonated user."""
    csrf: str
    """CSRF token that changing requests must contain."""
    sign_in: SignIn
    token_expires_at: UtcTime | None = None
    """Expiry of the access token with which the sign-in was created; None: the token does not
    expire, or there was none.
    """
    token_created_by: UserName | None = None
    """Name of the administrator who created that access token for the user; None otherwise."""

    @property
    def authenticated_at(self) -> datetime | None:
        """Time of the last authentication; None: there was none, because a token made the link of the
        login. For an administrator that login is one: the token has the scope ``admin``.
        """
        by_token = self.sign_in.token_id is not None and self.user.role is not Role.ADMIN
        return self.sign_in.authenticated_at or (None if by_token else self.sign_in.created_at)

    @property
    def impersonator(self) -> str | None:
        """Name of the administrator who impersonates another user in this sign-in; None if there is
        no impersonation.
        """
        return None if self.user.name == self.sign_in.owner else self.sign_in.owner


class HubLogout(Frozen):
    """Logins of one user that JupyterHub has to end."""

    owner: UserName
    count: int
    """Number of revocations that require the end of all of the user's logins; 0: only the logins of
    expired sign-ins end.
    """
    expired: frozenset[str]
    """IDs of the user's sign-ins that have expired."""
    valid: frozenset[str]
    """IDs of the user's sign-ins that have not expired."""

    @property
    def kept_sign_in_ids(self) -> frozenset[str]:
        """IDs of the sign-ins whose logins at JupyterHub continue."""
        return frozenset() if self.count else self.valid


class DeviceLoginRequest(Frozen):
    """Request of a program without a browser to log in, which a user confirms or refuses."""

    name: str = Field(description="Name that the program has given itself.")
    program: str = Field(
        description="Program and system, as the request reports them.",
        examples=["Aitne's command line on Linux"],
    )
    address: str | None = Field(description="Network address from which the request came.")
    created_at: UtcTime = Field(description="Time of the request.")
    expires_at: UtcTime = Field(description="Time until which it can be confirmed.")
    seen_at: UtcTime | None = Field(
        None, description="Time at which the user who confirms it has seen it first."
    )


class LoginAttempt(Frozen):
    """Result of counting a login attempt under a name."""

    failures: int
    """Number of failed logins, including this one, which is subtracted again if it succeeds."""
    locked_until: UtcTime | None
    """Time until which the name is locked; None: it is not locked."""
    counted: bool
    """Whether the login is counted and checked; False if the name was locked before."""


class SecondFactor(Frozen):
    """Second factor of a user: an authenticator app that has stored a secret, which is derived from
    ``salt`` and a key of the platform.
    """

    owner: UserName
    salt: str
    created_at: UtcTime
    confirmed_at: UtcTime | None = None
    """Time at which the user confirmed the factor with a code; None: not confirmed, so not required
    yet.
    """
    last_step: int = 0
    """Time step of the last code that was used; codes of this and earlier steps are rejected."""
