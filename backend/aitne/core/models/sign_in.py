"""Logins in browsers, and what protects them."""

from __future__ import annotations

from pydantic import Field

from aitne.core.models.base import Frozen, UserName, UtcTime
from aitne.core.models.user import User


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
    """Valid sign-in with the user for whom it currently acts."""

    user: User
    csrf: str
    sign_in: SignIn
    token_expires_at: UtcTime | None = None
    """Expiry of the token behind the sign-in; None: it does not expire, or there is none."""
    token_created_by: UserName | None = None
    """The administrator who created that token for the user."""

    @property
    def impersonator(self) -> str | None:
        """The administrator behind it, while it impersonates another user; else None."""
        return None if self.user.name == self.sign_in.owner else self.sign_in.owner


class LoginAttempt(Frozen):
    """Number of failed logins under a name, and until when the name is locked. ``counted`` is False
    if the login was refused because of the lock.
    """

    failures: int
    """This one included, until it turns out to be right."""
    locked_until: UtcTime | None
    counted: bool
    """False: the name is locked, and the attempt is not checked."""


class SecondFactor(Frozen):
    """A user's second factor: an authenticator app that knows a secret, which is derived from
    ``salt`` and the platform's own key.
    """

    owner: UserName
    salt: str
    created_at: UtcTime
    confirmed_at: UtcTime | None = None
    last_step: int = 0
